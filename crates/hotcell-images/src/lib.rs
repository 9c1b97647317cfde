//! Images of containers, without an engine for containers.
//!
//! An image is a list of layers, each a tar archive of what is different from the layers below it, and
//! a description of how its programs are to be run. Whoever made one is not trusted: names lead
//! nowhere but below the directory of their layer, digests are checked before anything is used, and
//! what only a container engine's owner may say (devices, marks of overlays) is left out.

mod config;
mod digest;
mod headers;
mod layer;
mod manifest;
mod packed;
mod platform;
mod source;

pub use config::{ImageConfig, MOST_CONFIG_BYTES, RootFs, RunConfig};
pub use digest::{Digesting, check_digest, digest_of};
pub use layer::{LayerBounds, Marks, Owners, UnpackedLayer, unpack_layer};
pub use manifest::{Descriptor, Manifest, ManifestOrIndex, choose};
pub use packed::unpacked;
pub use platform::Platform;
pub use source::{Archive, FilePart, ImageSource, LayerSource, OpenedImage, UNPACKED, check_image};
