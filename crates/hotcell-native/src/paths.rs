//! Where a native cell lies in the state directory.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use hotcell_keeper::{HeldLock, KeptPlace, LockWait, lock_in};
use hotcell_model::{CellId, CheckpointId};
use hotcell_place::{connect_in, listen_in};

/// The driver's part of the state directory.
#[derive(Debug, Clone)]
pub(crate) struct NativePaths {
    root: PathBuf,
}

impl NativePaths {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { root: state_dir.join("native") }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn cells(&self) -> PathBuf {
        self.root.join("cells")
    }

    pub(crate) fn cell(&self, cell: &CellId) -> CellPaths {
        CellPaths { root: self.cells().join(cell.as_str()) }
    }

    /// Root file systems that cells start from.
    pub(crate) fn bases(&self) -> PathBuf {
        self.root.join("bases")
    }

    /// Images that cells begin with.
    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Which cell has which range of ids.
    pub(crate) fn id_ranges(&self) -> PathBuf {
        self.root.join("ids")
    }

    /// What cells write to, and what they wrote.
    pub(crate) fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    /// Copies of the program, one for each version that a cell may run.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join("programs")
    }
}

/// One cell's directory.
#[derive(Debug, Clone)]
pub(crate) struct CellPaths {
    root: PathBuf,
}

impl CellPaths {
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The id of the cell, as its directory is called.
    pub(crate) fn name(&self) -> String {
        self.root.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What of it is its keeper's.
    pub(crate) fn kept(&self) -> KeptPlace<'_> {
        KeptPlace::at(&self.root)
    }

    /// What the cell is: written before it is first started.
    pub(crate) fn placed(&self) -> PathBuf {
        self.root.join("cell.json")
    }

    /// The isolation of the last start.
    pub(crate) fn isolation(&self) -> PathBuf {
        self.root.join("isolation.json")
    }

    /// Which process the supervisor is.
    pub(crate) fn supervisor(&self) -> PathBuf {
        self.root.join("supervisor.json")
    }

    /// What the cell wrote, a directory for each layer.
    pub(crate) fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Which cell has which range of ids.
    pub(crate) fn id_ranges(&self) -> PathBuf {
        self.root.join("../../ids")
    }

    /// The cell's checkpoints, a file each.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// Those that are written down; what a process that died left half written is none.
    pub(crate) fn checkpoint_files(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.sorted_checkpoint_files()?.0)
    }

    /// What processes that died left half written. Others may be at it unless all are kept out.
    pub(crate) fn half_checkpoint_files(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.sorted_checkpoint_files()?.1)
    }

    fn sorted_checkpoint_files(&self) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let entries = match std::fs::read_dir(self.checkpoints()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(<_>::default()),
            entries => entries?,
        };
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let paths = paths.collect::<io::Result<Vec<_>>>()?;
        let is_whole = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        Ok(paths.into_iter().partition(is_whole))
    }

    /// One of them.
    pub(crate) fn checkpoint(&self, checkpoint: &CheckpointId) -> PathBuf {
        self.checkpoints().join(format!("{checkpoint}.json"))
    }

    /// The driver's part of the state directory that the cell is in.
    pub(crate) fn native(&self) -> NativePaths {
        let root = self.root.ancestors().nth(2).unwrap_or(&self.root);
        NativePaths { root: root.to_owned() }
    }

    /// What real files of the cell's project were like after its changes were brought to them.
    pub(crate) fn applied(&self) -> PathBuf {
        self.root.join("applied.json")
    }

    /// Which files of its project the cell and the host had alike.
    pub(crate) fn agreed(&self) -> PathBuf {
        self.root.join("agreed.json")
    }

    /// What the cell was last shown of its project's tree. Older versions recorded it only once.
    pub(crate) fn shown(&self) -> PathBuf {
        self.root.join("starting-names")
    }

    /// The same, when checkpoints were made: a file each.
    pub(crate) fn shown_at_checkpoints(&self) -> PathBuf {
        self.root.join("shown-at-checkpoints")
    }

    /// One of them.
    pub(crate) fn shown_at(&self, checkpoint: &CheckpointId) -> PathBuf {
        self.shown_at_checkpoints().join(checkpoint.as_str())
    }

    /// Which files the user changed after the cell had made its own version of them.
    pub(crate) fn drift(&self) -> PathBuf {
        self.root.join("drift.json")
    }

    /// How changes that are being brought to real files are undone.
    pub(crate) fn apply_journal(&self) -> PathBuf {
        self.root.join("apply.json")
    }

    /// The group of all cells in which it has its own, if it was started in one.
    pub(crate) fn groups(&self) -> PathBuf {
        self.root.join("groups.json")
    }

    /// An empty directory for mounts in the making.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// An empty directory, which lies below what is shown at `/tools`.
    pub(crate) fn nothing(&self) -> PathBuf {
        self.root.join("nothing")
    }

    /// The directory with the program that its shells have of Hotcell.
    pub(crate) fn shown_programs(&self) -> PathBuf {
        self.root.join("programs")
    }

    /// Listens at the link's socket; a socket of a dead supervisor is replaced.
    pub(crate) fn listen(&self) -> io::Result<UnixListener> {
        listen_in(&self.root, SOCKET)
    }

    /// Connects to the link's socket; `None` when nobody listens.
    pub(crate) fn connect(&self) -> io::Result<Option<UnixStream>> {
        connect_in(&self.root, SOCKET)
    }

    /// Layers that are being made of others.
    pub(crate) fn in_the_making(&self) -> PathBuf {
        self.root.join("making.json")
    }

    /// Why the last attempt to merge the cell's layers failed.
    pub(crate) fn flattening_error(&self) -> PathBuf {
        self.root.join("flattening.error")
    }

    /// Writes the reason of a failed merge to a file, because no process waits for the result.
    pub(crate) fn note_flattening_error(&self, error: &dyn std::fmt::Display) {
        let _ = std::fs::write(self.flattening_error(), format!("{error}\n"));
    }

    /// Held by whoever makes the cell's layers fewer.
    pub(crate) fn lock_flattening(&self, wait: LockWait) -> io::Result<Option<HeldLock>> {
        self.lock("flattening.lock", wait)
    }

    /// Held by the one process that waits to merge the cell's layers.
    pub(crate) fn lock_next_flattening(&self) -> io::Result<Option<HeldLock>> {
        self.lock("flattening-next.lock", LockWait::Try)
    }

    /// Held while something is done with the cell's project.
    pub(crate) fn lock_project(&self) -> io::Result<Option<HeldLock>> {
        self.lock("project.lock", LockWait::Wait)
    }

    /// The same lock, if it is free.
    pub(crate) fn try_lock_project(&self) -> io::Result<Option<HeldLock>> {
        self.lock("project.lock", LockWait::Try)
    }

    /// Held while it is changed of which layers the cell and its checkpoints are made.
    pub(crate) fn lock_layers(&self) -> io::Result<Option<HeldLock>> {
        self.lock("layers.lock", LockWait::Wait)
    }

    fn lock(&self, name: &str, wait: LockWait) -> io::Result<Option<HeldLock>> {
        lock_in(&self.root, name, wait)
    }
}

const SOCKET: &str = "link.sock";
