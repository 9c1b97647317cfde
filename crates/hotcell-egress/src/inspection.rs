//! Decides what a cell may send over a connection: TLS and HTTP only for hosts that it may reach.

use std::collections::BTreeSet;

use hotcell_model::{HostName, NameRules};

use crate::client_hello::HelloReader;
use crate::http_requests::{RequestHost, RequestReader};

/// Ports that stand for TLS or HTTP. Nothing else is carried to them.
const WEB_PORTS: [u16; 22] = [
    80, 443, 465, 563, 636, 853, 989, 990, 992, 993, 994, 995, 2376, 5061, 5671, 6443, 6514, 6697,
    8080, 8443, 8883, 9443,
];
/// The longest first line of what may turn out to be HTTP.
const FIRST_LINE_BYTES: usize = 8 << 10;
/// Different hosts that the requests of one connection may name.
const HOSTS: usize = 16;
const TLS_HANDSHAKE: u8 = 22;
/// The alert `unrecognized_name` (RFC 8446, 6), fatal.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Why nothing more is carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) why: String,
    /// What the client understands, if it was not sent anything yet.
    pub(crate) answer: Vec<u8>,
}

/// What a connection was found to be.
#[derive(Debug)]
enum Protocol {
    /// Too little came to tell.
    Unknown(Vec<u8>),
    Hello(HelloReader),
    Requests(RequestReader),
    /// Nothing is left to check.
    Passed,
}

/// Checks what a client sends over one connection.
#[derive(Debug)]
pub(crate) struct Inspector {
    port: u16,
    protocol: Protocol,
    /// The hosts that were named.
    named: BTreeSet<HostName>,
}

impl Inspector {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, protocol: Protocol::Unknown(Vec::new()), named: BTreeSet::new() }
    }

    /// Whether bytes are held back until more come.
    pub(crate) fn holds(&self) -> bool {
        match &self.protocol {
            Protocol::Unknown(held) => !held.is_empty(),
            Protocol::Hello(_) => true,
            Protocol::Requests(reader) => reader.holds(),
            Protocol::Passed => false,
        }
    }

    /// Whether everything that was named is still allowed.
    pub(crate) fn is_allowed(&self, rules: &NameRules) -> bool {
        self.named.iter().all(|name| rules.allows(name, self.port))
    }

    /// Takes what the client sent, and appends to `passed` what may go to the server.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        rules: &NameRules,
        passed: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if let Protocol::Unknown(held) = &mut self.protocol {
            held.extend_from_slice(bytes);
            let Some(found) = recognize(held, self.port) else { return Ok(()) };
            let held = std::mem::take(held);
            self.protocol = found;
            return self.take_known(&held, rules, passed);
        }
        self.take_known(bytes, rules, passed)
    }

    fn take_known(
        &mut self,
        bytes: &[u8],
        rules: &NameRules,
        passed: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let (port, named) = (self.port, &mut self.named);
        match &mut self.protocol {
            Protocol::Unknown(_) => {}
            Protocol::Passed => passed.extend_from_slice(bytes),
            Protocol::Hello(reader) => {
                let refused = |why: String| Refusal { why, answer: UNRECOGNIZED_NAME.to_vec() };
                let read = reader.take(bytes).map_err(|why| refused(why.to_owned()))?;
                if let Some((name, hello)) = read {
                    check(named, name, port, rules, "its TLS ClientHello (SNI)")
                        .map_err(refused)?;
                    passed.extend(hello);
                    self.protocol = Protocol::Passed;
                }
            }
            Protocol::Requests(reader) => {
                let check = |host: RequestHost| match host.port {
                    Some(other) if other != port => {
                        Err(format!("its HTTP request is for port {other}, not {port}"))
                    }
                    Some(_) | None => check(named, host.name, port, rules, "its HTTP request"),
                };
                reader.take(bytes, check, passed).map_err(|why| {
                    let answer = forbidden(&why);
                    Refusal { why, answer }
                })?;
            }
        }
        Ok(())
    }

    /// The client has sent all: what is held goes on only if it cannot be TLS or HTTP any more.
    pub(crate) fn end(&mut self, passed: &mut Vec<u8>) -> Result<(), Refusal> {
        if let Protocol::Unknown(held) = &mut self.protocol
            && !WEB_PORTS.contains(&self.port)
        {
            passed.append(held);
        }
        if self.holds() { Err(self.unfinished("the client ended it")) } else { Ok(()) }
    }

    /// What is told when what is held was not completed.
    pub(crate) fn unfinished(&self, how: &str) -> Refusal {
        let what = match self.protocol {
            Protocol::Hello(_) => "its TLS ClientHello",
            Protocol::Requests(_) => "the head of its HTTP request",
            Protocol::Unknown(_) | Protocol::Passed => "its first line",
        };
        Refusal { why: format!("{how} before {what} was complete"), answer: Vec::new() }
    }
}

fn check(
    named: &mut BTreeSet<HostName>,
    name: HostName,
    port: u16,
    rules: &NameRules,
    what: &str,
) -> Result<(), String> {
    if !rules.allows(&name, port) {
        return Err(format!("{what} is for {name}, which is not allowed at port {port}"));
    }
    if !named.contains(&name) && named.len() == HOSTS {
        return Err(format!("its requests name more than {HOSTS} hosts"));
    }
    named.insert(name);
    Ok(())
}

/// What the first bytes belong to; `None` until that can be told.
fn recognize(bytes: &[u8], port: u16) -> Option<Protocol> {
    let is_web = WEB_PORTS.contains(&port);
    let requests = || Some(Protocol::Requests(RequestReader::new()));
    match bytes {
        [] => return None,
        [TLS_HANDSHAKE, ..] if is_web => return Some(Protocol::Hello(HelloReader::default())),
        [TLS_HANDSHAKE] => return None,
        [TLS_HANDSHAKE, 3, ..] => return Some(Protocol::Hello(HelloReader::default())),
        _ if is_web => return requests(),
        _ => {}
    }
    // Servers skip empty lines before a request.
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n' | b' ' | b'\t'));
    let rest = &bytes[start.unwrap_or(bytes.len())..];
    let end = rest.iter().position(|byte| *byte == b'\n');
    let line = &rest[..end.unwrap_or(rest.len())];
    let is_text = |byte: &u8| *byte >= b' ' && *byte != 127 || matches!(byte, b'\t' | b'\r');
    if !line.iter().all(is_text) {
        return Some(Protocol::Passed);
    }
    let names_http = || line.windows(5).any(|word| word.eq_ignore_ascii_case(b"HTTP/"));
    match end {
        Some(_) if names_http() => requests(),
        Some(_) => Some(Protocol::Passed),
        None if bytes.len() > FIRST_LINE_BYTES => requests(),
        None => None,
    }
}

/// Tells an HTTP client why, as far as that is safe to show.
fn forbidden(why: &str) -> Vec<u8> {
    let text = format!(
        "hotcell refused this connection: {why}\n\
         A cell reaches the names that were allowed. `hotcell net allow CELL NAME` allows another one.\n"
    );
    format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}
