//! For which machines an image is made.

use serde::{Deserialize, Serialize};

/// An operating system and a kind of processor, as images name them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The kind of processor.
    pub architecture: String,
    /// The operating system.
    pub os: String,
    /// Which of several of that kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// That of this program.
    #[must_use]
    pub fn own() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self { architecture: architecture.to_owned(), os: "linux".to_owned(), variant: None }
    }

    /// Whether an image for `other` runs here. A variant is a minimum that every machine of a kind has
    /// unless it says more.
    #[must_use]
    pub fn runs(&self, other: &Self) -> bool {
        let is_plain =
            |variant: &Option<String>| matches!(variant.as_deref(), None | Some("" | "v1" | "v8"));
        self.os == other.os
            && self.architecture == other.architecture
            && (is_plain(&other.variant) || self.variant == other.variant)
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}
