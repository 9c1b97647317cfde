//! How the programs of an image are to be run, and of which layers it is made.

use hotcell_model::{Digest, Error, Result};
use serde::{Deserialize, Serialize};

use crate::platform::Platform;

/// No real one comes near.
pub const MOST_CONFIG_BYTES: u64 = 4 << 20;

/// What an image says about itself. Missing parts are as good as empty ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// For which machines it is.
    #[serde(flatten)]
    pub platform: Platform,
    /// How to run it.
    #[serde(default)]
    pub config: RunConfig,
    /// Its layers, unpacked, the lowest first.
    pub rootfs: RootFs,
}

/// How an image is to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunConfig {
    /// Environment variables, as NAME=value.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<String>,
}

/// The layers of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    /// The digest of each, unpacked, the lowest first.
    #[serde(deserialize_with = "or_default")]
    pub diff_ids: Vec<Digest>,
}

/// Some programs write `null` for what is empty.
fn or_default<'de, D, T>(input: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

impl ImageConfig {
    /// Reads what an image says about itself.
    ///
    /// # Errors
    /// It says nothing that can be understood.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::invalid(format!("the image does not say what it is: {error}"))
                .hint("the file is damaged, or it is no image of a container")
        })
    }

    /// That of a root file system of which nothing else is known.
    #[must_use]
    pub fn of_root(layers: Vec<Digest>) -> Self {
        Self {
            platform: Platform::own(),
            config: RunConfig::default(),
            rootfs: RootFs { diff_ids: layers },
        }
    }
}
