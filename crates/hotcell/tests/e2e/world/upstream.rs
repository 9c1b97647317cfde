//! Servers that cells send requests to, with certificates of an authority of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{Invocation, Outside, World};

/// Servers at loopback addresses that names lead to.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// Where names are looked up.
    pub(crate) outside: Outside,
    /// The port at which TLS is spoken.
    pub(crate) port: u16,
    /// The port at which it is not.
    pub(crate) plain_port: u16,
    /// The certificate of the authority.
    pub(crate) ca_file: PathBuf,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// With names that all lead to it, of which `certified` stand in its certificate.
    pub(crate) fn start(world: &World, names: &[&str], certified: &[&str]) -> Self {
        let outside = Outside::start(names);
        let (tls, plain) = (listen(), listen());
        let (config, authority) = certificates(certified);
        let ca_file = world.home().join("upstream-ca.pem");
        std::fs::write(&ca_file, authority).unwrap();
        world.own(&ca_file);
        let upstream = Self {
            outside,
            port: tls.local_addr().unwrap().port(),
            plain_port: plain.local_addr().unwrap().port(),
            ca_file,
            seen: Arc::default(),
        };
        let seen = Arc::clone(&upstream.seen);
        each(tls, move |connection| {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            serve(StreamOwned::new(tls, connection), &seen);
        });
        let seen = Arc::clone(&upstream.seen);
        each(plain, move |connection| serve(connection, &seen));
        upstream
    }

    /// The program with these arguments, set up to reach this and to trust it.
    pub(crate) fn hotcell<const N: usize>(&self, world: &World, args: [&str; N]) -> Invocation {
        self.outside.hotcell(world, args).env("HOTCELL_EGRESS_CA_FILE", &self.ca_file)
    }

    /// Makes a cell that may reach these names and is granted these secrets.
    pub(crate) fn spawn(&self, world: &World, cell: &str, names: &[&str], grants: &[&str]) {
        let rules = names
            .iter()
            .flat_map(|name| [self.port, self.plain_port].map(|port| format!("{name}:{port}")));
        let rules: Vec<String> = rules.collect();
        let allowed = rules.iter().flat_map(|rule| ["--allow", rule]);
        let granted = grants.iter().flat_map(|grant| ["--secret", grant]);
        let spawn = self.hotcell(world, ["spawn", cell, "--persistent"]);
        spawn.args(allowed).args(granted).run().succeeded();
    }

    /// What requests said since this was asked last: each head, with the names of headers in small letters.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn listen() -> TcpListener {
    TcpListener::bind(("127.0.0.2", 0)).unwrap()
}

fn each(listener: TcpListener, serve: impl Fn(TcpStream) + Clone + Send + 'static) {
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(connection));
        }
    });
}

fn certificates(names: &[&str]) -> (Arc<ServerConfig>, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "the upstream's own authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key).unwrap();
    let pem = pem(certificate.der());
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (Arc::new(config), pem)
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Answers one request after the other.
fn serve(connection: impl Read + Write, seen: &Mutex<Vec<String>>) {
    let mut stream = BufReader::new(connection);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match stream.read_line(&mut head) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
        let head: String = head.lines().map(plain).collect();
        seen.lock().unwrap().push(head.clone());
        let Some(body) = body_of(&mut stream, &head) else { return };
        if answer(stream.get_mut(), &head, &body).is_err() || head.contains("connection: close") {
            return;
        }
    }
}

/// A line with the name of its header in small letters.
fn plain(line: &str) -> String {
    match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}\n", name.to_lowercase()),
        None => format!("{line}\n"),
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn body_of(stream: &mut impl BufRead, head: &str) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(length) = header(head, "content-length") {
        body.resize(length.parse().ok()?, 0);
        stream.read_exact(&mut body).ok()?;
    } else if header(head, "transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            stream.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let start = body.len();
            body.resize(start + size + 2, 0);
            stream.read_exact(&mut body[start..]).ok()?;
            body.truncate(start + size);
            if size == 0 {
                break;
            }
        }
    }
    Some(body)
}

fn answer(stream: &mut impl Write, head: &str, body: &[u8]) -> std::io::Result<()> {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let is_head = head.starts_with("HEAD ");
    let all = head.to_owned();
    let secret = header(head, "authorization").unwrap_or("nothing").to_owned();
    let mut send = |bytes: &[u8]| {
        stream.write_all(bytes)?;
        stream.flush()
    };
    match path.split('?').next().unwrap_or_default() {
        // All that came, in the body and in a header.
        "/echo" => {
            let length = all.len();
            send(
                format!(
                    "HTTP/1.1 200 {secret}\r\nX-Echo: {secret}\r\nContent-Length: {length}\r\n\r\n"
                )
                .as_bytes(),
            )?;
            if is_head { Ok(()) } else { send(all.as_bytes()) }
        }
        // The same, a byte at a time.
        "/bytes" => {
            let length = all.len();
            send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes())?;
            all.as_bytes().chunks(1).try_for_each(send)
        }
        // The same in chunks of a byte, with something after the end.
        "/chunked" => {
            send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-After\r\n\r\n")?;
            for byte in all.as_bytes().chunks(1) {
                send(&[b"1\r\n", byte, b"\r\n"].concat())?;
            }
            send(format!("0\r\nX-After: {secret}\r\n\r\n").as_bytes())
        }
        "/packed" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n";
            send([head.as_bytes(), b"\x1f\x8b\x08\x00"].concat().as_slice())
        }
        "/moved" => send(b"HTTP/1.1 302 Found\r\nLocation: /echo\r\nContent-Length: 0\r\n\r\n"),
        "/count" => {
            let text = format!("{}\n", body.len());
            send(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
                    .as_bytes(),
            )
        }
        // A repository of git with nothing in it.
        "/repo.git/info/refs" => {
            let packet = |text: &str| format!("{:04x}{text}", text.len() + 4);
            let nobody = "0".repeat(40);
            let refs = packet(&format!("{nobody} capabilities^{{}}\0side-band-64k agent=test\n"));
            let text = format!("{}0000{refs}0000", packet("# service=git-upload-pack\n"));
            send(format!("HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\nContent-Length: {}\r\n\r\n{text}", text.len()).as_bytes())
        }
        _ => send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"),
    }
}
