//! The name of an image: where it comes from, which of its versions, and its content if that is said.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Digest, Error, Result};

/// Where names without a registry come from, by everybody's habit.
const DEFAULT_REGISTRY: &str = "docker.io";
/// What it is called, too.
const DEFAULT_REGISTRY_TOO: &str = "index.docker.io";
/// Whose images there have names of one word.
const DEFAULT_OWNER: &str = "library";
const DEFAULT_TAG: &str = "latest";
const MOST_NAME_BYTES: usize = 255;
const MOST_TAG_BYTES: usize = 128;

/// The full name of an image, with everything that people leave out put in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageName {
    registry: String,
    repository: String,
    /// None only where the content is said.
    tag: Option<String>,
    digest: Option<Digest>,
}

impl ImageName {
    /// The registry, with its port if it has one.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// What it is called in that registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Which version, if that is said.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Which content, if that is said.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same with this content.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }
}

impl FromStr for ImageName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|reason| {
            Error::invalid(format!("{:?} is no name of an image: {reason}", shortened(text))).hint(
                "names are like debian:12, ghcr.io/owner/name:tag or localhost:5000/name@sha256:…",
            )
        })
    }
}

fn parse(text: &str) -> Result<ImageName, String> {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(Digest::parse(digest)?)),
        None => (text, None),
    };
    // A colon before the last slash is that of a port.
    let after_path = name.rfind('/').map_or(0, |slash| slash + 1);
    let (path, tag) = match name[after_path..].split_once(':') {
        Some((last, tag)) => (&name[..after_path + last.len()], Some(tag)),
        None => (name, None),
    };
    if let Some(tag) = tag {
        check_tag(tag)?;
    }
    let (registry, repository) = match path.split_once('/') {
        Some((first, rest)) if is_registry(first) => (known_registry(first), rest.to_owned()),
        Some(_) => (DEFAULT_REGISTRY.to_owned(), path.to_owned()),
        None => (DEFAULT_REGISTRY.to_owned(), format!("{DEFAULT_OWNER}/{path}")),
    };
    let repository = match (registry.as_str(), repository.contains('/')) {
        (DEFAULT_REGISTRY, false) => format!("{DEFAULT_OWNER}/{repository}"),
        (_, _) => repository,
    };
    check_registry(&registry)?;
    check_repository(&repository)?;
    if registry.len() + 1 + repository.len() > MOST_NAME_BYTES {
        return Err(format!("it has more than {MOST_NAME_BYTES} letters"));
    }
    let tag = tag.map(str::to_owned);
    let tag = tag.or_else(|| digest.is_none().then(|| DEFAULT_TAG.to_owned()));
    Ok(ImageName { registry, repository, tag, digest })
}

/// Whether the first part of a path names a registry and not an owner.
fn is_registry(first: &str) -> bool {
    first == "localhost"
        || first.contains(['.', ':'])
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// A registry by the one name that it has here: letters of hosts are small.
fn known_registry(named: &str) -> String {
    let small = named.to_ascii_lowercase();
    match small.as_str() {
        DEFAULT_REGISTRY_TOO => DEFAULT_REGISTRY.to_owned(),
        // Without its capitals it would be an owner.
        _ if !is_registry(&small) => named.to_owned(),
        _ => small,
    }
}

fn check_registry(registry: &str) -> Result<(), String> {
    let (host, port) = match registry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
            let port = rest.strip_prefix(':');
            if !is_address || (port.is_none() && !rest.is_empty()) {
                return Err(format!("{registry:?} is no registry"));
            }
            (None, port)
        }
        None => match registry.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(registry), None),
        },
    };
    let is_part = |part: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty()
            && part.bytes().all(is_letter)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let host_is_one = host.is_none_or(|host| host.split('.').all(is_part));
    let port_is_one = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    });
    match host_is_one && port_is_one {
        true => Ok(()),
        false => Err(format!("{registry:?} is no registry")),
    }
}

fn check_repository(repository: &str) -> Result<(), String> {
    for part in repository.split('/') {
        let letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let separates =
            |it: &[u8]| matches!(it, b"." | b"_" | b"__") || it.iter().all(|byte| *byte == b'-');
        let bytes = part.as_bytes();
        let ends_are_letters =
            bytes.first().is_some_and(letter) && bytes.last().is_some_and(letter);
        let between = bytes.split(letter).filter(|between| !between.is_empty());
        if !ends_are_letters || !between.into_iter().all(separates) {
            return Err(format!(
                "{part:?} is to be small letters and digits, with single . _ or - between them"
            ));
        }
    }
    Ok(())
}

fn check_tag(tag: &str) -> Result<(), String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_tag = tag.bytes().next().is_some_and(letter)
        && tag.bytes().all(|byte| letter(byte) || matches!(byte, b'.' | b'-'))
        && tag.len() <= MOST_TAG_BYTES;
    match is_tag {
        true => Ok(()),
        false => Err(format!("{:?} is no tag", shortened(tag))),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for ImageName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
#[path = "image_name_tests.rs"]
mod tests;
