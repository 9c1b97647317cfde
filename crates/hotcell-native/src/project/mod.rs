//! Directories of the host that are workspaces of cells.

mod agreed;
mod apply;
mod change_digest;
mod changes;
mod discard;
pub(crate) mod drift;
pub(crate) mod follow;
mod git_index;
mod guarded;
mod ignored;
mod journal;
mod own;
mod place;
mod port;
mod shown;
mod staging;
mod stamps;
mod task;
pub(crate) mod watch;

#[cfg(test)]
mod guarded_tests;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod own_tests;
#[cfg(test)]
mod place_tests;

pub(crate) use drift::Drift;
pub(crate) use place::{Project, TARGET};
pub(crate) use task::{ProjectOutcome, ProjectTask, carry_out, leave};
