//! Images of the native driver: layers as directories that several images and cells may share.
//!
//! An image is a file that names its layers, and is replaced whole. A layer is there once it has the
//! name of its content. What no image and no cell names is removed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hotcell_images::{ImageConfig, UNPACKED, digest_of};
use hotcell_jail::ids::{IdLayout, Starter, starter};
use hotcell_jail::mounts::{Lower, LowerIds};
use hotcell_model::{Digest, Error, Image, ImageName, Result};
use hotcell_place::read_json;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::description::Description;
use crate::driver::FREE_SPACE;
use crate::paths::{CellPaths, NativePaths};
use crate::removal::remove_files;
use crate::unpack::FILES;

/// The format of the files that describe images.
pub(crate) const VERSION: u32 = 1;

/// An image as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredImage {
    pub(crate) version: u32,
    pub(crate) image: Image,
    /// What it says about itself.
    pub(crate) config: ImageConfig,
}

/// Where images lie.
#[derive(Debug)]
pub(crate) struct ImageStore<'a> {
    paths: &'a NativePaths,
}

/// Images that are written down.
struct Descriptions {
    images: Vec<StoredImage>,
    /// How many could not be read.
    unreadable: usize,
}

/// Keeps layers that nothing names yet from being removed.
#[derive(Debug)]
pub(crate) struct Taking {
    _lock: File,
}

impl<'a> ImageStore<'a> {
    pub(crate) fn new(paths: &'a NativePaths) -> Self {
        Self { paths }
    }

    fn descriptions(&self) -> PathBuf {
        self.paths.images().join("names")
    }

    /// Where an image lies while it is pulled.
    pub(crate) fn pull(&self, name: &ImageName) -> PathBuf {
        let name = digest_of(name.to_string().as_bytes());
        self.paths.images().join("pulls").join(name.hex())
    }

    pub(crate) fn layers(&self) -> PathBuf {
        self.paths.images().join("layers")
    }

    pub(crate) fn description(&self, name: &ImageName) -> PathBuf {
        let name = digest_of(name.to_string().as_bytes());
        self.descriptions().join(format!("{}.json", name.hex()))
    }

    pub(crate) fn layer(&self, digest: &Digest) -> PathBuf {
        self.layers().join(digest.hex())
    }

    fn lock(&self, operation: FlockOperation) -> io::Result<File> {
        for directory in [self.descriptions(), self.layers()] {
            fs::create_dir_all(directory)?;
        }
        let path = self.paths.images().join("images.lock");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?;
        flock(&file, operation)?;
        Ok(File::from(file))
    }

    /// A place for a layer that is not there yet.
    pub(crate) fn new_layer(&self) -> Result<PathBuf> {
        let random = random().map_err(|error| failed("make a layer in", &self.layers(), &error))?;
        Ok(self.layers().join(format!("making-{random}")))
    }

    pub(crate) fn taking(&self) -> io::Result<Taking> {
        Ok(Taking { _lock: self.lock(FlockOperation::LockShared)? })
    }

    /// An image by its name; with content that is said only if it is that.
    pub(crate) fn find(&self, name: &ImageName) -> Result<StoredImage> {
        let found = |name: &ImageName| -> Result<Option<StoredImage>> {
            let stored = read_json::<StoredImage>(&self.description(name));
            stored.map_err(|error| {
                failed("read", &self.description(name), &error)
                    .hint("take the image again with `hotcell image import`")
            })
        };
        let stored = match found(name)? {
            Some(stored) => Some(stored),
            None => self.all()?.into_iter().find(|stored| is_meant(&stored.image, name)),
        };
        stored.ok_or_else(|| {
            Error::not_found(format!("there is no image {name} here"))
                .hint("take one with `hotcell image pull` or `hotcell image import`; `hotcell image list` shows them")
        })
    }

    /// Every image whose description can be read.
    pub(crate) fn all(&self) -> Result<Vec<StoredImage>> {
        let there = self.descriptions_there();
        Ok(there.map_err(|error| failed("list", &self.descriptions(), &error))?.images)
    }

