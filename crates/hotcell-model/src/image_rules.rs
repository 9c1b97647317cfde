//! Which images cells may begin with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, ImageName, Result};

/// A choice of images: one by name, or all of a registry or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ImagePattern {
    /// All of them.
    Any,
    /// All whose registry and repository begin with this, up to a slash.
    Below(String),
    /// All versions of one; only one version if a tag is said, only one content if a digest is.
    Exactly {
        /// The name.
        name: ImageName,
        /// Whether its tag was said and not put in.
        tagged: bool,
    },
}

/// What an operator says about images.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImageRules {
    /// Those that may be used; all where none are named.
    pub allow: Vec<ImagePattern>,
    /// Whether a name must say the content.
    pub pinned: bool,
}

impl ImagePattern {
    /// Whether it stands for an image.
    #[must_use]
    pub fn matches(&self, image: &ImageName) -> bool {
        match self {
            Self::Any => true,
            Self::Below(prefix) => {
                let path = format!("{}/{}", image.registry(), image.repository());
                path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
            }
            Self::Exactly { name, tagged } => {
                name.registry() == image.registry()
                    && name.repository() == image.repository()
                    && (!tagged || name.tag() == image.tag())
                    && name.digest().is_none_or(|digest| image.digest() == Some(digest))
            }
        }
    }
}

impl FromStr for ImagePattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(prefix) = text.strip_suffix("/*") {
            // A registry by itself is no image; with a name behind it the rest can be read as one.
            let name: ImageName = format!("{prefix}/a/a").parse()?;
            let path = format!("{}/{}", name.registry(), name.repository());
            let prefix = path.strip_suffix("/a/a").unwrap_or(&path).to_owned();
            return Ok(Self::Below(prefix));
        }
        let name: ImageName = text.parse()?;
        let path = text.split('@').next().unwrap_or(text);
        let tagged = path.rsplit('/').next().is_some_and(|last| last.contains(':'));
        Ok(Self::Exactly { name, tagged })
    }
}

impl fmt::Display for ImagePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Below(prefix) => write!(f, "{prefix}/*"),
            Self::Exactly { name, tagged: true } => write!(f, "{name}"),
            Self::Exactly { name, tagged: false } => {
                write!(f, "{}/{}", name.registry(), name.repository())?;
                name.digest().map_or(Ok(()), |digest| write!(f, "@{digest}"))
            }
        }
    }
}

impl TryFrom<String> for ImagePattern {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ImagePattern> for String {
    fn from(pattern: ImagePattern) -> Self {
        pattern.to_string()
    }
}

impl ImageRules {
    /// Whether an image may be used.
    ///
    /// # Errors
    /// `denied`, with what may be.
    pub fn check(&self, image: &ImageName) -> Result<()> {
        if !self.allow.is_empty() && !self.allow.iter().any(|pattern| pattern.matches(image)) {
            let allowed: Vec<String> = self.allow.iter().map(ToString::to_string).collect();
            return Err(Error::denied(format!(
                "the image {image} is not among those that may be used"
            ))
            .hint(format!(
                "use one of {}, or let the operator change images.allow",
                allowed.join(", ")
            )));
        }
        if self.pinned && image.digest().is_none() {
            return Err(Error::denied(format!("the image {image} does not say its content"))
                .hint("write NAME@sha256:…; `hotcell image list` shows digests"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "image_rules_tests.rs"]
mod image_rules_tests;
