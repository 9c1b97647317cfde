//! A real engine behind TCP, TLS and SSH: it answers, and hands streams over that go both ways.
#![expect(
    clippy::disallowed_methods,
    reason = "the test script tells by variables where things are, and an sshd is started"
)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, ExecConfig};
use bollard::query_parameters::{CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use futures_util::StreamExt;
use hotcell_model::ErrorCode;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::docker_host::DockerHost;
use crate::engine_address::EngineSettings;

static EXECS: AtomicU32 = AtomicU32::new(0);

/// The engine of the tests and its image.
fn engine() -> Option<(String, String)> {
    let found = std::env::var("HOTCELL_TEST_DOCKER").ok();
    let found = found.zip(std::env::var("HOTCELL_TEST_DOCKER_IMAGE").ok());
    if found.is_none() {
        skip("docker", "HOTCELL_TEST_DOCKER names no socket of a Docker engine");
    }
    found
}

fn skip(need: &str, reason: &str) {
    let required = std::env::var("HOTCELL_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == need), "{need} is required: {reason}");
    eprintln!("SKIPPED: {reason}");
}

/// A way to the engine by a port of this machine, for as long as it is held.
struct Bridge {
    at: SocketAddr,
    _carrying: JoinSet<()>,
}

impl Bridge {
    async fn open(socket: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let at = listener.local_addr().expect("its number");
        let socket = socket.to_owned();
        let mut carrying = JoinSet::new();
        carrying.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                streams.spawn(carry(stream, socket.clone(), tls.clone()));
            }
        });
        Self { at, _carrying: carrying }
    }
}

async fn carry(stream: TcpStream, socket: String, tls: Option<TlsAcceptor>) {
    async fn on(mut stream: impl AsyncRead + AsyncWrite + Unpin, socket: &str) {
        let mut engine = UnixStream::connect(socket).await.expect("the engine");
        let _ = copy_bidirectional(&mut stream, &mut engine).await;
    }
    match tls {
        None => on(stream, &socket).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                on(stream, &socket).await;
            }
        }
    }
}

/// An authority, and a directory with what it signed for a client.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signed = params.self_signed(&key).expect("an authority");
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("ca.pem"), pem("CERTIFICATE", signed.der()))
            .expect("written");
        let certificate = signed.der().clone();
        let authority = Self { issuer: Issuer::new(params, key), certificate, directory };
        let (cert, key) = authority.sign("client");
        fs::write(authority.directory.path().join("cert.pem"), pem("CERTIFICATE", cert.der()))
            .expect("written");
        fs::write(
            authority.directory.path().join("key.pem"),
            pem("PRIVATE KEY", &key.serialize_der()),
        )
        .expect("written");
        authority
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        (params.signed_by(&key, &self.issuer).expect("signed"), key)
    }

    /// A server that this authority vouches for, and that takes only its clients.
    fn server(&self) -> TlsAcceptor {
        let (certificate, key) = self.sign("127.0.0.1");
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(clients.build().expect("a verifier"))
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .expect("a server");
        TlsAcceptor::from(Arc::new(config))
    }

    fn settings(&self, at: SocketAddr) -> EngineSettings {
        let mut settings = at_port(at);
        settings.tls_dir = Some(self.directory.path().to_owned());
        settings
    }
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}

fn at_port(at: SocketAddr) -> EngineSettings {
    EngineSettings::new("far", format!("tcp://{at}").parse().expect("an address"))
}

/// Runs `cat` in a container and speaks with it, which goes over a stream that the engine hands over.
async fn speak_with_an_exec(settings: &EngineSettings, image: &str) {
    let host = DockerHost::connect(settings).await.expect("an engine");
    let once = EXECS.fetch_add(1, Ordering::Relaxed);
    let name = format!("hotcell-dial-test-{}-{once}", std::process::id());
    let options = CreateContainerOptionsBuilder::default().name(&name).build();
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(vec!["sleep".to_owned(), "600".to_owned()]),
        ..ContainerCreateBody::default()
    };
    host.docker.create_container(Some(options), body).await.expect("a container");
    host.docker.start_container(&name, None).await.expect("started");
    let exec = ExecConfig {
        cmd: Some(vec!["cat".to_owned()]),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        ..ExecConfig::default()
    };
    let exec = host.docker.create_exec(&name, exec).await.expect("an exec");
    let started = host.docker.start_exec(&exec.id, None::<StartExecOptions>).await;
    let StartExecResults::Attached { mut output, mut input } = started.expect("started") else {
        panic!("it is not attached");
    };
    let sent: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let sending = async {
        input.write_all(&sent).await.expect("sent");
        input.shutdown().await.expect("at its end");
    };
    let receiving = async {
        let mut received = Vec::new();
        while let Some(piece) = output.next().await {
            received.extend_from_slice(&piece.expect("output").into_bytes());
        }
        received
    };
    let ((), received) = tokio::join!(sending, receiving);
    let options = RemoveContainerOptionsBuilder::default().force(true).build();
    host.docker.remove_container(&name, Some(options)).await.expect("removed");
    assert!(received == sent, "{} bytes came back of {}", received.len(), sent.len());
}

