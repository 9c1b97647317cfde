//! Values whose name says that they are secret: `NAME=VALUE`, `name: value`, `"name": "value"`,
//! `--name value`.

use super::text::{Class, Here, Run, Text};
use super::tokens::{MOST_BYTES, closed};
use super::values::{Form, is_plausible};
use super::verdict::{Found, Verdict};

/// The longest part of a name before and after the word that is looked for.
pub(super) const MOST_BEFORE: usize = 64;
const MOST_AFTER: usize = 48;
/// So much of a value is looked at to tell whether it is a secret.
const LOOKED_AT: usize = 64;

static NAME: Class = Class::word(b"_-.");
/// What a value without quotes is made of.
static BARE: Class = Class::visible_but(b"\"'`,;&<>|(){}[]");

/// What kind of secret a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Password,
    Secret,
    Token,
    Key,
    AwsKey,
    Credential,
}

impl Meaning {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Secret => "secret",
            Self::Token => "token",
            Self::Key => "key",
            Self::AwsKey => "aws-secret-key",
            Self::Credential => "credential",
        }
    }
}

/// How names end that stand for secrets, without what separates their words.
const ENDINGS: &[(&str, Meaning)] = &[
    ("password", Meaning::Password),
    ("passwd", Meaning::Password),
    ("passphrase", Meaning::Password),
    ("passcode", Meaning::Password),
    ("secretaccesskey", Meaning::AwsKey),
    ("secret", Meaning::Secret),
    ("secretkeybase", Meaning::Secret),
    ("token", Meaning::Token),
    ("apikey", Meaning::Key),
    ("accesskey", Meaning::Key),
    ("accesskeyid", Meaning::Key),
    ("secretkey", Meaning::Key),
    ("privatekey", Meaning::Key),
    ("accountkey", Meaning::Key),
    ("sharedkey", Meaning::Key),
    ("authkey", Meaning::Key),
    ("encryptionkey", Meaning::Key),
    ("signingkey", Meaning::Key),
    ("masterkey", Meaning::Key),
    ("credential", Meaning::Credential),
    ("credentials", Meaning::Credential),
];

/// Words that end a name only if another stands before them.
const LAST_WORDS: &[(&str, Meaning)] =
    &[("pass", Meaning::Password), ("pwd", Meaning::Password), ("auth", Meaning::Token)];

/// A name, as it stands and in small letters without what separates its words.
#[derive(Debug)]
pub(super) struct Name<'a> {
    pub(super) written: &'a [u8],
    pub(super) plain: Vec<u8>,
}

impl<'a> Name<'a> {
    fn new(written: &'a [u8]) -> Self {
        Self { written, plain: plain(written) }
    }

    /// Whether it is written as variables of the environment are.
    pub(super) fn is_variable(&self) -> bool {
        !self.written.iter().any(u8::is_ascii_lowercase)
    }

    fn meaning(&self, others: &[Vec<u8>]) -> Option<Meaning> {
        let ending = ENDINGS.iter().find(|(end, _)| self.plain.ends_with(end.as_bytes()));
        if let Some((_, meaning)) = ending {
            return Some(*meaning);
        }
        let last = self.written.rsplit(|b| matches!(b, b'_' | b'-' | b'.')).next()?;
        let word = LAST_WORDS.iter().find(|(word, _)| last.eq_ignore_ascii_case(word.as_bytes()));
        if let Some((word, meaning)) = word
            && self.written.len() > word.len()
        {
            return Some(*meaning);
        }
        let is_other = others.iter().any(|other| self.plain.ends_with(other));
        is_other.then_some(Meaning::Secret)
    }
}

/// A name in small letters without what separates its words.
pub(super) fn plain(name: &[u8]) -> Vec<u8> {
    let letters = name.iter().filter(|b| !matches!(b, b'_' | b'-' | b'.'));
    letters.map(u8::to_ascii_lowercase).collect()
}

/// Judges a place where part of such a name stands.
pub(super) fn judge(text: &Text<'_>, place: usize, others: &[Vec<u8>]) -> Verdict {
    // Nothing of a name is held back.
    let later = Verdict::Undecided(usize::MAX);
    let within = &text.bytes[place.saturating_sub(MOST_BEFORE)..place];
    let before = within.iter().rev().take_while(|byte| NAME.has(**byte)).count();
    let start = place - before;
    let rest = text.run(place, MOST_AFTER, &NAME);
    if rest.open {
        return later;
    }
    if rest.end - place == MOST_AFTER {
        return Verdict::No;
    }
    let name = Name::new(text.slice(start, rest.end));
    let Some(meaning) = name.meaning(others) else { return Verdict::No };
    match separator(text, start, rest.end) {
        Separated::Unknown => later,
        Separated::No => Verdict::No,
        Separated::Value { at, form } => value(text, at, form, &name, meaning),
    }
}

