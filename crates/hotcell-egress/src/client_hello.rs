//! Reads the host name (SNI) of a TLS `ClientHello`, however it is split over records and reads.

use hotcell_model::HostName;

/// The longest `ClientHello`, records included.
const MOST_BYTES: usize = 64 << 10;
const RECORD_HEAD: usize = 5;
/// RFC 8446, 5.1: a plaintext record has at most 2^14 bytes.
const MOST_RECORD: usize = 1 << 14;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const HANDSHAKE_HEAD: usize = 4;

/// Reads a `ClientHello` piece by piece.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    /// All that came, as it came.
    bytes: Vec<u8>,
    /// How much of that was taken out of records.
    at: usize,
    /// What the records hold.
    message: Vec<u8>,
}

impl HelloReader {
    /// Takes the next bytes. Returns the host name once the message is complete, with every byte
    /// that came, and an error for what is not a `ClientHello` with one host name.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<(HostName, Vec<u8>)>, &'static str> {
        self.bytes.extend_from_slice(bytes);
        while !self.is_complete() {
            if self.at > MOST_BYTES {
                return Err("its TLS ClientHello is longer than 64 KiB");
            }
            let rest = &self.bytes[self.at..];
            let Some((head, rest)) = rest.split_at_checked(RECORD_HEAD) else { return Ok(None) };
            if head[0] != HANDSHAKE || head[1] != 3 {
                return Err("it does not begin with a TLS ClientHello");
            }
            let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
            if length == 0 || length > MOST_RECORD {
                return Err("a record of its TLS ClientHello has a wrong length");
            }
            let Some(record) = rest.get(..length) else { return Ok(None) };
            self.message.extend_from_slice(record);
            self.at += RECORD_HEAD + length;
            if self.message[0] != CLIENT_HELLO {
                return Err("its first TLS message is not a ClientHello");
            }
        }
        let end = HANDSHAKE_HEAD + self.length().unwrap_or_default();
        if self.message.len() > end {
            // Nothing can follow before the server has answered.
            return Err("its TLS ClientHello is followed by another message");
        }
        let name = host_name(&self.message[HANDSHAKE_HEAD..end])?;
        Ok(Some((name, std::mem::take(&mut self.bytes))))
    }

    fn length(&self) -> Option<usize> {
        let head = self.message.get(..HANDSHAKE_HEAD)?;
        Some(u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize)
    }

    fn is_complete(&self) -> bool {
        self.length().is_some_and(|length| self.message.len() >= HANDSHAKE_HEAD + length)
    }
}

/// Takes parts off the front of a message.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (part, rest) =
            self.0.split_at_checked(count).ok_or("its TLS ClientHello is malformed")?;
        self.0 = rest;
        Ok(part)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, &'static str> {
        Ok(self.bytes(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A part with its length before it.
    fn vector(&mut self, length_bytes: usize) -> Result<Parts<'a>, &'static str> {
        let length = self.number(length_bytes)?;
        self.bytes(length).map(Parts)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The host name in the body of a `ClientHello` (RFC 8446, 4.1.2; RFC 6066, 3).
fn host_name(body: &[u8]) -> Result<HostName, &'static str> {
    let mut body = Parts(body);
    // Version and random.
    body.bytes(2 + 32)?;
    let _session = body.vector(1)?;
    let _ciphers = body.vector(2)?;
    let _compression = body.vector(1)?;
    let none = "its TLS ClientHello names no host (no SNI)";
    if body.is_empty() {
        return Err(none);
    }
    let mut extensions = body.vector(2)?;
    if !body.is_empty() {
        return Err("its TLS ClientHello is malformed");
    }
    let mut found = None;
    while !extensions.is_empty() {
        let kind = extensions.number(2)?;
        let mut extension = extensions.vector(2)?;
        if kind != usize::from(SERVER_NAME) {
            continue;
        }
        if found.is_some() {
            return Err("its TLS ClientHello names two hosts");
        }
        let mut names = extension.vector(2)?;
        let kind = names.number(1)?;
        let name = names.vector(2)?.0;
        if kind != usize::from(HOST_NAME) || !extension.is_empty() {
            return Err("its TLS ClientHello is malformed");
        }
        if !names.is_empty() {
            return Err("its TLS ClientHello names two hosts");
        }
        found = Some(name);
    }
    let name = std::str::from_utf8(found.ok_or(none)?).ok();
    // An address is not a name either.
    let name = name.and_then(|name| name.parse().ok());
    name.ok_or("the SNI of its TLS ClientHello is not a host name")
}
