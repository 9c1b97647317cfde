//! Names of cells and execs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;

/// Characters of an id after its prefix: digits and lowercase letters without `i l o u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Fifty random bits: the chance that two of a million ids collide is below one in a thousand, and
/// a cell's directory is made with `mkdir`, which finds a collision out.
const LENGTH: usize = 10;

/// An id that stands for these random bits.
pub(crate) fn random_id(prefix: &str, random: u64) -> String {
    let mut text = String::with_capacity(prefix.len() + LENGTH);
    text.push_str(prefix);
    for place in 0..LENGTH {
        let index = (random >> (5 * place)) & 31;
        text.push(char::from(ALPHABET[index as usize]));
    }
    text
}

/// Whether a text is an id with this prefix.
pub(crate) fn is_encoded(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|rest| rest.len() == LENGTH && rest.bytes().all(|b| ALPHABET.contains(&b)))
}

macro_rules! id {
    ($name:ident, $prefix:literal, $word:literal, $list:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The id that stands for these random bits; the caller brings the randomness.
            #[must_use]
            pub fn from_random(bits: u64) -> Self {
                Self(random_id($prefix, bits))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                if is_encoded($prefix, text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(Error::invalid(format!(concat!("{:?} is not ", $word, " id"), text)).hint(
                        concat!("ids look like ", $prefix, "4k7m2x9qpa; list them with ", $list),
                    ))
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(CellId, "c_", "a cell", "`hotcell cells`", "Names one cell for ever: `c_…`.");
id!(ExecId, "e_", "an exec", "`hotcell ps --all`", "Names one exec for ever: `e_…`.");
id!(
    CheckpointId,
    "k_",
    "a checkpoint",
    "`hotcell checkpoint list`",
    "Names one checkpoint for ever: `k_…`."
);
id!(
    HeldId,
    "h_",
    "a held call's",
    "`hotcell approvals`",
    "Names one call that waits for approval: `h_…`."
);

/// A name that a user gave to a cell; unique among the cells that exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias(String);

impl Alias {
    /// The longest alias.
    pub const MAX_LENGTH: usize = 63;

    /// The alias as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Alias {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if starts_well
            && text.len() <= Self::MAX_LENGTH
            && text.bytes().all(allowed)
            && !is_encoded("c_", text)
            && text != CellRef::DEFAULT
        {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!("{text:?} cannot be a cell's name")).hint(
                "a name has 1 to 63 of the characters a-z A-Z 0-9 . _ - and starts with a letter or digit",
            ))
        }
    }
}

impl Serialize for Alias {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Alias {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How a caller names a cell: by id, by alias, or as its own default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellRef {
    /// The caller's default cell, written `default`.
    Default,
    /// By its id.
    Id(CellId),
    /// By its alias.
    Alias(Alias),
}

impl CellRef {
    /// The word for the caller's default cell; no cell can have it as its alias.
    pub const DEFAULT: &'static str = "default";
}

impl fmt::Display for CellRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str(Self::DEFAULT),
            Self::Id(id) => id.fmt(f),
            Self::Alias(alias) => alias.fmt(f),
        }
    }
}

impl FromStr for CellRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == Self::DEFAULT {
            return Ok(Self::Default);
        }
        match text.parse() {
            Ok(id) => Ok(Self::Id(id)),
            Err(_) => text.parse().map(Self::Alias),
        }
    }
}

impl From<CellId> for CellRef {
    fn from(id: CellId) -> Self {
        Self::Id(id)
    }
}

impl Serialize for CellRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CellRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
