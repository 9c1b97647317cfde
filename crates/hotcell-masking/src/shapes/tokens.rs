//! Tokens that are known by how they begin.

use super::text::{Class, Here, Run, Text};
use super::verdict::{Found, Verdict};

/// No token is longer; what follows is shown again.
pub(super) const MOST_BYTES: usize = 4096;

pub(super) static ALNUM: Class = Class::word(b"");
pub(super) static URL_SAFE: Class = Class::word(b"_-");
static BASE64: Class = Class::word(b"+/=_-");
static PERCENT: Class = Class::word(b"%+/=_-");
static UPPER: Class = Class::only(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");

/// How a token goes on after its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: &'static str,
    pub(super) class: &'static Class,
    /// How many bytes at least, and exactly if `exact`.
    pub(super) least: usize,
    pub(super) exact: bool,
    /// What is shown of the beginning, which is no secret.
    pub(super) shown: usize,
    /// What there has to be among its first bytes.
    pub(super) has: Has,
}

/// What tells a token from a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Has {
    Anything,
    /// A digit, or letters of both cases.
    Variety,
    /// Digits and letters, sixteen in a row without a hyphen.
    LongPart,
}

impl Token {
    /// A token of at least so many bytes of a class.
    pub(super) const fn of(kind: &'static str, class: &'static Class, least: usize) -> Self {
        Self { kind, class, least, exact: false, shown: 0, has: Has::Anything }
    }

    /// A token of exactly so many.
    pub(super) const fn exactly(kind: &'static str, class: &'static Class, length: usize) -> Self {
        Self { exact: true, ..Self::of(kind, class, length) }
    }

    pub(super) const fn with(self, has: Has) -> Self {
        Self { has, ..self }
    }

    /// The same where so many bytes of the beginning are shown.
    pub(super) const fn after(self, shown: usize) -> Self {
        Self { shown, ..self }
    }

    /// Judges what follows a beginning of `prefix` bytes at a place.
    pub(super) fn judge(&self, text: &Text<'_>, place: usize, prefix: usize) -> Verdict {
        if self.shown == 0 && !self.begins(text, place) {
            return Verdict::No;
        }
        let start = place + self.shown;
        let body = place + prefix;
        let run = text.run(body, MOST_BYTES, self.class);
        let length = run.end - body;
        if self.exact {
            return match (run.open, text.at(run.end)) {
                (true, _) | (_, Here::Unknown) if length <= self.least => Verdict::Undecided(start),
                (_, Here::Byte(next)) if next.is_ascii_alphanumeric() => Verdict::No,
                _ if length == self.least => Found::by_form(start, run, self.kind),
                _ => Verdict::No,
            };
        }
        let looked_at = match self.has {
            Has::Anything => self.least,
            Has::Variety | Has::LongPart => self.least + 16,
        };
        if run.open && length < looked_at {
            return Verdict::Undecided(start);
        }
        let looked_at = text.slice(body, run.end.min(body + looked_at));
        if length < self.least || !self.has.fits(looked_at) {
            return Verdict::No;
        }
        Found::by_form(start, run, self.kind)
    }

    /// A beginning of few letters is part of many words.
    fn begins(&self, text: &Text<'_>, place: usize) -> bool {
        let joined = self.has == Has::LongPart
            && place > 0
            && matches!(text.bytes[place - 1], b'-' | b'_' | b'/' | b'.');
        text.begins(place) && !joined
    }
}

impl Has {
    fn fits(self, bytes: &[u8]) -> bool {
        let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
        let upper = bytes.iter().any(u8::is_ascii_uppercase);
        let lower = bytes.iter().any(u8::is_ascii_lowercase);
        match self {
            Self::Anything => true,
            Self::Variety => digits > 0 || (upper && lower),
            Self::LongPart => {
                let longest = bytes.split(|b| *b == b'-').map(<[u8]>::len).max().unwrap_or(0);
                digits >= 2 && (upper || lower) && longest >= 16
            }
        }
    }
}

pub(super) const AWS_ID: Token = Token::exactly("aws-access-key", &UPPER, 16);
pub(super) const GOOGLE_KEY: Token = Token::exactly("google-api-key", &URL_SAFE, 35);
pub(super) const GOOGLE_TOKEN: Token = Token::of("google-token", &URL_SAFE, 20);
pub(super) const GOOGLE_SECRET: Token = Token::of("google-client-secret", &URL_SAFE, 24);
pub(super) const GITHUB: Token = Token::of("github-token", &ALNUM, 36);
pub(super) const GITHUB_PAT: Token =
    Token::of("github-token", &GITHUB_PAT_CLASS, 22).with(Has::Variety);
