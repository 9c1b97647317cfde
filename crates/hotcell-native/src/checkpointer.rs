//! States of cells' files, by stacking layers.
//!
//! What a cell is made of stands in its `cell.json`, which is replaced whole: that is the moment at
//! which a checkpoint is made or restored. Before it nothing has happened; after it a cell that
//! runs is given the new layers by its keeper, or ended, so that it wakes on them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use hotcell_jail::mounts::{Lower, Upper};
use hotcell_keeper::{HeldLock, WhichProcess};
use hotcell_model::{
    AUTOMATIC_CHECKPOINTS, CellId, CellSpec, Checkpoint, CheckpointDiff, CheckpointId,
    CheckpointMeans, CheckpointPurpose, Checkpointer, Error, Result, Timestamp,
};
use hotcell_place::{read_json, remove_if_there, save_json};
use rustix::process::getpid;

use crate::base::make_uppers;
use crate::checkpoint_file::{CheckpointFile, seen_by_another};
use crate::description::unreadable;
use crate::disk::{find_sizes, own};
use crate::driver::{Native, NativeDriver, at, stop_supervisor};
use crate::flatten::{Aim, CellLayers, make_targets, replace_in};
use crate::image_store::ImageStore;
use crate::keeper_socket::{KeeperAsk, ask_keeper};
use crate::layer_store::{LayerStore, Making};
use crate::merge_layers::Merge;
use crate::order::{Outcome, PLACED_VERSION, Placed, Task};
use crate::paths::CellPaths;
use crate::project::drift;
use crate::way::{Way, not_on_host};

#[async_trait]
impl Checkpointer for NativeDriver {
    async fn create(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        means: CheckpointMeans,
        purpose: CheckpointPurpose,
    ) -> Result<Checkpoint> {
        let (cell, id) = (cell.clone(), checkpoint.clone());
        self.blocking(move |native| {
            let made = native.create_checkpoint(&cell, id, means, purpose)?;
            if purpose == CheckpointPurpose::Undoing
                && let Err(error) = native.let_go_of_automatic(&cell)
            {
                // The next one does.
                tracing::warn!(%cell, %error, "automatic checkpoints of a cell are too many");
            }
            Ok(made)
        })
        .await
    }

