//! A call that runs a command: it may be waited for, watched, cancelled, or become a task.

use std::time::Duration;

use hotcell_engine::{ExecEvent, ExecStream};
use hotcell_model::{
    ApprovalId, Asked, Error, Exec, ExecFollow, ExecId, ExecResult, ExecRun, ExecState, ExecWait,
    Grant, Pace, Reply, Result,
};
use rmcp::model::{CallToolResponse, InputResponses, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::handler::{McpHandler, is_modern, no_longer_awaited};
use super::held_call::unknown_state;
use super::progress_text::ProgressText;
use super::{elicited, tasks};
use crate::call_id;
use hotcell_dialects::{Progress, Show};

/// How often output that came is passed on as progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// How often it is said that a command without output still runs.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a client that knows tasks is kept before it gets one.
const TASK_AFTER_S: f64 = 2.0;

/// What came of running a command.
enum Performed {
    Ran(Box<ExecResult>),
    /// A person has to be asked first.
    Asks(Box<Exec>, Box<Asked>),
}

/// One such call.
pub(super) struct ExecCall<'a> {
    pub(super) handler: &'a McpHandler,
    pub(super) tool: &'a str,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// How what came of it is shown, where its arguments say that.
    pub(super) show: Option<Show>,
}

impl ExecCall<'_> {
    /// Runs the command and waits as long as it is to be waited for.
    pub(super) async fn perform(self, mut run: ExecRun) -> Result<CallToolResponse, ErrorData> {
        let (handler, request) = (self.handler, &self.context.id);
        let exec = match handler.door.fresh_exec_id() {
            Ok(exec) => exec,
            Err(error) => return Ok(handler.tell(self.tool, Err(error))),
        };
        let is_keyed = run.idempotency_key.is_some();
        let as_task = self.becomes_task();
        if as_task {
            run.wait_s = run.wait_s.min(TASK_AFTER_S);
        }
        run.exec = Some(exec.clone());
        handler.calls.begin(request, &exec);
        if self.context.ct.is_cancelled() {
            handler.calls.end(request);
            return Err(no_longer_awaited());
        }
        let given_up = || {
            // Which exec a key stands for may not be known yet.
            if !is_keyed {
                call_id::note_exec_id(&exec);
            }
            no_longer_awaited()
        };
        let performed = tokio::select! {
            performed = Box::pin(self.run_or_ask(run)) => performed,
            // The call stays noted: a cancel may follow, and it is meant for the exec.
            () = self.context.ct.cancelled() => return Err(given_up()),
            () = handler.door.closing.cancelled() => return Err(given_up()),
        };
        handler.calls.end(request);
        let performed = match performed {
            Ok(Performed::Asks(exec, asked)) => {
                call_id::note_exec(&exec);
                call_id::note_status(call_id::OK);
                return elicited::required(&asked).map(Into::into);
            }
            Ok(Performed::Ran(result)) => Ok(*result),
            Err(error) => Err(error),
        };
        self.tell(performed, as_task)
    }

    /// Whether a command that takes long is handed back as a task.
    fn becomes_task(&self) -> bool {
        self.handler.door.dialect.has_tasks() && tasks::are_known_to(self.context)
    }

    /// Runs the command and waits for it as part of a talk; a cancel of the call ends it.
    pub(super) async fn run_within(
        &self,
        mut run: ExecRun,
        progress: Progress,
    ) -> Result<ExecResult> {
        let (handler, request) = (self.handler, &self.context.id);
        let exec = handler.door.fresh_exec_id()?;
        run.exec = Some(exec.clone());
        handler.calls.begin(request, &exec);
        let token = match progress {
            Progress::Shown => self.context.meta.get_progress_token(),
            Progress::Silent => None,
        };
        let ran = match token {
            None => self.ask(run).await,
            Some(token) => self.run_in_steps(run, Some(token)).await,
        };
        handler.calls.end(request);
        ran
    }

    fn tell(
        self,
        performed: Result<ExecResult>,
        as_task: bool,
    ) -> Result<CallToolResponse, ErrorData> {
        let handler = self.handler;
        if let Ok(result) = &performed
            && as_task
            && result.exec.state != ExecState::Ended
        {
            call_id::note_exec(&result.exec);
            call_id::note_status(call_id::OK);
            return Ok(tasks::of_exec(&result.exec).into());
        }
        let answered = performed.map(Reply::ExecResult);
        Ok(match self.show {
            Some(show) => handler.show(self.tool, answered, show, self.context),
            None => handler.tell(self.tool, answered),
        })
    }

    /// Goes on after the person at the client was asked about an exec.
    pub(super) async fn go_on(
        self,
        run: &ExecRun,
        state: &str,
        responses: Option<&InputResponses>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (handler, request) = (self.handler, &self.context.id);
        let answer = responses.and_then(|all| all.get(elicited::APPROVAL));
        let exec = match self.answered(state, answer.and_then(elicited::answer_of)).await {
            Ok(exec) => exec,
            Err(error) => return Ok(handler.tell(self.tool, Err(error))),
        };
        let as_task = self.becomes_task();
        let wait_s = if as_task { run.wait_s.min(TASK_AFTER_S) } else { run.wait_s };
        handler.calls.begin(request, &exec);
        let wait = ExecWait { exec, wait_s, result_bytes: run.result_bytes };
        let waited = tokio::select! {
            waited = handler.door.ask(&handler.caller, wait) => waited,
            () = self.context.ct.cancelled() => return Err(no_longer_awaited()),
            () = handler.door.closing.cancelled() => return Err(no_longer_awaited()),
        };
        handler.calls.end(request);
        self.tell(waited, as_task)
    }

    /// Passes on what a person answered about an exec of this caller.
    async fn answered(&self, state: &str, grant: Option<Grant>) -> Result<ExecId> {
        let asked = self.handler.asked_before(state).await?;
        let ApprovalId::Exec(exec) = &asked.id else { return Err(unknown_state()) };
        if let Some(grant) = grant
            && asked.approval.is_pending()
        {
            self.handler.give(&asked, grant).await?;
        }
        Ok(exec.clone())
    }

    /// Runs the command; where a person at the client may have to approve it, in steps.
    async fn run_or_ask(&self, mut run: ExecRun) -> Result<Performed> {
        if !self.handler.elicits(self.context) {
            return Ok(Performed::Ran(Box::new(self.run(run).await?)));
        }
        let (deadline, result_bytes) = (Instant::now() + duration(run.wait_s)?, run.result_bytes);
        run.wait_s = 0.0;
        let begun = self.ask(run).await?;
        let exec = begun.exec.id.clone();
        self.handler.calls.stands_for(&self.context.id, &exec);
        if begun.exec.awaits_approval() {
            let asked = self.handler.asked(ApprovalId::Exec(exec)).await?;
            if is_modern(self.context) {
                return Ok(Performed::Asks(Box::new(begun.exec), Box::new(asked)));
            }
            if let Some(grant) = elicited::ask(self.context, &asked).await {
                self.handler.give(&asked, grant).await?;
            }
        }
        self.wait_on(begun, deadline, result_bytes).await.map(|ran| Performed::Ran(Box::new(ran)))
    }

    async fn run(&self, run: ExecRun) -> Result<ExecResult> {
        match (&run.idempotency_key, self.context.meta.get_progress_token()) {
            (None, None) => self.ask(run).await,
            (_, token) => self.run_in_steps(run, token).await,
        }
    }

    async fn ask(&self, run: ExecRun) -> Result<ExecResult> {
        self.handler.door.ask(&self.handler.caller, run).await
    }

    /// Starts the command, then waits for it: which exec a key stands for is known in between.
    async fn run_in_steps(
        &self,
        mut run: ExecRun,
        token: Option<ProgressToken>,
    ) -> Result<ExecResult> {
        let deadline = Instant::now() + duration(run.wait_s)?;
        let result_bytes = run.result_bytes;
        run.wait_s = 0.0;
        let begun = self.ask(run).await?;
        self.handler.calls.stands_for(&self.context.id, &begun.exec.id);
        if let Some(token) = token
            && begun.exec.state != ExecState::Ended
            && Instant::now() < deadline
        {
            let exec = begun.exec.id.clone();
            self.show_progress(exec, token, deadline).await?;
        }
        self.wait_on(begun, deadline, result_bytes).await
    }

    /// Waits for the end of what was begun.
    async fn wait_on(
        &self,
        begun: ExecResult,
        deadline: Instant,
        result_bytes: u64,
    ) -> Result<ExecResult> {
        if begun.exec.state == ExecState::Ended || Instant::now() >= deadline {
            return Ok(begun);
        }
        let exec = begun.exec.id;
        let wait_s = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        let wait = ExecWait { exec, wait_s, result_bytes };
        self.handler.door.ask(&self.handler.caller, wait).await
    }

    /// Passes output on as it comes, until the end or the deadline.
    async fn show_progress(
        &self,
        exec: ExecId,
        token: ProgressToken,
        deadline: Instant,
    ) -> Result<()> {
        let follow = ExecFollow { exec, after_seq: 0, pace: Pace::Free };
        let mut stream = self.handler.door.follow(&self.handler.caller, follow).await?;
        let began = Instant::now();
        let mut fresh = ProgressText::default();
        let mut told = began;
        let mut ticks = interval_at(began + PROGRESS_PAUSE, PROGRESS_PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                more = take(&mut stream, &mut fresh) => if !more? { return Ok(()) },
                _ = ticks.tick() => {
                    let output = fresh.take();
                    if output.is_none() && told.elapsed() < HEARTBEAT {
                        continue;
                    }
                    told = Instant::now();
                    let progress = began.elapsed().as_secs_f64();
                    let mut told = ProgressNotificationParam::new(token.clone(), progress);
                    told.message = self.handler.door.dialect.progress(output);
                    // A client that is gone is noticed elsewhere.
                    let _ = self.context.peer.notify_progress(told).await;
                }
                () = sleep_until(deadline) => return Ok(()),
                () = self.handler.door.draining.cancelled() => return Ok(()),
            }
        }
    }
}

/// Takes the next output; `false` at the end.
async fn take(stream: &mut ExecStream, fresh: &mut ProgressText) -> Result<bool> {
    match stream.next().await? {
        Some(ExecEvent::Record(record)) => {
            fresh.push(&record.bytes);
            Ok(true)
        }
        Some(ExecEvent::Dropped(_)) => Ok(true),
        Some(ExecEvent::Ended(_)) | None => Ok(false),
    }
}

fn duration(wait_s: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(wait_s)
        .map_err(|error| Error::invalid(format!("a wait of {wait_s} s: {error}")))
}