static GITHUB_PAT_CLASS: Class = Class::word(b"_");
/// Our own: an id of ten, and 256 random bits.
pub(super) const HOTCELL: Token =
    Token::exactly("hotcell-token", &GITHUB_PAT_CLASS, 63).with(Has::Variety);
pub(super) const GITLAB: Token = Token::of("gitlab-token", &URL_SAFE, 20).with(Has::Variety);
pub(super) const SLACK: Token = Token::of("slack-token", &SLACK_CLASS, 10).with(Has::Variety);
static SLACK_CLASS: Class = Class::word(b"-");
pub(super) const SLACK_HOOK: Token = Token::of("slack-webhook", &SLACK_HOOK_CLASS, 20);
static SLACK_HOOK_CLASS: Class = Class::word(b"/");
pub(super) const STRIPE: Token = Token::of("stripe-key", &ALNUM, 16);
pub(super) const STRIPE_HOOK: Token = Token::of("stripe-key", &BASE64, 24);
pub(super) const NPM: Token = Token::exactly("npm-token", &ALNUM, 36);
pub(super) const PYPI: Token = Token::of("pypi-token", &URL_SAFE, 50);
pub(super) const HUGGING_FACE: Token =
    Token::of("huggingface-token", &ALNUM, 30).with(Has::Variety);
pub(super) const TWILIO: Token = Token::exactly("twilio-key", &super::text::HEX, 31);
pub(super) const DIGITAL_OCEAN: Token = Token::exactly("digitalocean-token", &super::text::HEX, 64);
pub(super) const AGE: Token = Token::of("private-key", &UPPER, 50);
pub(super) const AZURE_SAS: Token = Token::of("azure-sas", &PERCENT, 20).with(Has::Variety);
const MODEL_KEY: Token = Token::of("openai-key", &URL_SAFE, 20).with(Has::LongPart);

/// `sk-…`, as several makers of models have it.
pub(super) fn model_key(text: &Text<'_>, place: usize, prefix: usize) -> Verdict {
    let verdict = MODEL_KEY.judge(text, place, prefix);
    if let Verdict::Secret(found) = verdict
        && text.says(place, b"sk-ant-") == Some(true)
    {
        return Verdict::Secret(Found { kind: "anthropic-key", ..found });
    }
    verdict
}

/// `SG.…….……`: two parts.
pub(super) fn sendgrid(text: &Text<'_>, place: usize, prefix: usize) -> Verdict {
    if !text.begins(place) {
        return Verdict::No;
    }
    let first = text.run(place + prefix, 40, &URL_SAFE);
    let length = first.end - place - prefix;
    match (first.open, text.at(first.end)) {
        (true, _) | (_, Here::Unknown) => return Verdict::Undecided(place),
        (false, Here::Byte(b'.')) if length >= 16 => {}
        (false, Here::Byte(_) | Here::End) => return Verdict::No,
    }
    let second = text.run(first.end + 1, MOST_BYTES, &URL_SAFE);
    match second.end - first.end - 1 {
        30.. => Found::by_form(place, second, "sendgrid-key"),
        _ if second.open => Verdict::Undecided(place),
        _ => Verdict::No,
    }
}

/// What stands after a gap: nobody knows how it began. What can be the rest of a key or token is
/// taken for it.
pub(super) fn after_gap(text: &Text<'_>, place: usize) -> Verdict {
    const LEAST: usize = 16;
    let run = text.run(place, MOST_BYTES, &TORN);
    let solid = text.run(place, LEAST, &SOLID);
    if solid.end - place == LEAST {
        // Paths and words of prose are of small letters.
        let is_small = |byte: &u8| !byte.is_ascii_digit() && !byte.is_ascii_uppercase();
        if text.slice(place, solid.end).iter().all(is_small) {
            return Verdict::No;
        }
        return Found::by_name(place, run, "cut");
    }
    if solid.open { Verdict::Undecided(place) } else { Verdict::No }
}

static SOLID: Class = Class::word(b"%+/=_-.~");
/// A rest of a token, or of the lines of a key.
static TORN: Class = Class::word(b"%+/=_-.~\r\n");

/// A run that is over.
pub(super) fn closed(end: usize) -> Run {
    Run { end, open: false, of: None }
}
