//! What an image is made of, and the lists of one image for several machines.

use std::collections::BTreeSet;

use hotcell_model::{Digest, Error, Result};
use serde::{Deserialize, Serialize};

use crate::platform::Platform;

/// No real one comes near.
pub(crate) const MOST_MANIFEST_BYTES: u64 = 4 << 20;
const MOST_LAYERS: usize = 500;
/// Kinds of layers that are known, whether packed or not: content itself tells how.
const LAYERS: [&str; 6] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
];
const CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

/// Content that lies somewhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What kind of content it is.
    #[serde(default)]
    pub media_type: String,
    /// What it is called by.
    pub digest: Digest,
    /// How long it is.
    pub size: u64,
    /// For which machines it is, in a list.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// What else is said of it.
    #[serde(default)]
    pub annotations: std::collections::BTreeMap<String, String>,
}

/// An image for one kind of machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// What it says about itself.
    pub config: Descriptor,
    /// Its layers as they are stored, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// What a name may stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestOrIndex {
    /// One image.
    Manifest(Manifest),
    /// The same for several kinds of machines.
    Index(Vec<Descriptor>),
}

/// What tells the two apart: not all of them say of which kind they are.
#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Manifest(Manifest),
    Index { manifests: Vec<Descriptor> },
}

impl ManifestOrIndex {
    /// Reads either.
    ///
    /// # Errors
    /// It is neither, or an image that cannot be used.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let either = serde_json::from_slice(bytes).map_err(|_| {
            Error::invalid("what the image is made of cannot be understood")
                .hint("it is no image of a container, or in the form of before 2016")
        })?;
        match either {
            Either::Manifest(manifest) => manifest.checked().map(Self::Manifest),
            Either::Index { manifests } => Ok(Self::Index(manifests)),
        }
    }
}

impl Manifest {
    fn checked(self) -> Result<Self> {
        if !CONFIGS.contains(&self.config.media_type.as_str()) {
            return Err(Error::invalid(format!(
                "it is no image of a container, but of the kind {:?}",
                self.config.media_type
            )));
        }
        check_number(self.layers.len())?;
        for layer in &self.layers {
            let kind = layer.media_type.as_str();
            if LAYERS.contains(&kind) {
                continue;
            }
            let is_foreign = kind.contains("nondistributable") || kind.contains("foreign");
            let why = match is_foreign {
                true => "it lies where only its owner may give it away",
                false => "that kind is not known",
            };
            return Err(Error::unsupported(format!(
                "the layer {} of the image cannot be used: {kind:?}, {why}",
                layer.digest
            )));
        }
        Ok(self)
    }
}

pub(crate) fn check_number(layers: usize) -> Result<()> {
    match layers <= MOST_LAYERS {
        true => Ok(()),
        false => Err(Error::limit_exceeded(format!(
            "the image has {layers} layers, and {MOST_LAYERS} are the most"
        ))),
    }
}

/// The image of a list that runs on a machine.
///
/// # Errors
/// None does, or several different ones; which ones there are is told.
pub fn choose<'a>(list: &'a [Descriptor], wanted: &Platform) -> Result<&'a Descriptor> {
    let runs = |it: &&Descriptor| it.platform.as_ref().is_none_or(|platform| wanted.runs(platform));
    // What says for which machine it is comes before what does not.
    let mut fitting: Vec<&Descriptor> = list.iter().filter(runs).collect();
    fitting.sort_by_key(|it| it.platform.is_none());
    let alike = fitting.iter().filter(|it| it.platform.is_some() == fitting[0].platform.is_some());
    let different: BTreeSet<&Digest> = alike.map(|it| &it.digest).collect();
    if different.len() > 1 {
        let digests: Vec<String> = different.iter().map(ToString::to_string).collect();
        return Err(Error::invalid(format!("there are {} images for {wanted}", digests.len()))
            .hint(format!("keep one of them in a place of its own: {}", digests.join(", "))));
    }
    fitting.into_iter().next().ok_or_else(|| {
        let there: Vec<String> = list
            .iter()
            .filter_map(|it| it.platform.as_ref())
            .filter(|platform| platform.os != "unknown")
            .map(ToString::to_string)
            .collect();
        Error::unsupported(format!("the image is not there for {wanted}"))
            .hint(format!("it is there for {}", there.join(", ")))
    })
}
