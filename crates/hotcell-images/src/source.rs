//! Images that lie on this machine: a layout of the Open Container Initiative, as a directory or an
//! archive, what `docker save` writes, or an archive of a root file system.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hotcell_model::{Digest, Error, ImageName, Result};
use serde::{Deserialize, Serialize};

use crate::config::{ImageConfig, MOST_CONFIG_BYTES};
use crate::digest::{check_digest, digest_of};
use crate::headers::BoundedHeaders;
use crate::manifest::{
    Descriptor, MOST_MANIFEST_BYTES, Manifest, ManifestOrIndex, check_number, choose,
};
use crate::packed::unpacked;
use crate::platform::Platform;

const LAYOUT: &str = "oci-layout";
const INDEX: &str = "index.json";
const SAVED: &str = "manifest.json";
/// One of these has every root.
const ROOT: [&str; 4] = ["bin", "etc", "usr", "dev"];
const REF_NAME: &str = "org.opencontainers.image.ref.name";
const FULL_NAME: &str = "io.containerd.image.name";
/// More entries than this has no archive of an image.
const MOST_PARTS: usize = 10_000;
/// No part of an image has a longer name.
const MOST_PART_NAME: usize = 1024;
/// How often a list may lead to another one.
const DEEPEST: usize = 4;
/// An archive that is packed as a whole may be unpacked to so much.
const MOST_UNPACKED: u64 = 64 << 30;

/// A file or directory that has an image in it.
#[derive(Debug)]
pub enum ImageSource {
    /// A layout as a directory.
    Layout(PathBuf),
    /// A layout or what `docker save` wrote, as an archive.
    Archive(Archive),
    /// The files of a root.
    Root(PathBuf),
}

/// An archive whose parts can be read in any order.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    parts: BTreeMap<PathBuf, Part>,
    /// Set if it had to be unpacked.
    unpacked: Option<Temporary>,
}

#[derive(Debug, Clone)]
enum Part {
    File {
        at: u64,
        length: u64,
    },
    /// Another one, by its path in the archive.
    Link(PathBuf),
}

/// A file that goes when nobody needs it any more.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // One that stays behind is in nobody's way.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An image that was found, with its layers still where they were.
#[derive(Debug)]
pub struct OpenedImage {
    /// What it is called there, if it says so.
    pub name: Option<ImageName>,
    /// What the whole image is called by, if it says of what it is made.
    pub digest: Option<Digest>,
    /// What it says about itself; nothing, where it is only files.
    pub config: Option<ImageConfig>,
    /// Its layers, the lowest first.
    pub layers: Vec<LayerSource>,
    /// What was unpacked to find them, which is removed with this.
    unpacked: Option<Temporary>,
}

/// A layer as it is stored.
#[derive(Debug)]
pub struct LayerSource {
    /// What it is called by as it is stored, if that is said.
    pub packed: Option<Digest>,
    /// What it is called by once it is unpacked, if that is said.
    pub unpacked: Option<Digest>,
    /// Where it lies.
    pub place: FilePart,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// Which file.
    pub path: PathBuf,
    /// Where the part begins.
    pub at: u64,
    /// How long it is; as long as there is something when left out.
    pub length: Option<u64>,
}

impl FilePart {
    fn whole(path: PathBuf) -> Self {
        Self { path, at: 0, length: None }
    }

    /// Reads it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(&self) -> Result<io::Take<File>> {
        let mut file = open(&self.path)?;
        let sought = file.seek(SeekFrom::Start(self.at));
        sought.map_err(|error| cannot("read", &self.path, &error))?;
        Ok(file.take(self.length.unwrap_or(u64::MAX)))
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| cannot("open", path, &error))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("cannot {what} {}: {error}", path.display());
    if error.kind() == io::ErrorKind::NotFound {
        return Error::not_found(message);
    }
    Error::unavailable(message)
}

