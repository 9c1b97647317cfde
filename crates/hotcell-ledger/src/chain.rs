//! What ties entries together: keyed hashes over an entry and the one before it.

use ring::hmac::{Context, HMAC_SHA256, Key, sign};

/// What an entry, a segment's first line or a head is tied by.
pub(crate) type Mac = [u8; MAC_BYTES];

pub(crate) const MAC_BYTES: usize = 32;
const NOTHING: Mac = [0; MAC_BYTES];
/// Names one ledger among all that are written with the same key.
pub(crate) type LedgerId = [u8; 16];
/// How a line ends: the mac between these two.
const MAC_FIELD: &[u8] = b",\"mac\":\"";
const MAC_END: &[u8] = b"\"}";
/// What a line has besides its body, without the newline.
const SUFFIX: usize = MAC_FIELD.len() + 2 * MAC_BYTES + MAC_END.len();

/// The keys that follow from the one in the key file, one for each use.
#[derive(Clone)]
pub(crate) struct Keys {
    chain: Key,
    segment: Key,
    head: Key,
    digest: Key,
    /// Names the key without telling it.
    pub(crate) id: [u8; 8],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("id", &hex(&self.id)).finish_non_exhaustive()
    }
}

impl Keys {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let from = Key::new(HMAC_SHA256, key);
        let derived = |use_: &str| {
            let text = format!("hotcell ledger 1 {use_}");
            sign(&from, text.as_bytes())
        };
        let key = |use_: &str| Key::new(HMAC_SHA256, derived(use_).as_ref());
        let mut id = [0; 8];
        id.copy_from_slice(&derived("id").as_ref()[..8]);
        Self {
            chain: key("chain"),
            segment: key("segment"),
            head: key("head"),
            digest: key("digest"),
            id,
        }
    }

    /// What comes before the first entry: so no entry of one ledger fits into another.
    pub(crate) fn begin(&self, ledger: &LedgerId) -> Mac {
        self.signed(&self.chain, &[b"hotcell ledger", ledger])
    }

    /// The mac of an entry after the one with the mac `before`.
    pub(crate) fn entry(&self, before: &Mac, body: &[u8]) -> Mac {
        self.signed(&self.chain, &[before, body])
    }

    /// The mac of the first line of a segment.
    pub(crate) fn segment(&self, body: &[u8]) -> Mac {
        self.signed(&self.segment, &[body])
    }

    /// The mac of a head.
    pub(crate) fn head(&self, bytes: &[u8]) -> Mac {
        self.signed(&self.head, &[bytes])
    }

    /// The digest of arguments. Each part counts with its length.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> String {
        let mut context = Context::with_key(&self.digest);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        // Half of it tells two arguments apart as well as all of it.
        hex(&context.sign().as_ref()[..16])
    }

    fn signed(&self, key: &Key, parts: &[&[u8]]) -> Mac {
        let mut context = Context::with_key(key);
        parts.iter().for_each(|part| context.update(part));
        let mut mac = NOTHING;
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }
}

/// The line of a body, an object of JSON, and its mac.
pub(crate) fn line(mut body: Vec<u8>, mac: &Mac) -> Vec<u8> {
    body.pop();
    body.extend_from_slice(MAC_FIELD);
    body.extend_from_slice(hex(mac).as_bytes());
    body.extend_from_slice(MAC_END);
    body.push(b'\n');
    body
}

/// A line without its newline, taken apart.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) body: Vec<u8>,
    pub(crate) mac: Mac,
}

/// How the line of an entry with this mac ends.
pub(crate) fn line_end(mac: &Mac) -> Vec<u8> {
    [hex(mac).as_bytes(), MAC_END, b"\n"].concat()
}

/// Takes a line apart; `None` for what is not one.
pub(crate) fn take_apart(line: &[u8]) -> Option<Parts> {
    let at = line.len().checked_sub(SUFFIX)?;
    let (body, suffix) = line.split_at(at);
    let digits = suffix.strip_prefix(MAC_FIELD)?.strip_suffix(MAC_END)?;
    let mac = unhex(digits)?;
    let mut body = body.to_vec();
    body.push(b'}');
    Some(Parts { body, mac })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Reads what [`hex`] wrote, and no other way to write it.
pub(crate) fn unhex<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if digits.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}
