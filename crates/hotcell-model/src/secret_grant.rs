//! What a cell is granted of a secret: the value itself as a variable, or its use as a header of
//! requests.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, HostName, Result, SecretName};

const WHAT_TO_WRITE: &str = "write NAME, NAME=VARIABLE, or NAME:header=HEADER: TEMPLATE@HOST, such as \
                             'token:header=Authorization: Bearer {}@api.example.org'";
/// What a header's name or template has at most.
const PART_BYTES: usize = 512;
const DESTINATIONS: usize = 16;
/// What decides where a request goes and where it ends is nobody's secret.
const NOT_FOR_SECRETS: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
    "proxy-connection",
    "proxy-authorization",
];

/// A secret that a cell is granted, written `NAME`, `NAME=VARIABLE` or
/// `NAME:header=HEADER: TEMPLATE@HOST HOST…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretGrant {
    /// Which.
    pub name: SecretName,
    /// As what.
    pub form: SecretForm,
}

impl SecretGrant {
    /// A grant as the variable that the name suggests.
    #[must_use]
    pub fn env(name: SecretName) -> Self {
        let variable = name.variable();
        Self { name, form: SecretForm::Env { variable } }
    }

    /// Whether whoever has this one gains nothing by the other. A value that is in the cell can be
    /// used there in any form; a header is that header at those hosts and nothing else.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.name == other.name
            && match (&self.form, &other.form) {
                (SecretForm::Env { .. }, _) => true,
                (SecretForm::Header(_), SecretForm::Env { .. }) => false,
                (SecretForm::Header(own), SecretForm::Header(other)) => own.covers(other),
            }
    }
}

impl FromStr for SecretGrant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some(at) = text.find([':', '=']) else { return Ok(Self::env(text.parse()?)) };
        let (name, rest) = text.split_at(at);
        let name = name.parse()?;
        if let Some(variable) = rest.strip_prefix('=') {
            return Ok(Self { name, form: SecretForm::Env { variable: variable.to_owned() } });
        }
        match rest.strip_prefix(":header=") {
            Some(form) => Ok(Self { name, form: SecretForm::Header(form.parse()?) }),
            None => Err(Error::invalid(format!("{text:?} grants no secret")).hint(WHAT_TO_WRITE)),
        }
    }
}

impl fmt::Display for SecretGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            SecretForm::Env { variable } if *variable == self.name.variable() => {
                write!(f, "{}", self.name)
            }
            SecretForm::Env { variable } => write!(f, "{}={variable}", self.name),
            SecretForm::Header(form) => write!(f, "{}:header={form}", self.name),
        }
    }
}

/// As what a cell is granted a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretForm {
    /// As a variable of every exec: the value is in the cell.
    Env {
        /// The variable's name.
        variable: String,
    },
    /// As a header of requests, added on the host's side: the value never enters the cell.
    Header(HeaderForm),
}

/// A header of requests to some hosts, written `HEADER: TEMPLATE@HOST HOST…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderForm {
    /// The header's name.
    pub header: String,
    /// What it says: `{}` stands for the value, and `{basic:USER}` for the name and password that
    /// basic authentication makes of it.
    pub template: String,
    /// Where such requests go.
    pub destinations: Vec<HeaderDestination>,
}

/// What of a template the value takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder<'a> {
    /// The value.
    Value,
    /// The value as the password of this user, in base64.
    Basic(&'a str),
}

impl HeaderForm {
    /// The least bytes of a value: an echo of what is shorter could not be masked.
    pub const LEAST_BYTES: usize = 8;
    /// The most bytes of a value.
    pub const MOST_BYTES: usize = 8 << 10;

    /// The template: what is before the value, what the value becomes, and what comes after it.
    #[must_use]
    pub fn parts(&self) -> Option<(&str, Placeholder<'_>, &str)> {
        let (before, rest) = self.template.split_once('{')?;
        let (inner, after) = rest.split_once('}')?;
        let placeholder = match inner {
            "" => Placeholder::Value,
            inner => Placeholder::Basic(inner.strip_prefix("basic:").filter(|it| !it.is_empty())?),
        };
        let is_one = !before.contains('}') && !after.contains(['{', '}']);
        is_one.then_some((before, placeholder, after))
    }

