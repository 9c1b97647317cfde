//! Fewer layers for a cell, in the background.
//!
//! Layers are made one where nobody needs them apart, so that what they hide takes no room any more,
//! and where there are many, so that looking for a file does not take ever longer. What is made is
//! complete before anybody names it, and shows the same: each description that names it instead is
//! as right as it was. Nobody waits for it but a cell that is about to have too many layers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotcell_jail::ids::IdLayout;
use hotcell_jail::mounts::{Layer, Lower, LowerIds};
use hotcell_keeper::{HeldLock, LockWait, WhichProcess};
use hotcell_link::{Ask, FrameKind, Peer, Stillness, Tell};
use hotcell_place::{read_json, save_json, write_json};
use serde::{Deserialize, Serialize};

use crate::base::make_uppers;
use crate::checkpoint_file::{CheckpointFile, Part};
use crate::checkpointer::{is_written, put_in_force};
use crate::layer_store::{LayerStore, Making};
use crate::merge_layers::{Merge, merge_layers};
use crate::order::Placed;
use crate::paths::CellPaths;

/// With more layers than this a cell has them made fewer.
pub(crate) const MANY: usize = 10;
/// With more than this at once, whatever else is going on.
pub(crate) const TOO_MANY: usize = 30;
/// With as many it waits for that.
const MOST: usize = 50;
/// The same for a kernel that takes no more than 255 letters of them at once.
const MOST_BEFORE_6_5: usize = 13;

/// How long a cell that is busy is waited for.
const IDLE_WITHIN: Duration = Duration::from_secs(300);
/// Often at first: between two commands there may be little time.
const LOOK_AGAIN: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];
const OFTEN_FOR: Duration = Duration::from_secs(5);
/// How long to wait for the lock of another process that merges the layers.
const OTHER_WITHIN: Duration = IDLE_WITHIN;
/// How long a cell may take until it holds still.
const STILL_WITHIN: Duration = Duration::from_millis(100);
/// A supervisor that takes longer is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often layers are made one for one order: what was written meanwhile comes along next time.
const ROUNDS: usize = 3;

/// What for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Aim {
    /// Fewer layers.
    Depth,
    /// Room for what nobody can see any more.
    Room,
}

/// Layers in the making, which nobody else names yet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InTheMaking {
    /// Parts of them.
    pub(crate) layers: Vec<PathBuf>,
}

/// Makes the layers of a cell fewer, as long as the cell wants that.
pub(crate) fn flatten(paths: &CellPaths, aim: Aim) -> io::Result<()> {
    let Some(_lock) = lock_flattening(paths)? else { return Ok(()) };
    let _ = rustix::process::nice(10);
    // What one that was killed left.
    let _ = std::fs::remove_file(paths.in_the_making());
    let ids = CellLayers::read(paths)?.placed.ids;
    let done = flatten_in_rounds(paths, aim, &ids);
    // Also what was made for a cell that went meanwhile.
    LayerStore::new(&paths.native()).collect(&ids)?;
    done
}

/// Waits for the lock: a process that was killed holds it until the kernel has ended it. `None` if
/// another process waits already, or the wait takes too long.
fn lock_flattening(paths: &CellPaths) -> io::Result<Option<HeldLock>> {
    let Some(_next) = paths.lock_next_flattening()? else { return Ok(None) };
    let begun = Instant::now();
    loop {
        let lock = paths.lock_flattening(LockWait::Try)?;
        if lock.is_some() || begun.elapsed() > OTHER_WITHIN || !paths.placed().exists() {
            return Ok(lock);
        }
        std::thread::sleep(LOOK_AGAIN[1]);
    }
}

