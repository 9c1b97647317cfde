//! A proxy for programs that insist on one: `CONNECT`, and plain requests with a whole address.
//! The same rules as without it.

use std::sync::Arc;
use std::time::Duration;

use hotcell_model::HostName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::carrier::Carrier;
use crate::connection::{Refused, Target};

const HEAD_BYTES: usize = 32 << 10;
const HEADERS: usize = 100;
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// What a request to the proxy asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// More has to be read.
    More,
    /// Bytes both ways from here on; what came after the head goes along.
    Tunnel { target: Target, head_bytes: usize },
    /// A request, with the head that the other side is to see.
    Plain { target: Target, head_bytes: usize, head: Vec<u8> },
    /// A name that can be nobody's.
    NoName(String),
    /// Nothing that a proxy understands.
    Wrong(&'static str),
}

/// Serves one connection to the proxy.
pub(crate) async fn serve(carrier: Arc<Carrier>, mut client: TcpStream) {
    let read = {
        // Whoever connects and says nothing keeps others waiting, and costs no more.
        let Ok(_reading) = carrier.heads.acquire().await else { return };
        tokio::time::timeout(HEAD_WITHIN, read_head(&mut client)).await
    };
    let Ok(Ok((bytes, asked))) = read else { return };
    let (target, first) = match asked {
        Asked::More => return,
        Asked::Wrong(why) => return refuse(&mut client, 400, "Bad Request", why).await,
        Asked::NoName(text) => {
            let why = format!("{text:?} is no name of a host; cells reach names alone");
            carrier.record_denied(&text, &why);
            return refuse(&mut client, 403, "Forbidden", &why).await;
        }
        Asked::Tunnel { ref target, head_bytes } => (target.clone(), bytes[head_bytes..].to_vec()),
        Asked::Plain { ref target, head_bytes, ref head } => {
            (target.clone(), [head.as_slice(), &bytes[head_bytes..]].concat())
        }
    };
    match carrier.connect(&target).await {
        Ok(outside) => {
            if matches!(asked, Asked::Tunnel { .. }) {
                let ready = b"HTTP/1.1 200 Connection established\r\n\r\n";
                if client.write_all(ready).await.is_err() {
                    // It is gone; the end is written down all the same.
                    return carrier.carry(client, outside, &target, &[]).await;
                }
            }
            carrier.carry(client, outside, &target, &first).await;
        }
        Err(Refused::Denied(why)) => {
            let why = format!("{}:{} cannot be reached: {why}", target.name, target.port);
            refuse(&mut client, 403, "Forbidden", &why).await;
        }
        Err(Refused::Failed(why)) => {
            let why = format!("{}:{} cannot be reached: {why}", target.name, target.port);
            refuse(&mut client, 502, "Bad Gateway", &why).await;
        }
    }
}

async fn read_head(client: &mut TcpStream) -> std::io::Result<(Vec<u8>, Asked)> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok((bytes, Asked::More));
        }
        // Read again only when it is whole: somebody may send it byte by byte.
        if before == 0 || has_end(&bytes, before) {
            let asked = parse(&bytes);
            if asked != Asked::More {
                return Ok((bytes, asked));
            }
        }
        if bytes.len() > HEAD_BYTES {
            return Ok((bytes, Asked::Wrong("the head of the request is too long")));
        }
    }
}

/// Whether an empty line ends in what came after the first bytes.
pub(crate) fn has_end(bytes: &[u8], before: usize) -> bool {
    let new = &bytes[before.saturating_sub(3)..];
    new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n")
}

async fn refuse(client: &mut TcpStream, code: u16, word: &str, why: &str) {
    let text = format!(
        "HTTP/1.1 {code} {word}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{why}\n",
        why.len() + 1
    );
    // Whoever asked may be gone.
    let _ = client.write_all(text.as_bytes()).await;
    let _ = client.shutdown().await;
}

/// Reads the head of a request.
pub(crate) fn parse(bytes: &[u8]) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Asked::More,
        Err(_) => return Asked::Wrong("this is no request of HTTP/1"),
    };
    let (Some(method), Some(aim)) = (request.method, request.path) else {
        return Asked::Wrong("this is no request of HTTP/1");
    };
    if method == "CONNECT" {
        return match authority(aim, None) {
            Ok(target) => Asked::Tunnel { target, head_bytes },
            Err(asked) => asked,
        };
    }
    let lower = aim.get(..7).map(str::to_ascii_lowercase);
    if lower.as_deref() != Some("http://") {
        return Asked::Wrong("a proxy takes CONNECT, or a whole address that begins with http://");
    }
    let rest = &aim[7..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let target = match authority(host, Some(80)) {
        Ok(target) => target,
        Err(asked) => return asked,
    };
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    for header in request.headers.iter() {
        let is_own = ["host", "connection", "keep-alive", "upgrade"]
            .iter()
            .any(|own| header.name.eq_ignore_ascii_case(own));
        let is_for_proxy = header.name.get(..6).is_some_and(|it| it.eq_ignore_ascii_case("proxy-"));
        if is_own || is_for_proxy {
            continue;
        }
        head.extend_from_slice(header.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(header.value);
        head.extend_from_slice(b"\r\n");
    }
    // One request for each connection: the next may be for somebody else.
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    Asked::Plain { target, head_bytes, head }
}

fn authority(text: &str, usual: Option<u16>) -> Result<Target, Asked> {
    if text.contains('@') {
        return Err(Asked::Wrong("a name and a password before the host are not passed on"));
    }
    if text.starts_with('[') {
        return Err(Asked::NoName(text.to_owned()));
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => match port.parse::<u16>() {
            Ok(port) if port != 0 => (name, port),
            Ok(_) | Err(_) => return Err(Asked::Wrong("the port is no number from 1 to 65535")),
        },
        None => match usual {
            Some(port) => (text, port),
            None => return Err(Asked::Wrong("CONNECT needs a port")),
        },
    };
    let name: HostName = name.parse().map_err(|_| Asked::NoName(text.to_owned()))?;
    Ok(Target { name, port })
}
