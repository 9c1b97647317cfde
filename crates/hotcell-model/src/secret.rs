//! Secrets by reference: their names, what cells are granted of them, and where they are kept.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result, Tenant, Timestamp};

/// The name of a secret: all of it that is ever shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// The longest name.
    pub const MAX_LENGTH: usize = 64;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The variable that a grant of it sets unless it names another one: in capitals, and with
    /// `_` for what a variable cannot have.
    #[must_use]
    pub fn variable(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.0.chars().map(plain).collect()
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SecretName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
        if starts_well && text.len() <= Self::MAX_LENGTH && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!("{text:?} cannot be a secret's name")).hint(
                "a name has 1 to 64 of the characters a-z A-Z 0-9 . _ - and starts with a letter",
            ))
        }
    }
}

impl Serialize for SecretName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a secret is worth. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// The longest value.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// A value; the message of the error does not hold it.
    ///
    /// # Errors
    /// `invalid` when it is empty, too long, not UTF-8, or has a NUL in it.
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        let refused = |why: &str| Err(Error::invalid(format!("the value of a secret {why}")));
        match String::from_utf8(bytes) {
            Err(_) => refused("has to be UTF-8 text"),
            Ok(text) if text.is_empty() => refused("cannot be empty"),
            Ok(text) if text.len() > Self::MAX_BYTES => refused("has more than 64 KiB"),
            Ok(text) if text.contains('\0') => refused("has a NUL byte in it"),
            Ok(text) => Ok(Self(text)),
        }
    }

    /// The value itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// A secret with its value, on its way to what adds it to requests. The value is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentSecret {
    /// Its name.
    pub name: SecretName,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for LentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where a secret's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    /// It is kept, sealed, in the state directory.
    Stored,
    /// A variable of the process that asks.
    Env,
    /// A file.
    File,
}

/// A secret as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// Its name.
    pub name: SecretName,
    /// Where its value comes from.
    pub source: SecretSource,
    /// When it was set, if it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_at: Option<Timestamp>,
}

/// Several secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretList {
    /// By name.
    pub secrets: Vec<Secret>,
}

/// Keeps a secret, in the place of the one that had its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretSet {
    /// Its name.
    pub name: SecretName,
    /// What it is worth.
    pub value: SecretValue,
}

/// Lists secrets, without what they are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretsList;

/// Forgets a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRemove {
    /// Its name.
    pub name: SecretName,
}

/// Where secrets are kept, those of each tenant apart. Its methods wait for files.
pub trait SecretStore: fmt::Debug + Send + Sync {
    /// Keeps a secret of a tenant. Whole or not at all, also when the process is killed.
    ///
    /// # Errors
    /// `conflict` for one whose value comes from elsewhere; `unavailable` when it cannot be kept.
    fn set(&self, tenant: &Tenant, name: &SecretName, value: &SecretValue) -> Result<Secret>;

    /// Every secret of a tenant.
    ///
    /// # Errors
    /// `unavailable` when they cannot be opened.
    fn list(&self, tenant: &Tenant) -> Result<Vec<Secret>>;

    /// Forgets a secret of a tenant.
    ///
    /// # Errors
    /// `not_found` when there is none of that name; `conflict` for one whose value comes from
    /// elsewhere.
    fn remove(&self, tenant: &Tenant, name: &SecretName) -> Result<Secret>;

    /// What a secret of a tenant is worth.
    ///
    /// # Errors
    /// `not_found` when there is none of that name; `unavailable` when it cannot be had.
    fn resolve(&self, tenant: &Tenant, name: &SecretName) -> Result<SecretValue>;
}