fn flatten_in_rounds(paths: &CellPaths, aim: Aim, ids: &IdLayout) -> io::Result<()> {
    for round in 0..ROUNDS {
        let cell = CellLayers::read(paths)?;
        if aim == Aim::Room && round == 0 && cell.hides_below() {
            // What was removed since is known to the layer that is written to alone.
            switch(paths, &[])?;
        }
        let cell = CellLayers::read(paths)?;
        let groups = cell.groups(aim);
        if groups.is_empty() {
            break;
        }
        let merges = prepare_to_merge(paths, &groups)?;
        let done = merges
            .iter()
            .try_for_each(|merge| {
                let is_wanted = || paths.placed().exists();
                merge_layers(merge, ids, &is_wanted).map_err(io::Error::other)
            })
            .and_then(|()| switch(paths, &merges));
        // Whoever names them by now keeps them.
        let removed = std::fs::remove_file(paths.in_the_making());
        LayerStore::new(&paths.native()).collect(ids)?;
        done.and(removed)?;
    }
    Ok(())
}

/// Makes empty layers for what is to become one, and says whose they are.
fn prepare_to_merge(paths: &CellPaths, groups: &[Group]) -> io::Result<Vec<Merge>> {
    let native = paths.native();
    let store = LayerStore::new(&native);
    let making = store.making()?;
    let merges = make_targets(&store, &making, paths, groups)?;
    let layers = merges.iter().map(|merge| merge.target.clone()).collect();
    write_json(&paths.in_the_making(), &InTheMaking { layers })?;
    Ok(merges)
}

/// An empty layer for each group.
pub(crate) fn make_targets(
    store: &LayerStore<'_>,
    making: &Making,
    cell: &CellPaths,
    groups: &[Group],
) -> io::Result<Vec<Merge>> {
    let make = |Group { sources, below }: &Group| {
        // The part has the name that it has in the layers which it is made of.
        let part = sources.first().and_then(|first| first.parent()).and_then(Path::file_name);
        let target = store.make(making, cell)?.join(part.unwrap_or_default()).join("data");
        std::fs::create_dir_all(&target)?;
        Ok(Merge { sources: sources.clone(), below: below.clone(), target })
    };
    groups.iter().map(make).collect()
}

/// What a cell and its checkpoints are made of.
#[derive(Debug)]
pub(crate) struct CellLayers {
    pub(crate) placed: Placed,
    kept: Vec<(PathBuf, CheckpointFile)>,
}

impl CellLayers {
    pub(crate) fn read(paths: &CellPaths) -> io::Result<Self> {
        let placed = paths
            .read_placed()?
            .filter(|placed| placed.upper.is_some())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the cell is gone"))?;
        let mut kept = Vec::new();
        for path in paths.checkpoint_files()? {
            if let Some(file) = read_json(&path)? {
                kept.push((path, file));
            }
        }
        Ok(Self { placed, kept })
    }

    /// What is to become one.
    pub(crate) fn groups(&self, aim: Aim) -> Vec<Group> {
        let mut groups = Vec::new();
        for layer in &self.placed.layers {
            let together = self.always_together(layer);
            let saved: usize = together.iter().map(|group| group.sources.len() - 1).sum();
            let depth = written_by_cells(&layer.lowers).saturating_sub(saved);
            let many = many_in(layer);
            if depth > many {
                let longest = runs(&layer.lowers, |one, other| one.ids == other.ids);
                groups.extend(longest.into_iter().max_by_key(|group| group.sources.len()));
            } else if aim == Aim::Room || depth + saved > many {
                groups.extend(together);
            }
        }
        groups
    }

    /// Layers of the cell's own that each of its states has all or none of.
    fn always_together(&self, layer: &Layer) -> Vec<Group> {
        let kept = self.kept.iter().flat_map(|(_, file)| &file.lowers);
        let kept = kept.filter(|part| part.target == layer.target).map(|part| &part.lowers);
        let states: Vec<&Vec<Lower>> = std::iter::once(&layer.lowers).chain(kept).collect();
        let mut named_by: BTreeMap<&Path, BTreeSet<usize>> = BTreeMap::new();
        for (state, lowers) in states.iter().enumerate() {
            for lower in *lowers {
                named_by.entry(&lower.path).or_default().insert(state);
            }
        }
        let alike = |one: &Lower, other: &Lower| {
            one.ids == LowerIds::Own
                && other.ids == LowerIds::Own
                && named_by.get(&*one.path) == named_by.get(&*other.path)
        };
        let mut groups: Vec<Group> = Vec::new();
        for group in states.iter().flat_map(|lowers| runs(lowers, alike)) {
            if groups.iter().all(|known| known.sources != group.sources) {
                groups.push(group);
            }
        }
        groups
    }

