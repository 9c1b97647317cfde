//! Where a keeper can be asked for what only it can do.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use hotcell_model::LentSecret;
use serde::{Deserialize, Serialize};

use crate::order::Outcome;
use crate::paths::CellPaths;

/// How long a keeper may take; one that takes longer is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What a keeper is asked for, one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeeperAsk {
    /// To give its cell the layers that its `cell.json` names now.
    Swap,
    /// To make what the host changed in the cell's project visible.
    Refresh,
    /// The same of what is shown at `/tools`.
    RefreshTools,
    /// Like `Refresh`, also if the host changed nothing.
    ShowAnew,
    /// To see to it that connections of its cell are carried, if it may reach anything.
    Network,
    /// To measure soon what the cell takes on disk: something was removed.
    Measure,
    /// To keep the values of these secrets in memory, for what carries connections of its cell.
    Lend(Vec<LentSecret>),
}

/// Asks the keeper of a cell and waits for its answer.
pub(crate) fn ask_keeper(paths: &CellPaths, ask: &KeeperAsk) -> io::Result<Outcome> {
    let stream = paths
        .connect_keeper()?
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the cell has no keeper"))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    send(&stream, ask)?;
    receive(&stream)
}

impl KeeperAsk {
    /// Whether the cell may have other layers, or take less, afterwards.
    fn is_change(&self) -> bool {
        match self {
            Self::Swap | Self::ShowAnew | Self::Measure => true,
            Self::Refresh | Self::RefreshTools | Self::Network | Self::Lend(_) => false,
        }
    }
}

/// Takes a question, answers it, and tells whether it was about a change.
pub(crate) fn answer_one(
    listener: &UnixListener,
    answer: impl FnOnce(KeeperAsk) -> Outcome,
) -> Option<bool> {
    let (stream, _) = listener.accept().ok()?;
    let asked = stream.set_read_timeout(Some(ANSWER_WITHIN)).and_then(|()| receive(&stream));
    let ask: KeeperAsk = asked.ok()?;
    let is_change = ask.is_change();
    // Whoever asked may be gone by the time it is answered.
    let _ = send(&stream, &answer(ask));
    Some(is_change)
}

fn send<T: Serialize>(mut stream: &UnixStream, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive<T: serde::de::DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
