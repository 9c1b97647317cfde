//! A call that runs a command: waited for, watched, approved, cancelled, or turned into a task.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use hotcell_engine::{ExecEvent, ExecStream};
use hotcell_model::{
    ApprovalId, Asked, Exec, ExecFollow, ExecId, ExecResult, ExecRun, ExecState, ExecWait, Grant,
    Pace, Reply, Result,
};
use rmcp::model::{CallToolResponse, InputResponses, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::handler::{McpHandler, is_modern, no_longer_awaited};
use super::heartbeat::HEARTBEAT;
use super::held_call::unknown_state;
use super::progress_text::ProgressText;
use super::{elicited, tasks};
use crate::call_id;
use crate::starting_execs::Begun;
use hotcell_dialects::{Progress, Show, StartingExec};

/// How often new output is sent as progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// How long a client that supports tasks waits before it gets one.
const TASK_AFTER_S: f64 = 2.0;

/// The outcome of running a command.
enum Performed {
    Ran(Box<ExecResult>),
    /// The cell is still being started.
    Starting(Box<StartingExec>),
    /// The person at the client has to answer a question first.
    Asks(Box<Exec>, Box<Asked>),
}

/// How long to wait for an exec that was started, and how much of its output to return.
#[derive(Debug, Clone, Copy)]
struct Terms {
    wait_s: f64,
    result_bytes: u64,
}

/// One such call.
pub(super) struct ExecCall<'a> {
    pub(super) handler: &'a McpHandler,
    pub(super) tool: &'a str,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// How the result is shown, where the arguments decide that.
    pub(super) show: Option<Show>,
}

