//! Images that cells can begin with, kept by a driver.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Digest, ImageName, Result, Timestamp};

/// What a cell begins with when nothing else is said: the programs of the host.
pub const HOST_IMAGE: &str = "host";

/// An image that a driver has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What cells name it by.
    pub name: ImageName,
    /// What its content is called by.
    pub digest: Digest,
    /// For which machines it is.
    pub platform: String,
    /// How many layers it has.
    pub layers: usize,
    /// What they take, unpacked; some may be those of other images as well.
    pub bytes: u64,
    /// Since when it is there.
    pub since: Timestamp,
}

/// Several images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageList {
    /// By name.
    pub images: Vec<Image>,
}

/// Takes an image from a file or directory of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageImport {
    /// Where it lies: an archive of `docker save`, a layout of the Open Container Initiative as a
    /// directory or an archive, or an archive of a root file system.
    pub path: PathBuf,
    /// What to call it; as it is called there when left out.
    pub name: Option<ImageName>,
    /// The driver that is to have it; the engine's default when left out.
    pub driver: Option<String>,
}

/// Takes an image from a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePull {
    /// Which one.
    pub name: ImageName,
    /// The driver that is to have it; the engine's default when left out.
    pub driver: Option<String>,
}

/// How far a pull has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullProgress {
    /// What is pulled.
    pub name: ImageName,
    /// What has come.
    pub bytes: u64,
    /// Of so much.
    pub of_bytes: u64,
}

/// Who wants to know how far pulls have come.
pub trait PullWatch: Send + Sync + std::fmt::Debug {
    /// A pull has come so far.
    fn told(&self, progress: &PullProgress);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl PullWatch for Unwatched {
    fn told(&self, _: &PullProgress) {}
}

/// Lists images.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImagesList {
    /// The driver whose they are; the engine's default when left out.
    pub driver: Option<String>,
}

/// Forgets an image. Cells that began with it go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRemove {
    /// Which one.
    pub name: ImageName,
    /// The driver whose it is; the engine's default when left out.
    pub driver: Option<String>,
}

/// Where a driver keeps images.
#[async_trait]
pub trait Images: Send + Sync {
    /// Takes an image in the place of the one that had its name. Whole or not at all; what was done of
    /// it before the process died is used by the next try.
    ///
    /// # Errors
    /// `invalid` for what is no image or not what it is said to be, `unsupported` for one that cannot
    /// be used here.
    async fn import(&self, request: &ImageImport) -> Result<Image>;

    /// Takes an image from its registry in the place of the one that had its name. What has come before
    /// it broke off is used by the next try.
    ///
    /// # Errors
    /// `not_found`, `denied` or `unavailable` as the registry says, and what `import` has.
    async fn pull(&self, request: &ImagePull) -> Result<Image>;

    /// Every image.
    ///
    /// # Errors
    /// They cannot be read.
    async fn list(&self) -> Result<ImageList>;

    /// Forgets an image, and what of it no cell and no other image needs.
    ///
    /// # Errors
    /// `not_found` when there is none of that name.
    async fn remove(&self, name: &ImageName) -> Result<Image>;
}
