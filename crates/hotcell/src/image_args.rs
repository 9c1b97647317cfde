//! The arguments of `hotcell image`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hotcell_model::ImageName;

use crate::values;

/// Keep images of containers that cells can begin with.
///
/// `hotcell spawn --image NAME` and `hotcell run --image NAME` make a cell whose files are those of the
/// image; no engine for containers is needed.
#[derive(Debug, Args)]
pub(crate) struct Image {
    #[command(subcommand)]
    pub(crate) action: ImageAction,
}

/// What is done with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageAction {
    /// Take an image from its registry.
    ///
    /// Credentials are those of `docker login`. A pull that broke off goes on where it was.
    Pull {
        /// Its name, such as debian:12 or ghcr.io/owner/name@sha256:….
        #[arg(value_parser = values::word::<ImageName>)]
        name: ImageName,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take an image from a file: an archive of `docker save`, an OCI layout, or files of a root.
    Import {
        /// The archive, or the directory of a layout.
        path: PathBuf,
        /// What to call it; as it is called there unless given.
        #[arg(long, value_parser = values::word::<ImageName>)]
        name: Option<ImageName>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List images.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Forget an image; cells that began with it go on.
    Rm {
        /// Its name.
        #[arg(value_parser = values::word::<ImageName>)]
        name: ImageName,
    },
}