impl ImageSource {
    /// Looks what lies at a path. An archive that is packed as a whole is unpacked into `scratch` if
    /// parts of it have to be found.
    ///
    /// # Errors
    /// It cannot be read, or is nothing that has an image in it.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|error| cannot("open", path, &error))?;
        if metadata.is_dir() {
            return match path.join(INDEX).is_file() {
                true => Ok(Self::Layout(path.to_owned())),
                false => Err(Error::invalid(format!(
                    "{} is a directory without {INDEX}",
                    path.display()
                ))
                .hint("name a layout of the Open Container Initiative, or an archive")),
            };
        }
        let file = open(path)?;
        let (mut plain, is_packed) =
            unpacked(&file).map_err(|error| cannot("read", path, &error))?;
        let parts = list(&mut plain, path)?;
        let is_image = parts.as_ref().is_some_and(has_image);
        drop(plain);
        match parts {
            Some(parts) if is_image && !is_packed => {
                Ok(Self::Archive(Archive { path: path.to_owned(), parts, unpacked: None }))
            }
            Some(_) if is_image => {
                let unpacked = unpack_whole(path, scratch)?;
                let parts = list(&mut open(&unpacked.0)?, path)?.unwrap_or_default();
                let path = unpacked.0.clone();
                Ok(Self::Archive(Archive { path, parts, unpacked: Some(unpacked) }))
            }
            Some(_) | None => Ok(Self::Root(path.to_owned())),
        }
    }

    /// Finds the image for a kind of machine.
    ///
    /// # Errors
    /// There is none, or it is not what it is said to be.
    pub fn image(self, wanted: &Platform) -> Result<OpenedImage> {
        let mut found = self.find(wanted)?;
        if let Self::Archive(archive) = self {
            found.unpacked = archive.unpacked;
        }
        Ok(found)
    }

    fn find(&self, wanted: &Platform) -> Result<OpenedImage> {
        match self {
            Self::Layout(_) => self.of_layout(wanted),
            Self::Archive(archive) if archive.parts.contains_key(Path::new(SAVED)) => {
                archive.saved(wanted)
            }
            Self::Archive(_) => self.of_layout(wanted),
            Self::Root(path) => Ok(OpenedImage {
                name: None,
                digest: None,
                config: None,
                layers: vec![LayerSource {
                    packed: None,
                    unpacked: None,
                    place: FilePart::whole(path.clone()),
                }],
                unpacked: None,
            }),
        }
    }

    fn place(&self, name: &Path) -> Result<FilePart> {
        match self {
            Self::Layout(directory) => Ok(FilePart::whole(directory.join(name))),
            Self::Archive(archive) => archive.place(name),
            Self::Root(path) => Ok(FilePart::whole(path.clone())),
        }
    }

    fn blob(&self, digest: &Digest) -> Result<FilePart> {
        self.place(&Path::new("blobs/sha256").join(digest.hex()))
    }

    /// Content that is small, and checked.
    fn content(&self, descriptor: &Descriptor, most: u64) -> Result<Vec<u8>> {
        let what = format!("{} of the image", descriptor.digest);
        let place = self.blob(&descriptor.digest)?;
        let bytes = small(&place, most, &what)?;
        check_digest(&digest_of(&bytes), Some(&descriptor.digest), &what)?;
        Ok(bytes)
    }

    fn of_layout(&self, wanted: &Platform) -> Result<OpenedImage> {
        let index = small(&self.place(Path::new(INDEX))?, MOST_MANIFEST_BYTES, INDEX)?;
        let mut next = ManifestOrIndex::parse(&index)?;
        let (mut name, mut digest) = (None, None);
        for _ in 0..DEEPEST {
            let list = match next {
                ManifestOrIndex::Index(list) => list,
                ManifestOrIndex::Manifest(manifest) => {
                    let config = self.content(&manifest.config, MOST_CONFIG_BYTES)?;
                    let config = ImageConfig::parse(&config)?;
                    let layers = manifest.layers.iter().zip(&config.rootfs.diff_ids);
                    let layers = layers.map(|(stored, unpacked)| {
                        Ok(LayerSource {
                            packed: Some(stored.digest.clone()),
                            unpacked: Some(unpacked.clone()),
                            place: self.blob(&stored.digest)?,
                        })
                    });
                    let layers = layers.collect::<Result<Vec<_>>>()?;
                    check_image(&manifest, &config, wanted)?;
                    return Ok(OpenedImage {
                        name,
                        digest,
                        config: Some(config),
                        layers,
                        unpacked: None,
                    });
                }
            };
            let chosen = choose(&list, wanted)?;
            name = name.or_else(|| name_of(chosen));
            digest.get_or_insert_with(|| chosen.digest.clone());
            next = ManifestOrIndex::parse(&self.content(chosen, MOST_MANIFEST_BYTES)?)?;
        }
        Err(Error::invalid("the lists of the image lead from one to another without end"))
    }
}

