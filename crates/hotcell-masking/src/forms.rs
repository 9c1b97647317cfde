//! What a value looks like when programs print it.

use std::collections::BTreeSet;

/// What is shorter would be found in what has nothing to do with the value.
const LEAST_BYTES: usize = 8;
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// What encoders for addresses leave as it is, beside letters and digits: by the standard, for a
/// path, and in a browser.
const LEFT_IN_ADDRESSES: [&[u8]; 3] = [b"-._~", b"-._~/", b"-._~!'()*"];

/// Whether a byte ends a line. Terminals and encoders put them in and change them, so they are
/// passed over wherever they stand.
pub(super) fn is_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// All forms, without line breaks.
pub(super) fn forms(value: &[u8]) -> BTreeSet<Vec<u8>> {
    if value.len() < LEAST_BYTES {
        return BTreeSet::new();
    }
    let mut forms = vec![value.to_vec()];
    forms.extend(value.split(|byte| is_break(*byte)).map(<[u8]>::to_vec));
    for alphabet in [STANDARD, URL_SAFE] {
        forms.extend((0..3).map(|offset| base64_part(value, offset, alphabet)));
    }
    for left in LEFT_IN_ADDRESSES {
        for space in ["%20", "+"] {
            let upper = percent(value, left, space, |byte| format!("%{byte:02X}"));
            let lower = percent(value, left, space, |byte| format!("%{byte:02x}"));
            forms.extend([upper, lower]);
        }
    }
    let digits = |digit: fn(&u8) -> String| value.iter().map(digit).collect::<String>();
    forms.push(digits(|byte| format!("{byte:02x}")).into_bytes());
    forms.push(digits(|byte| format!("{byte:02X}")).into_bytes());
    if let Ok(text) = std::str::from_utf8(value) {
        forms.extend(json(text));
    }
    for form in &mut forms {
        form.retain(|byte| !is_break(*byte));
    }
    forms.into_iter().filter(|form| form.len() >= LEAST_BYTES).collect()
}

/// The characters of base64 that stand for a value alone, where it begins so many bytes into a
/// group of three.
fn base64_part(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bits = |at: usize| -> u8 {
        // Bit `at` of the whole, which begins with bytes that nobody knows.
        let byte = (at / 8).checked_sub(offset).and_then(|index| value.get(index));
        byte.map_or(0, |byte| (byte >> (7 - at % 8)) & 1)
    };
    let first = (offset * 8).div_ceil(6);
    let last = (offset + value.len()) * 8 / 6;
    let sextet = |at: usize| (0..6).fold(0u8, |sum, bit| (sum << 1) | bits(at * 6 + bit));
    (first..last).map(|at| alphabet[usize::from(sextet(at))]).collect()
}

fn percent(value: &[u8], left: &[u8], space: &str, encode: impl Fn(u8) -> String) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b' ' => encoded.extend_from_slice(space.as_bytes()),
            byte if byte.is_ascii_alphanumeric() || left.contains(byte) => encoded.push(*byte),
            byte => encoded.extend_from_slice(encode(*byte).as_bytes()),
        }
    }
    encoded
}

/// As a string of JSON: as it is mostly written, and in ASCII alone.
fn json(text: &str) -> Vec<Vec<u8>> {
    let Ok(quoted) = serde_json::to_string(text) else { return Vec::new() };
    let inner = &quoted[1..quoted.len() - 1];
    let mut ascii = String::with_capacity(inner.len());
    for letter in inner.chars() {
        if letter.is_ascii() {
            ascii.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    vec![inner.as_bytes().to_vec(), ascii.into_bytes()]
}
