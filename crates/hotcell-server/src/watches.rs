//! What changes in the workspaces of cells: one watch for each caller and cell, however many
//! listen, and only as long as somebody does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hotcell_engine::Transferred;
use hotcell_model::{
    Caller, CellId, CellInfo, CellRef, Error, ErrorCode, FileStream, FileWatch, Result,
};
use serde::Deserialize;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::door::Door;

/// Where everything that is watched lies.
const WORKSPACE: &str = "/workspace";
/// Changes that a listener has not looked at yet; beyond them it knows only that there were some.
const UNSEEN: usize = 256;
/// How soon a watch that was cut off is taken up again.
const AT_ONCE: Duration = Duration::from_millis(20);
/// How often it is looked whether a cell that cannot be watched now can be.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A path and all that is around it are shorter than this.
const LONGEST_LINE: usize = 1 << 20;

/// The watches that somebody listens to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<Key, Weak<CellWatch>>>>);

type Key = (String, CellId);

/// A watch of one cell. It ends with the last who listens.
#[derive(Debug)]
struct CellWatch {
    /// Gone once there is nothing more to tell.
    told: broadcast::WeakSender<Changed>,
    standing: watch::Receiver<Standing>,
    _task: JoinSet<()>,
}

/// What may look different from before.
#[derive(Debug, Clone)]
enum Changed {
    Path(PathBuf),
    Anything,
}

/// How a watch stands.
#[derive(Debug, Clone)]
enum Standing {
    /// It is being begun.
    Beginning,
    /// Changes are told.
    Watching,
    /// Nothing can change: the cell is asleep, or held still.
    Resting,
    /// The cell does not want it.
    Refused(Error),
}

/// Somebody who wants to know of changes at and below a path.
#[derive(Debug)]
pub(crate) struct Listening {
    path: PathBuf,
    told: broadcast::Receiver<Changed>,
    watch: Arc<CellWatch>,
}

impl Watches {
    /// Listens to changes at and below a path of a cell's workspace.
    pub(crate) fn listen(
        &self,
        door: &Door,
        caller: &Caller,
        cell: CellId,
        path: &str,
    ) -> Listening {
        let path = Path::new(WORKSPACE).join(path);
        let key = (caller.principal.clone(), cell);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, watch| watch.strong_count() > 0);
        let live = all.get(&key).and_then(Weak::upgrade);
        if let Some((watch, told)) =
            live.and_then(|watch| Some((watch.clone(), watch.subscribe()?)))
        {
            return Listening { path, told, watch };
        }
        let (sender, told) = broadcast::channel(UNSEEN);
        let (standing, stands) = watch::channel(Standing::Beginning);
        let weak = sender.downgrade();
        let watcher = Watcher {
            door: door.clone(),
            caller: caller.clone(),
            cell: key.1.clone(),
            told: sender,
            standing,
        };
        let mut task = JoinSet::new();
        task.spawn(watcher.run());
        let watch = Arc::new(CellWatch { told: weak, standing: stands, _task: task });
        all.insert(key, Arc::downgrade(&watch));
        Listening { path, told, watch }
    }
}

impl CellWatch {
    fn subscribe(&self) -> Option<broadcast::Receiver<Changed>> {
        Some(self.told.upgrade()?.subscribe())
    }
}

impl Listening {
    /// Waits until changes are told from now on, or until there can be none for now.
    ///
    /// # Errors
    /// The cell cannot be watched, or is gone.
    pub(crate) async fn begun(&self) -> Result<()> {
        let mut standing = self.watch.standing.clone();
        match standing
            .wait_for(|standing| !matches!(standing, Standing::Beginning))
            .await
            .as_deref()
        {
            Ok(Standing::Refused(error)) => Err(error.clone()),
            Ok(Standing::Beginning | Standing::Watching | Standing::Resting) => Ok(()),
            Err(_) => Err(Error::not_found("the cell is gone")),
        }
    }

    /// Waits until something may have changed; `None` when nothing ever will again. Whatever has
    /// happened by then is the same news.
    pub(crate) async fn changed(&mut self) -> Option<()> {
        loop {
            match self.told.recv().await {
                Ok(changed) if !self.is_about(&changed) => {}
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => break,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
        while matches!(self.told.try_recv(), Ok(_) | Err(broadcast::error::TryRecvError::Lagged(_)))
        {
        }
        Some(())
    }

    fn is_about(&self, changed: &Changed) -> bool {
        match changed {
            // What is above may have been moved or removed with all that is in it.
            Changed::Path(path) => path.starts_with(&self.path) || self.path.starts_with(path),
            Changed::Anything => true,
        }
    }
}

/// What is done for those who listen.
struct Watcher {
    door: Door,
    caller: Caller,
    cell: CellId,
    told: broadcast::Sender<Changed>,
    standing: watch::Sender<Standing>,
}

/// A line of what a cell tells.
#[derive(Debug, Deserialize)]
struct Line {
    path: PathBuf,
    change: String,
}

impl Watcher {
    /// Watches the cell whenever it is awake, until it is gone.
    async fn run(self) {
        loop {
            let Err(error) = self.watch().await else { continue };
            let was_watching = matches!(*self.standing.borrow(), Standing::Watching);
            tracing::debug!(cell = %self.cell, %error, "a watch ended");
            if error.code == ErrorCode::NotFound && self.is_gone().await {
                return;
            }
            let is_resting = error.code == ErrorCode::Unavailable;
            let standing = if is_resting { Standing::Resting } else { Standing::Refused(error) };
            self.standing.send_replace(standing);
            let pause = if is_resting && was_watching { AT_ONCE } else { LOOK_AGAIN };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.door.closing.cancelled() => return,
            }
        }
    }

    async fn is_gone(&self) -> bool {
        let info = CellInfo { cell: CellRef::Id(self.cell.clone()) };
        let found = self.door.ask(&self.caller, info).await;
        found.is_err_and(|error| error.code == ErrorCode::NotFound)
    }

    /// Tells of changes as long as it can.
    async fn watch(&self) -> Result<()> {
        let op = FileWatch { path: WORKSPACE.to_owned() }.into();
        let request = FileStream { cell: CellRef::Id(self.cell.clone()), op };
        let mut transfer = self.door.watch(&self.caller, request).await?;
        let mut unread = Vec::new();
        loop {
            match transfer.receiver.next().await? {
                Transferred::Content(bytes) => unread.extend_from_slice(&bytes),
                // The workspace itself was moved or removed.
                Transferred::Done(_) => {
                    self.tell(Changed::Anything);
                    return Err(Error::unavailable("the workspace is gone"));
                }
            }
            while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                self.take(&unread[..end]);
                unread.drain(..=end);
            }
            if unread.len() > LONGEST_LINE {
                unread.clear();
                self.tell(Changed::Anything);
            }
        }
    }

    fn take(&self, line: &[u8]) {
        let Ok(Line { path, change }) = serde_json::from_slice(line) else {
            return self.tell(Changed::Anything);
        };
        match change.as_str() {
            "watching" => {
                let before = self.standing.send_replace(Standing::Watching);
                // Whoever was told that it began earlier may have missed something.
                if !matches!(before, Standing::Beginning) {
                    self.tell(Changed::Anything);
                }
            }
            "overflow" => self.tell(Changed::Anything),
            "unwatched" => {
                tracing::debug!(cell = %self.cell, ?path, "too many directories to watch");
            }
            _ => self.tell(Changed::Path(path)),
        }
    }

    fn tell(&self, changed: Changed) {
        // The last who listened may just have gone; then so will this.
        let _ = self.told.send(changed);
    }
}
