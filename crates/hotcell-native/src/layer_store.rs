//! Directories that cells write to, and that become layers which nobody writes to any more.
//!
//! A layer lies below `layers/` and belongs to the cells and checkpoints that name it, each in a
//! file that is replaced whole. A layer without such a name is removed. The name of a layer ends with
//! the cell it was made for: while the description of a cell cannot be read, only layers are removed
//! that were made for a cell whose description can be.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hotcell_jail::ids::IdLayout;
use hotcell_place::read_json;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::checkpoint_file::CheckpointFile;
use crate::description::Description;
use crate::flatten::InTheMaking;
use crate::paths::{CellPaths, NativePaths};
use crate::removal::remove_files;

/// All layers of a state directory.
#[derive(Debug)]
pub(crate) struct LayerStore<'a> {
    paths: &'a NativePaths,
}

/// Keeps layers that nobody names yet from being removed.
#[derive(Debug)]
pub(crate) struct Making {
    _lock: File,
}

impl<'a> LayerStore<'a> {
    pub(crate) fn new(paths: &'a NativePaths) -> Self {
        Self { paths }
    }

    /// To be held from before a layer is made until somebody names it.
    pub(crate) fn making(&self) -> io::Result<Making> {
        Ok(Making { _lock: self.lock(FlockOperation::LockShared)? })
    }

    /// Makes an empty layer for a cell.
    pub(crate) fn make(&self, _making: &Making, cell: &CellPaths) -> io::Result<PathBuf> {
        fs::create_dir_all(self.paths.layers())?;
        let cell = cell.name();
        loop {
            let mut random = [0; 8];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
            let random = u64::from_le_bytes(random);
            let path = self.paths.layers().join(format!("{random:016x}.{cell}"));
            match fs::DirBuilder::new().mode(0o755).create(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes every layer that nobody names, and checkpoints that were for forks which nobody makes
    /// any more. A layer that may belong to a cell whose description cannot be read stays.
    pub(crate) fn collect(&self, ids: &IdLayout) -> io::Result<()> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        self.remove_left_checkpoints()?;
        for layer in self.unnamed_of(&self.named()?)? {
            remove_files(&layer, ids).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Every layer that nobody names, and nobody is about to.
    pub(crate) fn unnamed(&self) -> io::Result<Vec<PathBuf>> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        self.unnamed_of(&self.named()?)
    }

    fn unnamed_of(&self, named: &Named) -> io::Result<Vec<PathBuf>> {
        let is_unnamed = |layer: &PathBuf| !named.may_need(layer);
        Ok(entries(&self.paths.layers())?.into_iter().filter(is_unnamed).collect())
    }

    /// Removes what is left of checkpoints that nobody makes any more: whoever writes one keeps layers
    /// from being removed.
    fn remove_left_checkpoints(&self) -> io::Result<()> {
        for cell in entries(&self.paths.cells())? {
            let cell = CellPaths::at(cell);
            for half in cell.half_checkpoint_files()? {
                fs::remove_file(half)?;
            }
            for file in cell.checkpoint_files()? {
                // One that cannot be read may be wanted.
                let kept = read_json::<CheckpointFile>(&file).unwrap_or_default();
                if kept.is_some_and(|kept| kept.is_left()) {
                    // One that stays keeps its layers.
                    let _ = fs::remove_file(&file);
                }
            }
        }
        Ok(())
    }

    /// The layers that cells and checkpoints name.
    fn named(&self) -> io::Result<Named> {
        let mut named = BTreeSet::new();
        let (mut readable, mut unreadable) = (BTreeSet::new(), false);
        let layers = self.paths.layers();
        let mut name = |path: &Path| {
            if let Ok(below) = path.strip_prefix(&layers)
                && let Some(first) = below.iter().next()
            {
                named.insert(layers.join(first));
            }
        };
        for cell in entries(&self.paths.cells())? {
            let cell = CellPaths::at(cell);
            match names_of(&cell) {
                Ok(names) => {
                    readable.insert(cell.name());
                    names.iter().for_each(|path| name(path));
                }
                Err(error) => {
                    tracing::warn!(cell = cell.name(), %error, "layers of a cell are not known");
                    unreadable = true;
                }
            }
        }
        let certain_owners = unreadable.then_some(readable);
        Ok(Named { layers: named, certain_owners })
    }

    fn lock(&self, operation: FlockOperation) -> io::Result<File> {
        fs::create_dir_all(self.paths.root())?;
        let path = self.paths.root().join("layers.lock");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?;
        flock(&file, operation)?;
        Ok(File::from(file))
    }
}

/// The layers that are named.
#[derive(Debug)]
struct Named {
    layers: BTreeSet<PathBuf>,
    /// If not everything could be read: the cells of which all is known.
    certain_owners: Option<BTreeSet<String>>,
}

impl Named {
    /// Whether a cell or a checkpoint names a layer, or might.
    fn may_need(&self, layer: &Path) -> bool {
        let owner = layer.extension().and_then(OsStr::to_str);
        let is_certain = match &self.certain_owners {
            None => true,
            Some(owners) => owner.is_some_and(|owner| owners.contains(owner)),
        };
        self.layers.contains(layer) || !is_certain
    }
}

/// The paths in layers that a cell and its checkpoints name.
fn names_of(cell: &CellPaths) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    match cell.describe() {
        Description::Whole(placed) => {
            names.extend(placed.upper);
            let lowers = placed.layers.into_iter().flat_map(|layer| layer.lowers);
            names.extend(lowers.map(|lower| lower.path));
        }
        Description::None => {}
        Description::Unreadable { error, .. } => return Err(error),
    }
    if let Some(making) = read_json::<InTheMaking>(&cell.in_the_making())? {
        names.extend(making.layers);
    }
    for file in cell.checkpoint_files()? {
        if let Some(kept) = read_json::<CheckpointFile>(&file)? {
            let lowers = kept.lowers.into_iter().flat_map(|part| part.lowers);
            names.extend(lowers.map(|lower| lower.path));
        }
    }
    Ok(names)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}
