//! Keepers of cells in containers, as the driver sees them: only for those that need one.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotcell_egress::EgressSettings;
use hotcell_keeper::{HeldLock, LockWait, ask_patiently, order_keeper};
use hotcell_model::{Error, Network, Result};
use hotcell_place::read_json;
use tokio::time::sleep;

use crate::driver::at;
use crate::keeper::{KeepOrder, KeepOutcome, KeeperAsk};
use crate::paths::{CellPaths, Placed};
use crate::remote::Begun;

/// The command that keepers are.
const KEEP: &str = "keep-container";
/// How long a keeper may take to end after its container.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How often one is started that ends at once.
const TRIES: u32 = 3;

/// What keepers are started with.
#[derive(Debug, Clone)]
pub(crate) struct Keeping {
    /// The program that they are.
    pub(crate) program: PathBuf,
    pub(crate) egress: EgressSettings,
}

impl Keeping {
    /// Starts the keeper of a cell that was just started, if it needs one.
    pub(crate) fn begin(&self, program: &Path, paths: &CellPaths, placed: &Placed) -> Result<()> {
        let failed = |why: String| {
            Error::unavailable(format!("the keeper of cell {} failed: {why}", placed.spec.id))
                .hint("see what this machine lacks with `hotcell doctor`")
        };
        if !is_needed(paths, placed).map_err(|error| failed(error.to_string()))? {
            return Ok(());
        }
        for _ in 0..TRIES {
            let ordered = self.order(program, paths).map_err(|error| failed(error.to_string()))?;
            ordered.into_result()?;
            // One that found the lock taken by whoever looked for a keeper just then is gone.
            match paths.kept().lock_keeper(LockWait::Try) {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        Err(failed("it does not stay".to_owned()))
    }

    /// Starts a keeper for a cell that needs one and has none. Failing that, the next one tries.
    pub(crate) fn ensure(&self, paths: &CellPaths) {
        let has_none = match paths.kept().lock_keeper(LockWait::Try) {
            Ok(lock) => lock.is_some(),
            Err(error) => {
                tracing::warn!(%error, "cannot look for the keeper");
                false
            }
        };
        if !has_none {
            return;
        }
        let needed = read_json::<Placed>(&paths.placed()).and_then(|placed| match placed {
            Some(placed) => is_needed(paths, &placed),
            None => Ok(false),
        });
        match needed {
            Ok(true) => self.find(paths),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot tell whether a cell needs a keeper"),
        }
    }

    /// Asks the keeper of a cell that runs, whether or not it has needed one so far.
    pub(crate) fn ask(&self, paths: &CellPaths, ask: &KeeperAsk) -> io::Result<Result<()>> {
        let asked =
            ask_patiently(paths.kept(), ask, || match paths.kept().lock_keeper(LockWait::Try) {
                Ok(Some(lock)) => {
                    drop(lock);
                    // One that is begun at another machine is found by its relay.
                    if matches!(Begun::find(paths), Ok(None)) {
                        self.find(paths);
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot look for the keeper"),
            });
        asked.map(KeepOutcome::into_result)
    }

    fn find(&self, paths: &CellPaths) {
        let ordered = self.order(&self.program, paths);
        match ordered.map(KeepOutcome::into_result) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot start a keeper"),
            Err(error) => tracing::warn!(%error, "cannot start a keeper"),
        }
    }

    fn order(&self, program: &Path, paths: &CellPaths) -> io::Result<KeepOutcome> {
        let order = KeepOrder { directory: paths.root().to_owned(), egress: self.egress.clone() };
        order_keeper(program, KEEP, paths.root(), &order)
    }
}

/// Waits until what looked after a cell without a container is gone: a keeper may be writing to the
/// cell's directory still. While this is held there is none.
pub(crate) async fn await_keeper_end(paths: &CellPaths) -> Result<Option<HeldLock>> {
    let until = Instant::now() + ENDS_WITHIN;
    loop {
        match paths.kept().lock_keeper(LockWait::Try) {
            Ok(Some(lock)) => return Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at("wait for the keeper of", paths, &error)),
            Ok(None) if Instant::now() >= until => {
                return Err(Error::unavailable(format!(
                    "the keeper of the cell in {} is still there, {} s after its container",
                    paths.root().display(),
                    ENDS_WITHIN.as_secs()
                ))
                .hint("its supervisor may go on without the engine's knowledge; try again later"));
            }
            Ok(None) => sleep(LOOK_AGAIN).await,
        }
    }
}

/// Waits until the relay of a cell without a container is gone, for as long as it brings anything.
/// While this is held there is none.
pub(crate) async fn await_relay_end(paths: &CellPaths, records: &Path) -> Result<Option<HeldLock>> {
    let mut seen = None;
    loop {
        match await_keeper_end(paths).await {
            Ok(lock) => return Ok(lock),
            Err(error) => {
                let brought = bytes_in(records);
                if seen == Some(brought) {
                    return Err(error);
                }
                seen = Some(brought);
            }
        }
    }
}

/// What lies in a directory of records, to tell whether more came.
fn bytes_in(records: &Path) -> u64 {
    let below = [records.to_owned(), records.join("log")];
    let entries = below.iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// Whether somebody has to look after a cell from outside.
fn is_needed(paths: &CellPaths, placed: &Placed) -> io::Result<bool> {
    let may_reach_something = paths.kept().in_force(&placed.spec.network)? != Network::None;
    // One whose keeper died may carry what is not allowed any more.
    let carries = || paths.kept().connect_carrier().is_ok_and(|carrier| carrier.is_some());
    Ok(may_reach_something || paths.measured().exists() || carries())
}