#[tokio::test]
async fn an_engine_is_spoken_to_over_tcp() {
    let Some((socket, image)) = engine() else { return };
    let bridge = Bridge::open(&socket, None).await;
    speak_with_an_exec(&at_port(bridge.at), &image).await;
}

#[tokio::test]
async fn an_engine_is_spoken_to_over_tls_by_those_who_know_each_other() {
    let Some((socket, image)) = engine() else { return };
    let (ours, others) = (Authority::new(), Authority::new());
    let bridge = Bridge::open(&socket, Some(ours.server())).await;
    speak_with_an_exec(&ours.settings(bridge.at), &image).await;
    // We do not know them.
    let refused = DockerHost::connect(&others.settings(bridge.at)).await.expect_err("a stranger");
    assert_eq!(refused.code, ErrorCode::Unavailable);
    assert!(refused.message.contains("invalid peer certificate"), "{refused}");
    // They do not know us.
    let mut stranger = ours.settings(bridge.at);
    let mixed = tempfile::tempdir().expect("a directory");
    for (file, of) in [("ca.pem", &ours), ("cert.pem", &others), ("key.pem", &others)] {
        fs::copy(of.directory.path().join(file), mixed.path().join(file)).expect("copied");
    }
    stranger.tls_dir = Some(mixed.path().to_owned());
    let refused = DockerHost::connect(&stranger).await.expect_err("we are strangers");
    assert_eq!(refused.code, ErrorCode::Unavailable, "{refused}");
    // Without TLS it says nothing.
    assert!(DockerHost::connect(&at_port(bridge.at)).await.is_err());
    let missing = EngineSettings { tls_dir: Some("/nowhere".into()), ..at_port(bridge.at) };
    let refused = DockerHost::connect(&missing).await.expect_err("no files");
    assert!(refused.message.contains("/nowhere/ca.pem"), "{refused}");
}

/// An sshd of this test, whose users find the engine of the tests.
struct Sshd {
    process: Child,
    place: TempDir,
    port: u16,
}

impl Sshd {
    async fn start(socket: &str) -> Option<Self> {
        let program = Path::new("/usr/sbin/sshd");
        if !program.exists() || !rustix::process::geteuid().is_root() {
            skip("docker", "no sshd can be started");
            return None;
        }
        let place = tempfile::tempdir().expect("a directory");
        let at = |name: &str| place.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)])
                .status()
                .await;
            assert!(made.expect("ssh-keygen").success());
        }
        fs::copy(at("user.pub"), at("authorized")).expect("copied");
        fs::set_permissions(at("authorized"), fs::Permissions::from_mode(0o600)).expect("mode");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = free.local_addr().expect("its number").port();
        drop(free);
        let known = fs::read_to_string(at("host.pub")).expect("a key");
        fs::write(at("known"), format!("[127.0.0.1]:{port} {known}")).expect("written");
        let of_server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
             PidFile none\nSetEnv DOCKER_HOST=unix://{socket}\n",
            at("host"),
            at("authorized")
        );
        fs::write(at("sshd_config"), of_server).expect("written");
        let of_client = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n",
            at("user"),
            at("known")
        );
        fs::write(at("ssh_config"), of_client).expect("written");
        fs::create_dir_all("/run/sshd").expect("where sshd separates privileges");
        let log = fs::File::create(at("log")).expect("a log");
        let process = Command::new(program)
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("an sshd");
        let mut sshd = Self { process, place, port };
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            assert!(sshd.process.try_wait().expect("its state").is_none(), "{}", sshd.log());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Some(sshd)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.path().join("log")).unwrap_or_default()
    }

    fn settings(&self, path: &str) -> EngineSettings {
        let address = format!("ssh://root@127.0.0.1:{}{path}", self.port);
        let mut settings = EngineSettings::new("far", address.parse().expect("an address"));
        settings.ssh_config = Some(self.place.path().join("ssh_config"));
        settings
    }
}

#[tokio::test]
async fn an_engine_is_spoken_to_over_ssh() {
    let Some((socket, image)) = engine() else { return };
    let Some(sshd) = Sshd::start(&socket).await else { return };
    speak_with_an_exec(&sshd.settings(""), &image).await;
    speak_with_an_exec(&sshd.settings(&socket), &image).await;
    // What goes wrong on the way is told in the words of who saw it.
    let refused = DockerHost::connect(&sshd.settings("/nowhere.sock")).await.expect_err("none");
    assert_eq!(refused.code, ErrorCode::Unavailable);
    assert!(refused.message.contains("/nowhere.sock"), "{refused}");
    fs::write(sshd.place.path().join("known"), "").expect("forgotten");
    let refused = DockerHost::connect(&sshd.settings("")).await.expect_err("unknown");
    assert!(refused.message.contains("Host key verification failed"), "{refused}");
}
