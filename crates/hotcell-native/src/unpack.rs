//! The keeper's part in taking an image: a layer becomes a directory.
//!
//! It is done in a process of its own, as root of the namespace that cells have, so that files belong to
//! the ids which an image names.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hotcell_images::{
    Digesting, FilePart, LayerBounds, Marks, Owners, check_digest, unpack_layer, unpacked,
};
use hotcell_jail::ids::IdLayout;
use hotcell_jail::namespace_work::{Namespace, work_in};
use hotcell_model::{Digest, Error, Result};
use hotcell_place::{read_json, write_json};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::removal::remove_files;

/// A layer as it is stored, and where it is to be unpacked to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LayerOrder {
    /// Where it lies.
    pub(crate) place: FilePart,
    /// What it is said to be, as it is stored and once it is unpacked.
    pub(crate) packed: Option<Digest>,
    pub(crate) unpacked: Option<Digest>,
    /// A directory that is not there yet, beside which it gets its name.
    pub(crate) target: PathBuf,
    /// The ids that cells have here.
    pub(crate) ids: IdLayout,
}

/// What became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UnpackedTo {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

/// The highest id that a cell has.
const MOST_ID: u32 = 65_535;
/// The files of a layer, in its directory.
pub(crate) const FILES: &str = "files";
/// What is known of a layer, in its directory.
const KNOWN: &str = "layer.json";

/// Unpacks a layer, and gives it the name of its content. What it is said to be is checked before.
pub(crate) fn unpack(order: &LayerOrder) -> Result<UnpackedTo> {
    let unpacked = try_to_unpack(order);
    // Unless it has its name by now. What stays behind is removed with layers that nothing names.
    let _ = remove_files(&order.target, &order.ids);
    unpacked
}

fn try_to_unpack(order: &LayerOrder) -> Result<UnpackedTo> {
    // Opened while it belongs to somebody who exists.
    let stored = order.place.open()?;
    let (namespace, marks, owners) = match &order.ids {
        IdLayout::Private { .. } | IdLayout::Host { .. } => {
            (Namespace::Own, Marks::Trusted, Owners::AsTold { most: MOST_ID })
        }
        IdLayout::Subordinate { count, .. } => {
            let most = MOST_ID.min(*count);
            (Namespace::New(&order.ids), Marks::User, Owners::AsTold { most })
        }
        IdLayout::Single { .. } => (Namespace::New(&order.ids), Marks::User, Owners::Own),
    };
    let files = make_target(&order.target)?;
    let work = || {
        if let Namespace::New(_) = namespace {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        }
        let answer = unpack_stored(stored, order, &files, marks, owners);
        // What went wrong comes back as text, like everything else.
        serde_json::to_string(&answer).map_err(io::Error::from)
    };
    let answer: String = work_in(namespace, work)
        .map_err(|error| Error::unavailable(format!("cannot unpack a layer: {error}")))?;
    let answer: Result<UnpackedTo> = serde_json::from_str(&answer)
        .map_err(|error| Error::internal(format!("cannot understand {answer:?}: {error}")))?;
    let unpacked = answer?;
    // Whoever finds it by its name after the power failed is to find all of it.
    rustix::fs::syncfs(&files)
        .map_err(|errno| Error::unavailable(format!("cannot write the layer: {errno}")))?;
    write_json(&order.target.join(KNOWN), &unpacked)
        .map_err(|error| Error::unavailable(format!("cannot write {KNOWN}: {error}")))?;
    let place = order.target.with_file_name(unpacked.digest.hex());
    let renamed = std::fs::rename(&order.target, &place);
    let named = match renamed {
        Err(_) if find_whole(&place).is_some() => Ok(()), // Somebody else was quicker.
        // What has the name and is not whole is removed in the place of this.
        Err(_) if place.is_dir() => {
            renameat_with(CWD, &order.target, CWD, &place, RenameFlags::EXCHANGE)
                .map_err(io::Error::from)
        }
        renamed => renamed,
    };
    named
        .map_err(|error| Error::unavailable(format!("cannot make {}: {error}", place.display())))?;
    Ok(unpacked)
}

/// What is known of a layer that is there, with all of its files.
pub(crate) fn find_whole(layer: &Path) -> Option<UnpackedTo> {
    let known = read_json(&layer.join(KNOWN)).ok()?;
    known.filter(|_| layer.join(FILES).is_dir())
}

fn make_target(target: &Path) -> Result<File> {
    let files = target.join(FILES);
    let make = |path: &Path| std::fs::DirBuilder::new().mode(0o755).create(path);
    let made = make(target).and_then(|()| make(&files)).and_then(|()| File::open(&files));
    made.map_err(|error| Error::unavailable(format!("cannot make {}: {error}", files.display())))
}

fn unpack_stored(
    stored: impl Read,
    order: &LayerOrder,
    files: &File,
    marks: Marks,
    owners: Owners,
) -> Result<UnpackedTo> {
    let unreadable =
        |error: io::Error| Error::invalid(format!("the layer cannot be unpacked: {error}"));
    let mut stored = Digesting::new(stored);
    let (plain, _) = unpacked(&mut stored).map_err(unreadable)?;
    let bounds = LayerBounds::default();
    // With the heads of entries, and with what is left out or stands behind the last of them.
    let mut plain = Digesting::new(plain.take(bounds.bytes.saturating_mul(2)));
    let done = unpack_layer(&mut plain, files.as_fd(), marks, owners, bounds)?;
    let digest = plain.finish().map_err(unreadable)?;
    check_digest(&digest, order.unpacked.as_ref(), "the layer")?;
    let stored = stored.finish().map_err(unreadable)?;
    check_digest(&stored, order.packed.as_ref(), "the layer as it is stored")?;
    Ok(UnpackedTo { digest, bytes: done.bytes })
}
