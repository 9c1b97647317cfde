//! What drivers ask of keepers and carriers, and what they read of what those wrote down.

use std::io;
use std::path::Path;
use std::time::Duration;

use hotcell_egress::{CarrierAsk, CarrierTell, ask_carrier, read_after, read_records};
use hotcell_model::{Error, NetCursor, NetRecord, NetTail, NetworkStats, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{KeptPlace, ask_keeper};

/// How often a keeper is asked that is not there, and how long apart.
const TRIES: u32 = 200;
const APART: Duration = Duration::from_millis(10);

/// Asks a keeper for which this sees to it that there is one: it is not there at once, and one may
/// be ending.
///
/// # Errors
/// None comes, or it does not answer.
pub fn ask_patiently<Answer: DeserializeOwned>(
    place: KeptPlace<'_>,
    ask: &impl Serialize,
    ensure: impl Fn(),
) -> io::Result<Answer> {
    ensure();
    for _ in 1..TRIES {
        match ask_keeper(place, ask) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            asked => return asked,
        }
        std::thread::sleep(APART);
        ensure();
    }
    ask_keeper(place, ask)
}

/// What a cell used of the network; `None` while nothing carries its connections.
#[must_use]
pub fn carrier_stats(place: KeptPlace<'_>) -> Option<NetworkStats> {
    let stream = place.connect_carrier().ok()??;
    match ask_carrier(&stream, &CarrierAsk::Stats) {
        Ok(CarrierTell::Stats(stats)) => Some(stats),
        // One that has just ended used nothing that is worth an error.
        Ok(CarrierTell::Done) | Err(_) => None,
    }
}

/// The newest of what a cell did over the network, the newest last.
///
/// # Errors
/// The records cannot be read.
pub fn network_log(records: &Path, limit: u32) -> Result<Vec<NetRecord>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    read_records(records, limit).map_err(|error| unread(records, &error))
}

/// What came since.
///
/// # Errors
/// The records cannot be read.
pub fn network_log_after(records: &Path, cursor: &NetCursor) -> Result<NetTail> {
    read_after(records, cursor).map_err(|error| unread(records, &error))
}

fn unread(records: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot read {}: {error}", records.display()))
}
