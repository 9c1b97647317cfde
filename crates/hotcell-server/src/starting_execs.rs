//! Execs whose start takes longer than their callers wait: a background task finishes each start.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotcell_dialects::{StartPhase, StartingExec};
use hotcell_model::{
    Caller, CancelStatus, CellRef, Command, Error, ErrorCode, ExecCancel, ExecGet, ExecId,
    ExecResult, ExecRun, ExecWait, Result, Signal, Tenant, Timestamp,
};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};
use tracing::Instrument as _;

use crate::door::Door;

/// How much later than its wait a call may be answered, so that ordinary starts are not reported.
const START_MARGIN: Duration = Duration::from_millis(500);
/// How long a start is waited for at least. Clients give up after 5 seconds at the soonest.
const LEAST_WAIT: Duration = Duration::from_secs(3);
/// How many starts that failed or were cancelled are remembered.
const MOST_ENDED: usize = 256;
/// How often a cancel looks for an exec that was just being started, and how long it pauses.
const CANCEL_ATTEMPTS: u32 = 40;
const CANCEL_PAUSE: Duration = Duration::from_millis(50);
const CANCEL_GRACE_S: f64 = 5.0;
/// How long a server that ends waits for starts that callers have the ids of.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// What a call that runs a command is answered with.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The exec was started.
    Ran(Box<ExecResult>),
    /// Its cell is still being started.
    Starting(Box<StartingExec>),
}

/// A start that callers have the exec's id of.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    tenant: Tenant,
    exec: StartingExec,
    phase: watch::Sender<Phase>,
}

#[derive(Debug, Clone)]
enum Phase {
    Starting,
    /// The engine has it; an idempotency key may stand for another one.
    Began(ExecId),
    Failed(Error),
    Cancelled,
}

/// Where a start that was found is.
#[derive(Debug)]
pub(crate) enum Found {
    /// The engine has the exec under this id.
    InEngine(ExecId),
    NotYet(Box<StartingExec>),
}

/// The starts that go on in the background.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartingExecs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The oldest first.
    starts: Mutex<VecDeque<Start>>,
    tasks: Mutex<JoinSet<()>>,
    /// Calls that may still hand over a start.
    calls: watch::Sender<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StartingExecs {
    /// The start of an exec of this tenant, if it was handed over.
    pub(crate) fn find(&self, tenant: &Tenant, exec: &ExecId) -> Option<Start> {
        let starts = locked(&self.0.starts);
        starts.iter().find(|it| it.exec.exec == *exec && it.tenant == *tenant).cloned()
    }

    /// All starts of this tenant that did not reach the engine, the newest first.
    fn all(&self, tenant: &Tenant) -> Vec<Start> {
        let starts = locked(&self.0.starts);
        starts.iter().rev().filter(|it| it.tenant == *tenant).cloned().collect()
    }

    fn add(&self, start: Start) {
        let mut starts = locked(&self.0.starts);
        starts.push_back(start);
        let ended = |it: &Start| !matches!(*it.phase.borrow(), Phase::Starting);
        if starts.iter().filter(|it| ended(it)).count() > MOST_ENDED
            && let Some(oldest) = starts.iter().position(ended)
        {
            starts.remove(oldest);
        }
    }

    fn forget(&self, exec: &ExecId) {
        locked(&self.0.starts).retain(|it| it.exec.exec != *exec);
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // A call may be dropped while its runtime ends.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut tasks = locked(&self.0.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task.in_current_span(), &runtime);
    }

    /// Waits until every start that was handed over has reached the engine or failed.
    pub(crate) async fn finish(&self) {
        let all = async {
            let _ = self.0.calls.subscribe().wait_for(|calls| *calls == 0).await;
            loop {
                let mut tasks = std::mem::take(&mut *locked(&self.0.tasks));
                if tasks.is_empty() {
                    return;
                }
                while tasks.join_next().await.is_some() {}
            }
        };
        if timeout(FINISH_WITHIN, all).await.is_err() {
            tracing::warn!("commands whose cells were still starting are not run");
        }
    }
}

