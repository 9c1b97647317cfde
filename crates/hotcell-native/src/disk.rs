//! How much a cell has written.
//!
//! What nobody writes to any more is measured once: beside each part of such a layer lies which
//! files it has and what each takes. A file that several layers have counts once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use hotcell_jail::mounts::{Lower, LowerIds};
use hotcell_keeper::{HIDDEN, Seen, Used, bytes_of, used_below, walk};
use hotcell_place::{read_json, write_json};

use crate::checkpoint_file::CheckpointFile;
use crate::order::Placed;
use crate::paths::CellPaths;

/// A number that no file has.
const NO_FILE: u64 = 0;

/// What counts as written by a cell: what it writes to now, and what it wrote and still names, in its
/// checkpoints too. What it has from another cell counts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    live: Vec<PathBuf>,
    frozen: BTreeSet<PathBuf>,
}

impl Written {
    pub(crate) fn by(paths: &CellPaths, placed: &Placed) -> io::Result<Self> {
        let mut frozen = BTreeSet::new();
        frozen.extend(placed.layers.iter().flat_map(|layer| own(&layer.lowers)));
        for file in paths.checkpoint_files()? {
            if let Some(kept) = read_json::<CheckpointFile>(&file)? {
                frozen.extend(kept.lowers.iter().flat_map(|part| own(&part.lowers)));
            }
        }
        let uppers = placed.layers.iter().filter_map(|layer| layer.upper.as_ref());
        let live = uppers.map(|upper| upper.data.clone()).collect();
        Ok(Self { live, frozen })
    }

    /// What it writes to now.
    pub(crate) fn live_use(&self) -> io::Result<Used> {
        used_below(self.live.iter().map(PathBuf::as_path))
    }

    /// The rest.
    pub(crate) fn frozen_use(&self) -> io::Result<Used> {
        let mut all = HashMap::new();
        for part in &self.frozen {
            all.extend(measured(part)?);
        }
        Ok(Used { bytes: all.values().sum(), files: all.len() as u64 })
    }
}

/// The parts that were written by the cell that names them.
pub(crate) fn own(lowers: &[Lower]) -> impl Iterator<Item = PathBuf> {
    lowers.iter().filter(|lower| lower.ids == LowerIds::Own).map(|lower| lower.path.clone())
}

/// What a file takes on disk, by its number.
pub(crate) type Sizes = BTreeMap<u64, u64>;

/// The sizes in a part that nobody writes to; `None` if it was not measured yet.
pub(crate) fn find_sizes(part: &Path) -> io::Result<Option<Sizes>> {
    let Some(file) = sizes_file(part) else { return Ok(None) };
    let sizes: Option<Vec<(u64, u64)>> = read_json(&file)?;
    Ok(sizes.map(|sizes| sizes.into_iter().collect()))
}

/// The same, measured if it was not yet.
fn measured(part: &Path) -> io::Result<Sizes> {
    if let Ok(Some(sizes)) = find_sizes(part) {
        return Ok(sizes);
    }
    let sizes = sizes_in(part)?;
    if let Some(file) = sizes_file(part) {
        // Where nothing can be written it is measured again.
        let _ = write_json(&file, &sizes.iter().collect::<Vec<_>>());
    }
    Ok(sizes)
}

fn sizes_file(part: &Path) -> Option<PathBuf> {
    Some(part.parent()?.join("sizes.json"))
}

fn sizes_in(root: &Path) -> io::Result<Sizes> {
    let mut sizes = Sizes::new();
    let seen = walk(root, |file| {
        sizes.insert(file.st_ino, bytes_of(file));
    })?;
    if seen == Seen::Part {
        sizes.insert(NO_FILE, HIDDEN);
    }
    Ok(sizes)
}
