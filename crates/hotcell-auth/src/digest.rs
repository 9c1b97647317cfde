//! Digests: what is kept of a token, and names that cannot be made to collide.

use ring::digest::{Context, SHA256, digest};

/// Digits and lowercase letters without `i l o u`, as in every id.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of a name's digest: a hundred bits, which nobody finds a second text for.
const NAME_LENGTH: usize = 20;

/// The SHA-256 of these bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}

/// A short text that stands for these parts and no others, for names of what belongs to a caller.
#[must_use]
pub fn name_digest(parts: &[&str]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        // With its length, so that no two lists of parts are the same bytes.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut text = base32(context.finish().as_ref());
    text.truncate(NAME_LENGTH);
    text
}

/// Bytes as text, five bits a character.
pub(crate) fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut held, mut bits) = (0u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(held >> bits) as usize & 31]));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[(held << (5 - bits)) as usize & 31]));
    }
    text
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