impl Start {
    fn shown(&self, phase: StartPhase) -> Box<StartingExec> {
        Box::new(StartingExec { phase, ..self.exec.clone() })
    }

    fn found(&self) -> Found {
        match &*self.phase.borrow() {
            Phase::Starting => Found::NotYet(self.shown(StartPhase::Starting)),
            Phase::Began(exec) => Found::InEngine(exec.clone()),
            Phase::Failed(error) => Found::NotYet(self.shown(StartPhase::Failed(error.clone()))),
            Phase::Cancelled => Found::NotYet(self.shown(StartPhase::Cancelled)),
        }
    }

    /// Cancels the start unless it is over. True if this call cancelled it.
    pub(crate) fn cancel(&self) -> bool {
        self.settle(Phase::Cancelled)
    }

    /// Notes how the start ended, unless that is known already.
    fn settle(&self, end: Phase) -> bool {
        self.phase.send_if_modified(|phase| {
            let is_starting = matches!(phase, Phase::Starting);
            if is_starting {
                *phase = end;
            }
            is_starting
        })
    }

    /// Waits until the start is over.
    pub(crate) async fn over(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| !matches!(phase, Phase::Starting)).await;
    }
}

/// A start on its way to the engine.
type Starting = Pin<Box<dyn Future<Output = Result<ExecResult>> + Send>>;

/// A call that waits for a start. Dropped, it hands the start over to a background task.
struct WaitingCall<'a> {
    door: &'a Door,
    caller: &'a Caller,
    exec: ExecId,
    run: Option<(CellRef, Command, Timestamp)>,
    start: Option<Starting>,
}

impl WaitingCall<'_> {
    async fn result(&mut self) -> Result<ExecResult> {
        let Some(start) = &mut self.start else { return Err(Error::internal("no start")) };
        let result = start.as_mut().await;
        self.start = None;
        result
    }

    /// Lets a background task finish the start.
    fn hand_over(&mut self) -> Option<Start> {
        let (start, (cell, command, queued_at)) = (self.start.take()?, self.run.take()?);
        let exec = StartingExec {
            exec: self.exec.clone(),
            cell,
            command: self.door.redacted(&command.to_string()),
            queued_at,
            phase: StartPhase::Starting,
        };
        let tenant = self.caller.tenant.clone();
        let handed = Start { tenant, exec, phase: watch::Sender::new(Phase::Starting) };
        self.door.starting.add(handed.clone());
        let (door, caller) = (self.door.clone(), self.caller.clone());
        let task = finish_start(door, caller, handed.clone(), start);
        self.door.starting.spawn(task);
        Some(handed)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.hand_over();
        self.door.starting.0.calls.send_modify(|calls| *calls -= 1);
    }
}

async fn finish_start(door: Door, caller: Caller, handed: Start, start: Starting) {
    let exec = handed.exec.exec.clone();
    // Its caller may have left long after it began.
    let phase = match door.has_exec(&caller, &exec).await {
        true => Some(Phase::Began(exec.clone())),
        false => tokio::select! {
            result = start => Some(match result {
                Ok(result) => Phase::Began(result.exec.id),
                Err(error) => Phase::Failed(error),
            }),
            () = handed.over() => None,
        },
    };
    let is_same = matches!(&phase, Some(Phase::Began(began)) if *began == exec);
    let was_cancelled = !phase.is_some_and(|phase| handed.settle(phase));
    if was_cancelled {
        // The supervisor may have started it just before.
        door.end_exec(&caller, exec).await;
    } else if is_same {
        door.starting.forget(&exec);
    }
}

