//! Follows HTTP/1 requests on a connection and finds the host that each one names. Whatever two
//! servers could read differently is an error.

use hotcell_model::HostName;

/// The longest head of a request.
const HEAD_BYTES: usize = 64 << 10;
const HEADERS: usize = 128;
/// The longest line before a chunk, and the longest trailers.
const CHUNK_LINE_BYTES: usize = 1 << 10;
const TRAILER_BYTES: usize = 16 << 10;

/// The host that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestHost {
    pub(crate) name: HostName,
    pub(crate) port: Option<u16>,
}

/// Where in a request the next byte is.
#[derive(Debug)]
enum Place {
    Head {
        /// How many lines of it came.
        lines: usize,
    },
    Body {
        left: u64,
    },
    ChunkLine,
    Chunk {
        left: u64,
    },
    /// After the data of a chunk.
    ChunkEnd,
    Trailers,
}

const HEAD: Place = Place::Head { lines: 0 };

/// Reads requests piece by piece.
#[derive(Debug)]
pub(crate) struct RequestReader {
    place: Place,
    /// The head, line or trailers that are not complete.
    held: Vec<u8>,
}

/// How the body of a request ends.
enum Body {
    Length(u64),
    Chunks,
}

impl RequestReader {
    pub(crate) fn new() -> Self {
        Self { place: HEAD, held: Vec::new() }
    }

    /// Whether part of a head is held back.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes the next bytes, asks `check` about each request, and appends to `passed` what may go to
    /// the server: nothing of a request whose head was not accepted.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        mut check: impl FnMut(RequestHost) -> Result<(), String>,
        passed: &mut Vec<u8>,
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            match &mut self.place {
                Place::Body { left } | Place::Chunk { left } => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    let (part, rest) = bytes.split_at(count);
                    passed.extend_from_slice(part);
                    bytes = rest;
                    *left -= part.len() as u64;
                    if *left == 0 {
                        let is_chunk = matches!(self.place, Place::Chunk { .. });
                        self.place = if is_chunk { Place::ChunkEnd } else { HEAD };
                    }
                }
                Place::Head { .. } | Place::ChunkLine | Place::ChunkEnd | Place::Trailers => {
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                        self.hold(bytes)?;
                        break;
                    };
                    let (line, rest) = bytes.split_at(end + 1);
                    self.hold(line)?;
                    bytes = rest;
                    if !self.held.ends_with(b"\r\n") {
                        return Err("a line of its HTTP request does not end with CRLF".to_owned());
                    }
                    self.end_line(&mut check, passed)?;
                }
            }
        }
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (most, what) = match self.place {
            Place::Trailers => (TRAILER_BYTES, "the trailers"),
            Place::ChunkLine | Place::ChunkEnd => (CHUNK_LINE_BYTES, "the length of a chunk"),
            Place::Head { .. } | Place::Body { .. } | Place::Chunk { .. } => {
                (HEAD_BYTES, "the head")
            }
        };
        if self.held.len() + bytes.len() > most {
            return Err(format!("{what} of its HTTP request is longer than {most} bytes"));
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// A line has ended.
    fn end_line(
        &mut self,
        check: &mut impl FnMut(RequestHost) -> Result<(), String>,
        passed: &mut Vec<u8>,
    ) -> Result<(), String> {
        let next = match &mut self.place {
            // RFC 9112, 2.2: empty lines before a request mean nothing. They are left out.
            Place::Head { .. } if self.held == b"\r\n" => {
                self.held.clear();
                return Ok(());
            }
            Place::Head { lines } => {
                *lines += 1;
                if *lines == 1 {
                    return check_first_line(&self.held);
                }
                if *lines > HEADERS + 2 {
                    return Err("its HTTP request has too many headers".to_owned());
                }
                if !self.held.ends_with(b"\r\n\r\n") {
                    return Ok(());
                }
                let (host, body) = read_head(&self.held)?;
                check(host)?;
                match body {
                    Body::Length(0) => HEAD,
                    Body::Length(left) => Place::Body { left },
                    Body::Chunks => Place::ChunkLine,
                }
            }
            Place::ChunkLine => match chunk_length(&self.held)? {
                0 => Place::Trailers,
                left => Place::Chunk { left },
            },
            Place::ChunkEnd if self.held == b"\r\n" => Place::ChunkLine,
            Place::ChunkEnd => return Err(CHUNKS.to_owned()),
            Place::Trailers if self.held == b"\r\n" || self.held.ends_with(b"\r\n\r\n") => HEAD,
            Place::Trailers | Place::Body { .. } | Place::Chunk { .. } => return Ok(()),
        };
        passed.append(&mut self.held);
        self.place = next;
        Ok(())
    }
}

