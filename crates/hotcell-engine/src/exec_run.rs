//! Starts an exec and waits a while for its end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use hotcell_link::{LinkError, Started};
use hotcell_model::{
    ApprovalNeed, Caller, CellId, CellRef, CheckpointId, Claim, CodeTerms, Command, CutStrategy,
    Error, ErrorCode, Exec, ExecId, ExecResult, ExecRun, ExecSpec, ExecState, KeyScope, Pace,
    Result, Stdin, Timestamp,
};
use tokio::time::{Instant, timeout, timeout_at};

use crate::code_shown::Printed;
use crate::links::{ANSWER_WITHIN, stuck};
use crate::new_id::new_exec_id;
use crate::output_wait::QuestionWatch;
use crate::pending_calls::Seen;
use crate::program_watch::Asking;
use crate::prompt::prompt_of;
use crate::result_bound::{HeadAndTail, half_of};
use crate::site::Site;
use crate::spawn_key::KEY_KEEP_S;
use crate::view::View;
use crate::{Engine, ExecEvent, ExecStream, check, fingerprint};

/// How often an exec is asked for again whose connection broke before the answer.
const ATTEMPTS: u32 = 5;

/// Starts an exec, or finds the one that the key stands for, and waits a while for its end.
pub(crate) async fn exec_run(
    engine: &Engine,
    caller: &Caller,
    request: ExecRun,
    approval: Option<ApprovalNeed>,
    view: &View,
) -> Result<ExecResult> {
    let (site, called) = (engine.site(), Instant::now());
    check::exec_run(&request)?;
    check::root(&request, &site.settings)?;
    let wait = check::wait(request.wait_s)?;
    let stream = match request.idempotency_key.clone() {
        None => {
            let id = request.exec.clone().map_or_else(new_exec_id, Ok)?;
            let wanted = Wanted { caller, run: &request, approval, view };
            start(engine, wanted, id, Origin::Fresh).await?
        }
        Some(key) => {
            let wanted = Wanted { caller, run: &request, approval, view };
            start_keyed(engine, wanted, &key).await?
        }
    };
    // Only a person can start it: the caller learns that now, not when the wait is over.
    let wait = if stream.exec().awaits_approval() { Duration::ZERO } else { wait };
    // Waking the cell counts towards the wait.
    let deadline = called + wait;
    let questions = match (&request.command, &request.pty, &request.stdin) {
        (Command::Code(_), _, _) => Questions::None,
        (_, Some(_), _) | (_, _, Stdin::Open) => Questions::Expected,
        (_, None, Stdin::Empty | Stdin::Text(_)) => Questions::None,
    };
    let half_bytes = half_of(request.result_bytes);
    let shown = Showing { half_bytes, strategy: request.strategy, questions };
    collect(site, stream, shown, deadline, view).await
}

/// What is asked for, and by whom.
#[derive(Clone)]
struct Wanted<'a> {
    caller: &'a Caller,
    run: &'a ExecRun,
    approval: Option<ApprovalNeed>,
    view: &'a View,
}

/// What comes before an exec's start.
#[derive(Debug, Clone, Default)]
struct Before {
    /// What a person has to approve.
    approval: Option<ApprovalNeed>,
    /// The checkpoint that was made. A command that has to be approved gets its own right before it
    /// starts.
    checkpoint: Option<CheckpointId>,
}

impl Before {
    async fn of(
        engine: &Engine,
        caller: &Caller,
        run: &ExecRun,
        approval: Option<ApprovalNeed>,
    ) -> Result<Self> {
        let checkpoint = match &approval {
            None => Box::pin(engine.keep_before(caller, run)).await?,
            Some(_) => None,
        };
        Ok(Self { approval, checkpoint })
    }
}

/// Whether an id may have been started before.
#[derive(Debug, Clone)]
enum Origin {
    /// Nobody else has it.
    Fresh,
    /// It may have been started in this cell.
    Earlier(CellId),
}

