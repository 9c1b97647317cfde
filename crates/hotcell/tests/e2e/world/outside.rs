//! What cells reach: a name server and a server behind its names, on the loopback of the host.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Invocation, World};

/// Stands for a public address: the operator of these tests allows it.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Answers for as long as the test runs.
#[derive(Debug)]
pub(crate) struct Outside {
    /// Where the server is, at an address that cells may reach by name.
    pub(crate) port: u16,
    /// Where a service of the host is that is nobody's business.
    pub(crate) inner_port: u16,
    nameserver: SocketAddr,
    names: Arc<Mutex<HashMap<String, Vec<IpAddr>>>>,
}

impl Outside {
    /// With some names that all lead to the server.
    pub(crate) fn start(names: &[&str]) -> Self {
        let server = TcpListener::bind((PUBLIC, 0)).unwrap();
        let inner = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let outside = Self {
            port: server.local_addr().unwrap().port(),
            inner_port: inner.local_addr().unwrap().port(),
            nameserver: socket.local_addr().unwrap(),
            names: Arc::default(),
        };
        for name in names {
            outside.lead(name, &PUBLIC.to_string());
        }
        for listener in [server, inner] {
            std::thread::spawn(move || {
                for connection in listener.incoming().flatten() {
                    std::thread::spawn(move || serve(connection));
                }
            });
        }
        let names = Arc::clone(&outside.names);
        std::thread::spawn(move || answer_lookups(&socket, &names));
        outside
    }

    /// Lets a name lead to an address from now on.
    pub(crate) fn lead(&self, name: &str, address: &str) {
        self.names.lock().unwrap().insert(name.to_owned(), vec![address.parse().unwrap()]);
    }

    /// The program with these arguments, set up to reach this.
    pub(crate) fn hotcell<const N: usize>(&self, world: &World, args: [&str; N]) -> Invocation {
        self.settings()
            .into_iter()
            .fold(world.hotcell(args), |it, (name, value)| it.env(name, value))
    }

    /// The settings for that.
    pub(crate) fn settings(&self) -> [(&'static str, String); 2] {
        [
            ("HOTCELL_EGRESS_NAMESERVERS", self.nameserver.to_string()),
            ("HOTCELL_EGRESS_PRIVATE", format!("{PUBLIC}/32")),
        ]
    }

    /// A rule for a name at the port of the server.
    pub(crate) fn rule(&self, name: &str) -> String {
        format!("{name}:{}", self.port)
    }
}

/// What comes at this place of what the server sends.
pub(crate) fn pattern(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// One line says what is to be done.
fn serve(connection: TcpStream) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut writer = connection;
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    // Whoever asked may leave at any time.
    let _ = match words.as_slice() {
        // Everything comes back once the other side has said that this is all.
        ["echo"] => {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).and_then(|_| writer.write_all(&all))
        }
        ["send", count] => {
            let all: Vec<u8> = (0..count.parse().unwrap()).map(pattern).collect();
            writer.write_all(&all)
        }
        ["drip"] => loop {
            if writer.write_all(b"drip\n").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        },
        ["hold"] => {
            let _ = writer.write_all(b"held\n");
            reader.read_to_end(&mut Vec::new()).map(drop)
        }
        ["GET", path, _] => {
            let body = format!("you asked for {path}\n");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
            writer.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
        }
        _ => Ok(()),
    };
}

fn answer_lookups(socket: &UdpSocket, names: &Mutex<HashMap<String, Vec<IpAddr>>>) {
    const A: u16 = 1;
    const AAAA: u16 = 28;
    let mut packet = [0; 1500];
    while let Ok((length, from)) = socket.recv_from(&mut packet) {
        let packet = &packet[..length];
        let (mut at, mut labels) = (12, Vec::new());
        while packet[at] != 0 {
            let end = at + 1 + usize::from(packet[at]);
            labels.push(String::from_utf8_lossy(&packet[at + 1..end]).to_lowercase());
            at = end;
        }
        let kind = u16::from_be_bytes([packet[at + 1], packet[at + 2]]);
        let question = &packet[12..at + 5];
        let found = names.lock().unwrap().get(&labels.join(".")).cloned();
        let code = if found.is_some() { 0x80 } else { 0x83 };
        let mut answers = Vec::new();
        for address in found.into_iter().flatten() {
            let (its_kind, bytes) = match address {
                IpAddr::V4(address) => (A, address.octets().to_vec()),
                IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
            };
            if its_kind == kind {
                let length = u16::try_from(bytes.len()).unwrap();
                // A pointer to the name of the question, kind, class, no time to keep it, length.
                let mut record = vec![0xc0, 12];
                record.extend(its_kind.to_be_bytes());
                record.extend([0, 1, 0, 0, 0, 0]);
                record.extend(length.to_be_bytes());
                record.extend(bytes);
                answers.push(record);
            }
        }
        let count = u8::try_from(answers.len()).unwrap();
        let head = [packet[0], packet[1], 0x81, code, 0, 1, 0, count, 0, 0, 0, 0];
        let _ = socket.send_to(&[&head[..], question, &answers.concat()].concat(), from);
    }
}
