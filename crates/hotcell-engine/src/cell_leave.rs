//! Stops cells when the last server that served them leaves. Their files stay until their time is
//! over, and they wake at the next use.

use std::fs::File;

use futures_util::StreamExt;
use futures_util::stream;
use hotcell_model::{CloseReason, Error, Keep, Result, StoredCell, Tenants};

use crate::cell_kill::{Closed, Force, close, wait_until_gone};
use crate::engine::Engine;
use crate::site::Site;

/// How many cells are being stopped at once.
const AT_ONCE: usize = 16;

/// A label that marks the cells of some servers.
pub type Label = (&'static str, &'static str);

/// A server among those that stop the cells with a label when the last of them leaves.
#[derive(Debug)]
pub struct Serving {
    label: Label,
    /// Every one of them has it locked.
    users: File,
}

impl Engine {
    /// Takes part in serving the cells that have a label.
    ///
    /// # Errors
    /// The file that says so cannot be written.
    pub fn serve_labelled(&self, label: Label) -> Result<Serving> {
        let path = self.site().state_dir().join(format!("{}.users", label.1));
        let users = File::create(&path).and_then(|users| users.lock_shared().map(|()| users));
        let users = users.map_err(|error| {
            Error::unavailable(format!("cannot write {}: {error}", path.display()))
                .hint("look after the state directory")
        })?;
        Ok(Serving { label, users })
    }

    /// Leaves; the last one stops the cells that have the label, except for persistent ones.
    ///
    /// # Errors
    /// The cells cannot be found. One that cannot be stopped is logged.
    pub async fn leave_labelled(&self, serving: Serving) -> Result<()> {
        let Serving { label, users } = serving;
        let is_last = users.unlock().is_ok() && users.try_lock().is_ok();
        if is_last { self.site().stop_labelled(label).await } else { Ok(()) }
    }
}

impl Site {
    async fn stop_labelled(&self, (name, value): Label) -> Result<()> {
        let is_transient = |cell: &StoredCell| {
            cell.ended_at.is_none()
                && cell.spec.keep != Keep::Always
                && cell.spec.labels.get(name).is_some_and(|given| given == value)
        };
        let cells = self.store.list_cells(&Tenants::All).await?;
        let transient = cells.iter().filter(|cell| is_transient(cell));
        stream::iter(transient).for_each_concurrent(AT_ONCE, |cell| self.stop_cell(cell)).await;
        Ok(())
    }

    async fn stop_cell(&self, cell: &StoredCell) {
        let stopped = async {
            let _lock = self.store.lock_cell(&cell.spec.id).await?;
            match close(self, &cell.spec, Force::Yes, CloseReason::Stopped).await? {
                Closed::Ending => {
                    let driver = self.driver(&cell.spec.driver)?;
                    wait_until_gone(&**driver, &cell.spec).await?;
                }
                Closed::Gone => {}
            }
            self.links.forget(&cell.spec.id);
            Ok::<(), Error>(())
        };
        if let Err(error) = stopped.await {
            tracing::warn!(cell = %cell.spec.id, %error, "a cell is not stopped and goes on");
        }
    }
}
