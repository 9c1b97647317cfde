//! A secret that proves who calls.

use std::fmt;
use std::hint::black_box;

use hotcell_model::{Error, Result};

/// A bearer token. It is never shown.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Shorter ones can be guessed.
    const LEAST_LENGTH: usize = 16;

    /// The token in this text, white space around it left out.
    ///
    /// # Errors
    /// `invalid` when it is too short or cannot stand in a header; the message does not hold it.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.len() < Self::LEAST_LENGTH {
            return Err(Error::invalid(format!(
                "the token has {} characters, which can be guessed",
                text.len()
            ))
            .hint(format!(
                "use {} or more, such as from `openssl rand -hex 32`",
                Self::LEAST_LENGTH
            )));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid(
                "the token has characters that cannot stand in a header of HTTP",
            )
            .hint("use letters and digits, such as from `openssl rand -hex 32`"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether this is it; how long that takes does not tell how much of it is right.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differing = own.iter().enumerate().fold(0, |differing, (at, byte)| {
            differing | (byte ^ given.get(at).copied().unwrap_or_default())
        });
        black_box(differing) == 0 && own.len() == given.len()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
