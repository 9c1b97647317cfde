//! What every connection shares: the engine, and how its callers speak to it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hotcell_engine::{Answer, Engine, ExecStream, FileTransfer, PoolFigures, PortStream};
use hotcell_model::{
    Caller, CellAdopt, Error, ErrorCode, ExecFollow, ExecId, ExecPoll, ExecRun, ExecState,
    ExecWait, FileStream, PortDial, Query, Reply, Request, Result, Tenant,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::call_meter::CallMeter;
use crate::mcp::ClientRules;
use crate::metrics::Metrics;
use crate::starting_execs::StartingExecs;
use crate::watches::Watches;
use hotcell_dialects::Dialect;

/// How soon it is looked again at the soonest for cells that nobody holds.
const ADOPT_PAUSE: Duration = Duration::from_millis(200);
/// How soon to look again for an exec that is just being started.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Who may approve what an agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approvers {
    /// The operator alone.
    Operators,
    /// The operator, and the person at a client on standard input and output, where that can ask
    /// one: whoever started it has the machine.
    LocalClients,
    /// The same for clients over HTTP, too. What asks there is software of the agent's own.
    AllClients,
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAt {
    /// It started this server, and speaks on standard input and output.
    Stdio,
    /// It connected.
    Http,
}

/// One way into the engine.
#[derive(Debug, Clone)]
pub struct Door {
    engine: Arc<Engine>,
    /// Whose server this is.
    pub(crate) home: Tenant,
    pub(crate) dialect: Arc<dyn Dialect>,
    /// Done when nobody is to wait any more: what runs goes on, whoever waits is told so.
    pub(crate) closing: CancellationToken,
    /// Done when waits are to end early: whoever waits is answered with how things stand.
    pub(crate) draining: CancellationToken,
    pub(crate) meter: CallMeter,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) watches: Watches,
    pub(crate) starting: StartingExecs,
    /// Whether the person at a client may approve what it asks for.
    approvers: Approvers,
    pub(crate) client_rules: ClientRules,
    #[cfg(feature = "conformance")]
    pub(crate) fixtures: Option<crate::conformance::Rounds>,
}

impl Door {
    /// A door that speaks a dialect.
    #[must_use]
    pub fn new(engine: Arc<Engine>, dialect: Arc<dyn Dialect>) -> Self {
        let settings = engine.settings();
        let meter = CallMeter::new(settings.tenants.clone(), &settings.admission);
        Self {
            engine,
            home: Tenant::default(),
            dialect,
            closing: CancellationToken::new(),
            draining: CancellationToken::new(),
            metrics: Arc::new(Metrics::new(&meter)),
            meter,
            watches: Watches::default(),
            starting: StartingExecs::default(),
            approvers: Approvers::LocalClients,
            client_rules: ClientRules::default(),
            #[cfg(feature = "conformance")]
            fixtures: None,
        }
    }

    /// The same door, with others to approve what is asked for.
    #[must_use]
    pub fn with_approvers(mut self, approvers: Approvers) -> Self {
        self.approvers = approvers;
        self
    }

    /// The same door, with rules for how clients are served.
    #[must_use]
    pub fn with_client_rules(mut self, rules: ClientRules) -> Self {
        self.client_rules = rules;
        self
    }

    /// Whether the person at a client may have to be asked.
    pub(crate) fn elicits(&self, at: ClientAt) -> bool {
        let may = match (self.approvers, at) {
            (Approvers::AllClients, _) | (Approvers::LocalClients, ClientAt::Stdio) => true,
            (Approvers::LocalClients, ClientAt::Http) | (Approvers::Operators, _) => false,
        };
        may && self.engine.may_ask()
    }

    /// What came of cells that were made ahead of need.
    pub(crate) fn pool_figures(&self) -> PoolFigures {
        self.engine.pool_figures()
    }

    /// Whether the engine has tools of other servers for clients.
    pub(crate) fn may_pass_tools(&self) -> bool {
        self.engine.may_pass_tools()
    }

    /// The same door as that of a tenant's own server: its callers see figures of the server itself.
    #[must_use]
    pub fn at_home_in(self, home: Tenant) -> Self {
        Self { home, ..self }
    }

    /// The server, where it asks on its own behalf.
    pub(crate) fn own_caller(&self) -> Caller {
        Caller::server().in_tenant(self.home.clone())
    }