async fn start_keyed(engine: &Engine, wanted: Wanted<'_>, key: &str) -> Result<ExecStream> {
    let (site, request) = (engine.site(), wanted.run);
    let cell = site.get_cell_or_ended(&request.cell).await?.spec.id;
    let request = ExecRun { cell: cell.clone().into(), ..request.clone() };
    let scope = KeyScope::Run(cell.clone());
    // Whoever comes second finds what the first one started, instead of preparing for it too.
    let _turn = site.keyed_starts.take(format!("{cell} {key}")).await;
    let fresh = request.exec.clone().map_or_else(new_exec_id, Ok)?;
    let fingerprint = fingerprint::of_run(&request);
    let expires = Timestamp::now().plus_seconds(KEY_KEEP_S);
    let claim = site.store.claim_key(&scope, key, fresh.as_str(), fingerprint, expires).await?;
    let (id, origin) = match claim {
        Claim::New => (fresh, Origin::Fresh),
        Claim::Taken { value, fingerprint: taken } if taken == fingerprint => {
            (value.parse()?, Origin::Earlier(cell))
        }
        Claim::Taken { value, .. } => {
            return Err(Error::conflict(format!(
                "the idempotency key {key:?} was used for another exec, {value}"
            ))
            .hint("use another key, or ask for exactly the same"));
        }
    };
    let wanted = Wanted { run: &request, ..wanted };
    let started = start(engine, wanted, id.clone(), origin).await;
    if let Err(error) = &started
        && refused_for_good(error.code)
    {
        site.store.release_key(&scope, key, id.as_str()).await?;
    }
    started
}

/// Whether nothing was started, and the same request would not be either.
fn refused_for_good(code: ErrorCode) -> bool {
    match code {
        ErrorCode::Invalid
        | ErrorCode::NotFound
        | ErrorCode::Conflict
        | ErrorCode::Denied
        | ErrorCode::LimitExceeded
        | ErrorCode::Unsupported => true,
        ErrorCode::Timeout
        | ErrorCode::Cancelled
        | ErrorCode::Unavailable
        | ErrorCode::Internal => false,
    }
}

/// Starts an exec under this id. A connection that breaks leaves open whether it was started, so
/// it is asked for again under the same id: a supervisor that has it answers as before, and what
/// an earlier supervisor had is in the journal by the time a later one is there.
async fn start(
    engine: &Engine,
    wanted: Wanted<'_>,
    id: ExecId,
    mut origin: Origin,
) -> Result<ExecStream> {
    let Wanted { caller, run: request, approval, view } = wanted;
    let site = engine.site();
    let mut before = None;
    let mut noted = false;
    for _ in 0..ATTEMPTS {
        if let Some(exec) = find_earlier(site, &origin, &id).await? {
            return ExecStream::open(site, exec, 0, Pace::Free, view).await;
        }
        let before = match &before {
            Some(known) => known,
            None => &*before.insert(Before::of(engine, caller, request, approval.clone()).await?),
        };
        let ready = site.ready(&request.cell).await?;
        // A supervisor that was just woken has none of what an earlier one did since.
        if let Some(exec) = find_earlier(site, &origin, &id).await? {
            return ExecStream::open(site, exec, 0, Pace::Free, view).await;
        }
        let tenant = site.tenant_of(&CellRef::Id(ready.id.clone())).await?;
        site.check_disk(&tenant).await?;
        let begins = site.admit_exec(&tenant, &id).await?;
        let secrets = site.given_secrets(&ready.id).await?;
        // Also under an id that somebody else claimed: who did may have died before it wrote this.
        if !noted {
            site.note_start(&id, &ready.id, request).await?;
            noted = true;
        }
        let spec = spec(request, before, id.clone(), &site.settings.code.terms);
        if site.toolbox.is_some() {
            // Before it runs: a program of it may call at once.
            site.tool_callers.remember(&id, caller);
        }
        let begin = ready.link.start_with(spec, secrets);
        let begun_or_not = timeout(ANSWER_WITHIN, begin).await;
        drop(begins);
        match begun_or_not {
            Ok(Ok((started, following))) => {
                site.recent.insert(&id, &ready.id);
                if let Some(need) = &before.approval {
                    tracing::warn!(
                        %id, tool = "exec_run", rule = need.rule,
                        "a command awaits approval: answer with `hotcell approve`"
                    );
                }
                if site.toolbox.is_some() {
                    engine.take_programs_of(&ready.id, &ready.link);
                }
                if let Command::Code(_) = &request.command {
                    engine.carry_calls(caller, &id, &ready.link).await;
                }
                let exec = begun(request, before, id, ready.id, started);
                let half = half_of(request.result_bytes);
                return Ok(ExecStream::for_result(site, exec, following, half, view));
            }
            // It may have begun; if not, that is seen at the next look.
            Ok(Err(LinkError::Lost)) => origin = Origin::Earlier(ready.id),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(stuck(&ready.id)),
        }
    }
    Err(Error::unavailable(format!(
        "the supervisor of cell {} drops every connection",
        request.cell
    ))
    .hint("see what the cell does with `hotcell info`, then try again"))
}

