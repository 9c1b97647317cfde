//! What stands in the place of a secret: `[REDACTED:kind]`.

use std::collections::BTreeMap;

/// How every marker begins.
const BEGIN: &[u8] = b"[REDACTED:";
/// The longest kind: the longest name of a secret.
const MOST_KIND: usize = 64;

/// The longest marker.
pub const MOST_BYTES: usize = BEGIN.len() + MOST_KIND + 1;

/// Appends a marker.
pub fn write(kind: &str, shown: &mut Vec<u8>) {
    shown.extend_from_slice(BEGIN);
    shown.extend_from_slice(kind.as_bytes());
    shown.push(b']');
}

/// The markers in some bytes, each with how often it is there.
#[must_use]
pub fn markers(bytes: &[u8]) -> BTreeMap<Vec<u8>, u64> {
    MarkerScan::default().feed(bytes)
}

/// Counts markers in a stream that comes in pieces.
#[derive(Debug, Default)]
pub struct MarkerScan {
    /// The end of what came, where one may begin.
    end: Vec<u8>,
}

impl MarkerScan {
    /// Takes the next piece; the markers that end in it, each with how often it does.
    pub fn feed(&mut self, piece: &[u8]) -> BTreeMap<Vec<u8>, u64> {
        let known = self.end.len();
        let mut bytes = std::mem::take(&mut self.end);
        bytes.extend_from_slice(piece);
        let mut found = BTreeMap::new();
        for start in memchr::memmem::find_iter(&bytes, BEGIN) {
            if let Some(marker) = marker_at(&bytes[start..])
                && start + marker.len() > known
            {
                *found.entry(marker.to_vec()).or_default() += 1;
            }
        }
        self.end = bytes.split_off(bytes.len().saturating_sub(MOST_BYTES - 1));
        found
    }
}

fn marker_at(bytes: &[u8]) -> Option<&[u8]> {
    let kind = &bytes[BEGIN.len()..];
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let length = kind.iter().take(MOST_KIND + 1).take_while(|byte| allowed(byte)).count();
    let closes = (1..=MOST_KIND).contains(&length) && kind.get(length) == Some(&b']');
    closes.then(|| &bytes[..BEGIN.len() + length + 1])
}