fn name_of(descriptor: &Descriptor) -> Option<ImageName> {
    let said = |key: &str| descriptor.annotations.get(key)?.parse().ok();
    said(FULL_NAME).or_else(|| {
        // By itself it may be no more than a tag.
        let name = descriptor.annotations.get(REF_NAME)?;
        name.contains(['/', ':']).then(|| name.parse().ok()).flatten()
    })
}

/// Whether an image can be used on a machine, as far as what it is made of tells.
///
/// # Errors
/// Why not.
pub fn check_image(manifest: &Manifest, config: &ImageConfig, wanted: &Platform) -> Result<()> {
    same_number(manifest.layers.len(), config.rootfs.diff_ids.len())?;
    check_platform(config, wanted)
}

fn same_number(stored: usize, unpacked: usize) -> Result<()> {
    match stored == unpacked {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "the image has {stored} layers, and says that it has {unpacked}"
        ))),
    }
}

fn check_platform(config: &ImageConfig, wanted: &Platform) -> Result<()> {
    match wanted.runs(&config.platform) {
        true => Ok(()),
        false => Err(Error::unsupported(format!(
            "the image is for {}, and this machine is {wanted}",
            config.platform
        ))),
    }
}

/// One image of what `docker save` wrote.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: PathBuf,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<PathBuf>,
}

impl Archive {
    fn place(&self, name: &Path) -> Result<FilePart> {
        let mut name = name.to_owned();
        for _ in 0..DEEPEST {
            match self.parts.get(&name) {
                Some(Part::File { at, length }) => {
                    let path = self.path.clone();
                    return Ok(FilePart { path, at: *at, length: Some(*length) });
                }
                Some(Part::Link(target)) => name.clone_from(target),
                None => break,
            }
        }
        Err(Error::invalid(format!("{} is missing in the archive", name.display()))
            .hint("write it again with `docker save`"))
    }

    fn saved(&self, wanted: &Platform) -> Result<OpenedImage> {
        let list = small(&self.place(Path::new(SAVED))?, MOST_MANIFEST_BYTES, SAVED)?;
        let list: Vec<Saved> = serde_json::from_slice(&list)
            .map_err(|error| Error::invalid(format!("cannot understand {SAVED}: {error}")))?;
        let [saved] = <[Saved; 1]>::try_from(list).map_err(|list| {
            let names = list.iter().filter_map(|saved| saved.repo_tags.as_ref()).flatten();
            let names: Vec<&str> = names.map(String::as_str).collect();
            Error::invalid(format!("the archive has {} images: {}", list.len(), names.join(", ")))
                .hint("save each of them into an archive of its own")
        })?;
        let config = small(&self.place(&saved.config)?, MOST_CONFIG_BYTES, "its description")?;
        let parsed = ImageConfig::parse(&config)?;
        // The digest of its description is what the engine calls the image by.
        let digest = digest_of(&config);
        let said = saved.config.file_stem().and_then(|stem| stem.to_str());
        if said.is_some_and(|said| said.len() == digest.hex().len() && said != digest.hex()) {
            return Err(Error::invalid("the description of the image is not what it is called by")
                .hint("the archive is damaged: write it again with `docker save`"));
        }
        check_number(saved.layers.len())?;
        same_number(saved.layers.len(), parsed.rootfs.diff_ids.len())?;
        check_platform(&parsed, wanted)?;
        let layers = saved.layers.iter().zip(&parsed.rootfs.diff_ids).map(|(layer, unpacked)| {
            let place = self.place(layer)?;
            Ok(LayerSource { packed: None, unpacked: Some(unpacked.clone()), place })
        });
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let name = saved.repo_tags.into_iter().flatten().find_map(|tag| tag.parse().ok());
        Ok(OpenedImage { name, digest: Some(digest), config: Some(parsed), layers, unpacked: None })
    }
}