    async fn find(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<Option<Checkpoint>> {
        let (cell, checkpoint) = (cell.clone(), checkpoint.clone());
        self.blocking(move |native| native.find_checkpoint(&cell, &checkpoint)).await
    }

    async fn list(&self, cell: &CellId) -> Result<Vec<Checkpoint>> {
        let cell = cell.clone();
        self.blocking(move |native| native.list_checkpoints(&cell)).await
    }

    async fn compare(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        range: Range<u32>,
        patch_bytes: Option<u32>,
    ) -> Result<CheckpointDiff> {
        let (cell, checkpoint) = (cell.clone(), checkpoint.clone());
        let compare = move |native: &Native| {
            native.compare_checkpoint(&cell, &checkpoint, range, patch_bytes)
        };
        self.blocking(compare).await
    }

    async fn restore(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<()> {
        let (cell, checkpoint) = (cell.clone(), checkpoint.clone());
        self.blocking(move |native| native.restore_checkpoint(&cell, &checkpoint)).await
    }

    async fn delete(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<()> {
        let (cell, checkpoint) = (cell.clone(), checkpoint.clone());
        self.blocking(move |native| native.delete_checkpoint(&cell, &checkpoint)).await
    }

    async fn fork(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        spec: &CellSpec,
        records: &Path,
    ) -> Result<()> {
        let (cell, checkpoint) = (cell.clone(), checkpoint.clone());
        let (spec, records) = (spec.clone(), records.to_owned());
        self.blocking(move |native| native.fork(&cell, &checkpoint, spec, records)).await
    }
}

impl Native {
    fn create_checkpoint(
        &self,
        cell: &CellId,
        id: CheckpointId,
        means: CheckpointMeans,
        purpose: CheckpointPurpose,
    ) -> Result<Checkpoint> {
        let paths = self.paths.cell(cell);
        let _lock = lock_layers(&paths)?;
        let placed = self.placed(&paths)?;
        if placed.layers.iter().any(|layer| layer.shared.is_some()) {
            return Err(Error::unsupported(format!(
                "cell {cell} writes to a directory of the host itself, of which there are no checkpoints"
            ))
            .hint("use a workspace of mode cow"));
        }
        let created_at = Timestamp::now();
        let automatic = purpose == CheckpointPurpose::Undoing;
        let cell = cell.clone();
        let checkpoint = Checkpoint { id, cell, created_at, means, automatic, bytes: None };
        let forked_by = match purpose {
            CheckpointPurpose::Keeping | CheckpointPurpose::Undoing => None,
            CheckpointPurpose::Forking => Some(
                WhichProcess::of(getpid())
                    .map_err(|error| at("tell which process forks", &paths, &error))?,
            ),
        };
        let drift = drift::at_checkpoint(&paths, &placed, &checkpoint.id)
            .map_err(|error| at("make a checkpoint in", &paths, &error))?;
        let new = CheckpointFile { checkpoint, lowers: Vec::new(), forked_by, drift };
        if means == CheckpointMeans::Copied {
            return self.copy_checkpoint(&paths, &placed, new);
        }
        let layers = LayerStore::new(&self.paths);
        let making = layers.making().map_err(|error| at("make a checkpoint in", &paths, &error))?;
        let merges = self.make_fewer(&paths, &layers, &making)?;
        let stack = || -> io::Result<Placed> {
            let upper = layers.make(&making, &paths)?;
            let mut stacked = placed.stacked(upper.clone(), is_written);
            if !merges.is_empty() {
                let mut parts = stacked.parts();
                replace_in(&mut parts, &merges);
                stacked = stacked.on(&parts, upper);
            }
            if stacked.layers != placed.layers {
                make_uppers(&stacked.layers, &stacked.ids)?;
                paths.save_placed(&stacked)?;
            }
            Ok(stacked)
        };
        let stacked = stack().map_err(|error| at("make a checkpoint in", &paths, &error))?;
        // Before anything else can fail: what is a layer now must not be written to.
        if stacked.layers != placed.layers {
            put_in_force(&paths)?;
        }
        write_checkpoint(&paths, CheckpointFile { lowers: stacked.parts(), ..new })
    }

    /// Keeps the state of a cell that goes on writing to the layer it has.
    fn copy_checkpoint(
        &self,
        paths: &CellPaths,
        placed: &Placed,
        new: CheckpointFile,
    ) -> Result<Checkpoint> {
        let failed = |error: io::Error| at("make a checkpoint in", paths, &error);
        let layers = LayerStore::new(&self.paths);
        let making = layers.making().map_err(failed)?;
        let stacked = placed.stacked(layers.make(&making, paths).map_err(failed)?, is_written);
        make_uppers(&stacked.layers, &stacked.ids).map_err(failed)?;
        // As if what comes were the copy, and what there is were written on.
        let mut pairs = Vec::new();
        let mut lowers = stacked.parts();
        for (part, (old, new)) in lowers.iter_mut().zip(placed.layers.iter().zip(&stacked.layers)) {
            if let (Some(from), Some(to), Some(top)) =
                (&old.upper, &new.upper, part.lowers.first_mut())
                && top.path == from.data
            {
                top.path.clone_from(&to.data);
                pairs.push((from.data.clone(), to.data.clone()));
            }
        }
        match self.order(paths, Task::Copy { pairs })? {
            Outcome::Done => {}
            Outcome::Failed(error) => return Err(error),
            Outcome::Ready(_)
            | Outcome::Probed(_)
            | Outcome::Unpacked(_)
            | Outcome::Compared { .. }
            | Outcome::Project(_) => {
                return Err(Error::internal("the keeper copied nothing"));
            }
        }
        write_checkpoint(paths, CheckpointFile { lowers, ..new })
    }

    /// What is to become one first, and has, since the cell has as many layers as it may have.
    fn make_fewer(
        &self,
        paths: &CellPaths,
        store: &LayerStore<'_>,
        making: &Making,
    ) -> Result<Vec<Merge>> {
        let failed = |error: io::Error| at("make layers fewer in", paths, &error);
        let cell = CellLayers::read(paths).map_err(failed)?;
        if !cell.is_full() {
            return Ok(Vec::new());
        }
        let merges =
            make_targets(store, making, paths, &cell.groups(Aim::Depth)).map_err(failed)?;
        match self.order(paths, Task::Merge { merges: merges.clone() })? {
            Outcome::Done => Ok(merges),
            Outcome::Failed(error) => {
                // It may do with one more.
                tracing::warn!(%error, "the layers of a cell cannot be made fewer");
                Ok(Vec::new())
            }
            Outcome::Ready(_)
            | Outcome::Probed(_)
            | Outcome::Unpacked(_)
            | Outcome::Compared { .. }
            | Outcome::Project(_) => Err(Error::internal("the keeper made no layers one")),
        }
    }

    fn find_checkpoint(&self, cell: &CellId, id: &CheckpointId) -> Result<Option<Checkpoint>> {
        let paths = self.paths.cell(cell);
        let file: Option<CheckpointFile> = read_json(&paths.checkpoint(id))
            .map_err(|error| at("read a checkpoint of", &paths, &error))?;
        Ok(file.filter(|file| file.forked_by.is_none()).map(|file| file.checkpoint))
    }

    /// Forgets the oldest automatic checkpoints of a cell that has more than are kept.
    fn let_go_of_automatic(&self, cell: &CellId) -> Result<()> {
        let mut kept = kept_checkpoints(&self.paths.cell(cell))?;
        kept.retain(|kept| kept.checkpoint.automatic);
        let beyond = kept.len().saturating_sub(AUTOMATIC_CHECKPOINTS);
        for old in kept.iter().take(beyond) {
            self.delete_checkpoint(cell, &old.checkpoint.id)?;
        }
        Ok(())
    }

    fn list_checkpoints(&self, cell: &CellId) -> Result<Vec<Checkpoint>> {
        let paths = self.paths.cell(cell);
        let mut kept = kept_checkpoints(&paths)?;
        if !count_bytes(&mut kept) && matches!(self.order(&paths, Task::Measure), Ok(Outcome::Done))
        {
            count_bytes(&mut kept);
        }
        Ok(kept.into_iter().map(|kept| kept.checkpoint).collect())
    }

    fn compare_checkpoint(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        range: Range<u32>,
        patch_bytes: Option<u32>,
    ) -> Result<CheckpointDiff> {
        let paths = self.paths.cell(cell);
        // Nobody may let go of its layers meanwhile.
        let _making = LayerStore::new(&self.paths)
            .making()
            .map_err(|error| at("compare with a checkpoint in", &paths, &error))?;
        let kept = self.checkpoint(&paths, checkpoint)?;
        let Range { start: skip, end: limit } = range;
        let task = Task::Compare { parts: kept.lowers, skip, limit, patch_bytes };
        match self.order(&paths, task)? {
            Outcome::Compared { changes, truncated, patch } => {
                Ok(CheckpointDiff { checkpoint: checkpoint.clone(), changes, truncated, patch })
            }
            Outcome::Failed(error) => Err(error),
            Outcome::Ready(_)
            | Outcome::Done
            | Outcome::Unpacked(_)
            | Outcome::Probed(_)
            | Outcome::Project(_) => Err(Error::internal("the keeper compared nothing")),
        }
    }

    fn restore_checkpoint(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<()> {
        let paths = self.paths.cell(cell);
        let _lock = lock_layers(&paths)?;
        let placed = self.placed(&paths)?;
        let kept = self.checkpoint(&paths, checkpoint)?;
        let restored = || -> io::Result<()> {
            let layers = LayerStore::new(&self.paths);
            let making = layers.making()?;
            let restored = placed.on(&kept.lowers, layers.make(&making, &paths)?);
            make_uppers(&restored.layers, &restored.ids)?;
            // Before the files are back: older notes show more conflicts, never fewer.
            drift::back_at_checkpoint(&paths, &paths, checkpoint, kept.drift.as_ref())?;
            paths.save_placed(&restored)
        };
        restored().map_err(|error| at("restore a checkpoint in", &paths, &error))?;
        put_in_force(&paths)?;
        self.collect(&paths);
        Ok(())
    }

    fn delete_checkpoint(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<()> {
        let paths = self.paths.cell(cell);
        let _lock = lock_layers(&paths)?;
        let kept = self.checkpoint(&paths, checkpoint)?;
        fs::remove_file(paths.checkpoint(checkpoint))
            .and_then(|()| remove_if_there(&paths.shown_at(checkpoint)))
            .map_err(|error| at("delete a checkpoint in", &paths, &error))?;
        let placed = self.placed(&paths)?;
        let own = |lower: &Lower| placed.layers.iter().any(|layer| layer.lowers.contains(lower));
        if !kept.lowers.iter().flat_map(|part| &part.lowers).all(own) {
            self.collect(&paths);
        }
        self.give_back_room(&paths);
        Ok(())
    }

    fn fork(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        spec: CellSpec,
        records: PathBuf,
    ) -> Result<()> {
        let parent = self.paths.cell(cell);
        let paths = self.paths.cell(&spec.id);
        // Before the checkpoint is looked at: nobody else may let go of its layers meanwhile.
        let layers = LayerStore::new(&self.paths);
        let making = layers.making().map_err(|error| at("make", &paths, &error))?;
        let images = ImageStore::new(&self.paths);
        let _image = images.taking().map_err(|error| at("make", &paths, &error))?;
        let placed = self.placed(&parent)?;
        let CheckpointFile { lowers: parts, drift, .. } = self.checkpoint(&parent, checkpoint)?;
        let made = || -> io::Result<()> {
            fs::create_dir_all(paths.root())?;
            let ids = self.take_ids(&spec.id, placed.project.as_ref())?;
            let upper = layers.make(&making, &paths)?;
            let seen = seen_by_another(&parts, &placed.ids);
            let mut forked = placed.on(&seen, upper);
            (forked.spec, forked.ids, forked.records) = (spec, ids, records);
            if parent.applied().exists() {
                fs::copy(parent.applied(), paths.applied())?;
            }
            drift::back_at_checkpoint(&paths, &parent, checkpoint, drift.as_ref())?;
            paths.save_placed(&forked)
        };
        made().map_err(|error| at("make", &paths, &error))
    }

    /// Removes layers that nobody names any more; failing that, the next one does.
    pub(crate) fn collect(&self, paths: &CellPaths) {
        match self.order(paths, Task::Collect) {
            Ok(Outcome::Done) => {}
            other => tracing::warn!(?other, "layers that nobody needs may be left"),
        }
    }

    /// Lets layers become one that nobody needs apart any more, without waiting for it; failing
    /// that, the next one does.
    fn give_back_room(&self, paths: &CellPaths) {
        let needed = CellLayers::read(paths).is_ok_and(|cell| !cell.groups(Aim::Room).is_empty());
        if needed && let Err(error) = self.order(paths, Task::Flatten(Aim::Room)) {
            tracing::warn!(%error, "layers that nobody needs apart stay");
        }
        // One that does not run is measured when it does.
        let _ = ask_keeper(paths, &KeeperAsk::Measure);
    }

    pub(crate) fn placed(&self, paths: &CellPaths) -> Result<Placed> {
        let placed = paths.read_placed().map_err(|error| unreadable(paths, &error))?;
        match placed {
            Some(placed) if placed.version > PLACED_VERSION || placed.upper.is_none() => {
                Err(Error::unsupported(format!(
                    "cell {} was made by another version of hotcell",
                    placed.spec.id
                ))
                .hint("make a new cell to work with checkpoints"))
            }
            Some(placed) if placed.way() == Way::OnHost => {
                Err(not_on_host("no layers, so no checkpoints or forks either"))
            }
            Some(placed) => Ok(placed),
            None => Err(never_started()),
        }
    }

    fn checkpoint(&self, paths: &CellPaths, id: &CheckpointId) -> Result<CheckpointFile> {
        let file = read_json(&paths.checkpoint(id))
            .map_err(|error| at("read a checkpoint of", paths, &error))?;
        file.ok_or_else(|| {
            Error::not_found(format!("the cell has no checkpoint {id}"))
                .hint("list them with `hotcell checkpoint list`")
        })
    }
}

/// What is kept of a cell's states, the oldest first.
fn kept_checkpoints(paths: &CellPaths) -> Result<Vec<CheckpointFile>> {
    let list = || -> io::Result<Vec<CheckpointFile>> {
        let mut found = Vec::new();
        for path in paths.checkpoint_files()? {
            let file = read_json::<CheckpointFile>(&path)?;
            found.extend(file.filter(|file| file.forked_by.is_none()));
        }
        found.sort_by_key(|kept| (kept.checkpoint.created_at, kept.checkpoint.id.clone()));
        Ok(found)
    };
    list().map_err(|error| at("list the checkpoints in", paths, &error))
}

/// Lets nobody else change of which layers a cell and its checkpoints are made.
pub(crate) fn lock_layers(paths: &CellPaths) -> Result<Option<HeldLock>> {
    match paths.lock_layers() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(never_started()),
        locked => locked.map_err(|error| at("change the layers of", paths, &error)),
    }
}

fn never_started() -> Error {
    Error::unavailable("the cell was never started").hint("run something in it")
}

/// Lets a cell that runs have what its `cell.json` says, one way or the other.
pub(crate) fn put_in_force(paths: &CellPaths) -> Result<()> {
    let alive =
        WhichProcess::find_in(&paths.supervisor()).map_err(|error| at("look at", paths, &error))?;
    if alive.is_none() {
        return Ok(());
    }
    match ask_keeper(paths, &KeeperAsk::Swap) {
        Ok(Outcome::Done) => Ok(()),
        other => {
            let cell = paths.root().file_name();
            tracing::info!(?cell, ?other, "a cell is ended to wake on other layers");
            stop_supervisor(paths)
        }
    }
}

fn write_checkpoint(paths: &CellPaths, file: CheckpointFile) -> Result<Checkpoint> {
    fs::create_dir_all(paths.checkpoints())
        .and_then(|()| save_json(&paths.checkpoint(&file.checkpoint.id), &file))
        .map_err(|error| at("write down a checkpoint in", paths, &error))?;
    Ok(file.checkpoint)
}

/// Says of each checkpoint, oldest first, what it holds that none before it does; whether everything
/// was measured.
fn count_bytes(kept: &mut [CheckpointFile]) -> bool {
    let (mut parts, mut files) = (HashSet::new(), HashSet::new());
    for CheckpointFile { checkpoint, lowers, .. } in kept {
        let own = lowers.iter().flat_map(|part| own(&part.lowers));
        let mut bytes = 0;
        for part in own.filter(|part| parts.insert(part.clone())) {
            let Ok(Some(sizes)) = find_sizes(&part) else { return false };
            let more = sizes.into_iter().filter(|(file, _)| files.insert(*file));
            bytes += more.map(|(_, bytes)| bytes).sum::<u64>();
        }
        checkpoint.bytes = Some(bytes);
    }
    true
}

/// Whether anything was written to a part.
pub(crate) fn is_written(upper: &Upper) -> bool {
    // What cannot be looked at may have been written to.
    fs::read_dir(&upper.data).map_or(true, |mut entries| entries.next().is_some())
}
