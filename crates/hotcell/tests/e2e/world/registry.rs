//! A real registry on this machine, behind a connection that can be cut and counts what it carries.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::{Need, eventually, require};

/// Who may pull and push, and the same as the registry keeps it.
pub(crate) const ACCOUNT: &str = "tester:secret";
const HTPASSWD: &str = "tester:$2b$04$cxnCtd.PpxOBhavgFFaobuYxw9R6jNVq1EUaUzoTCydldAEFSe7ky\n";
const PUSH: &str = include_str!("../push_image.py");

/// A registry, and the only way to it.
#[derive(Debug)]
pub(crate) struct Registry {
    directory: TempDir,
    child: Child,
    own_port: u16,
    port: u16,
    wire: Arc<Wire>,
}

/// What is carried from the registry.
#[derive(Debug)]
struct Wire {
    carried: AtomicU64,
    /// After so many bytes each connection is cut.
    cut_after: AtomicU64,
}

impl Registry {
    /// Starts one; `None`, said loudly, where there is none to be started.
    pub(crate) fn start() -> Option<Self> {
        let found = match Command::new("docker-registry").arg("--version").output() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("there is no docker-registry: {error}")),
        };
        require(Need::Registry, found)?;
        let directory = tempfile::Builder::new().prefix("hotcell-registry-").tempdir().unwrap();
        let own_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = directory.path().display();
        fs::write(directory.path().join("htpasswd"), HTPASSWD).unwrap();
        let config = directory.path().join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {place}/data}}}}\n\
             http: {{addr: '127.0.0.1:{own_port}'}}\nauth: {{htpasswd: {{realm: test, path: {place}/htpasswd}}}}\n"
        );
        fs::write(&config, text).unwrap();
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the registry listens", || TcpStream::connect(("127.0.0.1", own_port)).is_ok());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire =
            Arc::new(Wire { carried: AtomicU64::new(0), cut_after: AtomicU64::new(u64::MAX) });
        let carrying = Arc::clone(&wire);
        std::thread::spawn(move || {
            for incoming in listener.incoming().flatten() {
                let wire = Arc::clone(&carrying);
                std::thread::spawn(move || wire.carry(incoming, own_port));
            }
        });
        Some(Self { directory, child, own_port, port, wire })
    }

    /// What images of it are called.
    pub(crate) fn name(&self, image: &str) -> String {
        format!("localhost:{}/{image}", self.port)
    }

    /// Pushes an image of these layers; what the tag then stands for.
    pub(crate) fn push(
        &self,
        repository: &str,
        tag: &str,
        layers: &[&Path],
        more: &[&str],
    ) -> String {
        let url = format!("http://127.0.0.1:{}", self.own_port);
        let pushed = Command::new("python3")
            .args(["-c", PUSH, &url, repository, tag, ACCOUNT])
            .args(layers)
            .args(more)
            .output()
            .unwrap();
        assert!(pushed.status.success(), "{pushed:?}");
        String::from_utf8(pushed.stdout).unwrap().trim().to_owned()
    }

    /// Where the registry keeps content.
    pub(crate) fn stored(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self.directory.path().join("data/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }

    /// Bytes that came from it so far.
    pub(crate) fn carried(&self) -> u64 {
        self.wire.carried.load(Ordering::SeqCst)
    }

    /// From now on connections are cut after so many bytes.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.wire.cut_after.store(bytes, Ordering::SeqCst);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Wire {
    fn carry(&self, client: TcpStream, port: u16) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
        let (mut asked, mut told) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut asked, &mut told);
            let _ = told.shutdown(Shutdown::Write);
        });
        let (mut server, mut client) = (server, client);
        let mut left = self.cut_after.load(Ordering::SeqCst);
        let mut buffer = [0; 16 << 10];
        while left > 0 {
            let Ok(read @ 1..) = server.read(&mut buffer) else { break };
            let sent = read.min(usize::try_from(left).unwrap_or(usize::MAX));
            if client.write_all(&buffer[..sent]).is_err() {
                break;
            }
            self.carried.fetch_add(sent as u64, Ordering::SeqCst);
            left -= sent as u64;
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}