impl ExecCall<'_> {
    /// Runs the command and waits for it as its arguments say.
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
            performed = Box::pin(self.run_with_approval(run)) => performed,
            // The call stays registered: a cancel may follow, and it is meant for the exec.
            () = self.context.ct.cancelled() => return Err(given_up()),
            () = handler.door.closing.cancelled() => return Err(given_up()),
        };
        handler.calls.end(request);
        self.respond(performed, as_task)
    }

    /// Whether a command that takes long is handed back as a task.
    fn becomes_task(&self) -> bool {
        self.handler.door.dialect.has_tasks() && tasks::are_known_to(self.context)
    }

    /// Runs the command and waits for it on behalf of a dialect that makes several requests. A
    /// cancel of the call ends it.
    pub(super) async fn run_within(&self, mut run: ExecRun, shown: Progress) -> Result<ExecResult> {
        let (handler, request) = (self.handler, &self.context.id);
        let exec = handler.door.fresh_exec_id()?;
        run.exec = Some(exec.clone());
        handler.calls.begin(request, &exec);
        let token = match shown {
            Progress::Shown => self.token(),
            Progress::Silent => None,
        };
        let (terms, began) = (Terms::of(&run), Instant::now());
        let ran = match self.run(run, token.clone()).await {
            // These dialects have no way to say so: the person may still answer in time.
            Ok(result) if result.exec.awaits_approval() => {
                let wait_s = (terms.wait_s - began.elapsed().as_secs_f64()).max(0.0);
                Ok(self.wait(result, Terms { wait_s, ..terms }, token).await)
            }
            ran => ran,
        };
        handler.calls.end(request);
        ran
    }

    fn respond(
        self,
        performed: Result<Performed>,
        as_task: bool,
    ) -> Result<CallToolResponse, ErrorData> {
        let handler = self.handler;
        let answered = match performed {
            Ok(Performed::Asks(exec, asked)) => {
                call_id::note_exec(&exec);
                call_id::note_status(call_id::OK);
                return elicited::required(&asked).map(Into::into);
            }
            Ok(Performed::Starting(exec)) if as_task => {
                call_id::note_exec_id(&exec.exec);
                call_id::note_status(call_id::OK);
                return Ok(tasks::of_starting(&exec).into());
            }
            Ok(Performed::Starting(exec)) => return Ok(handler.starting(self.tool, &exec)),
            Ok(Performed::Ran(result)) if as_task && result.exec.state != ExecState::Ended => {
                call_id::note_exec(&result.exec);
                call_id::note_status(call_id::OK);
                return Ok(tasks::of_exec(&result.exec).into());
            }
            Ok(Performed::Ran(result)) => Ok(Reply::ExecResult(*result)),
            Err(error) => Err(error),
        };
        Ok(match self.show {
            Some(show) => handler.show(self.tool, answered, show, self.context),
            None => handler.tell(self.tool, answered),
        })
    }

    /// Continues after the person at the client answered a question about an exec.
    pub(super) async fn go_on(
        self,
        run: &ExecRun,
        state: &str,
        responses: Option<&InputResponses>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (handler, request) = (self.handler, &self.context.id);
        let answer = responses.and_then(|all| all.get(elicited::APPROVAL));
        let declined = handler.declined_by(self.context);
        let grant = answer.and_then(|answer| elicited::answer_of(answer, declined));
        let exec = match self.pass_on(state, grant).await {
            Ok(exec) => exec,
            Err(error) => return Ok(handler.tell(self.tool, Err(error))),
        };
        let as_task = self.becomes_task();
        let mut terms = Terms::of(run);
        if as_task {
            terms.wait_s = terms.wait_s.min(TASK_AFTER_S);
        }
        // Unanswered: the result says at once that it still awaits approval.
        if grant.is_none() {
            terms.wait_s = 0.0;
        }
        handler.calls.begin(request, &exec);
        let performed = async {
            let waited = self.wait_for(&exec, terms, self.token()).await?;
            match grant {
                Some(_) => Ok(self.ask_person(waited, terms).await),
                None => Ok(Performed::Ran(Box::new(waited))),
            }
        };
        let performed = tokio::select! {
            performed = Box::pin(performed) => performed,
            () = self.context.ct.cancelled() => return Err(no_longer_awaited()),
            () = handler.door.closing.cancelled() => return Err(no_longer_awaited()),
        };
        handler.calls.end(request);
        self.respond(performed, as_task)
    }

    /// Passes on the answer to a question about an exec of this caller, or about a call that its
    /// code makes.
    async fn pass_on(&self, state: &str, grant: Option<Grant>) -> Result<ExecId> {
        let asked = self.handler.asked_before(state).await?;
        let exec = match (&asked.id, &asked.exec) {
            (ApprovalId::Exec(exec), _) | (ApprovalId::Held(_), Some(exec)) => exec.clone(),
            (ApprovalId::Held(_), None) => return Err(unknown_state()),
        };
        if let Some(grant) = grant
            && asked.approval.is_pending()
        {
            self.handler.give(&asked, grant).await?;
        }
        Ok(exec)
    }

    /// Runs the command; the person at the client is asked to approve it, and the tool calls that
    /// its code makes, where the client can ask.
    async fn run_with_approval(&self, run: ExecRun) -> Result<Performed> {
        let terms = Terms::of(&run);
        let result = match self.run_or_start(run).await? {
            Begun::Ran(result) => *result,
            Begun::Starting(exec) => return Ok(Performed::Starting(exec)),
        };
        if self.handler.elicits(self.context) {
            return Ok(self.ask_person(result, terms).await);
        }
        Ok(Performed::Ran(Box::new(result)))
    }

    /// Asks the person at the client about everything that a result awaits approval for, and waits
    /// on after each answer. If a question stays unanswered, the result says what it awaits.
    async fn ask_person(&self, mut result: ExecResult, terms: Terms) -> Performed {
        let mut done = HashSet::new();
        while let Some(id) = awaited(&result).filter(|id| done.insert(id.clone())) {
            let asked = match self.handler.asked(id).await {
                Ok(asked) => asked,
                Err(error) => {
                    tracing::warn!(exec = %result.exec.id, %error, "cannot ask for approval");
                    break;
                }
            };
            if is_modern(self.context) {
                return Performed::Asks(Box::new(result.exec), Box::new(asked));
            }
            let declined = self.handler.declined_by(self.context);
            let answer = elicited::ask(self.context, &asked, declined).await;
            let Some(grant) = answer else { break };
            if let Err(error) = self.handler.give(&asked, grant).await {
                tracing::warn!(exec = %result.exec.id, %error, "cannot pass on an approval");
                break;
            }
            result = self.wait(result, terms, self.token()).await;
        }
        Performed::Ran(Box::new(result))
    }

    fn token(&self) -> Option<ProgressToken> {
        self.context.meta.get_progress_token()
    }

    /// Runs the command, and answers in time even if its cell is still being started then.
    async fn run_or_start(&self, mut run: ExecRun) -> Result<Begun> {
        let (handler, token) = (self.handler, self.token());
        let exec = match run.exec.take() {
            Some(exec) => exec,
            None => handler.door.fresh_exec_id()?,
        };
        let (terms, began, is_keyed) =
            (Terms::of(&run), Instant::now(), run.idempotency_key.is_some());
        if is_keyed {
            // Which exec the key stands for is known only once it was started.
            run.wait_s = 0.0;
        }
        let start = handler.door.run_or_start(&handler.caller, &exec, run, terms.wait_s);
        let begun = self.with_progress(&exec, token.clone(), start).await?;
        let Begun::Ran(result) = begun else { return Ok(begun) };
        if !is_keyed {
            return Ok(Begun::Ran(result));
        }
        handler.calls.stands_for(&self.context.id, &result.exec.id);
        let wait_s = (terms.wait_s - began.elapsed().as_secs_f64()).max(0.0);
        if result.exec.awaits_approval() || wait_s <= 0.0 {
            return Ok(Begun::Ran(result));
        }
        let waited = self.wait(*result, Terms { wait_s, ..terms }, token).await;
        Ok(Begun::Ran(Box::new(waited)))
    }

    async fn run(&self, run: ExecRun, token: Option<ProgressToken>) -> Result<ExecResult> {
        let door = &self.handler.door;
        match (&run.exec, &run.idempotency_key) {
            (Some(exec), None) => {
                let exec = exec.clone();
                self.with_progress(&exec, token, door.ask(&self.handler.caller, run)).await
            }
            // Which exec a key stands for is known only once it was started.
            (_, Some(_)) | (None, None) => {
                let terms = Terms::of(&run);
                let at_once = ExecRun { wait_s: 0.0, ..run };
                let begun = door.ask(&self.handler.caller, at_once).await?;
                self.handler.calls.stands_for(&self.context.id, &begun.exec.id);
                if begun.exec.awaits_approval() || terms.wait_s <= 0.0 {
                    return Ok(begun);
                }
                Ok(self.wait(begun, terms, token).await)
            }
        }
    }

    /// Waits for the end of an exec that was started. Its caller learns its id even if that fails.
    async fn wait(
        &self,
        begun: ExecResult,
        terms: Terms,
        token: Option<ProgressToken>,
    ) -> ExecResult {
        if begun.exec.state == ExecState::Ended {
            return begun;
        }
        match self.wait_for(&begun.exec.id, terms, token).await {
            Ok(result) => result,
            Err(error) => {
                tracing::warn!(exec = %begun.exec.id, %error, "cannot wait for an exec");
                begun
            }
        }
    }

    async fn wait_for(
        &self,
        exec: &ExecId,
        Terms { wait_s, result_bytes }: Terms,
        token: Option<ProgressToken>,
    ) -> Result<ExecResult> {
        let wait = ExecWait { exec: exec.clone(), wait_s, result_bytes };
        let waiting = self.handler.door.ask(&self.handler.caller, wait);
        self.with_progress(exec, token, waiting).await
    }

    /// Sends an exec's output as progress for as long as something waits for it.
    async fn with_progress<T>(
        &self,
        exec: &ExecId,
        token: Option<ProgressToken>,
        waiting: impl Future<Output = T>,
    ) -> T {
        let Some(token) = token else { return waiting.await };
        tokio::select! {
            biased;
            done = waiting => done,
            never = self.show_progress(exec, token) => match never {},
        }
    }

    /// Sends output as it comes, and a sign of life while there is none. Never returns: whatever
    /// happens to the output, the client is to go on waiting for the result.
    async fn show_progress(&self, exec: &ExecId, token: ProgressToken) -> Infallible {
        let began = Instant::now();
        let mut last_sent = began;
        let mut output = Output::NotStarted;
        let mut fresh = ProgressText::default();
        let mut ticks = interval_at(began + PROGRESS_PAUSE, PROGRESS_PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = output.take(&mut fresh) => {}
                _ = ticks.tick() => {
                    if matches!(output, Output::NotStarted) {
                        output = self.follow(exec).await;
                    }
                    let text = fresh.take();
                    if text.is_none() && last_sent.elapsed() < HEARTBEAT {
                        continue;
                    }
                    last_sent = Instant::now();
                    let progress = began.elapsed().as_secs_f64();
                    let mut notification = ProgressNotificationParam::new(token.clone(), progress);
                    notification.message = self.handler.door.dialect.progress(text);
                    // A client that is gone is noticed elsewhere.
                    let _ = self.context.peer.notify_progress(notification).await;
                }
            }
        }
    }

    async fn follow(&self, exec: &ExecId) -> Output {
        let follow = ExecFollow { exec: exec.clone(), after_seq: 0, pace: Pace::Free };
        match self.handler.door.follow(&self.handler.caller, follow).await {
            Ok(stream) => Output::Open(Box::new(stream)),
            // Its cell may still be starting.
            Err(_) => Output::NotStarted,
        }
    }
}

impl Terms {
    fn of(run: &ExecRun) -> Self {
        Self { wait_s: run.wait_s, result_bytes: run.result_bytes }
    }
}

/// The first thing that a result awaits approval for.
fn awaited(result: &ExecResult) -> Option<ApprovalId> {
    if result.exec.awaits_approval() {
        return Some(ApprovalId::Exec(result.exec.id.clone()));
    }
    result.awaiting.first().map(|asked| asked.id.clone())
}

/// An exec's output on its way to the client.
enum Output {
    /// There is no exec to follow yet.
    NotStarted,
    Open(Box<ExecStream>),
    /// Nothing more will come.
    Ended,
}

impl Output {
    /// Takes the next output; waits for ever where none can come.
    async fn take(&mut self, fresh: &mut ProgressText) {
        let Self::Open(stream) = self else { return std::future::pending().await };
        match stream.next().await {
            Ok(Some(ExecEvent::Record(record))) => fresh.push(&record.bytes),
            Ok(Some(ExecEvent::Dropped(_))) => {}
            Ok(Some(ExecEvent::Ended(_)) | None) => *self = Self::Ended,
            Err(error) => {
                tracing::debug!(%error, "output is no longer sent as progress");
                *self = Self::Ended;
            }
        }
    }
}
