//! What a cell has written, as its keeper keeps account of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use hotcell_jail::ids::IdLayout;
use hotcell_jail::namespace_work::{Namespace, new_user_namespace, work_in};
use hotcell_keeper::{DiskMeter, Used};
use hotcell_link::DiskState;

use crate::disk::Written;
use crate::order::Placed;
use crate::paths::CellPaths;

/// What the cell has written, measured now and then.
pub(crate) struct DiskAccount {
    meter: DiskMeter,
    files: CountedFiles,
    /// When room was last asked for, and how long not again since there was none.
    asked_for_room: Option<(Instant, Duration)>,
}

/// The cell's files, as they are measured.
struct CountedFiles {
    ids: IdLayout,
    /// In which the cell's files are seen as the cell sees them, if the supervisor's own is out of
    /// reach.
    user_namespace: Option<OwnedFd>,
    /// What counts besides what is written to now, and what that takes.
    frozen: Option<(Written, Used)>,
    /// As of when.
    stamp: Stamp,
}

/// Changes with what a cell is made of and with its checkpoints.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stamp([Option<SystemTime>; 2]);

impl Stamp {
    fn of(paths: &CellPaths) -> Self {
        let changed = |path: PathBuf| std::fs::metadata(path).and_then(|is| is.modified()).ok();
        Self([paths.placed(), paths.checkpoints()].map(changed))
    }

    /// Whether a further change is sure to look different.
    fn is_settled(&self) -> bool {
        const SETTLED: Duration = Duration::from_secs(1);
        self.0.iter().flatten().all(|at| at.elapsed().is_ok_and(|ago| ago > SETTLED))
    }
}

impl DiskAccount {
    pub(crate) fn new(placed: &Placed) -> Self {
        let files = CountedFiles {
            ids: placed.ids,
            user_namespace: None,
            frozen: None,
            stamp: Stamp::default(),
        };
        Self { meter: DiskMeter::new(&placed.spec.limits), files, asked_for_room: None }
    }

    /// Takes note that something runs.
    pub(crate) fn note_activity(&mut self) {
        self.meter.note_activity();
    }

    /// Takes note that what the cell is made of has changed.
    pub(crate) fn note_change(&mut self, walk_after: Duration) {
        self.meter.note_change(walk_after);
    }

    /// When to call [`DiskAccount::look`] next, if at all.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.meter.next_look()
    }

    /// Looks at the file system, and walks through the cell's files if it is time for that.
    pub(crate) fn look(
        &mut self,
        paths: &CellPaths,
        placed: &Placed,
        user: Option<BorrowedFd<'_>>,
    ) -> Option<DiskState> {
        let files = &mut self.files;
        self.meter.look(paths.root(), || files.walk(paths, placed, user))
    }

    /// Whether it is time to look for room in layers that nobody can see: over the limit, and ever
    /// more seldom where that does not help.
    pub(crate) fn wants_room(&mut self) -> bool {
        const FIRST: Duration = Duration::from_secs(2);
        const LONGEST: Duration = Duration::from_secs(600);
        if !self.meter.is_over() {
            self.asked_for_room = None;
            return false;
        }
        let wait = match self.asked_for_room {
            Some((at, wait)) if at.elapsed() < wait => return false,
            Some((_, wait)) => (wait * 2).min(LONGEST),
            None => FIRST,
        };
        self.asked_for_room = Some((Instant::now(), wait));
        true
    }
}

impl CountedFiles {
    /// What counts as written, read anew when something may have changed.
    fn written(&mut self, paths: &CellPaths, placed: &Placed) -> io::Result<Written> {
        let stamp = Stamp::of(paths);
        if let Some((written, _)) = &self.frozen
            && stamp.is_settled()
            && stamp == self.stamp
        {
            return Ok(written.clone());
        }
        self.stamp = stamp;
        Written::by(paths, placed)
    }

    fn walk(
        &mut self,
        paths: &CellPaths,
        placed: &Placed,
        user: Option<BorrowedFd<'_>>,
    ) -> Option<Used> {
        let is_within_reach = matches!(self.ids, IdLayout::Private { .. } | IdLayout::Host { .. });
        if user.is_none() && self.user_namespace.is_none() && !is_within_reach {
            // A keeper that came later: the supervisor's own is out of reach by now.
            self.user_namespace = Some(new_user_namespace(&self.ids).ok()?);
        }
        let written = self.written(paths, placed).ok()?;
        let namespace = match user.or(self.user_namespace.as_ref().map(AsFd::as_fd)) {
            Some(held) if !is_within_reach => Namespace::Held(held),
            Some(_) | None => Namespace::Own,
        };
        let live = work_in(namespace, || written.live_use()).ok()?;
        let frozen = match &self.frozen {
            Some((before, used)) if *before == written => *used,
            Some(_) | None => work_in(namespace, || written.frozen_use()).ok()?,
        };
        self.frozen = Some((written, frozen));
        Some(live + frozen)
    }
}
