//! Keys by name, as the bytes that a terminal sends for them.

use hotcell_model::{Error, Result};

/// The most keys of one call.
const MOST_KEYS: usize = 1000;

/// Which sequences a terminal sends for its cursor keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorKeys {
    Normal,
    /// As programs that take the whole screen ask for.
    Application,
}

/// What a key sends without modifiers, and how modifiers change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// `ESC [ X`, or `ESC O X` in application mode.
    Cursor(u8),
    /// `ESC O X`.
    Function(u8),
    /// `ESC [ N ~`.
    Numbered(u8),
    /// A character.
    Plain(char),
}

/// Which modifiers are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Held {
    shift: bool,
    alt: bool,
    ctrl: bool,
}

const NAMED: &[(&str, Key)] = &[
    ("enter", Key::Plain('\r')),
    ("return", Key::Plain('\r')),
    ("tab", Key::Plain('\t')),
    ("esc", Key::Plain('\x1b')),
    ("escape", Key::Plain('\x1b')),
    ("space", Key::Plain(' ')),
    ("backspace", Key::Plain('\x7f')),
    ("up", Key::Cursor(b'A')),
    ("down", Key::Cursor(b'B')),
    ("right", Key::Cursor(b'C')),
    ("left", Key::Cursor(b'D')),
    ("home", Key::Cursor(b'H')),
    ("end", Key::Cursor(b'F')),
    ("insert", Key::Numbered(2)),
    ("delete", Key::Numbered(3)),
    ("del", Key::Numbered(3)),
    ("pageup", Key::Numbered(5)),
    ("pgup", Key::Numbered(5)),
    ("pagedown", Key::Numbered(6)),
    ("pgdn", Key::Numbered(6)),
    ("f1", Key::Function(b'P')),
    ("f2", Key::Function(b'Q')),
    ("f3", Key::Function(b'R')),
    ("f4", Key::Function(b'S')),
    ("f5", Key::Numbered(15)),
    ("f6", Key::Numbered(17)),
    ("f7", Key::Numbered(18)),
    ("f8", Key::Numbered(19)),
    ("f9", Key::Numbered(20)),
    ("f10", Key::Numbered(21)),
    ("f11", Key::Numbered(23)),
    ("f12", Key::Numbered(24)),
];

/// The bytes of these keys, one after the other.
pub(crate) fn bytes_of(keys: &[String], cursor: CursorKeys) -> Result<Vec<u8>> {
    if keys.len() > MOST_KEYS {
        return Err(Error::invalid(format!(
            "{} keys are more than the {MOST_KEYS} that one call sends",
            keys.len()
        ))
        .hint("send them in several calls, or as text"));
    }
    let mut bytes = Vec::new();
    for name in keys {
        send(name, cursor, &mut bytes).ok_or_else(|| unknown(name))?;
    }
    Ok(bytes)
}

/// Whether what these keys send depends on the mode of the terminal.
pub(crate) fn depend_on_mode(keys: &[String]) -> bool {
    let is_cursor = |name: &String| matches!(parse(name), Some((_, Key::Cursor(_))));
    keys.iter().any(is_cursor)
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("keys: there is no key {name:?}")).hint(format!(
        "the names are {}, single characters, and each of these after ctrl-, alt- or shift-; \
             send words as text",
        NAMED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    ))
}

/// Splits `ctrl-alt-x` into its modifiers and its key.
fn parse(name: &str) -> Option<(Held, Key)> {
    let mut held = Held::default();
    let mut rest = name;
    loop {
        let mut characters = rest.chars();
        if let (Some(only), None) = (characters.next(), characters.next()) {
            return Some((held, Key::Plain(only)));
        }
        let lower = rest.to_ascii_lowercase();
        if let Some((_, key)) = NAMED.iter().find(|(known, _)| *known == lower) {
            return Some((held, *key));
        }
        let (modifier, after) = rest.split_once(['-', '+'])?;
        match modifier.to_ascii_lowercase().as_str() {
            "ctrl" | "control" | "c" => held.ctrl = true,
            "alt" | "meta" | "m" => held.alt = true,
            "shift" | "s" => held.shift = true,
            _ => return None,
        }
        rest = after;
    }
}

fn send(name: &str, cursor: CursorKeys, bytes: &mut Vec<u8>) -> Option<()> {
    let (held, key) = parse(name)?;
    let modifier = 1 + u8::from(held.shift) + 2 * u8::from(held.alt) + 4 * u8::from(held.ctrl);
    match key {
        Key::Plain(character) => return send_plain(held, character, bytes),
        Key::Cursor(letter) | Key::Function(letter) if modifier > 1 => {
            bytes.extend_from_slice(format!("\x1b[1;{modifier}{}", char::from(letter)).as_bytes());
        }
        Key::Cursor(letter) => {
            let introducer = match cursor {
                CursorKeys::Normal => b'[',
                CursorKeys::Application => b'O',
            };
            bytes.extend_from_slice(&[0x1b, introducer, letter]);
        }
        Key::Function(letter) => bytes.extend_from_slice(&[0x1b, b'O', letter]),
        Key::Numbered(number) if modifier > 1 => {
            bytes.extend_from_slice(format!("\x1b[{number};{modifier}~").as_bytes());
        }
        Key::Numbered(number) => bytes.extend_from_slice(format!("\x1b[{number}~").as_bytes()),
    }
    Some(())
}

fn send_plain(held: Held, character: char, bytes: &mut Vec<u8>) -> Option<()> {
    if held.alt {
        bytes.push(0x1b);
    }
    if held.shift && character == '\t' {
        bytes.extend_from_slice(b"\x1b[Z");
        return Some(());
    }
    let mut character = character;
    if held.shift {
        character = character.to_uppercase().next().unwrap_or(character);
    }
    if held.ctrl {
        bytes.push(match character.to_ascii_lowercase() {
            letter @ 'a'..='z' => letter as u8 & 0x1f,
            ' ' | '@' => 0,
            '[' => 0x1b,
            '\\' => 0x1c,
            ']' => 0x1d,
            '^' => 0x1e,
            '_' | '/' | '-' => 0x1f,
            '?' => 0x7f,
            // They send the same with and without it.
            control @ ('\r' | '\t' | '\x1b') => control as u8,
            '\x7f' => 0x08,
            _ => return None,
        });
        return Some(());
    }
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

#[cfg(test)]
#[path = "key_names_tests.rs"]
mod tests;
