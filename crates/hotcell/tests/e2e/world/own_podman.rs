//! A Podman of one test, behind its socket for clients of Docker.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Need, eventually, is_root, require};

/// A Podman with a place of its own. It uses the runtime and the control groups that Docker does.
pub(crate) struct OwnPodman {
    place: TempDir,
    process: Child,
}

impl OwnPodman {
    /// Starts one; `None` where there can be none.
    pub(crate) fn start() -> Option<Self> {
        let can = is_root() && Command::new("podman").arg("--version").output().is_ok();
        require(Need::Docker, can.then_some(()).ok_or_else(|| "there is no Podman".to_owned()))?;
        let place = tempfile::Builder::new().prefix("hcp").tempdir_in("/tmp").unwrap();
        let settings = "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n\
                        events_logger = \"file\"\n";
        fs::write(place.path().join("containers.conf"), settings).unwrap();
        let process = run(&place);
        let podman = Self { place, process };
        podman.await_socket();
        Some(podman)
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.place.path().join("p.sock").display())
    }

    /// Ends what listens; containers are nobody's, and go on.
    pub(crate) fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        fs::remove_file(self.place.path().join("p.sock")).unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.process = run(&self.place);
        self.await_socket();
    }

    fn await_socket(&self) {
        let socket = self.place.path().join("p.sock");
        eventually("Podman listens", || UnixStream::connect(&socket).is_ok());
    }

    /// Gives it an image of these files of a root.
    pub(crate) fn give_image(&self, name: &str, archive: &[u8]) {
        let file = self.place.path().join("root.tar");
        fs::write(&file, archive).unwrap();
        self.ask(&["import", &file.display().to_string(), &format!("{name}:1")]);
    }

    /// Its containers and volumes, one a line.
    pub(crate) fn all(&self) -> String {
        self.ask(&["ps", "--all", "--quiet"]) + &self.ask(&["volume", "ls", "--quiet"])
    }

    fn ask(&self, args: &[&str]) -> String {
        let asked = podman(&self.place).args(args).output().unwrap();
        assert!(asked.status.success(), "{args:?}: {asked:?}");
        String::from_utf8(asked.stdout).unwrap()
    }
}

impl Drop for OwnPodman {
    fn drop(&mut self) {
        let _ = podman(&self.place).args(["rm", "--all", "--force", "--time", "0"]).output();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn podman(place: &TempDir) -> Command {
    let mut command = Command::new("podman");
    command.env("CONTAINERS_CONF", place.path().join("containers.conf"));
    command.arg("--root").arg(place.path().join("root"));
    command.arg("--runroot").arg(place.path().join("run"));
    command.args(["--storage-driver", "vfs"]);
    command
}

fn run(place: &TempDir) -> Child {
    let log = File::options().create(true).append(true).open(place.path().join("log")).unwrap();
    let socket = format!("unix://{}", place.path().join("p.sock").display());
    let mut service = podman(place);
    service.args(["system", "service", "--time", "0", &socket]);
    service.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
