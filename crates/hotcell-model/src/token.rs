//! Tokens by which callers over HTTP prove who they are: what is known of them, and where they are kept.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{is_encoded, random_id};
use crate::{Error, Result, Role, Scope, Tenant, Timestamp};

/// Names one token for ever. It stands in the token itself, is no secret, and may be shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// The id that stands for these random bits; the caller brings the randomness.
    #[must_use]
    pub fn from_random(bits: u64) -> Self {
        Self(random_id("", bits))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for TokenId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match is_encoded("", text) {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::invalid(format!("{text:?} is not a token's id"))
                .hint("ids look like 4k7m2x9qpa; list them with `hotcell token list`")),
        }
    }
}

impl Serialize for TokenId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What an operator calls a token; no two that exist have the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenName(String);

impl TokenName {
    /// The longest name.
    pub const MAX_LENGTH: usize = 63;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A token that was given no name has its id for one.
impl From<&TokenId> for TokenName {
    fn from(id: &TokenId) -> Self {
        Self(id.0.clone())
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for TokenName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if starts_well && text.len() <= Self::MAX_LENGTH && text.bytes().all(allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(format!("{text:?} cannot be a token's name")).hint(
            "a name has 1 to 63 of the characters a-z A-Z 0-9 . _ - and starts with a letter or digit",
        ))
    }
}

impl Serialize for TokenName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TokenName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// All that is known of a token: it proves who calls, and says what they may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// Its id.
    pub id: TokenId,
    /// What it is called; its id where it was given no name.
    pub name: TokenName,
    /// To whom its bearer belongs.
    pub tenant: Tenant,
    /// What its bearer is there for.
    pub role: Role,
    /// What its bearer may do.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends; never when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to within some minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

impl AccessToken {
    /// On whose behalf its bearer calls. It stays the same for the next token of the same name.
    #[must_use]
    pub fn principal(&self) -> String {
        format!("token:{}", self.name)
    }

    /// Whether it is over at `now`.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The text of a token, which is told once and kept nowhere. It is not shown.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TokenText(String);

impl TokenText {
    /// What every token begins with, so that scanners for lost secrets know one.
    pub const PREFIX: &'static str = "hc_";

    /// This text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// Makes a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenCreate {
    /// What it is to be called; its id when left out.
    pub name: Option<TokenName>,
    /// To whom its bearer belongs.
    pub tenant: Tenant,
    /// What its bearer is there for.
    pub role: Role,
    /// What its bearer may do; all that its role may when left out.
    pub scopes: Option<Vec<Scope>>,
    /// When it ends; never when left out.
    pub expires_at: Option<Timestamp>,
}

impl TokenCreate {
    /// What its bearer may do.
    ///
    /// # Errors
    /// `invalid` for nothing at all, and for what its role may not.
    pub fn granted(&self) -> Result<Vec<Scope>> {
        let most = self.role.scopes();
        let Some(asked) = &self.scopes else { return Ok(most.to_vec()) };
        if let Some(beyond) = asked.iter().find(|scope| !most.contains(scope)) {
            let names: Vec<&str> = most.iter().map(|scope| scope.as_str()).collect();
            return Err(Error::invalid(format!(
                "the role {} cannot have the scope {}",
                self.role.as_str(),
                beyond.as_str()
            ))
            .hint(format!("it can have {}", names.join(", "))));
        }
        if asked.is_empty() {
            return Err(Error::invalid("a token without a scope opens nothing"));
        }
        Ok(most.iter().copied().filter(|scope| asked.contains(scope)).collect())
    }
}

/// Lists tokens, without what opens the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TokensList;

/// Ends a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenRevoke {
    /// Its id, or its name.
    pub token: TokenName,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenCreated {
    /// What is known of it.
    #[serde(flatten)]
    pub about: AccessToken,
    /// The token itself.
    pub token: TokenText,
}

/// Several tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessTokens {
    /// The oldest first.
    pub tokens: Vec<AccessToken>,
}

/// Where tokens are kept. Its methods wait for files.
pub trait TokenStore: fmt::Debug + Send + Sync {
    /// Makes a token. Whole or not at all, also when the process is killed, and also when others
    /// make some at the same time.
    ///
    /// # Errors
    /// `conflict` when its name is taken, `limit_exceeded` when there are too many, `unavailable`
    /// when it cannot be kept.
    fn create(&self, request: &TokenCreate) -> Result<TokenCreated>;

    /// Every token that was not revoked, also those that are over.
    ///
    /// # Errors
    /// `unavailable` when they cannot be read.
    fn list(&self) -> Result<Vec<AccessToken>>;

    /// Ends a token, at every server on the state directory, within a second.
    ///
    /// # Errors
    /// `not_found` when there is none of that id or name.
    fn revoke(&self, token: &TokenName) -> Result<AccessToken>;

    /// The token that a text is, if it is one and not over. What that takes does not tell how much
    /// of the text is right.
    ///
    /// # Errors
    /// `unavailable` when it cannot be found out; then nobody is to be let in.
    fn recognise(&self, text: &str) -> Result<Option<AccessToken>>;

    /// Whether a token that was recognised before still opens the door.
    ///
    /// # Errors
    /// `unavailable` when it cannot be found out.
    fn is_live(&self, token: &TokenId) -> Result<bool>;

    /// Notes which tokens were recognised since it was last called. Best effort: what is lost with a
    /// process was never promised.
    ///
    /// # Errors
    /// `unavailable` when it cannot be written down.
    fn note_uses(&self) -> Result<()>;
}