/// What stands between a name and its value.
enum Separated {
    No,
    Unknown,
    Value { at: usize, form: Form },
}

fn separator(text: &Text<'_>, start: usize, end: usize) -> Separated {
    // A quote that closes the name, escaped where JSON is in JSON.
    let mut at = end;
    if text.at(at) == Here::Byte(b'\\') {
        at += 1;
    }
    match text.at(at) {
        Here::Byte(b'"' | b'\'') => at += 1,
        Here::Unknown => return Separated::Unknown,
        Here::Byte(_) | Here::End => at = end,
    }
    let Some(sign) = text.skip_space(at) else { return Separated::Unknown };
    let (after, form) = match (text.at(sign), text.at(sign + 1)) {
        (Here::Unknown, _) | (Here::Byte(b'=' | b':'), Here::Unknown) => return Separated::Unknown,
        (Here::Byte(b':'), Here::Byte(b'=')) | (Here::Byte(b'='), Here::Byte(b'>')) => {
            (sign + 2, Form::Spaced)
        }
        // A comparison, or a path of names.
        (Here::Byte(b'='), Here::Byte(b'=' | b'~')) | (Here::Byte(b':'), Here::Byte(b':')) => {
            return Separated::No;
        }
        (Here::Byte(b'='), _) if sign == at => (sign + 1, Form::Tight),
        (Here::Byte(b'='), _) => (sign + 1, Form::Spaced),
        (Here::Byte(b':'), _) => (sign + 1, Form::Colon),
        (Here::Byte(_), _) if sign > end && text.bytes[start..].starts_with(b"--") => {
            return Separated::Value { at: sign, form: Form::Flag };
        }
        (Here::Byte(_) | Here::End, _) => return Separated::No,
    };
    let Some(value) = text.skip_space(after) else { return Separated::Unknown };
    let form = if form == Form::Tight && value > after { Form::Spaced } else { form };
    Separated::Value { at: value, form }
}

fn value(text: &Text<'_>, at: usize, form: Form, name: &Name<'_>, meaning: Meaning) -> Verdict {
    let escaped = usize::from(text.at(at) == Here::Byte(b'\\'));
    match text.at(at + escaped) {
        Here::Unknown => Verdict::Undecided(at),
        Here::Byte(quote @ (b'"' | b'\'')) => {
            quoted(text, at + escaped + 1, quote, escaped, name, meaning)
        }
        Here::Byte(_) | Here::End => bare(text, at, form, name, meaning),
    }
}

fn bare(text: &Text<'_>, at: usize, form: Form, name: &Name<'_>, meaning: Meaning) -> Verdict {
    let run = text.run(at, MOST_BYTES, &BARE);
    let length = run.end - at;
    if run.open && length < LOOKED_AT {
        return Verdict::Undecided(at);
    }
    let stop = match text.at(run.end) {
        Here::Unknown if length < LOOKED_AT => return Verdict::Undecided(at),
        Here::Byte(byte) if length < LOOKED_AT => Some(byte),
        Here::Byte(_) | Here::End | Here::Unknown => None,
    };
    // `(`, `[`, `{` and `<` go on with code or with a type, not with a value.
    if matches!(stop, Some(b'(' | b'[' | b'{' | b'<' | b'`')) {
        return Verdict::No;
    }
    if !is_plausible(meaning, form, name, text.slice(at, run.end.min(at + LOOKED_AT))) {
        return Verdict::No;
    }
    Found::by_name(at, run, meaning.kind())
}

/// A value between quotes. One that ends with its line ends there.
fn quoted(
    text: &Text<'_>,
    at: usize,
    quote: u8,
    escaped: usize,
    name: &Name<'_>,
    meaning: Meaning,
) -> Verdict {
    let run = until_quote(text, at, quote, escaped);
    if run.open && run.end - at < LOOKED_AT {
        return Verdict::Undecided(at);
    }
    let looked_at = text.slice(at, run.end.min(at + LOOKED_AT));
    if !is_plausible(meaning, Form::Quoted, name, looked_at) {
        return Verdict::No;
    }
    Found::by_name(at, run, meaning.kind())
}

fn until_quote(text: &Text<'_>, at: usize, quote: u8, escaped: usize) -> Run {
    let mut place = at;
    while place < at + MOST_BYTES {
        let next = text.at(place + 1);
        match text.at(place) {
            Here::Unknown => return Run { end: place, open: true, of: None },
            Here::End | Here::Byte(b'\n' | b'\r') => return closed(place),
            Here::Byte(byte) if byte == quote && escaped == 0 => return closed(place),
            Here::Byte(b'\\') => match next {
                Here::Unknown => return Run { end: place, open: true, of: None },
                Here::Byte(byte) if byte == quote && escaped == 1 => return closed(place),
                Here::End => return closed(place + 1),
                Here::Byte(_) => place += 2,
            },
            Here::Byte(_) => place += 1,
        }
    }
    closed(at + MOST_BYTES)
}
