//! What comes of looking at a place where a secret may be.

use super::text::{Class, Run};

/// What a place turned out to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict {
    /// No secret.
    No,
    /// That depends on what comes; a secret would begin here or later.
    Undecided(usize),
    /// A secret, whatever comes.
    Secret(Found),
}

/// A secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether what comes, and what is there after its end, may belong to it too.
    pub(super) open: bool,
    /// Of which bytes alone it is made, and where it ends at the latest.
    pub(super) of: Option<(&'static Class, usize)>,
    pub(super) kind: &'static str,
    pub(super) rank: Rank,
}

/// What gives its name to a secret that is one in several ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Its own form.
    Form,
    /// What stands before it.
    Name,
}

impl Found {
    pub(super) fn by_form(start: usize, run: Run, kind: &'static str) -> Verdict {
        Self::verdict(start, run, kind, Rank::Form)
    }

    pub(super) fn by_name(start: usize, run: Run, kind: &'static str) -> Verdict {
        Self::verdict(start, run, kind, Rank::Name)
    }

    fn verdict(start: usize, run: Run, kind: &'static str, rank: Rank) -> Verdict {
        let Run { end, open, of } = run;
        Verdict::Secret(Self { start, end, open, of, kind, rank })
    }
}