/// The exec, if it was started before.
async fn find_earlier(site: &Site, origin: &Origin, id: &ExecId) -> Result<Option<Exec>> {
    match origin {
        Origin::Fresh => Ok(None),
        Origin::Earlier(cell) => match site.find_exec_in(cell, id).await? {
            None => Ok(None),
            Some(_) => site.get_exec_in(cell, id).await.map(Some),
        },
    }
}

/// What a future comes to before a deadline. Once it has passed, what is ready is still taken: a
/// timer would wait for its next tick, a whole millisecond.
async fn before<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    if Instant::now() < deadline {
        return timeout_at(deadline, future).await.ok();
    }
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// How much of an exec a result has, and how code is shown in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Showing {
    /// How much of the head and of the tail of its output.
    pub(crate) half_bytes: u64,
    /// How what code left behind is made to fit.
    pub(crate) strategy: CutStrategy,
    /// Whether it may ask for input, which ends the wait.
    pub(crate) questions: Questions,
}

/// Whether an exec may ask for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Questions {
    /// It has a terminal, or its standard input is open.
    Expected,
    /// Its supervisor knows.
    Possible,
    /// Its input is not open.
    None,
}

/// Takes output until the end or the deadline. The records are raw: a character may be cut at the
/// end of the last one while the exec runs.
pub(crate) async fn collect(
    site: &Site,
    mut stream: ExecStream,
    shown: Showing,
    deadline: Instant,
    view: &View,
) -> Result<ExecResult> {
    stream.hold_back();
    if shown.questions != Questions::None {
        stream.stay_live();
    }
    let mut kept = HeadAndTail::new(shown.half_bytes);
    let mut next_seq = 0;
    // Once the wait is over: the last seq that belongs to the result.
    let mut last_seq = None;
    let mut pending = site.pending_calls.watch(&stream.exec().id, Seen::None);
    let mut questions = QuestionWatch::new(stream.exec(), shown.questions);
    let mut asking = Asking::No;
    let ended = loop {
        if last_seq.is_some_and(|last| next_seq >= last) {
            break None;
        }
        let event = match stream.exec().state {
            // All of it is there: reading it is no waiting.
            ExecState::Ended => Some(stream.next().await),
            ExecState::Queued | ExecState::Running => {
                let next_look = questions.next_look().filter(|_| last_seq.is_none());
                let look_at = next_look.filter(|at| *at < deadline);
                let mut has_news = false;
                let event = tokio::select! {
                    biased;
                    event = before(look_at.unwrap_or(deadline), stream.next()) => event,
                    () = pending.changed(), if last_seq.is_none() => {
                        // It may have been answered by now, and its code not told yet.
                        if site.calls_awaiting_approval([stream.exec()]).await.is_empty() {
                            continue;
                        }
                        has_news = true;
                        None
                    }
                };
                if event.is_none() && look_at.is_some() && !has_news {
                    asking = questions.look(site, &stream).await;
                    match asking {
                        Asking::Yes => break None,
                        Asking::No => continue,
                    }
                }
                event
            }
        };
        match event {
            Some(Ok(Some(ExecEvent::Record(record)))) => {
                next_seq = record.seq;
                kept.push(record);
            }
            Some(Ok(Some(ExecEvent::Dropped(dropped)))) => {
                next_seq = dropped.to_seq;
                kept.note_gap();
            }
            Some(Ok(Some(ExecEvent::Ended(exec)))) => break Some(exec),
            Some(Err(error)) => {
                // The exec was started and goes on: its caller must learn its id.
                tracing::warn!(exec = %stream.exec().id, %error, "stopped waiting for an exec");
                kept.note_gap();
                break None;
            }
            None if last_seq.is_none() => last_seq = Some(stream.catch_up().await),
            Some(Ok(None)) | None => break None,
        }
        if last_seq.is_none() && Instant::now() >= deadline {
            last_seq = Some(stream.catch_up().await);
        }
    };
    if asking == Asking::Yes {
        // Nothing more comes until it has its answer.
        stream.release_held();
    }
    while let Some(record) = stream.overdue() {
        next_seq = record.seq;
        kept.push(record);
    }
    let exec = match (ended, stream.exec().state) {
        (Some(exec), _) => exec,
        (None, ExecState::Queued) => {
            // It may have begun since.
            let known = stream.exec();
            site.get_exec_in(&known.cell, &known.id).await.unwrap_or_else(|_| known.clone())
        }
        (None, ExecState::Running | ExecState::Ended) => stream.exec().clone(),
    };
    if exec.state == ExecState::Ended {
        site.tool_callers.forget(&exec.id);
    }
    let waiting_for_input = match (asking, exec.state) {
        (Asking::Yes, ExecState::Running) => prompt_of(site, &exec, view).await.ok(),
        (Asking::Yes | Asking::No, _) => None,
    };
    let (records, truncated) = kept.finish();
    let code = site.code_of(&exec, Printed::Here(&records), shown.strategy, view).await;
    let awaiting = site.calls_awaiting_approval([&exec]).await;
    Ok(ExecResult { exec, records, truncated, next_seq, waiting_for_input, code, awaiting })
}

