//! When a cell ends or falls asleep by itself.

use std::time::Duration;

use hotcell_model::{CellSpec, CloseReason, Keep, Timestamp};

use crate::clock::Moment;

/// The deadlines of a cell.
#[derive(Debug)]
pub(crate) struct Lifetime {
    keep: Keep,
    expires: Option<Moment>,
    idle_ttl: Option<Duration>,
    sleep_after: Duration,
    orphan_grace: Duration,
    idle_since: Option<Moment>,
    unheld_since: Option<Moment>,
    had_exec: bool,
}

/// Whether something runs or waits to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Busy,
    Idle,
}

impl Lifetime {
    pub(crate) fn new(spec: &CellSpec, now: Moment) -> Self {
        let expires = spec.ttl_s.map(|ttl| {
            let end = spec.created_at.plus_seconds(ttl);
            // Made by a clock that was ahead, it still has no more than its time.
            now.after(Timestamp::now().until(end).min(Duration::from_secs(ttl)))
        });
        Self {
            keep: spec.keep,
            expires,
            idle_ttl: spec.idle_ttl_s.map(Duration::from_secs),
            sleep_after: Duration::from_secs(spec.sleep_after_s),
            orphan_grace: Duration::from_secs(spec.orphan_grace_s),
            idle_since: Some(now),
            unheld_since: Some(now),
            had_exec: false,
        }
    }

    pub(crate) fn set_activity(&mut self, activity: Activity, now: Moment) {
        match activity {
            Activity::Busy => {
                self.idle_since = None;
                self.had_exec = true;
            }
            Activity::Idle => {
                self.idle_since.get_or_insert(now);
            }
        }
    }

    pub(crate) fn set_holders(&mut self, holders: usize, now: Moment) {
        if holders > 0 {
            self.unheld_since = None;
        } else {
            self.unheld_since.get_or_insert(now);
        }
    }

    /// The next deadline as things stand, and what happens then.
    pub(crate) fn next(&self) -> Option<(Moment, CloseReason)> {
        let expiry = self.expires.map(|at| (at, CloseReason::Expired));
        let idle = self
            .idle_since
            .zip(self.idle_ttl)
            .map(|(since, ttl)| (since.after(ttl), CloseReason::Idle));
        let by_keep = match self.keep {
            Keep::Always => {
                self.idle_since.map(|since| (since.after(self.sleep_after), CloseReason::Asleep))
            }
            Keep::Holder | Keep::Server | Keep::Pool => self
                .unheld_since
                .map(|since| (since.after(self.orphan_grace), CloseReason::Orphaned)),
            Keep::Exec if self.had_exec => {
                self.idle_since.map(|since| (since, CloseReason::ExecEnded))
            }
            Keep::Exec => {
                self.idle_since.map(|since| (since.after(self.orphan_grace), CloseReason::Orphaned))
            }
            Keep::Ttl => None,
        };
        [expiry, idle, by_keep].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}