/// All of something that must be small.
fn small(place: &FilePart, most: u64, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = place.open()?.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::unavailable(format!("cannot read {what}: {error}")))?;
    if bytes.len() as u64 > most {
        return Err(Error::limit_exceeded(format!("{what} has more than {most} bytes")));
    }
    Ok(bytes)
}

/// A path without dots; `None` if it leads out.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => found.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !found.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(found)
}

/// Whether these are parts of an image, and not files of a root that happen to have such names.
fn has_image(parts: &BTreeMap<PathBuf, Part>) -> bool {
    let has = |name: &str| parts.contains_key(Path::new(name));
    let is_root = || parts.keys().any(|name| ROOT.iter().any(|it| name.starts_with(it)));
    (has(INDEX) && has(LAYOUT)) || (has(SAVED) && !is_root())
}

/// What an archive has in it, and where; `None` if it has more than an archive of an image would.
fn list(reader: &mut dyn Read, path: &Path) -> Result<Option<BTreeMap<PathBuf, Part>>> {
    let broken = |error: io::Error| {
        // Our own word may have gone through a reader.
        error.downcast::<Error>().unwrap_or_else(|error| {
            Error::invalid(format!("{} is no archive that can be read: {error}", path.display()))
                .hint("name a tar archive, packed by gzip or zstd or not")
        })
    };
    let mut parts = BTreeMap::new();
    let mut archive = tar::Archive::new(BoundedHeaders::new(reader));
    for entry in archive.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let Some(name) = entry.path().ok().and_then(|name| normal(&name)) else { continue };
        if name.as_os_str().len() > MOST_PART_NAME {
            continue;
        }
        let kind = entry.header().entry_type();
        let part = if kind.is_file() {
            Part::File { at: entry.raw_file_position(), length: entry.size() }
        } else if kind.is_symlink() || kind.is_hard_link() {
            let Ok(Some(target)) = entry.link_name() else { continue };
            // A hard link names its target from the root of the archive.
            let from = name.parent().filter(|_| kind.is_symlink());
            let target = from.unwrap_or(Path::new("")).join(target);
            let Some(target) = normal(&target) else { continue };
            Part::Link(target)
        } else {
            continue;
        };
        parts.insert(name, part);
        if parts.len() > MOST_PARTS {
            return Ok(None);
        }
    }
    Ok(Some(parts))
}

/// How names of archives begin that were unpacked; of processes that were killed they stay behind.
pub const UNPACKED: &str = "unpacked-";

/// What no other file of this machine's processes is called.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The whole archive, unpacked.
fn unpack_whole(path: &Path, scratch: &Path) -> Result<Temporary> {
    let unpacked_to = scratch.join(format!("{UNPACKED}{}", unique()));
    let mut to =
        File::create(&unpacked_to).map_err(|error| cannot("make", &unpacked_to, &error))?;
    let temporary = Temporary(unpacked_to);
    let (plain, _) = unpacked(open(path)?).map_err(|error| cannot("read", path, &error))?;
    let copied = io::copy(&mut plain.take(MOST_UNPACKED + 1), &mut to);
    let copied = copied.map_err(|error| cannot("unpack", path, &error))?;
    if copied > MOST_UNPACKED {
        let most = MOST_UNPACKED >> 30;
        return Err(Error::limit_exceeded(format!("{} has more than {most} GiB", path.display())));
    }
    Ok(temporary)
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