fn spec(request: &ExecRun, before: &Before, id: ExecId, terms: &CodeTerms) -> ExecSpec {
    ExecSpec {
        id,
        command: request.command.clone(),
        cwd: request.cwd.clone(),
        env: request.env.clone(),
        stdin: request.stdin.clone(),
        pty: request.pty,
        timeout_ms: request.timeout_s.map(milliseconds),
        priority: request.priority,
        pace: request.pace,
        as_root: request.as_root,
        bounds: request.bounds,
        approval: before.approval.clone(),
        checkpoint: before.checkpoint.clone(),
        code: match &request.command {
            Command::Code(_) => terms.clone(),
            Command::Shell(_) | Command::Argv(_) => CodeTerms::default(),
        },
    }
}

/// At least one: zero would be no time at all.
fn milliseconds(seconds: f64) -> u64 {
    // Checked to be positive and far below the range of the target.
    ((seconds * 1000.0).ceil() as u64).max(1)
}

fn begun(request: &ExecRun, before: &Before, id: ExecId, cell: CellId, started: Started) -> Exec {
    Exec {
        id,
        cell,
        state: started.state,
        command: request.command.clone(),
        pty: request.pty.is_some(),
        as_root: request.as_root,
        queued_at: started.queued_at,
        started_at: started.started_at,
        pid: started.pid,
        keep_s: request.bounds.keep_s,
        approval: started.approval.map(Box::new),
        checkpoint: before.checkpoint.clone(),
        end: started.end,
    }
}