    /// Whether the layer that is written to may hide something of layers that no checkpoint needs.
    fn hides_below(&self) -> bool {
        let needed = |lower: &Lower| {
            let mut parts = self.kept.iter().flat_map(|(_, file)| &file.lowers);
            parts.any(|part| part.lowers.contains(lower))
        };
        self.placed.layers.iter().any(|layer| {
            let top = layer.lowers.first().filter(|top| top.ids == LowerIds::Own);
            layer.upper.as_ref().is_some_and(is_written) && top.is_some_and(|top| !needed(top))
        })
    }

    /// Whether the cell must not have more layers.
    pub(crate) fn is_full(&self) -> bool {
        // Those of an image are there from the beginning, and count as one.
        let is_full = |layer: &Layer| match takes_any_number() {
            true => written_by_cells(&layer.lowers) + 1 >= MOST,
            false => layer.lowers.len() >= MOST_BEFORE_6_5,
        };
        self.placed.layers.iter().any(is_full)
    }
}

/// With more layers of its own than this a part of a cell has them made fewer. Where the kernel shows
/// few, those of an image leave less room.
fn many_in(layer: &Layer) -> usize {
    let others = layer.lowers.len() - written_by_cells(&layer.lowers);
    match takes_any_number() {
        true => MANY,
        false => MOST_BEFORE_6_5.saturating_sub(others + 1).min(MANY),
    }
}

/// How many layers of an image a cell can have, with room for those that it writes.
pub(crate) fn most_layers() -> usize {
    if takes_any_number() { 400 } else { MOST_BEFORE_6_5 - 4 }
}

/// Whether the kernel can be told of layers one by one.
fn takes_any_number() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|char: char| !char.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 5),
        (_, _) => false,
    }
}

/// How many layers cells have written.
pub(crate) fn written_by_cells(lowers: &[Lower]) -> usize {
    lowers.iter().filter(|lower| lower.ids.are_of_a_cell()).count()
}

/// Layers that are to become one: a part of each, the topmost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    sources: Vec<PathBuf>,
    /// What is below them. It may be named otherwise in other states, and shows the same there.
    below: Vec<PathBuf>,
}

/// Neighbours that are alike, where there are at least two; never those that no cell wrote.
fn runs(lowers: &[Lower], alike: impl Fn(&Lower, &Lower) -> bool) -> Vec<Group> {
    let written = |one: &Lower, other: &Lower| {
        one.ids.are_of_a_cell() && other.ids.are_of_a_cell() && alike(one, other)
    };
    let paths = |some: &[Lower]| some.iter().map(|lower| lower.path.clone()).collect();
    let mut above = 0;
    let mut groups = Vec::new();
    for run in lowers.chunk_by(written) {
        above += run.len();
        if run.len() > 1 {
            groups.push(Group { sources: paths(run), below: paths(&lowers[above..]) });
        }
    }
    groups
}

/// Names what was made instead of what it was made of, if that is there.
fn replace(lowers: &mut Vec<Lower>, merge: &Merge) {
    let length = merge.sources.len();
    let at = lowers
        .windows(length)
        .position(|some| some.iter().map(|lower| &lower.path).eq(&merge.sources));
    let Some(at) = at else { return };
    let merged = Lower { path: merge.target.clone(), ids: lowers[at].ids };
    lowers.splice(at..at + length, [merged]);
}

