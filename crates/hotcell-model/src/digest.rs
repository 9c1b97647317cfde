//! What content is called by.

use std::fmt;

use serde::{Deserialize, Serialize};

const ALGORITHM: &str = "sha256";
const HEX_DIGITS: usize = 64;

/// The SHA-256 of some content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    hex: String,
}

impl Digest {
    /// One that was just made of content.
    #[must_use]
    pub fn of_hash(hash: &[u8; 32]) -> Self {
        Self { hex: hash.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Reads one, in the only form that there is.
    ///
    /// # Errors
    /// It has another form, which is told.
    pub fn parse(text: &str) -> Result<Self, String> {
        let hex = text.strip_prefix(ALGORITHM).and_then(|rest| rest.strip_prefix(':'));
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        match hex.filter(|hex| hex.len() == HEX_DIGITS && hex.bytes().all(is_digit)) {
            Some(hex) => Ok(Self { hex: hex.to_owned() }),
            None => {
                let shown: String = text.chars().take(100).collect();
                Err(format!("{shown:?} is no digest like {ALGORITHM}: and {HEX_DIGITS} digits"))
            }
        }
    }

    /// Its digits alone, which are a name for a file.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}:{}", self.hex)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_form_of_a_digest_is_known() {
        let text = Digest::of_hash(&[0xab; 32]).to_string();
        assert_eq!(Digest::parse(&text).unwrap().to_string(), text);
        for odd in [text.to_uppercase(), text.replace("sha256", "sha512"), text[..70].to_owned()] {
            assert!(Digest::parse(&odd).is_err(), "{odd}");
        }
    }
}
