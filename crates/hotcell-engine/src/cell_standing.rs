//! Where a cell is in its life: by its supervisor, else by how its journal ends.

use hotcell_model::{CellSpec, CellState, CloseReason, Keep, Result, StoredCell, Timestamp};

use crate::Settings;
use crate::journal_end::JournalEnd;
use crate::site::Site;
use crate::volumes::KeptNote;

/// Where a cell is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It exists, in this state.
    Is(CellState),
    /// It has ended, and what is left of it is to be removed.
    Over,
    /// It has ended, and its files are kept.
    Kept(KeptNote),
}

impl Site {
    /// Where a cell stands that the index has as not ended. One that cannot be looked at is
    /// unavailable: it must not hide the others.
    pub(crate) async fn standing(&self, cell: &StoredCell) -> Standing {
        let looked = match self.has_supervisor(&cell.spec).await {
            Ok(true) => Ok(Standing::Is(CellState::Ready)),
            Ok(false) => self.resting_in_reach(cell).await,
            Err(error) => Err(error),
        };
        looked.unwrap_or_else(|error| {
            tracing::warn!(cell = %cell.spec.id, %error, "a cell cannot be looked at");
            Standing::Is(CellState::Unavailable)
        })
    }

    /// Where a cell stands that has no supervisor: one that could not wake does not rest.
    async fn resting_in_reach(&self, cell: &StoredCell) -> Result<Standing> {
        let standing = self.resting(cell).await?;
        if let Standing::Is(CellState::Asleep | CellState::Stopped) = standing {
            self.driver(&cell.spec.driver)?.reach_cell(&cell.spec.id).await?;
        }
        Ok(standing)
    }

    /// Where a cell stands that has no supervisor.
    pub(crate) async fn resting(&self, cell: &StoredCell) -> Result<Standing> {
        if let Some(note) = self.find_kept(&cell.spec).await? {
            // One that is to come back may wait for room.
            return Ok(match self.is_waiting(&cell.spec.id).await {
                true => Standing::Is(CellState::Starting),
                false => Standing::Kept(note),
            });
        }
        let end = match self.find_journal_end(&cell.spec.id).await {
            // Its time is over whatever its journal says.
            Err(_) if is_expired(&cell.spec, Timestamp::now()) => return Ok(Standing::Over),
            end => end?,
        };
        let standing = resting(&cell.spec, end, &self.settings, Timestamp::now());
        let may_be_made = standing == Standing::Over && end.is_none();
        if may_be_made && self.is_waiting(&cell.spec.id).await {
            // Whoever makes it is there, and waits.
            return Ok(Standing::Is(CellState::Starting));
        }
        Ok(standing)
    }
}

/// Where a cell without a supervisor stands at `now`, when its journal ends like this.
pub(crate) fn resting(
    spec: &CellSpec,
    end: Option<JournalEnd>,
    settings: &Settings,
    now: Timestamp,
) -> Standing {
    let since = end.map_or(spec.created_at, |end| end.at);
    let past = |from: Timestamp, seconds: u64| from.plus_seconds(seconds) <= now;
    let expired = is_expired(spec, now);
    let idle = spec.idle_ttl_s.is_some_and(|ttl| past(since, ttl));
    if expired || idle || abandoned(spec, end, settings, now) {
        return Standing::Over;
    }
    match end {
        None => Standing::Is(CellState::Starting),
        Some(JournalEnd { closed: Some(reason), .. }) => match reason {
            CloseReason::Asleep => Standing::Is(CellState::Asleep),
            CloseReason::Stopped => Standing::Is(CellState::Stopped),
            CloseReason::Killed
            | CloseReason::Expired
            | CloseReason::Idle
            | CloseReason::Orphaned
            | CloseReason::ExecEnded => Standing::Over,
        },
        Some(JournalEnd { closed: None, .. }) => Standing::Is(CellState::Stopped),
    }
}

fn is_expired(spec: &CellSpec, now: Timestamp) -> bool {
    spec.ttl_s.is_some_and(|ttl| spec.created_at.plus_seconds(ttl) <= now)
}

/// Whether nobody will come back for a cell that is not persistent.
fn abandoned(
    spec: &CellSpec,
    end: Option<JournalEnd>,
    settings: &Settings,
    now: Timestamp,
) -> bool {
    let kept_for = match (spec.keep, end) {
        (Keep::Always, _) | (Keep::Ttl, None) => return false,
        // The process that was making it for itself is gone; nobody else knows its name.
        (Keep::Holder | Keep::Server | Keep::Pool | Keep::Exec, None) => spec.orphan_grace_s,
        (Keep::Pool, Some(_)) => 0,
        (Keep::Holder | Keep::Server | Keep::Exec | Keep::Ttl, Some(_)) => settings.log_keep_s,
    };
    let since = end.map_or(spec.created_at, |end| end.at);
    since.plus_seconds(kept_for) <= now
}