/// Lets the cell and its checkpoints have what was made, once nothing runs in the cell. What was
/// written so far becomes a layer by that.
fn switch(paths: &CellPaths, merges: &[Merge]) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        let lock = paths.lock_layers()?;
        if let Some(held) = Held::try_to_hold(paths)? {
            let switched = exchange(paths, merges);
            drop(lock);
            held.release(paths);
            return switched;
        }
        drop(lock);
        if begun.elapsed() > IDLE_WITHIN || !paths.placed().exists() {
            return Err(io::Error::other("the cell is never idle"));
        }
        let [often, seldom] = LOOK_AGAIN;
        std::thread::sleep(if begun.elapsed() < OFTEN_FOR { often } else { seldom });
    }
}

fn exchange(paths: &CellPaths, merges: &[Merge]) -> io::Result<()> {
    let CellLayers { placed, kept } = CellLayers::read(paths)?;
    let native = paths.native();
    let store = LayerStore::new(&native);
    let making = store.making()?;
    for (path, mut file) in kept {
        let was = file.lowers.clone();
        replace_in(&mut file.lowers, merges);
        if file.lowers != was {
            save_json(&path, &file)?;
        }
    }
    let upper = store.make(&making, paths)?;
    let stacked = placed.stacked(upper.clone(), is_written);
    let mut parts = stacked.parts();
    replace_in(&mut parts, merges);
    if parts == placed.parts() {
        return Ok(());
    }
    // With a new directory for writes even where nothing was written: the old one is in use.
    let next = stacked.on(&parts, upper);
    make_uppers(&next.layers, &next.ids)?;
    paths.save_placed(&next)?;
    put_in_force(paths).map_err(io::Error::other)
}

/// The same in every part.
pub(crate) fn replace_in(parts: &mut [Part], merges: &[Merge]) {
    for part in parts {
        for merge in merges {
            replace(&mut part.lowers, merge);
        }
    }
}

/// A cell in which nothing runs and nothing is begun.
enum Held {
    /// It has no supervisor, and gets none meanwhile.
    Asleep { _lock: HeldLock },
    /// Its supervisor was told to.
    Still(Box<Holding>),
}

impl Held {
    /// `None` while something runs.
    fn try_to_hold(paths: &CellPaths) -> io::Result<Option<Self>> {
        if let Some(lock) = paths.kept().lock_keeper(LockWait::Try)? {
            // A supervisor without a keeper cannot be given other layers.
            let is_alone = WhichProcess::find_in(&paths.supervisor())?.is_some();
            return Ok((!is_alone).then_some(Self::Asleep { _lock: lock }));
        }
        let Some(stream) = paths.connect()? else { return Ok(None) };
        Ok(Holding::try_to_hold(stream)?.map(|held| Self::Still(Box::new(held))))
    }

    fn release(self, paths: &CellPaths) {
        match self {
            Self::Asleep { .. } => {}
            Self::Still(mut held) => {
                if held.ask(&Ask::Resume, 3).is_err() {
                    tracing::debug!(cell = ?paths.root().file_name(), "a cell that was held still is gone");
                }
            }
        }
    }
}

/// A connection to a supervisor that holds still for it.
struct Holding {
    stream: UnixStream,
    peer: Peer,
}

impl Holding {
    fn try_to_hold(stream: UnixStream) -> io::Result<Option<Self>> {
        stream.set_read_timeout(Some(STILL_WITHIN))?;
        let mut held = Self { stream, peer: Peer::new() };
        let told = held.ask(&Ask::Pause(Stillness::Vacant), 1);
        held.stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        match told {
            Ok(told) => Ok((told == Tell::Done).then_some(held)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Files are being read or written, and nobody is to wait for that because of this.
                held.ask(&Ask::Resume, 2)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn ask(&mut self, ask: &Ask, channel: u32) -> io::Result<Tell> {
        self.peer.send(FrameKind::Ask, channel, ask);
        self.stream.write_all(self.peer.unsent())?;
        let sent = self.peer.unsent().len();
        self.peer.mark_sent(sent);
        loop {
            while let Some(frame) = self.peer.next_frame().map_err(io::Error::other)? {
                if frame.kind == FrameKind::Tell && frame.channel == channel {
                    return frame.head().map_err(io::Error::other);
                }
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.peer.receive(&buffer[..length]),
            }
        }
    }
}
