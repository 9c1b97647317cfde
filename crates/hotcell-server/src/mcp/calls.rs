//! The calls of one connection that are under way, so that an explicit cancel finds its exec.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::ExecId;
use rmcp::model::RequestId;

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    /// Its exec is being started under an id that is not known yet.
    Starting,
    /// It was cancelled before that.
    CancelledEarly,
    /// This is its exec.
    Runs(ExecId),
}

/// The calls by request.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<Mutex<HashMap<RequestId, Call>>>);

impl Calls {
    /// Notes a call before anything of it is done.
    pub(super) fn begin(&self, request: &RequestId) {
        self.with(|calls| calls.insert(request.clone(), Call::Starting));
    }

    /// Notes the exec of a call. `false` when the call was cancelled meanwhile.
    #[must_use]
    pub(super) fn runs(&self, request: &RequestId, exec: &ExecId) -> bool {
        self.with(|calls| match calls.get_mut(request) {
            Some(Call::CancelledEarly) => {
                calls.remove(request);
                false
            }
            Some(call) => {
                *call = Call::Runs(exec.clone());
                true
            }
            None => true,
        })
    }

    /// Forgets a call that is answered.
    pub(super) fn end(&self, request: &RequestId) {
        self.with(|calls| calls.remove(request));
    }

    /// The exec of a call that its caller has cancelled, if it is known and the call not over.
    pub(super) fn cancel(&self, request: &RequestId) -> Option<ExecId> {
        self.with(|calls| match calls.get_mut(request)? {
            Call::Runs(exec) => {
                let exec = exec.clone();
                calls.remove(request);
                Some(exec)
            }
            early @ (Call::Starting | Call::CancelledEarly) => {
                *early = Call::CancelledEarly;
                None
            }
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<RequestId, Call>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
