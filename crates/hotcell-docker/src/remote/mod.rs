//! Cells at engines of other machines.
//!
//! What this machine is for a cell of its own engine, a second container is for a cell there: its
//! *outpost*. It has the cell's records, and is its keeper: it tells the first process of the cell's
//! container what to be, carries its connections, and measures its disk. Nothing that is not ours runs
//! in it. On this side a process shows the cell as if it were here: the *relay*, which has an exec in
//! the outpost and is all that ever has one.
//!
//! ```text
//!  this machine                           the engine's machine
//!  engine ── link.sock ── relay ══ exec ══ connect ── link.sock ── supervisor   (cell's container)
//!            records (copy) ◄───────────── records ◄──────────────────┘
//!                                          outpost: keeper, carrier             (beside it)
//! ```

mod begun;
mod connect;
mod outpost;
mod outpost_container;
mod program_volume;
mod relay;
mod relaying;
mod start;
mod upload;

use crate::paths::CellPaths;

pub(crate) use begun::Begun;
pub use connect::connect;
pub use outpost::outpost;
pub(crate) use outpost_container::{OutpostPlace, is_hopeless, name as outpost_name};
pub(crate) use program_volume::{collect as collect_programs, name as program_name};
pub use relay::relay;
pub(crate) use relaying::{Relaying, ensure_outpost};
pub(crate) use start::{RemoteStart, check_carries, check_fits, show_tools, start};

/// Whether the supervisor of a cell was ever heard of here, in its present life.
pub(crate) fn was_ready(paths: &CellPaths) -> bool {
    paths.root().join(READY).exists()
}

/// Where an outpost has the cell's place, its records and what it keeps.
const PLACE: &str = "/.hotcell/place";
const RECORDS: &str = "/.hotcell/records";
const KEEPS: &str = "/.hotcell/keeps";

/// What is the outpost's own, and goes with its container.
const OWN: &str = "/.hotcell/own";
/// The file there that says that what a former outpost told is not told any more.
const BEGUN: &str = "begun";

/// Volumes that only the outpost of a cell sees whole.
pub(crate) const BESIDE: [&str; 2] = [PLACE_VOLUME, RECORDS_VOLUME];
const PLACE_VOLUME: &str = "place";
const RECORDS_VOLUME: &str = "records";

/// Files in the place of a cell by which its outpost tells how far it is.
///
/// It waits for the first process of the cell's container.
const WAITING: &str = "waiting.json";
/// The supervisor is ready, and this is what confines it.
const READY: &str = "ready.json";
/// It will not be, and this is why.
const FAILED: &str = "failed.json";
/// Nothing will be written to the records any more.
const OVER: &str = "over.json";
/// What an outpost is told.
const ORDER: &str = "outpost.json";
/// What an image of the cell's tools lies in, by the name of the state that it shows.
const TOOLS: &str = "tools";
