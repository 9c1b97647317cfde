//! Whether what stands after the name of a secret is one, or says where it is, or is code.

use super::names::{Meaning, Name};

/// How a value stands after its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Right after `=`.
    Tight,
    /// After `=` and a space.
    Spaced,
    /// After `:`.
    Colon,
    /// In quotes.
    Quoted,
    /// As the next argument of a program.
    Flag,
}

/// Words that stand where a secret could, and are none.
const WORDS: &[&str] = &[
    "any",
    "bool",
    "boolean",
    "bytes",
    "default",
    "disabled",
    "empty",
    "enabled",
    "env",
    "expired",
    "false",
    "file",
    "filtered",
    "hidden",
    "input",
    "int",
    "invalid",
    "masked",
    "missing",
    "nil",
    "no",
    "none",
    "null",
    "number",
    "object",
    "off",
    "omitted",
    "on",
    "optional",
    "pass",
    "passwd",
    "password",
    "prompt",
    "pwd",
    "redacted",
    "removed",
    "required",
    "secret",
    "stdin",
    "str",
    "string",
    "text",
    "token",
    "true",
    "undefined",
    "unknown",
    "unset",
    "yes",
];
/// How what is to be replaced by a secret begins.
const TEMPLATES: &[&str] = &["your", "example", "insert", "replace", "enter", "<", "{", "...", "…"];

/// What a value is made of.
struct Made {
    length: usize,
    digits: usize,
    upper: usize,
    lower: usize,
    /// Beside `_`, `-` and `.`, which words are joined by.
    signs: usize,
}

/// Whether a value of this name, of which the beginning is given, is a secret.
pub(super) fn is_plausible(meaning: Meaning, form: Form, name: &Name<'_>, value: &[u8]) -> bool {
    if value.contains(&b' ') || stands_for_another(value, name) || is_code(value) {
        return false;
    }
    let made = Made::of(value);
    let is_loose = form != Form::Quoted && form != Form::Tight;
    if is_loose && (value.starts_with(b"-") || is_identifier(value)) {
        return false;
    }
    match meaning {
        Meaning::Password => password(form, name, &made),
        Meaning::AwsKey if made.length == 40 => true,
        Meaning::Secret | Meaning::Token | Meaning::Key | Meaning::AwsKey | Meaning::Credential => {
            !is_path(value) && !value.starts_with(b"0x") && token(form, name, &made)
        }
    }
}

fn password(form: Form, name: &Name<'_>, made: &Made) -> bool {
    let mixed = made.digits + made.signs > 0 || (made.upper > 0 && made.lower > 0);
    match form {
        Form::Quoted => made.length >= 4,
        Form::Tight if name.is_variable() => made.length >= 4,
        Form::Tight | Form::Spaced | Form::Colon => {
            (made.length >= 6 && made.digits + made.signs > 0) || made.length >= 20
        }
        Form::Flag => made.length >= 6 && mixed && made.digits + made.signs > 0,
    }
}

fn token(form: Form, name: &Name<'_>, made: &Made) -> bool {
    let letters = made.upper + made.lower;
    let various = made.digits > 0 && letters > 0;
    let long = made.length >= 32 && made.upper > 0 && made.lower > 0;
    match form {
        Form::Tight if name.is_variable() => {
            (made.length >= 8 && various) || (made.length >= 16 && letters == made.length)
        }
        Form::Quoted | Form::Tight => made.length >= 8 && various || long,
        Form::Spaced | Form::Colon => made.length >= 12 && various || long,
        Form::Flag => made.length >= 16 && various,
    }
}

impl Made {
    fn of(value: &[u8]) -> Self {
        let count = |is: fn(&u8) -> bool| value.iter().filter(|byte| is(byte)).count();
        let (digits, upper) = (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase));
        let (lower, joints) = (
            count(u8::is_ascii_lowercase),
            count(|byte| matches!(byte, b'_' | b'-' | b'.' | b':' | b'/')),
        );
        let signs = value.len() - digits - upper - lower - joints;
        Self { length: value.len(), digits, upper, lower, signs }
    }
}

/// Whether a value names a secret, or a place for one, or is masked already.
fn stands_for_another(value: &[u8], name: &Name<'_>) -> bool {
    let Some(first) = value.first() else { return true };
    if value.iter().all(|byte| byte == first) || value.starts_with(b"[REDACTED:") {
        return true;
    }
    // Stars and dots in the place of most of it.
    if value.windows(3).any(|three| matches!(three, b"***" | b"...")) {
        return true;
    }
    let refers = match value {
        [b'$', next, ..] => matches!(next, b'{' | b'(' | b'_' | b'A'..=b'Z' | b'a'..=b'z' | b'$'),
        [b'%', next, ..] => matches!(next, b'(' | b's' | b'd' | b'v') || value.ends_with(b"%"),
        [b'[', ..] => value.ends_with(b"]"),
        [b'!', b'!', ..] | [b'*' | b'&', ..] => true,
        _ => false,
    };
    let small = value.to_ascii_lowercase();
    let is_word = WORDS.iter().any(|word| small == word.as_bytes());
    let is_template = TEMPLATES.iter().any(|word| small.starts_with(word.as_bytes()));
    refers || is_word || is_template || name.plain.ends_with(&super::names::plain(value))
}

/// Whether a value is a path of names, as code and settings have it.
fn is_code(value: &[u8]) -> bool {
    let has = |part: &[u8]| value.windows(part.len()).any(|window| window == part);
    if has(b"::") || has(b"->") || has(b"=>") || has(b"\\(") {
        return true;
    }
    let is_name = |part: &[u8]| {
        !part.is_empty() && part.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
    };
    value.contains(&b'.') && value.split(|byte| *byte == b'.').all(is_name)
}

/// Whether a value is words and small numbers with `_` between, as names in code are.
fn is_identifier(value: &[u8]) -> bool {
    let is_word = |part: &[u8]| {
        part.iter().all(u8::is_ascii_alphabetic)
            || (part.len() <= 3 && part.iter().all(u8::is_ascii_digit))
    };
    value.contains(&b'_') && value.split(|byte| *byte == b'_').all(is_word)
}

fn is_path(value: &[u8]) -> bool {
    let begins = [&b"/"[..], b"./", b"../", b"~/", b"file:", b"http:", b"https:"];
    begins.iter().any(|begin| value.starts_with(begin))
        && !value.iter().any(|byte| matches!(byte, b'+' | b'='))
}
