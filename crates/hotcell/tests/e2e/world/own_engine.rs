//! A Docker engine of one test, which may be killed, cut off and filled.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{Need, eventually, is_root, require, unique};

/// An image with a shell and a few tools.
pub(crate) const SMALL_IMAGE: &str = "hotcell-test-small";

/// What it is made of, put together below a directory.
pub(crate) fn small_root(below: &Path) -> Vec<u8> {
    let root = below.join(unique("small"));
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for tool in ["sh", "cat", "echo", "sleep", "seq", "touch"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    let packed = Command::new("tar").arg("-C").arg(&root).args(["-c", "."]).output();
    packed.unwrap().stdout
}

/// An engine with a place of its own. It touches nothing of the machine's network.
pub(crate) struct OwnEngine {
    place: TempDir,
    process: Child,
    /// Its data lie in memory of this size, if it is bounded.
    in_memory: bool,
    /// What it is told besides.
    told: Vec<String>,
}

impl OwnEngine {
    /// Starts an engine, whose data may be in so many MiB of memory; `None` where there can be none.
    pub(crate) fn start(bound_mb: Option<u32>) -> Option<Self> {
        Self::start_told(bound_mb, Vec::new())
    }

    /// Starts an engine that is told something besides.
    pub(crate) fn start_told(bound_mb: Option<u32>, told: Vec<String>) -> Option<Self> {
        let can = is_root() && Command::new("dockerd").arg("--version").output().is_ok();
        require(
            Need::Docker,
            can.then_some(()).ok_or_else(|| "no engine can be started".to_owned()),
        )?;
        // Sockets have short paths.
        let place = tempfile::Builder::new().prefix("hce").tempdir_in("/tmp").unwrap();
        fs::create_dir(place.path().join("data")).unwrap();
        if let Some(mb) = bound_mb {
            let size = format!("size={mb}m");
            let mounted = Command::new("mount")
                .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
                .arg(place.path().join("data"))
                .status();
            assert!(mounted.unwrap().success());
        }
        let process = run(place.path(), bound_mb.is_some(), &told);
        let engine = Self { place, process, in_memory: bound_mb.is_some(), told };
        engine.await_answer();
        Some(engine)
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path().join("d.sock")
    }

    /// Where its data lie.
    pub(crate) fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// Kills it, and leaves everything as it is.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again on what it left. It may give up at first: its containerd was left alone, too.
    pub(crate) fn restart(&mut self) {
        eventually("the engine is started again", || {
            let _ = fs::remove_file(self.place.path().join("pid"));
            self.process = run(self.place.path(), self.in_memory, &self.told);
            loop {
                if self.try_ask("GET", "/info", &[]).is_some() {
                    return true;
                }
                if self.process.try_wait().unwrap().is_some() {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    }

    fn await_answer(&self) {
        eventually("the engine answers", || self.try_ask("GET", "/info", &[]).is_some());
    }

    /// What it answers to a question.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> Value {
        self.try_ask(method, path, body).unwrap_or(Value::Null)
    }

    fn try_ask(&self, method: &str, path: &str, body: &[u8]) -> Option<Value> {
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some(serde_json::from_str(body.trim()).unwrap_or(Value::Null))
    }

    /// How many containers and volumes it has.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        let containers = self.ask("GET", "/containers/json?all=1", &[]);
        let volumes = self.ask("GET", "/volumes", &[]);
        (count(&containers), count(&volumes["Volumes"]))
    }

    /// Gives it an image of these files of a root.
    pub(crate) fn give_image(&self, name: &str, archive: &[u8]) {
        self.ask("POST", &format!("/images/create?fromSrc=-&repo={name}&tag=1"), archive);
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
        // One that was killed left its containerd.
        let left = fs::read_to_string(self.place.path().join("exec/containerd/containerd.pid"));
        let left = left.ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = left.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        // In memory, mounted on itself, or of a namespace: what an engine that was killed has left.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let place = self.place.path().display().to_string();
        for below in mounted.filter(|path| path.starts_with(&place)) {
            drop(Command::new("umount").arg("-l").arg(below).stderr(Stdio::null()).status());
        }
    }
}

fn run(place: &Path, in_memory: bool, told: &[String]) -> Child {
    let log = File::options().create(true).append(true).open(place.join("log")).unwrap();
    let mut command = Command::new("dockerd");
    command.arg("--data-root").arg(place.join("data"));
    command.arg("--exec-root").arg(place.join("exec"));
    command.arg("--pidfile").arg(place.join("pid"));
    command.arg("--host").arg(format!("unix://{}", place.join("d.sock").display()));
    command.args(["--bridge", "none", "--iptables=false", "--ip-forward=false"]);
    command.args(told);
    if in_memory {
        command.args(["--storage-driver", "vfs"]);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
