//! Single characters of shell text: which end a word, and what `$'…'` makes of them.

/// Whether an unquoted byte ends a word.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}

pub(super) fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(super) fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The text of `$'…'`, given what stands between the quotes.
pub(super) fn ansi_c(raw: &str) -> String {
    let bytes = raw.as_bytes();
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' || at + 1 >= bytes.len() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let letter = bytes[at + 1];
        at += 2;
        match letter {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'e' | b'E' => out.push(27),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'\\' | b'\'' | b'"' | b'?' => out.push(letter),
            b'0'..=b'7' => {
                let (value, used) = digits(&bytes[at - 1..], 8, 3);
                at += used - 1;
                out.push((value & 0xff) as u8);
            }
            b'x' => {
                // `\x{…}` is taken by bash as well.
                let braced = bytes.get(at) == Some(&b'{');
                let from = at + usize::from(braced);
                let (value, used) = digits(&bytes[from..], 16, if braced { 8 } else { 2 });
                if used == 0 {
                    out.extend(b"\\x");
                } else {
                    out.push((value & 0xff) as u8);
                    at = from + used;
                    if braced && bytes.get(at) == Some(&b'}') {
                        at += 1;
                    }
                }
            }
            b'u' | b'U' => {
                let (value, used) = digits(&bytes[at..], 16, if letter == b'u' { 4 } else { 8 });
                if used == 0 {
                    out.extend([b'\\', letter]);
                } else {
                    at += used;
                    let letter = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
                    out.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            b'c' => {
                if let Some(control) = bytes.get(at) {
                    out.push(control.to_ascii_uppercase() ^ 64);
                    at += 1;
                }
            }
            other => out.extend([b'\\', other]),
        }
    }
    if let Some(end) = out.iter().position(|byte| *byte == 0) {
        out.truncate(end);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn digits(bytes: &[u8], radix: u32, most: usize) -> (u32, usize) {
    let mut value: u32 = 0;
    let mut used = 0;
    while used < most {
        let Some(digit) = bytes.get(used).and_then(|byte| char::from(*byte).to_digit(radix)) else {
            break;
        };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        used += 1;
    }
    (value, used)
}