    /// Takes over what other servers leave, for as long as this one serves.
    pub(crate) async fn adopt_cells(self, caller: Caller) {
        let orphan_grace = Duration::from_secs(self.engine.settings().orphan_grace_s);
        let pause = (orphan_grace / 4).max(ADOPT_PAUSE);
        loop {
            if let Err(error) = self.ask(&caller, CellAdopt).await {
                tracing::warn!(%error, "cells that other servers left are not taken over");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The same door with what the conformance suite asks for beside the real tools.
    #[cfg(feature = "conformance")]
    #[must_use]
    pub fn with_conformance_fixtures(mut self) -> Self {
        self.fixtures = Some(crate::conformance::Rounds::default());
        self
    }

    pub(crate) async fn call(&self, caller: &Caller, request: Request) -> Result<Reply> {
        let answered = self.enter(caller, request).await;
        if let Err(error) = &answered {
            self.refused(error);
        }
        answered
    }

    /// The same for a front that itself notes with `refused` what it answers with an error.
    pub(crate) async fn enter(&self, caller: &Caller, request: Request) -> Result<Reply> {
        let operation =
            if let Request::FileCall(call) = &request { call.op.name() } else { request.name() };
        let _under_way = self.meter.begin(caller)?;
        let answered = Box::pin(self.answer(caller, request)).await;
        self.meter.answered(caller, operation, &answered);
        tracing::debug!("answered");
        answered
    }

    /// An error that was made here, as it is shown: it may quote what was asked for.
    pub(crate) fn covered(&self, error: Error) -> Error {
        let hint = error.hint.as_deref().map(|hint| self.redacted(hint));
        Error { message: self.redacted(&error.message), hint, ..error }
    }

    /// A text as it is shown.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.engine.redacted(text)
    }

    /// Notes that a call was answered with an error.
    pub(crate) fn refused(&self, error: &Error) {
        self.meter.refused(error.code);
        // It may quote what was asked for.
        let message = self.engine.redacted(&error.to_string());
        if error.code == ErrorCode::Internal {
            tracing::error!(code = %error.code, error = message, "refused");
        } else {
            tracing::debug!(code = %error.code, error = message, "refused");
        }
    }

    pub(crate) async fn ask<Q: Query>(&self, caller: &Caller, query: Q) -> Result<Q::Answer> {
        let reply = self.call(caller, query.into()).await?;
        Q::answer(reply).ok_or_else(another_reply)
    }

    /// The same for a front that itself notes what it refuses.
    pub(crate) async fn attempt<Q: Query>(
        &self,
        caller: &Caller,
        request: Request,
    ) -> Result<Q::Answer> {
        let reply = self.enter(caller, request).await?;
        Q::answer(reply).ok_or_else(another_reply)
    }

    pub(crate) async fn follow(&self, caller: &Caller, request: ExecFollow) -> Result<ExecStream> {
        self.engine.follow(caller, request).await
    }

    /// Begins to send or fetch the content of files.
    pub(crate) async fn transfer(
        &self,
        caller: &Caller,
        request: FileStream,
    ) -> Result<FileTransfer> {
        let name = request.op.name();
        let begun = match self.meter.begin(caller) {
            Ok(_under_way) => self.patient(Box::pin(self.engine.transfer(caller, request))).await,
            Err(error) => Err(error),
        };
        self.meter.answered(caller, name, &begun);
        if let Err(error) = &begun {
            self.refused(error);
        }
        begun
    }

    /// The same for what looks on and tries again: it is no call, and its failures are nobody's.
    pub(crate) async fn watch(&self, caller: &Caller, request: FileStream) -> Result<FileTransfer> {
        Box::pin(self.engine.transfer(caller, request)).await
    }

    /// Connects to a service in a cell.
    pub(crate) async fn dial(&self, caller: &Caller, request: PortDial) -> Result<PortStream> {
        let dialled = match self.meter.begin(caller) {
            Ok(_under_way) => self.patient(Box::pin(self.engine.dial(caller, request))).await,
            Err(error) => Err(error),
        };
        self.meter.answered(caller, "port_dial", &dialled);
        if let Err(error) = &dialled {
            self.refused(error);
        }
        dialled
    }

    pub(crate) fn fresh_exec_id(&self) -> Result<ExecId> {
        self.engine.fresh_exec_id()
    }

    async fn reply(&self, caller: &Caller, request: impl Into<Request>) -> Result<Reply> {
        match self.patient(self.engine.call(caller, request.into())).await? {
            Answer::Reply(reply) => Ok(reply),
            Answer::Stream(_) | Answer::Files(_) | Answer::Port(_) => {
                Err(Error::internal("a stream answered a call"))
            }
        }
    }

    /// What comes of a call that may wait for a person's word: not any more when the server is to
    /// end. What else it does is finished.
    async fn patient<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        tokio::select! {
            answer = &mut answer => return answer,
            () = self.draining.cancelled() => self.engine.end_waits(),
        }
        answer.await
    }

    /// The same; what would wait is answered early when the server is to end.
    async fn answer(&self, caller: &Caller, request: Request) -> Result<Reply> {
        match request {
            Request::ExecRun(run) if run.wait_s > 0.0 => self.run(caller, run).await,
            Request::ExecWait(wait) if wait.wait_s > 0.0 => self.wait(caller, wait).await,
            Request::ExecPoll(poll) if poll.wait_s > 0.0 => {
                let at_once = ExecPoll { wait_s: 0.0, ..poll.clone() };
                tokio::select! {
                    reply = self.reply(caller, poll) => reply,
                    () = self.draining.cancelled() => self.reply(caller, at_once).await,
                }
            }
            request @ (Request::CellSpawn(_)
            | Request::CellList(_)
            | Request::CellInfo(_)
            | Request::CellAdopt(_)
            | Request::CellKill(_)
            | Request::CellAttach(_)
            | Request::VolumesList(_)
            | Request::VolumeRestore(_)
            | Request::VolumeRemove(_)
            | Request::Reconcile(_)
            | Request::Collect(_)
            | Request::ExecRun(_)
            | Request::ExecWait(_)
            | Request::ToolRun(_)
            | Request::ToolSearch(_)
            | Request::ToolNames(_)
            | Request::ToolList(_)
            | Request::ExecGet(_)
            | Request::ExecPoll(_)
            | Request::ExecInput(_)
            | Request::ExecCancel(_)
            | Request::ExecList(_)
            | Request::ExecFollow(_)
            | Request::ApprovalList(_)
            | Request::PolicyCheck(_)
            | Request::ApprovalGive(_)
            | Request::CheckpointCreate(_)
            | Request::CheckpointList(_)
            | Request::CheckpointCompare(_)
            | Request::CheckpointRestore(_)
            | Request::CheckpointDelete(_)
            | Request::CellFork(_)
            | Request::NetShow(_)
            | Request::NetChange(_)
            | Request::NetLog(_)
            | Request::ProjectDiff(_)
            | Request::ProjectApply(_)
            | Request::ProjectDiscard(_)
            | Request::FileCall(_)
            | Request::FileStream(_)
            | Request::PortDial(_)
            | Request::SecretSet(_)
            | Request::SecretsList(_)
            | Request::SecretRemove(_)
            | Request::ImageImport(_)
            | Request::ImagePull(_)
            | Request::ImagesList(_)
            | Request::ImageRemove(_)
            | Request::TokenCreate(_)
            | Request::TokensList(_)
            | Request::TokenRevoke(_)
            | Request::AuditQuery(_)
            | Request::AuditSummary(_)
            | Request::CodeStats(_)
            | Request::Diagnose(_)
            | Request::Probe(_)) => self.reply(caller, request).await,
        }
    }

    async fn wait(&self, caller: &Caller, wait: ExecWait) -> Result<Reply> {
        let at_once = ExecWait { wait_s: 0.0, ..wait.clone() };
        tokio::select! {
            reply = self.reply(caller, wait) => reply,
            () = self.draining.cancelled() => self.reply(caller, at_once).await,
        }
    }

    async fn run(&self, caller: &Caller, mut run: ExecRun) -> Result<Reply> {
        if run.idempotency_key.is_some() {
            return self.run_keyed(caller, run).await;
        }
        let exec = match &run.exec {
            Some(exec) => exec.clone(),
            None => self.fresh_exec_id()?,
        };
        run.exec = Some(exec.clone());
        let at_once = ExecWait { exec, wait_s: 0.0, result_bytes: run.result_bytes };
        let mut running = pin!(self.reply(caller, run));
        tokio::select! {
            reply = &mut running => return reply,
            () = self.draining.cancelled() => {}
        }
        loop {
            match self.reply(caller, at_once.clone()).await {
                Err(error) if error.code == ErrorCode::NotFound => tokio::select! {
                    reply = &mut running => return reply,
                    () = sleep(LOOK_AGAIN) => {}
                },
                found => return found,
            }
        }
    }

    /// Which exec a key stands for is known only once it was begun.
    async fn run_keyed(&self, caller: &Caller, mut run: ExecRun) -> Result<Reply> {
        let (began, wait_s, result_bytes) = (Instant::now(), run.wait_s, run.result_bytes);
        run.wait_s = 0.0;
        let reply = self.reply(caller, run).await?;
        let Reply::ExecResult(result) = &reply else { return Ok(reply) };
        let wait_s = wait_s - began.elapsed().as_secs_f64();
        if result.exec.state == ExecState::Ended || wait_s <= 0.0 {
            return Ok(reply);
        }
        self.wait(caller, ExecWait { exec: result.exec.id.clone(), wait_s, result_bytes }).await
    }
}

fn another_reply() -> Error {
    Error::internal("the reply to another request came")
}
