//! What a cell has written, as its keeper keeps account of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use hotcell_jail::ids::IdLayout;
use hotcell_jail::namespace_work::{Namespace, new_user_namespace, work_in};
use hotcell_link::DiskState;
use hotcell_model::LimitHit;

use crate::disk::{Used, Written};
use crate::disk_pace::Walked;
use crate::order::Placed;
use crate::paths::CellPaths;

/// So long after the supervisor said that something runs it is taken to run still.
const ACTIVE: Duration = Duration::from_millis(1500);
/// How long it is waited where the file system cannot be looked at.
const UNSEEN: Duration = Duration::from_secs(10);

/// What the cell has written, measured now and then.
pub(crate) struct DiskAccount {
    limit: Used,
    ids: IdLayout,
    /// In which the cell's files are seen as the cell sees them, if the supervisor's own is out of
    /// reach.
    user_namespace: Option<OwnedFd>,
    used: Used,
    /// What counts besides what is written to now, and what that takes.
    frozen: Option<(Written, Used)>,
    /// As of when.
    stamp: Stamp,
    /// When room was last asked for, and how long not again since there was none.
    asked_for_room: Option<(Instant, Duration)>,
    walked: Option<Walked>,
    /// What the file system held when it was last looked at, and when that was.
    looked: Option<(Instant, Used)>,
    /// Whether something may have been written since the last walk, and not to be walked before.
    wanted: Option<Instant>,
    active_until: Instant,
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
        let limits = &placed.spec.limits;
        Self {
            limit: Used { bytes: limits.disk_mb << 20, files: limits.disk_files },
            ids: placed.ids,
            user_namespace: None,
            used: Used::default(),
            frozen: None,
            stamp: Stamp::default(),
            asked_for_room: None,
            walked: None,
            looked: None,
            wanted: None,
            active_until: Instant::now(),
        }
    }

    /// Takes note that something runs.
    pub(crate) fn note_activity(&mut self) {
        let now = Instant::now();
        self.active_until = now + ACTIVE;
        self.wanted.get_or_insert(now);
    }

    /// Takes note that what the cell is made of has changed.
    pub(crate) fn note_change(&mut self, walk_after: Duration) {
        self.wanted = Some(Instant::now() + walk_after);
    }

    /// When to call [`DiskAccount::look`] next, if at all.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let wanted = self.wanted?;
        let (Some(walked), Some((looked_at, held))) = (&self.walked, self.looked) else {
            return Some(wanted);
        };
        let walk = walked.next(held).max(wanted);
        let look = looked_at + walked.until_look();
        Some(if look < self.active_until { walk.min(look) } else { walk })
    }

    /// Looks at the file system, and walks through the cell's files if it is time for that. Over a
    /// limit, whatever makes it worse must end; what tidies up may go on.
    pub(crate) fn look(
        &mut self,
        paths: &CellPaths,
        placed: &Placed,
        user: Option<BorrowedFd<'_>>,
    ) -> Option<DiskState> {
        let wanted = self.wanted?;
        let now = Instant::now();
        let Ok(held) = Used::of_file_system(paths.root()) else {
            self.look_again_at(now + UNSEEN);
            return None;
        };
        self.looked = Some((now, held));
        let walk_at = self.walked.as_ref().map_or(wanted, |walked| walked.next(held).max(wanted));
        if now < walk_at {
            return None;
        }
        let before = self.used;
        let used = self.walk(paths, placed, user);
        let ended = Instant::now();
        // What cannot be measured now is tried again at the usual pace.
        let room = used.map_or(self.limit, |used| self.limit.beyond(used));
        self.walked = Some(Walked { at: ended, took: ended - now, room, held });
        // While something runs what is written meanwhile is wanted as well.
        self.wanted = (ended < self.active_until).then_some(ended);
        self.used = used?;
        Some(self.state(before))
    }

    /// Waits until then, whatever would have come sooner.
    fn look_again_at(&mut self, at: Instant) {
        self.wanted = Some(at);
        if let Some((looked_at, _)) = &mut self.looked {
            *looked_at = at;
        }
    }

    fn state(&self, before: Used) -> DiskState {
        let (used, limit) = (self.used, self.limit);
        // Whether what cannot be seen grows nobody knows.
        let over = if used.bytes > limit.bytes {
            Some((LimitHit::Disk, used.bytes > before.bytes || used.is_unmeasured()))
        } else if used.files > limit.files {
            Some((LimitHit::DiskFiles, used.files > before.files))
        } else {
            None
        };
        DiskState {
            used_bytes: if used.is_unmeasured() { limit.bytes + 1 } else { used.bytes },
            used_files: used.files,
            over: over.map(|(limit, _)| limit),
            end_execs: over.is_some_and(|(_, grew)| grew),
        }
    }

    /// Whether it is time to look for room in layers that nobody can see: over the limit, and ever
    /// more seldom where that does not help.
    pub(crate) fn wants_room(&mut self) -> bool {
        const FIRST: Duration = Duration::from_secs(2);
        const LONGEST: Duration = Duration::from_secs(600);
        if self.used.beyond(self.limit) == Used::default() {
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
