//! An sshd of one test, with its own keys, whose users find an engine.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Need, eventually, is_root, require};

/// An sshd that ends with its test.
pub(crate) struct OwnSshd {
    place: TempDir,
    process: Child,
    port: u16,
}

impl OwnSshd {
    /// Starts one that lets root in by a key; `None` where there can be none.
    pub(crate) fn start() -> Option<Self> {
        let program = Path::new("/usr/sbin/sshd");
        let can = is_root() && program.exists();
        require(
            Need::Docker,
            can.then_some(()).ok_or_else(|| "no sshd can be started".to_owned()),
        )?;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]).status();
            assert!(made.unwrap().success());
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let host_key = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let of_server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
             PidFile none\n",
            at("host"),
            at("user.pub")
        );
        fs::write(at("sshd_config"), of_server).unwrap();
        let of_client = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n",
            at("user"),
            at("known")
        );
        fs::write(at("ssh_config"), of_client).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        let process = Command::new(program)
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let sshd = Self { place, process, port };
        eventually("the sshd listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        Some(sshd)
    }

    /// The address of an engine of this machine, by its socket.
    pub(crate) fn address(&self, socket: &Path) -> String {
        format!("ssh://root@127.0.0.1:{}{}", self.port, socket.display())
    }

    /// What a client has to read to get in.
    pub(crate) fn client_config(&self) -> PathBuf {
        self.place.path().join("ssh_config")
    }
}

impl Drop for OwnSshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
