//! Names of hosts, and patterns of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

const LABEL_BYTES: usize = 63;
const NAME_BYTES: usize = 253;
const WHAT_TO_WRITE: &str = "write a name such as example.org, api.example.org:8443, *.example.org, \
                             or * for every public name; add /raw for other protocols than TLS \
                             and HTTP";
/// Ends a rule whose connections are not inspected.
const RAW: &str = "/raw";

/// The name of a host: lowercase labels of letters, digits, `-` and `_`. Never an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

impl HostName {
    /// The name as text, without a dot at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands below another name.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        let above = self.0.strip_suffix(other.as_str());
        above.is_some_and(|above| above.ends_with('.'))
    }
}

impl FromStr for HostName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let shown: String = text.chars().take(80).collect();
            Err(Error::invalid(format!("{shown:?} is no name of a host: {why}"))
                .hint(WHAT_TO_WRITE))
        };
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() {
            return wrong("it is empty");
        }
        if name.len() > NAME_BYTES {
            return wrong("it is longer than 253 bytes");
        }
        if !name.is_ascii() {
            return wrong("it is not ASCII; write it in its xn-- form");
        }
        for label in name.split('.') {
            if label.is_empty() || label.len() > LABEL_BYTES {
                return wrong("each part between dots has 1 to 63 bytes");
            }
            if label.starts_with('-') || label.ends_with('-') {
                return wrong("no part begins or ends with -");
            }
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if !label.bytes().all(is_plain) {
                return wrong("it has other characters than letters, digits, - and _");
            }
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
            return wrong("it is an address, and cells reach names alone");
        }
        if last == "localhost" {
            return wrong("localhost is the cell itself");
        }
        Ok(Self(name))
    }
}

impl TryFrom<String> for HostName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which names are meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamePattern {
    /// Every name.
    Any,
    /// Every name below this one, and not this one.
    Below(HostName),
    /// This one.
    Exactly(HostName),
}

impl NamePattern {
    /// Whether a name is meant.
    #[must_use]
    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            Self::Any => true,
            Self::Below(suffix) => name.is_below(suffix),
            Self::Exactly(exact) => name == exact,
        }
    }

    /// Whether every name that the other means is meant.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Below(_) | Self::Exactly(_), Self::Any) => false,
            (Self::Below(suffix), Self::Below(other)) => other == suffix || other.is_below(suffix),
            (Self::Below(suffix), Self::Exactly(name)) => name.is_below(suffix),
            (Self::Exactly(_), Self::Below(_)) => false,
            (Self::Exactly(name), Self::Exactly(other)) => name == other,
        }
    }

    /// Whether some name is meant by both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }
}

/// Whether the first bytes of a connection must name an allowed host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Inspection {
    /// TLS and HTTP are checked for the host that they name.
    #[default]
    Checked,
    /// Bytes are carried without a look at them.
    Raw,
}

/// Names and ports, written `name`, `name:port`, `*.suffix`, `*.suffix:port`, `*` or `*:port`, each
/// with `/raw` after it where connections are not inspected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetRule {
    /// Which names.
    pub pattern: NamePattern,
    /// Which port; none for the usual ones where something is allowed, for all where it is denied.
    pub port: Option<u16>,
    /// Whether connections are inspected. Without meaning where something is denied.
    pub inspection: Inspection,
}

impl NetRule {
    /// Whether the other has the same names and port, inspected or not.
    #[must_use]
    pub fn names_the_same(&self, other: &Self) -> bool {
        self.pattern == other.pattern && self.port == other.port
    }
}

impl FromStr for NetRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (text, inspection) = match text.strip_suffix(RAW) {
            Some(text) => (text, Inspection::Raw),
            None => (text, Inspection::Checked),
        };
        let (name, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((name, digits)) => {
                let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                let port = digits.parse::<u16>().ok().filter(|port| is_plain && *port != 0);
                let port = port.ok_or_else(|| {
                    Error::invalid(format!("{digits:?} is no port: it is not from 1 to 65535"))
                        .hint(WHAT_TO_WRITE)
                })?;
                (name, Some(port))
            }
        };
        let pattern = match (name, name.strip_prefix("*.")) {
            ("*", _) => NamePattern::Any,
            (_, Some(suffix)) => NamePattern::Below(suffix.parse()?),
            (name, None) => NamePattern::Exactly(name.parse()?),
        };
        Ok(Self { pattern, port, inspection })
    }
}

impl TryFrom<String> for NetRule {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<NetRule> for String {
    fn from(rule: NetRule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for NetRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            NamePattern::Any => f.write_str("*")?,
            NamePattern::Below(suffix) => write!(f, "*.{suffix}")?,
            NamePattern::Exactly(name) => write!(f, "{name}")?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match self.inspection {
            Inspection::Checked => Ok(()),
            Inspection::Raw => f.write_str(RAW),
        }
    }
}
