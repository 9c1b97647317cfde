//! Calls that ask for the same thing, one after another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// Whose turn it is, by what is asked for. Nothing stays of what nobody asks for.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<Turn<()>>>>);

impl Turns {
    /// Waits until nobody else in this process has the turn of that name; it is over when the guard
    /// is dropped.
    pub(crate) async fn take(&self, name: String) -> OwnedMutexGuard<()> {
        self.find(name).lock_owned().await
    }

    fn find(&self, name: String) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&name).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Turn::new(()));
        turns.insert(name, Arc::downgrade(&turn));
        turn
    }
}