impl Door {
    /// Runs a command. The start of its cell counts towards the wait: if it takes longer, it goes on
    /// in the background, as it does when this call is dropped.
    ///
    /// # Errors
    /// Those of the engine, if the command was refused or its start failed within the wait.
    pub(crate) async fn run_or_start(
        &self,
        caller: &Caller,
        exec: &ExecId,
        run: ExecRun,
        wait_s: f64,
    ) -> Result<Begun> {
        let wait = Duration::try_from_secs_f64(wait_s).unwrap_or_default();
        let deadline = tokio::time::Instant::now() + (wait + START_MARGIN).max(LEAST_WAIT);
        let known = (run.cell.clone(), run.command.clone(), Timestamp::now());
        let result_bytes = run.result_bytes;
        let run = ExecRun { exec: Some(exec.clone()), ..run };
        let (door, by) = (self.clone(), caller.clone());
        let start: Starting = Box::pin(async move { door.ask(&by, run).await });
        self.starting.0.calls.send_modify(|calls| *calls += 1);
        let mut call = WaitingCall {
            door: self,
            caller,
            exec: exec.clone(),
            run: Some(known),
            start: Some(start),
        };
        if let Ok(result) = timeout_at(deadline, call.result()).await {
            return result.map(|result| Begun::Ran(Box::new(result)));
        }
        let at_once = ExecWait { exec: exec.clone(), wait_s: 0.0, result_bytes };
        if let Ok(result) = self.attempt::<ExecWait>(caller, at_once.into()).await {
            return Ok(Begun::Ran(Box::new(result)));
        }
        match call.hand_over() {
            Some(handed) => Ok(Begun::Starting(handed.shown(StartPhase::Starting))),
            None => Err(Error::internal("a start was handed over twice")),
        }
    }

    async fn has_exec(&self, caller: &Caller, exec: &ExecId) -> bool {
        let get = ExecGet { exec: exec.clone() };
        self.attempt::<ExecGet>(caller, get.into()).await.is_ok()
    }

    /// Looks for an exec that may still be starting; `None` if it was never handed over.
    ///
    /// # Errors
    /// The caller may not see execs, or the engine cannot say whether it has it.
    pub(crate) async fn find_starting(
        &self,
        caller: &Caller,
        exec: &ExecId,
    ) -> Result<Option<(Start, Found)>> {
        let Some(start) = self.starting.find(&caller.tenant, exec) else { return Ok(None) };
        let get = ExecGet { exec: exec.clone() };
        match self.attempt::<ExecGet>(caller, get.into()).await {
            Ok(_) => Ok(Some((start, Found::InEngine(exec.clone())))),
            Err(error) if error.code == ErrorCode::NotFound => {
                let found = start.found();
                Ok(Some((start, found)))
            }
            Err(error) => Err(error),
        }
    }

    /// Every exec of this caller's tenant whose start has not reached the engine, newest first.
    pub(crate) async fn list_starting(&self, caller: &Caller) -> Vec<StartingExec> {
        let mut listed = Vec::new();
        for start in self.starting.all(&caller.tenant) {
            if self.has_exec(caller, &start.exec.exec).await {
                continue;
            }
            if let Found::NotYet(exec) = start.found() {
                listed.push(*exec);
            }
        }
        listed
    }

    /// Ends an exec that may be being started just now.
    pub(crate) async fn end_exec(&self, caller: &Caller, exec: ExecId) {
        for _ in 0..CANCEL_ATTEMPTS {
            if self.starting.find(&caller.tenant, &exec).is_some_and(|start| start.cancel()) {
                // The background task ends what it may have begun.
                return;
            }
            let request =
                ExecCancel { exec: exec.clone(), signal: Signal::TERM, grace_s: CANCEL_GRACE_S };
            match self.ask(caller, request).await {
                Ok(cancelled) if cancelled.status == CancelStatus::NotFound => {}
                Ok(_) => return,
                Err(error) => tracing::debug!(%exec, %error, "a cancel did not arrive"),
            }
            sleep(CANCEL_PAUSE).await;
        }
        tracing::debug!(%exec, "nothing was found to cancel");
    }
}