const CHUNKS: &str = "the chunks of its HTTP request are malformed";
const NOT_HTTP: &str = "it is neither TLS nor an HTTP/1 request";

/// Whether the line that a head begins with can be one of a request.
fn check_first_line(line: &[u8]) -> Result<(), String> {
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    if line == b"PRI * HTTP/2.0" {
        return Err("it is HTTP/2 without TLS, in which requests are not checked".to_owned());
    }
    let is_request = line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0");
    if is_request { Ok(()) } else { Err(NOT_HTTP.to_owned()) }
}

fn chunk_length(line: &[u8]) -> Result<u64, String> {
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, extension) = line.split_at(digits);
    let is_plain = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    let is_right = extension.first().is_none_or(|byte| *byte == b';')
        && extension.iter().all(is_plain)
        && digits.len() <= 15;
    let number = std::str::from_utf8(digits).ok().filter(|_| is_right);
    number.and_then(|it| u64::from_str_radix(it, 16).ok()).ok_or_else(|| CHUNKS.to_owned())
}

/// The host and the length of the body of a request.
fn read_head(head: &[u8]) -> Result<(RequestHost, Body), String> {
    let is_bare = head.iter().enumerate().any(|(at, byte)| match byte {
        b'\r' => head.get(at + 1) != Some(&b'\n'),
        b'\n' => at == 0 || head[at - 1] != b'\r',
        _ => false,
    });
    if is_bare {
        return Err("a line of its HTTP request does not end with CRLF".to_owned());
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(NOT_HTTP.to_owned()),
        Err(error) => return Err(format!("its HTTP request is malformed: {error}")),
    }
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err(NOT_HTTP.to_owned());
    };
    if method.eq_ignore_ascii_case("CONNECT") {
        return Err("CONNECT asks its server to connect to another host".to_owned());
    }
    let host = header(&request, "host")?.ok_or("its HTTP request names no host")?;
    let host = authority(host)?;
    if target.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://")) {
        let rest = &target[7..];
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if authority(&rest.as_bytes()[..end])? != host {
            return Err("its HTTP request names two hosts".to_owned());
        }
    } else if !target.starts_with('/') && target != "*" {
        return Err(
            "the target of its HTTP request is neither a path nor an http:// URL".to_owned()
        );
    }
    Ok((host, body_of(&request)?))
}

/// The value of a header that may stand there once.
fn header<'a>(request: &httparse::Request<'_, 'a>, name: &str) -> Result<Option<&'a [u8]>, String> {
    let mut found = request.headers.iter().filter(|header| is_called(header.name, name));
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("its HTTP request has two {name} headers")),
        (Some(header), None) => Ok(Some(header.value)),
        (None, None) => Ok(None),
    }
}

/// Some servers take `_` for `-`.
fn is_called(found: &str, name: &str) -> bool {
    found.len() == name.len()
        && found
            .bytes()
            .zip(name.bytes())
            .all(|(one, other)| one.eq_ignore_ascii_case(&other) || (one, other) == (b'_', b'-'))
}

fn body_of(request: &httparse::Request<'_, '_>) -> Result<Body, String> {
    let length = header(request, "content-length")?;
    let coding = header(request, "transfer-encoding")?;
    match (length, coding) {
        (Some(_), Some(_)) => Err("its HTTP request has two lengths".to_owned()),
        (None, None) => Ok(Body::Length(0)),
        (None, Some(coding)) => {
            if request.version == Some(1) && coding.eq_ignore_ascii_case(b"chunked") {
                return Ok(Body::Chunks);
            }
            Err("its HTTP request has a transfer coding other than chunked".to_owned())
        }
        (Some(length), None) => {
            let is_number =
                (1..=18).contains(&length.len()) && length.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(length).ok().filter(|_| is_number);
            let number = number.and_then(|it| it.parse().ok());
            number.map(Body::Length).ok_or_else(|| {
                "its HTTP request has a Content-Length that is not a number".to_owned()
            })
        }
    }
}

fn authority(text: &[u8]) -> Result<RequestHost, String> {
    let wrong = || {
        let shown: String = String::from_utf8_lossy(text).chars().take(80).collect();
        format!("its HTTP request is for {shown:?}, which is not a host name")
    };
    let text = std::str::from_utf8(text).map_err(|_| wrong())?;
    let (name, port) = match text.split_once(':') {
        None => (text, None),
        Some((name, digits)) => {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let port = digits.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
            (name, Some(port))
        }
    };
    Ok(RequestHost { name: name.parse().map_err(|_| wrong())?, port })
}
