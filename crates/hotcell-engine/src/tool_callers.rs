//! Programs of execs that call tools: each call is one of whoever had its exec run.
//!
//! Nothing that a program sends is believed but its call. Which exec it belongs to is the
//! supervisor's word, and a supervisor is asked only for execs that this process started over the
//! same link.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hotcell_link::{EventReceiver, Link, LinkError, PortConnection, PortEvent};
use hotcell_model::{Caller, CellId, ExecId};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Engine;
use crate::code_calls::{Frame, Run, Skipped, next_frame};

/// Execs whose programs may call, as far as it was not seen that they ended. Those of older ones are
/// turned away.
const REMEMBERED: usize = 4096;
/// How long a program may take to say what it calls, and to take the last of the answer.
const SAID_WITHIN: Duration = Duration::from_secs(20);

/// On whose behalf the programs of execs call, and where they are waited for.
#[derive(Debug, Default)]
pub(crate) struct ToolCallers {
    known: Mutex<Known>,
    /// The links on which it is waited for programs.
    links: Mutex<HashMap<CellId, Weak<Link>>>,
}

#[derive(Debug, Default)]
struct Known {
    callers: HashMap<ExecId, Caller>,
    order: VecDeque<ExecId>,
}

impl ToolCallers {
    /// Lets the programs of an exec that is about to be started call, on behalf of its caller.
    pub(crate) fn remember(&self, exec: &ExecId, caller: &Caller) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.callers.contains_key(exec) {
            return;
        }
        known.callers.insert(exec.clone(), caller.clone());
        known.order.push_back(exec.clone());
        if known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.callers.remove(&oldest);
        }
    }

    /// Forgets an exec that has ended.
    pub(crate) fn forget(&self, exec: &ExecId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.callers.remove(exec).is_some() {
            known.order.retain(|known| known != exec);
        }
    }

    fn find(&self, exec: &ExecId) -> Option<Caller> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).callers.get(exec).cloned()
    }

    /// Whether nobody waits for programs on a link yet; from now on somebody does.
    fn begins(&self, cell: &CellId, link: &Arc<Link>) -> bool {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |kept: &Weak<Link>| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(link));
        if links.get(cell).is_some_and(is_same) {
            return false;
        }
        links.retain(|_, kept| kept.strong_count() > 0);
        links.insert(cell.clone(), Arc::downgrade(link));
        true
    }
}

impl Engine {
    /// Takes the programs of execs that are started over a link, if nobody does so yet.
    pub(crate) fn take_programs_of(&self, cell: &CellId, link: &Arc<Link>) {
        if self.site().tool_callers.begins(cell, link) {
            let (engine, link) = (self.beside_itself(), Arc::clone(link));
            self.spawn_beside(engine.take_programs(link));
        }
    }

    /// Takes programs for as long as the link stands. It is a box so that what they call may start
    /// programs.
    fn take_programs(self, link: Arc<Link>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut served = JoinSet::new();
            loop {
                match link.accept().await {
                    Ok((exec, connection)) => match self.site().tool_callers.find(&exec) {
                        Some(caller) => {
                            let run = Run::of(self.beside_itself(), caller, exec);
                            served.spawn(serve_program(run, connection));
                        }
                        None => tracing::debug!(%exec, "a program calls whose exec is not known"),
                    },
                    // It was gone before it said anything.
                    Err(LinkError::Confused) if !link.is_closed() => {}
                    Err(error) => return tracing::debug!(%error, "no programs are taken any more"),
                }
                while served.try_join_next().is_some() {}
            }
        })
    }
}

/// Answers the one call of a program. Whoever takes long to make it, or is gone before the answer, is
/// given up, and its call with it.
async fn serve_program(run: Run, connection: PortConnection) {
    let PortConnection { sender, mut receiver } = connection;
    // What is read lies in memory of this process: no more of it than an exec may have under way.
    let place = run.counts.place(run.limits.parallel_calls).await;
    let call = read_call(&mut receiver, run.limits.call_bytes);
    let Ok(Some(call)) = timeout(SAID_WITHIN, call).await else { return };
    let answer = async {
        let answer = match &call {
            Ok(call) => run.answer(call).await,
            Err((length, head)) => run.too_long(*length, head),
        };
        sender.send(&answer).await.is_ok() && sender.finish().await.is_ok()
    };
    let sent = tokio::select! {
        sent = answer => sent,
        () = is_gone(&mut receiver) => false,
    };
    drop(place);
    if sent {
        // What it has not read yet would be lost with the connection.
        let _ = timeout(SAID_WITHIN, is_gone(&mut receiver)).await;
    }
}

/// The call of a program; of one that is too long its length and its beginning. None if it ends
/// before.
async fn read_call(
    receiver: &mut EventReceiver<PortEvent>,
    most: usize,
) -> Option<Result<Vec<u8>, (usize, Vec<u8>)>> {
    let (mut unread, mut skipped) = (Vec::new(), Skipped::default());
    let mut too_long = None;
    loop {
        let Ok(PortEvent::Data(bytes)) = receiver.next().await else { return None };
        skipped.put(&bytes, &mut unread);
        if too_long.is_none() {
            match next_frame(&mut unread, most) {
                Frame::Whole(frame) => return Some(Ok(frame)),
                Frame::TooLong { length, head } => {
                    skipped.skip(length, &mut unread);
                    too_long = Some((length, head));
                }
                Frame::Part => {}
            }
        }
        if skipped.left == 0
            && let Some(too_long) = too_long.take()
        {
            return Some(Err(too_long));
        }
    }
}

/// Waits until a program is gone, or says more than it may.
async fn is_gone(receiver: &mut EventReceiver<PortEvent>) {
    let _ = receiver.next().await;
}
