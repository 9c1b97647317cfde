//! Tool calls of running code that await approval, so that waiting callers learn of them at once.

use std::collections::{HashMap, HashSet};

use hotcell_model::{Asked, Exec, ExecId, ExecState, Tenants, Timestamp};
use tokio::sync::watch;

use crate::site::Site;

/// The execs of this process that have such calls.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    state: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many calls have ever begun to wait.
    begun: u64,
    by_exec: HashMap<ExecId, Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: usize,
    /// Value of `begun` when the newest of them began.
    newest: u64,
}

/// Which calls a watch reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// All of them.
    None,
    /// Only those that begin from now on.
    Present,
}

impl PendingCalls {
    /// Notes that a call of an exec waits, until the guard is dropped.
    pub(crate) fn begin(&self, exec: &ExecId) -> PendingCall {
        self.state.send_modify(|state| {
            state.begun += 1;
            let waiting = state.by_exec.entry(exec.clone()).or_default();
            waiting.calls += 1;
            waiting.newest = state.begun;
        });
        PendingCall { exec: exec.clone(), state: self.state.clone() }
    }

    /// Watches the calls of an exec.
    pub(crate) fn watch(&self, exec: &ExecId, seen: Seen) -> PendingWatch {
        let receiver = self.state.subscribe();
        let after = match seen {
            Seen::None => 0,
            Seen::Present => receiver.borrow().begun,
        };
        PendingWatch { exec: exec.clone(), receiver, after }
    }
}

/// A call that waits.
#[derive(Debug)]
pub(crate) struct PendingCall {
    exec: ExecId,
    state: watch::Sender<State>,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.state.send_if_modified(|state| {
            if let Some(waiting) = state.by_exec.get_mut(&self.exec) {
                waiting.calls -= 1;
                if waiting.calls == 0 {
                    state.by_exec.remove(&self.exec);
                }
            }
            // Watchers only need to know about new calls.
            false
        });
    }
}

/// A watch on the calls of one exec.
#[derive(Debug)]
pub(crate) struct PendingWatch {
    exec: ExecId,
    receiver: watch::Receiver<State>,
    after: u64,
}

impl PendingWatch {
    /// Returns when a call that was not seen yet waits. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let (exec, after) = (&self.exec, self.after);
        let newer = |state: &State| state.by_exec.get(exec).is_some_and(|it| it.newest > after);
        let begun = self.receiver.wait_for(newer).await.map(|state| state.begun);
        match begun {
            Ok(begun) => self.after = begun,
            // The engine is gone, and with it every call.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Site {
    /// The tool calls of some execs that await approval, in whichever process.
    pub(crate) async fn calls_awaiting_approval(
        &self,
        execs: impl IntoIterator<Item = &Exec>,
    ) -> Vec<Asked> {
        let live = execs.into_iter().filter(|exec| exec.state != ExecState::Ended);
        let live: HashSet<&ExecId> = live.map(|exec| &exec.id).collect();
        if live.is_empty() || self.toolbox.is_none() {
            return Vec::new();
        }
        match self.store.list_held(&Tenants::All, Timestamp::now()).await {
            Ok(held) => {
                let asked = held.into_iter().map(|held| held.asked);
                asked
                    .filter(|asked| asked.exec.as_ref().is_some_and(|it| live.contains(it)))
                    .collect()
            }
            Err(error) => {
                tracing::warn!(%error, "cannot list calls that await approval");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec() -> ExecId {
        "e_0123456789".parse().unwrap()
    }

    #[tokio::test]
    async fn a_watch_reports_each_new_call_once() {
        let calls = PendingCalls::default();
        let mut all = calls.watch(&exec(), Seen::None);
        assert!(is_pending(&mut all).await);
        let first = calls.begin(&exec());
        all.changed().await;
        assert!(is_pending(&mut all).await);
        let mut later = calls.watch(&exec(), Seen::Present);
        assert!(is_pending(&mut later).await);
        drop(first);
        let _second = calls.begin(&exec());
        later.changed().await;
        all.changed().await;
    }

    #[tokio::test]
    async fn a_call_that_no_longer_waits_is_not_reported() {
        let calls = PendingCalls::default();
        drop(calls.begin(&exec()));
        assert!(is_pending(&mut calls.watch(&exec(), Seen::None)).await);
        let _other = calls.begin(&"e_9876543210".parse().unwrap());
        assert!(is_pending(&mut calls.watch(&exec(), Seen::None)).await);
    }

    async fn is_pending(watch: &mut PendingWatch) -> bool {
        tokio::select! {
            biased;
            () = watch.changed() => false,
            () = std::future::ready(()) => true,
        }
    }
}
