//! Directories that cells write to, and that become layers which nobody writes to any more.
//!
//! A layer lies below `layers/` and belongs to whoever names it: cells and checkpoints, each in a
//! file that is replaced whole. What nobody names is removed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hotcell_jail::ids::IdLayout;
use hotcell_place::read_json;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::checkpoint_file::CheckpointFile;
use crate::flatten::InTheMaking;
use crate::order::Placed;
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

    /// Makes an empty layer.
    pub(crate) fn make(&self, _making: &Making) -> io::Result<PathBuf> {
        fs::create_dir_all(self.paths.layers())?;
        loop {
            let mut random = [0; 8];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
            let path = self.paths.layers().join(format!("{:016x}", u64::from_le_bytes(random)));
            match fs::DirBuilder::new().mode(0o755).create(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes every layer that nobody names, and checkpoints that were for forks which nobody makes
    /// any more. Where a description cannot be read nothing is.
    pub(crate) fn collect(&self, ids: &IdLayout) -> io::Result<()> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
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

    fn unnamed_of(&self, named: &BTreeSet<PathBuf>) -> io::Result<Vec<PathBuf>> {
        Ok(entries(&self.paths.layers())?.into_iter().filter(|it| !named.contains(it)).collect())
    }

    /// The layers that cells and checkpoints name. What is left of checkpoints that nobody makes any
    /// more goes meanwhile: whoever writes one keeps layers from being removed.
    fn named(&self) -> io::Result<BTreeSet<PathBuf>> {
        let mut named = BTreeSet::new();
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
            if let Some(placed) = read_json::<Placed>(&cell.placed())? {
                placed.upper.iter().for_each(|upper| name(upper));
                let lowers = placed.layers.iter().flat_map(|layer| &layer.lowers);
                lowers.for_each(|lower| name(&lower.path));
            }
            if let Some(making) = read_json::<InTheMaking>(&cell.in_the_making())? {
                making.layers.iter().for_each(|layer| name(layer));
            }
            for half in cell.half_checkpoint_files()? {
                fs::remove_file(half)?;
            }
            for file in cell.checkpoint_files()? {
                if let Some(kept) = read_json::<CheckpointFile>(&file)? {
                    if kept.is_left() && fs::remove_file(&file).is_ok() {
                        continue;
                    }
                    let lowers = kept.lowers.iter().flat_map(|part| &part.lowers);
                    lowers.for_each(|lower| name(&lower.path));
                }
            }
        }
        Ok(named)
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

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}
