//! Passwords in addresses: `scheme://user:password@host`.

use super::text::{Class, Here, Text};
use super::tokens::closed;
use super::verdict::{Found, Verdict};

/// The longest part of an address that can have a password.
const MOST_BYTES: usize = 512;

/// What stands between `//` and the path. A password may have more in it than the standard allows.
static AUTHORITY: Class = Class::visible_but(b"/?\"'`<>\\,;|{}()");

/// Words in the place of a password.
const WORDS: &[&[u8]] =
    &[b"password", b"passwd", b"pass", b"pw", b"pwd", b"secret", b"token", b"PASSWORD", b"PASS"];

/// Judges what follows `://`.
pub(super) fn judge(text: &Text<'_>, place: usize, prefix: usize) -> Verdict {
    let begin = place + prefix;
    if place == 0 || !text.bytes[place - 1].is_ascii_alphanumeric() {
        return Verdict::No;
    }
    let run = text.run(begin, MOST_BYTES, &AUTHORITY);
    let authority = text.slice(begin, run.end);
    let colon = authority.iter().position(|byte| *byte == b':');
    if run.open || text.at(run.end) == Here::Unknown {
        // Before the colon there is nothing to hide.
        return Verdict::Undecided(colon.map_or(usize::MAX, |colon| begin + colon + 1));
    }
    let at_sign = authority.iter().rposition(|byte| *byte == b'@');
    let (Some(colon), Some(at_sign)) = (colon, at_sign) else { return Verdict::No };
    let Some(password) = authority.get(colon + 1..at_sign) else { return Verdict::No };
    if stands_for_another(password) {
        return Verdict::No;
    }
    Found::by_name(begin + colon + 1, closed(begin + at_sign), "password")
}

fn stands_for_another(password: &[u8]) -> bool {
    let Some(first) = password.first() else { return true };
    matches!(first, b'$' | b'<' | b'{' | b'[' | b'%')
        && !password.get(1).is_some_and(u8::is_ascii_digit)
        || password.iter().all(|byte| byte == first)
        || password.windows(3).any(|three| three == b"***")
        || WORDS.contains(&password)
}
