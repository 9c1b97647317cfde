//! What was pulled, as a layout of the Open Container Initiative.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_images::Descriptor;
use hotcell_model::{Digest, Error, Result};

/// A directory that becomes a layout.
#[derive(Debug)]
pub(crate) struct Layout<'a>(pub(crate) &'a Path);

impl Layout<'_> {
    /// Where content of this digest lies.
    pub(crate) fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// Where it lies as far as it has come.
    pub(crate) fn partial(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(format!("{}.part", digest.hex()))
    }

    fn blobs(&self) -> PathBuf {
        self.0.join("blobs/sha256")
    }

    /// Makes its directories.
    pub(crate) fn prepare(&self) -> Result<()> {
        fs::create_dir_all(self.blobs()).map_err(|error| self.failed(&error))
    }

    /// Writes content that was checked.
    pub(crate) fn write(&self, digest: &Digest, bytes: &[u8]) -> Result<()> {
        let partial = self.partial(digest);
        let written =
            fs::write(&partial, bytes).and_then(|()| fs::rename(partial, self.blob(digest)));
        written.map_err(|error| self.failed(&error))
    }

    /// Says that this is the image, which makes it a layout.
    pub(crate) fn finish(&self, image: &Descriptor) -> Result<()> {
        let index = serde_json::json!({ "schemaVersion": 2, "manifests": [image] });
        let version = serde_json::json!({ "imageLayoutVersion": "1.0.0" });
        let written = fs::write(self.0.join("index.json"), index.to_string())
            .and_then(|()| fs::write(self.0.join("oci-layout"), version.to_string()));
        written.map_err(|error| self.failed(&error))
    }

    pub(crate) fn failed(&self, error: &io::Error) -> Error {
        let failed = Error::unavailable(format!("cannot write to {}: {error}", self.0.display()));
        match error.kind() == io::ErrorKind::StorageFull {
            true => failed.hint("free space on that disk and pull again: what has come is kept"),
            false => failed,
        }
    }
}
