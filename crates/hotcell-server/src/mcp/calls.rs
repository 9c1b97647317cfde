//! The calls of one connection that are under way, so that an explicit cancel finds its exec.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::ExecId;
use rmcp::model::RequestId;

/// The exec of each request.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<Mutex<HashMap<RequestId, ExecId>>>);

impl Calls {
    /// Notes a call, and its exec before that is begun.
    pub(super) fn begin(&self, request: &RequestId, exec: &ExecId) {
        self.with(|calls| calls.insert(request.clone(), exec.clone()));
    }

    /// Notes that a call stands for an exec that was begun before. Too late for one that is over.
    pub(super) fn stands_for(&self, request: &RequestId, exec: &ExecId) {
        self.with(|calls| {
            if let Some(noted) = calls.get_mut(request) {
                noted.clone_from(exec);
            }
        });
    }

    /// Takes a call that is answered, given up or cancelled; its exec.
    pub(super) fn end(&self, request: &RequestId) -> Option<ExecId> {
        self.with(|calls| calls.remove(request))
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<RequestId, ExecId>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