    fn descriptions_there(&self) -> io::Result<Descriptions> {
        let (mut images, mut unreadable) = (Vec::new(), 0);
        let entries = match fs::read_dir(self.descriptions()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            entries => Some(entries?),
        };
        for entry in entries.into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read_json::<StoredImage>(&path) {
                Ok(Some(stored)) if stored.version <= VERSION => images.push(stored),
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => {
                    tracing::warn!(file = %path.display(), "an image cannot be read");
                    unreadable += 1;
                }
            }
        }
        images.sort_by(|one, other| one.image.name.cmp(&other.image.name));
        Ok(Descriptions { images, unreadable })
    }

    /// Writes an image down, whole or not at all, also if the power fails.
    pub(crate) fn write(&self, stored: &StoredImage) -> io::Result<()> {
        let path = self.description(&stored.image.name);
        let temporary = self.descriptions().join(format!("new-{}", random()?));
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(stored)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(self.descriptions())?.sync_all()
    }

    /// What a cell on this image shows, the topmost first.
    pub(crate) fn lowers(&self, stored: &StoredImage) -> Vec<Lower> {
        let mut lowers: Vec<Lower> = Vec::new();
        for layer in stored.config.rootfs.diff_ids.iter().rev() {
            let path = self.layer(layer).join(FILES);
            // The same one further down shows nothing more, and the kernel refuses it.
            if lowers.iter().all(|lower| lower.path != path) {
                lowers.push(Lower { path, ids: LowerIds::Image });
            }
        }
        lowers
    }

    /// Removes every layer that no image and no cell names.
    pub(crate) fn collect(&self, ids: &IdLayout) -> io::Result<()> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        self.remove_unnamed(ids)
    }

    /// The same, unless somebody takes an image just now: whoever forgets the next one does it.
    pub(crate) fn collect_if_free(&self, ids: &IdLayout) -> io::Result<()> {
        match self.lock(FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(_lock) => self.remove_unnamed(ids),
        }
    }

    /// Layers that no image and no cell names, and what archives were unpacked to by imports that were
    /// killed.
    fn unnamed(&self) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let Descriptions { images, unreadable } = self.descriptions_there()?;
        if unreadable > 0 || !self.layers().exists() {
            // Nobody knows what those name.
            return Ok((Vec::new(), Vec::new()));
        }
        let of_images = images.iter().flat_map(|stored| &stored.config.rootfs.diff_ids);
        let mut named: BTreeSet<PathBuf> = of_images.map(|layer| self.layer(layer)).collect();
        match fs::read_dir(self.paths.cells()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            cells => {
                for cell in cells? {
                    let placed = match CellPaths::at(cell?.path()).describe() {
                        // A cell keeps the image it began with.
                        Description::Whole(placed)
                        | Description::Unreadable { previous: Some(placed), .. } => placed,
                        Description::None => continue,
                        // The layers it names are unknown.
                        Description::Unreadable { previous: None, .. } => {
                            return Ok((Vec::new(), Vec::new()));
                        }
                    };
                    let layers = placed.layers.into_iter();
                    let lowers = layers.flat_map(|layer| layer.lowers);
                    named.extend(lowers.filter_map(|lower| Some(lower.path.parent()?.to_owned())));
                }
            }
        }
        let mut layers = Vec::new();
        for layer in fs::read_dir(self.layers())? {
            let path = layer?.path();
            if !named.contains(&path) {
                layers.push(path);
            }
        }
        let mut left = Vec::new();
        for file in fs::read_dir(self.paths.images())? {
            let file = file?;
            if file.file_name().as_encoded_bytes().starts_with(UNPACKED.as_bytes()) {
                left.push(file.path());
            }
        }
        Ok((layers, left))
    }

    /// The same; nothing while somebody takes an image: what is being made has no name yet.
    pub(crate) fn unnamed_if_free(&self) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        match self.lock(FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(<_>::default()),
            Err(error) => Err(error),
            Ok(_lock) => self.unnamed(),
        }
    }

    fn remove_unnamed(&self, ids: &IdLayout) -> io::Result<()> {
        let (layers, left) = self.unnamed()?;
        for layer in layers {
            // What is half gone has not the name of something whole.
            let leaving = self.layers().join(format!("leaving-{}", random()?));
            fs::rename(&layer, &leaving)?;
            remove_files(&leaving, ids).map_err(io::Error::other)?;
        }
        left.iter().try_for_each(fs::remove_file)
    }

    /// Whether a name stands for an image.
    pub(crate) fn is_meant(&self, image: &Image, name: &ImageName) -> bool {
        image.name == *name || is_meant(image, name)
    }

    /// Notes that an image is used. One that cannot be noted looks as if it was used less.
    pub(crate) fn note_use(&self, stored: &StoredImage) {
        let description = File::options().append(true).open(self.description(&stored.image.name));
        if let Err(error) = description.and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::debug!(%error, image = %stored.image.name, "the use of an image is not noted");
        }
    }
}

/// A name that nobody else has.
fn random() -> io::Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(random)))
}

/// Whose ids the files of images have.
pub(crate) fn ids_of_images() -> IdLayout {
    match starter() {
        Starter::Root => IdLayout::Private { base: 0 },
        Starter::User { layout, .. } => layout,
    }
}

/// Whether an image is the one that a name with content stands for.
fn is_meant(image: &Image, name: &ImageName) -> bool {
    let same_place = image.name.registry() == name.registry()
        && image.name.repository() == name.repository()
        && (name.tag().is_none() || name.tag() == image.name.tag());
    same_place && name.digest().is_some_and(|digest| *digest == image.digest)
}

pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let failed = Error::unavailable(format!("cannot {what} {}: {error}", path.display()));
    match error.kind() == io::ErrorKind::StorageFull {
        true => failed.hint(FREE_SPACE),
        false => failed,
    }
}
