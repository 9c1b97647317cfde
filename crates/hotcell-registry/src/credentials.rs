//! Who pulls.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a registry is shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A name and a password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token of the registry, by which others are had.
    Token(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => write!(f, "Password({user:?}, …)"),
            Self::Token(_) => f.write_str("Token(…)"),
        }
    }
}

/// A name and a password as a header.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}
