//! What a carrier can be asked, a line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hotcell_model::{LentSecret, Network, NetworkStats};
use serde::{Deserialize, Serialize};

use crate::meter::Allowance;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What a carrier is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CarrierAsk {
    /// To obey other rules, and to cut what they do not allow.
    Enforce(Network),
    /// To carry something only if the tenant of the cell may.
    Carry(Allowance),
    /// What was used.
    Stats,
    /// To add the values of these secrets to requests, in the place of those that it had.
    Lend(Vec<LentSecret>),
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CarrierTell {
    /// It was done.
    Done,
    /// What was used.
    Stats(NetworkStats),
}

/// Asks a carrier and waits for its answer.
///
/// # Errors
/// It is gone or does not answer.
pub fn ask_carrier(stream: &UnixStream, ask: &CarrierAsk) -> io::Result<CarrierTell> {
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    (&mut &*stream).write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