    /// The value as a header can have it: without the line break at its end, if it has one. The
    /// message of the error does not hold it.
    ///
    /// # Errors
    /// `invalid` when no header can have it, or an echo of it could not be masked.
    pub fn usable<'a>(&self, name: &SecretName, value: &'a str) -> Result<&'a str> {
        let value = value.strip_suffix('\n').unwrap_or(value);
        let value = value.strip_suffix('\r').unwrap_or(value);
        let refused = |why: &str| {
            let header = &self.header;
            Err(Error::invalid(format!("secret {name} cannot be the header {header}: {why}"))
                .hint("grant it as a variable, or set another value with `hotcell secret set`"))
        };
        if !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return refused("it has line breaks or other characters than those of ASCII");
        }
        if value.len() < Self::LEAST_BYTES {
            return refused("it has fewer than 8 bytes, and answers could not be masked");
        }
        if value.len() > Self::MOST_BYTES {
            return refused("it has more than 8 KiB");
        }
        Ok(value)
    }

    fn covers(&self, other: &Self) -> bool {
        self.header.eq_ignore_ascii_case(&other.header)
            && self.template == other.template
            && other.destinations.iter().all(|it| self.destinations.contains(it))
    }

    fn check(&self) -> Result<()> {
        let Self { header, template, destinations } = self;
        let refused = |why: String| Err(Error::invalid(why).hint(WHAT_TO_WRITE));
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if header.is_empty() || header.len() > PART_BYTES || !header.bytes().all(is_plain) {
            return refused(format!("{header:?} is no name of a header"));
        }
        if NOT_FOR_SECRETS.iter().any(|it| header.eq_ignore_ascii_case(it)) {
            return refused(format!("the header {header} cannot be a secret"));
        }
        let is_printed = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b',';
        if template.len() > PART_BYTES || !template.bytes().all(is_printed) {
            return refused(format!(
                "{template:?} cannot be a header: it has commas or other characters than those of ASCII"
            ));
        }
        if self.parts().is_none() {
            return refused(format!(
                "{template:?} does not say where the value goes: it needs one {{}} or {{basic:USER}}"
            ));
        }
        if destinations.is_empty() || destinations.len() > DESTINATIONS {
            return refused(format!(
                "a header goes to 1 to {DESTINATIONS} hosts, and not to {}",
                destinations.len()
            ));
        }
        Ok(())
    }
}

impl FromStr for HeaderForm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::invalid(format!("{text:?} is no header with its hosts")).hint(WHAT_TO_WRITE);
        let (what, hosts) = text.rsplit_once('@').ok_or_else(wrong)?;
        let (header, template) = what.split_once(':').ok_or_else(wrong)?;
        let mut destinations = Vec::new();
        for host in hosts.split_ascii_whitespace() {
            let destination: HeaderDestination = host.parse()?;
            if !destinations.contains(&destination) {
                destinations.push(destination);
            }
        }
        let (header, template) = (header.trim().to_owned(), template.trim().to_owned());
        let form = Self { header, template, destinations };
        form.check()?;
        Ok(form)
    }
}

impl fmt::Display for HeaderForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}@", self.header, self.template)?;
        for (at, destination) in self.destinations.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{destination}")?;
        }
        Ok(())
    }
}

/// Whether requests are encrypted on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// They are.
    Https,
    /// They are not; whoever grants that says so.
    Http,
}

impl Scheme {
    /// The port unless another is named.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// Where a header goes, written `name`, `name:port`, `https://name:port` or `http://name:port`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HeaderDestination {
    /// Encrypted, unless `http://` stands before it.
    pub scheme: Scheme,
    /// One name, written out.
    pub name: HostName,
    /// Its port.
    pub port: u16,
}

impl FromStr for HeaderDestination {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Https, text),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some((other, _)) => {
                return Err(
                    Error::invalid(format!("{other}:// takes no headers")).hint(WHAT_TO_WRITE)
                );
            }
        };
        let (name, port) = match rest.split_once(':') {
            None => (rest, scheme.port()),
            Some((name, digits)) => {
                let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                let port = digits.parse().ok().filter(|port| is_plain && *port != 0);
                let port = port.ok_or_else(|| {
                    Error::invalid(format!("{digits:?} is no port: it is not from 1 to 65535"))
                        .hint(WHAT_TO_WRITE)
                })?;
                (name, port)
            }
        };
        Ok(Self { scheme, name: name.parse()?, port })
    }
}

impl fmt::Display for HeaderDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Https => {}
            Scheme::Http => f.write_str("http://")?,
        }
        write!(f, "{}", self.name)?;
        if self.port == self.scheme.port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl TryFrom<String> for HeaderDestination {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<HeaderDestination> for String {
    fn from(destination: HeaderDestination) -> Self {
        destination.to_string()
    }
}

/// Checks grants that one cell is to have together.
///
/// # Errors
/// `invalid` when two of them are for the same variable, or the same header at the same host.
pub fn check_grants_together(grants: &[SecretGrant]) -> Result<()> {
    for (at, grant) in grants.iter().enumerate() {
        for other in &grants[..at] {
            match (&grant.form, &other.form) {
                (SecretForm::Env { variable: one }, SecretForm::Env { variable: two }) => {
                    if one == two {
                        return Err(Error::invalid(format!(
                            "two secrets are to be the variable {one}"
                        ))
                        .hint("name another one: NAME=VARIABLE"));
                    }
                }
                (SecretForm::Header(one), SecretForm::Header(two)) => {
                    // A port is spoken to in one way.
                    let same = one.destinations.iter().find(|it| {
                        two.destinations.iter().any(|other| {
                            (&it.name, it.port) == (&other.name, other.port)
                                && (it.scheme != other.scheme
                                    || one.header.eq_ignore_ascii_case(&two.header))
                        })
                    });
                    if let Some(same) = same {
                        return Err(Error::invalid(format!(
                            "two secrets are to be the header {} at {same}",
                            one.header
                        ))
                        .hint("a host gets each header once, with or without encryption"));
                    }
                }
                (SecretForm::Env { .. }, SecretForm::Header(_))
                | (SecretForm::Header(_), SecretForm::Env { .. }) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "secret_grant_tests.rs"]
mod tests;
