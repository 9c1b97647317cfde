//! The one door.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use hotcell_link::Link;
use hotcell_model::{
    Alias, ApprovalNeed, At, Caller, CheckpointPurpose, Collected, Driver, Error, ExecFollow,
    ExecId, FileStream, Ledger, NameRules, NetRule, OwnTools, PortDial, Query, Reconciled, Reply,
    Request, Result, SecretStore, Store, Tenant, Tenants, TokenStore, ToolServers, Workspace,
};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::approvals::approval_list;
use crate::audit::{AuditCall, audit};
use crate::cell_adopt::cell_adopt;
use crate::cell_fork::cell_fork;
use crate::cell_info::{cell_attach, cell_info};
use crate::cell_kill::cell_kill;
use crate::cell_list::cell_list;
use crate::cell_spawn::cell_spawn;
use crate::checkpoint::{
    checkpoint_compare, checkpoint_create, checkpoint_delete, checkpoint_list, checkpoint_restore,
};
use crate::code_calls::serve_calls;
use crate::code_stats::code_stats;
use crate::collect::collect;
use crate::default_cell::{self, Standing};
use crate::diagnose::diagnose;
use crate::exec_cancel::exec_cancel;
use crate::exec_follow::exec_follow;
use crate::exec_get::exec_get;
use crate::exec_input::exec_input;
use crate::exec_list::exec_list;
use crate::exec_poll::exec_poll;
use crate::exec_run::exec_run;
use crate::exec_wait::exec_wait;
use crate::files::{file_call, file_stream};
use crate::images::{image_import, image_pull, image_remove, images_list};
use crate::network::{net_change, net_log, net_show};
use crate::new_id::new_exec_id;
use crate::passed::tool_list;
use crate::policies::{Rules, policy_check};
use crate::pool::PoolFigures;
use crate::ports::port_dial;
use crate::probe::probe;
use crate::project::{project_apply, project_diff, project_discard};
use crate::project_approval::{Preparation, prepare};
use crate::reconcile::reconcile;
use crate::recorded::Recording;
use crate::rights;
use crate::secrets::{secret_remove, secret_set, secrets_list};
use crate::site::Site;
use crate::tenancy::{self, Confined};
use crate::tokens::{token_create, token_revoke, tokens_list};
use crate::toolbox::{Toolbox, tool_names, tool_run, tool_search};
use crate::view::View;
use crate::volumes::{volume_remove, volume_restore, volumes_list};
use crate::{
    AllowedNames, AllowedWorkspaces, ExecStream, FileTransfer, Policies, PolicyUse, PortStream,
    Settings,
};

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// All at once.
    Reply(Reply),
    /// The output of an exec as it comes.
    Stream(Box<ExecStream>),
    /// The content of files as it comes and goes.
    Files(FileTransfer),
    /// A connection to a service in a cell.
    Port(PortStream),
}

/// A request on its way to its answer. A box, so that the way is compiled here and not once more in
/// each crate that asks.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer>> + Send + 'a>>;

/// The use cases on one state directory.
#[derive(Debug)]
pub struct Engine {
    site: Arc<Site>,
    swept: AtomicBool,
    beside: Beside,
}

/// What goes on whether or not somebody waits for it, until the engine that was made first is gone.
#[derive(Debug)]
enum Beside {
    Own(Arc<Mutex<JoinSet<()>>>),
    /// That of the engine whose work this one is a part of.
    Shared(Weak<Mutex<JoinSet<()>>>),
}

impl Engine {
    /// An engine on a state directory that exists and is its owner's alone.
    #[must_use]
    pub fn new(
        state_dir: PathBuf,
        store: Arc<dyn Store>,
        drivers: Vec<Arc<dyn Driver>>,
        settings: Settings,
    ) -> Self {
        Self {
            site: Arc::new(Site::new(state_dir, store, drivers, settings)),
            swept: AtomicBool::new(false),
            beside: Beside::Own(Arc::default()),
        }
    }

    /// Does what a caller asks for. Cancelled, it stops waiting; what was started goes on, and what
    /// was half made is finished by whoever needs it next.
    ///
    /// # Errors
    /// The request could not be done; the error says why and what to do.
    #[inline(never)]
    pub fn call<'a>(&'a self, caller: &'a Caller, request: Request) -> Answering<'a> {
        Box::pin(self.recorded(caller, request))
    }

    async fn recorded(&self, caller: &Caller, request: Request) -> Result<Answer> {
        tracing::debug!(principal = %caller.principal, "call");
        match Recording::begin(&self.site, caller, &request).await? {
            Some(recording) => {
                let caller = recording.caller();
                recording.of(Box::pin(self.admit(&caller, request))).await
            }
            None => Box::pin(self.admit(caller, request)).await,
        }
    }

    async fn admit(&self, caller: &Caller, request: Request) -> Result<Answer> {
        let view = View::of(&self.site, caller);
        let admitted = Box::pin(self.admit_to(caller, request, &view)).await;
        // Whoever refuses may quote what was asked for.
        admitted.map_err(|error| view.error(error))
    }

    async fn admit_to(&self, caller: &Caller, mut request: Request, view: &View) -> Result<Answer> {
        rights::check(caller, &request)?;
        let confined = Box::pin(async {
            let standing = default_cell::put(&self.site, caller, &mut request).await?;
            match standing {
                Standing::Settled => tenancy::confine(&self.site, caller, &mut request)
                    .await
                    .map(|confined| (standing, confined)),
                Standing::ToBeMade => Ok((standing, Confined::ToBeDone)),
            }
        });
        let (standing, confined) = confined.await?;
        if let Confined::Answered(reply) = confined {
            return Ok(Answer::Reply(*reply));
        }
        let approval = match Box::pin(prepare(&self.site, caller, &mut request)).await? {
            Preparation::Ready => Box::pin(self.judged(caller, &request)).await?,
            Preparation::Nothing(reply) => return Ok(Answer::Reply(*reply)),
            Preparation::Approval(need) => {
                Box::pin(self.approved(caller, &request, need)).await?;
                None
            }
        };
        if standing == Standing::ToBeMade {
            Box::pin(async {
                let began = Instant::now();
                default_cell::make(&self.site, caller).await?;
                // Making the cell counts towards the wait.
                if let Request::ExecRun(run) = &mut request
                    && run.wait_s > 0.0
                {
                    run.wait_s = (run.wait_s - began.elapsed().as_secs_f64()).max(0.0);
                }
                tenancy::confine(&self.site, caller, &mut request).await
            })
            .await?;
        }
        let mut answer = Box::pin(self.perform(caller, request, approval, view)).await?;
        if let Answer::Reply(reply) = &mut answer {
            Box::pin(view.cover(&self.site, reply)).await?;
        }
        Ok(answer)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each request")]
    async fn perform(
        &self,
        caller: &Caller,
        request: Request,
        approval: Option<ApprovalNeed>,
        view: &View,
    ) -> Result<Answer> {
        let (site, tenant, tenants) = (&self.site, &caller.tenant, caller.tenants());
        let reply = match request {
            Request::CellSpawn(request) => {
                let cell = Box::pin(cell_spawn(site, tenant, request)).await?;
                self.sweep_beside();
                Reply::Cell(cell)
            }
            Request::CellList(request) => {
                let cells = cell_list(site, &tenants, request).await?;
                self.sweep_now().await;
                Reply::Cells(cells)
            }
            Request::CellKill(request) => {
                let killed = Box::pin(cell_kill(site, request)).await?;
                self.sweep_now().await;
                Reply::CellKilled(killed)
            }
            Request::CellInfo(request) => {
                Reply::CellDetails(Box::new(cell_info(site, request).await?))
            }
            Request::CellAttach(it) => {
                Reply::CellDetails(Box::new(cell_attach(site, caller, it).await?))
            }
            Request::VolumesList(_) => Reply::Volumes(volumes_list(site, &tenants).await?),
            Request::VolumeRestore(request) => {
                let restore = |at: Arc<Site>| async move { volume_restore(&at, request).await };
                Reply::Cell(self.to_its_end(restore).await?)
            }
            Request::VolumeRemove(request) => {
                let remove = |at: Arc<Site>| async move { volume_remove(&at, request).await };
                Reply::Volume(self.to_its_end(remove).await?)
            }
            Request::Reconcile(_) => {
                let reconcile = |at: Arc<Site>| async move { reconcile(&at).await };
                let done = self.to_its_end(reconcile).await?;
                Reply::Reconciled(Reconciled { errors: shown_to(caller, done.errors), ..done })
            }
            Request::Collect(it) => {
                let collect = |at: Arc<Site>| async move { collect(&at, it).await };
                let done = self.to_its_end(collect).await?;
                Reply::Collected(Collected { errors: shown_to(caller, done.errors), ..done })
            }
            Request::CellAdopt(_) => Reply::Cells(Box::pin(cell_adopt(site, &tenants)).await?),
            Request::CheckpointCreate(request) => {
                let keeping = CheckpointPurpose::Keeping;
                let create =
                    |at: Arc<Site>| async move { checkpoint_create(&at, request, keeping).await };
                Reply::Checkpoint(self.to_its_end(create).await?)
            }
            Request::CheckpointList(request) => {
                Reply::Checkpoints(checkpoint_list(site, request).await?)
            }
            Request::CheckpointCompare(request) => {
                Reply::CheckpointDiff(checkpoint_compare(site, request, view).await?)
            }
            Request::CheckpointRestore(request) => {
                let restore = |at: Arc<Site>| async move { checkpoint_restore(&at, request).await };
                Reply::Checkpoint(self.to_its_end(restore).await?)
            }
            Request::CheckpointDelete(request) => {
                Reply::Checkpoint(checkpoint_delete(site, request).await?)
            }
            Request::CellFork(request) => {
                let fork = |site: Arc<Site>| async move { cell_fork(&site, request).await };
                Reply::Cells(self.to_its_end(fork).await?)
            }
            Request::NetShow(request) => Reply::NetworkState(net_show(site, request).await?),
            Request::NetChange(request) => {
                let change = |site: Arc<Site>| async move { net_change(&site, request).await };
                Reply::NetworkState(self.to_its_end(change).await?)
            }
            Request::NetLog(request) => Reply::NetRecords(net_log(site, request).await?),
            Request::ProjectDiff(it) => Reply::ProjectChanges(project_diff(site, it, view).await?),
            Request::ProjectApply(request) => {
                let apply = |site: Arc<Site>| async move { project_apply(&site, request).await };
                Reply::ProjectApplied(self.to_its_end(apply).await?)
            }
            Request::ProjectDiscard(request) => {
                let discard = |at: Arc<Site>| async move { project_discard(&at, request).await };
                Reply::ProjectDiscarded(self.to_its_end(discard).await?)
            }
            Request::ExecRun(request) => {
                let run = exec_run(self, caller, request, approval, view);
                Reply::ExecResult(Box::pin(run).await?)
            }
            Request::ToolRun(it) => Reply::ToolRan(Box::pin(tool_run(self, caller, it)).await?),
            Request::ToolSearch(it) => {
                Reply::ToolsFound(Box::pin(tool_search(site, tenant, it)).await?)
            }
            Request::ToolNames(it) => Reply::NamesFound(Box::pin(tool_names(site, it)).await?),
            Request::ToolList(it) => Reply::ToolsListed(Box::pin(tool_list(site, it)).await?),
            Request::ExecWait(request) => {
                Reply::ExecResult(Box::pin(exec_wait(site, request, view)).await?)
            }
            Request::ExecGet(request) => Reply::Exec(exec_get(site, request).await?),
            Request::ExecPoll(request) => {
                Reply::ExecPage(Box::pin(exec_poll(site, request, view)).await?)
            }
            Request::ExecInput(request) => {
                Reply::InputAccepted(Box::pin(exec_input(site, request, view)).await?)
            }
            Request::ExecCancel(request) => {
                Reply::ExecCancelled(Box::pin(exec_cancel(site, request)).await?)
            }
            Request::PolicyCheck(it) => Reply::PolicyVerdict(policy_check(site, tenant, it).await?),
            Request::ApprovalList(request) => {
                Reply::Approvals(Box::pin(approval_list(site, tenants, request)).await?)
            }
            Request::ApprovalGive(request) => {
                let asked = Box::pin(self.answer_approval(caller, request)).await?;
                Reply::Asked(Box::new(asked))
            }
            Request::ExecList(request) => Reply::Execs(exec_list(site, tenants, request).await?),
            Request::FileCall(request) => {
                Reply::FileDone(Box::pin(file_call(site, request, view)).await?)
            }
            Request::SecretSet(request) => Reply::Secret(secret_set(site, tenant, request).await?),
            Request::SecretsList(request) => {
                Reply::Secrets(secrets_list(site, tenant, request).await?)
            }
            Request::SecretRemove(request) => {
                Reply::Secret(secret_remove(site, tenant, request).await?)
            }
            Request::ImageImport(it) => {
                let import = |site: Arc<Site>| async move { image_import(&site, it).await };
                Reply::Image(self.to_its_end(import).await?)
            }
            Request::ImagePull(it) => {
                let pull = |site: Arc<Site>| async move { image_pull(&site, it).await };
                Reply::Image(self.to_its_end(pull).await?)
            }
            Request::ImagesList(it) => Reply::Images(images_list(site, it).await?),
            Request::ImageRemove(it) => Reply::Image(image_remove(site, it).await?),
            Request::TokenCreate(it) => Reply::TokenCreated(token_create(site, it).await?),
            Request::TokensList(it) => Reply::Tokens(tokens_list(site, it).await?),
            Request::TokenRevoke(it) => Reply::Token(token_revoke(site, it).await?),
            Request::AuditQuery(it) => audit(site, caller, AuditCall::Query(it)).await?,
            Request::AuditSummary(it) => audit(site, caller, AuditCall::Summary(it)).await?,
            Request::CodeStats(it) => {
                Reply::CodeFigures(Box::new(Box::pin(code_stats(site, caller, it)).await?))
            }
            Request::Diagnose(_) => Reply::Diagnoses(diagnose(site).await?),
            Request::Probe(_) => Reply::Probed(probe(site).await),
            Request::ExecFollow(request) => {
                return exec_follow(site, request, view)
                    .await
                    .map(|stream| Answer::Stream(Box::new(stream)));
            }
            Request::FileStream(request) => {
                return Box::pin(file_stream(site, request, view)).await.map(Answer::Files);
            }
            Request::PortDial(request) => {
                return Box::pin(port_dial(site, request)).await.map(Answer::Port);
            }
        };
        Ok(Answer::Reply(reply))
    }

    /// Lets cells be granted secrets from here. To be said before the engine is asked for anything.
    ///
    /// # Errors
    /// The engine is in use already.
    pub fn keep_secrets_in(&mut self, store: Arc<dyn SecretStore>) -> Result<()> {
        let site = Arc::get_mut(&mut self.site)
            .ok_or_else(|| Error::internal("the engine is in use already"))?;
        site.secrets = Some(store);
        Ok(())
    }

    /// Judges by these rules what callers ask for, or tells whoever asks. An approval is waited for
    /// as long as is said here. To be said before the engine is asked for anything.
    ///
    /// # Errors
    /// The engine is in use already.
    pub fn judge_by(
        &mut self,
        policies: Arc<dyn Policies>,
        used: PolicyUse,
        ask_within: Duration,
    ) -> Result<()> {
        let site = Arc::get_mut(&mut self.site)
            .ok_or_else(|| Error::internal("the engine is in use already"))?;
        let ask_within_ms = u64::try_from(ask_within.as_millis()).unwrap_or(u64::MAX);
        site.rules = Some(Rules { policies, used, ask_within_ms });
        Ok(())
    }

    /// Keeps tokens of callers here. To be said before the engine is asked for anything.
    ///
    /// # Errors
    /// The engine is in use already.
    pub fn keep_tokens_in(&mut self, store: Arc<dyn TokenStore>) -> Result<()> {
        let site = Arc::get_mut(&mut self.site)
            .ok_or_else(|| Error::internal("the engine is in use already"))?;
        site.tokens = Some(store);
        Ok(())
    }

    /// Lets code call the tools of these servers, and clients too if their definitions cost no more
    /// than that many tokens. To be said before the engine is asked for anything.
    ///
    /// # Errors
    /// The engine is in use already.
    pub fn call_tools_of(
        &mut self,
        servers: Arc<dyn ToolServers>,
        pass_through_tokens: usize,
    ) -> Result<()> {
        self.toolbox_mut()?.call_tools_of(servers, pass_through_tokens);
        Ok(())
    }

    /// Lets code call Hotcell's own tools. To be said before the engine is asked for anything.
    ///
    /// # Errors
    /// The engine is in use already.
    pub fn offer_own_tools(&mut self, own: Arc<dyn OwnTools>) -> Result<()> {
        self.toolbox_mut()?.offer(own);
        Ok(())
    }

    fn toolbox_mut(&mut self) -> Result<&mut Toolbox> {
        let site = Arc::get_mut(&mut self.site)
            .ok_or_else(|| Error::internal("the engine is in use already"))?;
        Ok(site.toolbox.get_or_insert_default())
    }

    /// Whether tools of other servers may be handed to clients as they are.
    #[must_use]
    pub fn may_pass_tools(&self) -> bool {
        self.site.toolbox.as_ref().is_some_and(Toolbox::may_pass)
    }

    /// Keeps what cells see at `/tools` as the lists of servers are, for as long as this engine is
    /// there: servers that were never listed are started for it. The tree of this tenant is made at
    /// once, those of others with their first cell.
    pub fn show_tools(&self, home: Tenant) {
        let site = Arc::clone(&self.site);
        self.spawn_beside(async move { site.keep_tools_shown(&home).await });
    }

    /// Keeps house for as long as this engine is there: brings the index and what drivers have together,
    /// removes what is over every hour and as soon as there is little room on the disk, and keeps cells
    /// ready that are made ahead of need.
    pub fn keep_house(&self, home: Tenant) {
        let site = Arc::clone(&self.site);
        self.spawn_beside(async move { site.keep_house().await });
        let site = Arc::clone(&self.site);
        self.spawn_beside(async move { site.keep_pool(&home).await });
    }

    /// Makes no more cells ahead of need, and ends those that are there if nobody else keeps them ready.
    ///
    /// # Errors
    /// They cannot be found. One that cannot be ended is logged, and ends by itself.
    pub async fn end_pool(&self) -> Result<()> {
        self.site.close_pool().await
    }

    /// What came of cells that were made ahead of need, in this process.
    #[must_use]
    pub fn pool_figures(&self) -> PoolFigures {
        self.site.pool.figures()
    }

    /// The same engine for what goes on beside a call and asks for something itself.
    pub(crate) fn beside_itself(&self) -> Self {
        let (site, swept) = (Arc::clone(&self.site), AtomicBool::new(true));
        let beside = Beside::Shared(match &self.beside {
            Beside::Own(own) => Arc::downgrade(own),
            Beside::Shared(shared) => Weak::clone(shared),
        });
        Self { site, swept, beside }
    }

    /// Answers the calls of code that was just started, for as long as it runs.
    pub(crate) async fn carry_calls(&self, caller: &Caller, exec: &ExecId, link: &Link) {
        self.site.counts.begin(exec);
        match link.calls(exec.clone()).await {
            Ok(connection) => {
                let (caller, exec) = (caller.clone(), exec.clone());
                self.spawn_beside(serve_calls(self.beside_itself(), caller, exec, connection));
            }
            // It has ended already, or waits for its turn.
            Err(error) => tracing::debug!(%exec, %error, "the calls of code are not carried"),
        }
    }

    /// Lets every call be written down here. To be said before the engine is asked for anything.
    ///
    /// # Errors
    /// The engine is in use already.
    pub fn keep_ledger_in(&mut self, ledger: Arc<dyn Ledger>) -> Result<()> {
        let site = Arc::get_mut(&mut self.site)
            .ok_or_else(|| Error::internal("the engine is in use already"))?;
        site.ledger = Some(ledger);
        Ok(())
    }

    /// Lets callers have these directories of the host as workspaces; their true names. To be said
    /// before the engine is asked for anything.
    ///
    /// # Errors
    /// One of them can be nobody's workspace.
    pub async fn allow_workspaces(&mut self, asked: &[Workspace]) -> Result<Vec<Workspace>> {
        let found = self.site.check_workspaces(asked).await?;
        let site = Arc::get_mut(&mut self.site)
            .ok_or_else(|| Error::internal("the engine is in use already"))?;
        site.settings.workspaces = AllowedWorkspaces::Only(found.clone());
        Ok(found)
    }

    /// The workspace of the cell of this name: `None` if there is no such cell, `Some(None)` if it
    /// works on no directory of the host.
    ///
    /// # Errors
    /// The index cannot be read.
    pub async fn find_workspace(
        &self,
        tenant: &Tenant,
        alias: &Alias,
    ) -> Result<Option<Option<Workspace>>> {
        Ok(self.site.find_alias(tenant, alias).await?.map(|found| found.spec.workspace))
    }

    /// Lets callers have cells that reach these names over the network, and no others. To be said
    /// before the engine is asked for anything.
    ///
    /// # Errors
    /// There are too many.
    pub fn allow_names(&mut self, allow: Vec<NetRule>) -> Result<()> {
        let rules = NameRules { allow, deny: Vec::new() };
        rules.check_size()?;
        let site = Arc::get_mut(&mut self.site)
            .ok_or_else(|| Error::internal("the engine is in use already"))?;
        site.settings.names = AllowedNames::Only(rules);
        Ok(())
    }

    /// Ends every wait for a person's word: whoever waits is told which call is held. Calls that come
    /// later do not wait either.
    pub fn end_waits(&self) {
        self.site.hurry.send_replace(true);
    }

    /// Whether something may have to be approved.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        let rules = self.site.rules.as_ref();
        let servers = self.site.toolbox.as_ref().is_some_and(|toolbox| toolbox.servers().is_some());
        let tools_ask = servers && rules.is_some_and(Rules::are_enforced);
        tools_ask || rules.is_some_and(Rules::may_ask) || self.site.settings.keeps_changes()
    }

    /// A text for a log, without what has the form of a secret.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        self.site.find_shapes().map_or_else(|| text.to_owned(), |shapes| shapes.redact_text(text))
    }

    /// The choices of the operator.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.site.settings
    }

    /// An id for [`ExecRun::exec`](hotcell_model::ExecRun::exec) that no exec has had.
    ///
    /// # Errors
    /// The kernel gave no random bytes.
    pub fn fresh_exec_id(&self) -> Result<ExecId> {
        new_exec_id()
    }

    /// Like [`Engine::call`], with the answer's own type.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub async fn ask<Q: Query>(&self, caller: &Caller, query: Q) -> Result<Q::Answer> {
        match self.call(caller, query.into()).await? {
            Answer::Reply(reply) => Q::answer(reply).ok_or_else(mismatch),
            Answer::Stream(_) | Answer::Files(_) | Answer::Port(_) => Err(mismatch()),
        }
    }

    /// Like [`Engine::call`], for the output of an exec as it comes.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub async fn follow(&self, caller: &Caller, request: ExecFollow) -> Result<ExecStream> {
        match self.call(caller, request.into()).await? {
            Answer::Stream(stream) => Ok(*stream),
            Answer::Reply(_) | Answer::Files(_) | Answer::Port(_) => Err(mismatch()),
        }
    }

    /// Like [`Engine::call`], for files whose content comes or goes piece by piece.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub async fn transfer(&self, caller: &Caller, request: FileStream) -> Result<FileTransfer> {
        match self.call(caller, request.into()).await? {
            Answer::Files(transfer) => Ok(transfer),
            Answer::Reply(_) | Answer::Stream(_) | Answer::Port(_) => Err(mismatch()),
        }
    }

    /// Like [`Engine::call`], for a connection to a service in a cell.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub async fn dial(&self, caller: &Caller, request: PortDial) -> Result<PortStream> {
        match self.call(caller, request.into()).await? {
            Answer::Port(stream) => Ok(stream),
            Answer::Reply(_) | Answer::Stream(_) | Answer::Files(_) => Err(mismatch()),
        }
    }

    pub(crate) fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Clears away what is over, once, before the answer: the process may end right after it.
    async fn sweep_now(&self) {
        if !self.swept.swap(true, Ordering::Relaxed) {
            self.site.sweep().await;
        }
    }

    /// The same beside what the process does next, for a caller that is in a hurry to run
    /// something in the new cell. Ended in the middle it does no harm.
    fn sweep_beside(&self) {
        if !self.swept.swap(true, Ordering::Relaxed) {
            let site = Arc::clone(&self.site);
            self.spawn_beside(async move { site.sweep().await });
        }
    }

    /// Does what must not stop halfway because its caller has gone: a cell that is held still would
    /// stay so.
    pub(crate) async fn to_its_end<
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    >(
        &self,
        work: impl FnOnce(Arc<Site>) -> F,
    ) -> Result<T> {
        let work = work(Arc::clone(&self.site));
        let (answer, answered) = oneshot::channel();
        self.spawn_beside(async move {
            // Whoever asked may be gone.
            let _ = answer.send(work.await);
        });
        answered.await.map_err(|_| Error::internal("a change of a cell's files broke off"))?
    }

    /// How many wait to begin an exec.
    #[cfg(test)]
    pub(crate) fn waiting_execs(&self) -> u64 {
        self.site.count_in_lines()
    }

    pub(crate) fn spawn_beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let beside = match &self.beside {
            Beside::Own(own) => Some(Arc::clone(own)),
            Beside::Shared(shared) => shared.upgrade(),
        };
        // Whose engine is gone has nothing begun any more.
        let Some(beside) = beside else { return };
        let mut beside = beside.lock().unwrap_or_else(PoisonError::into_inner);
        while beside.try_join_next().is_some() {}
        beside.spawn(work);
    }
}

/// Faults that are about cells of all tenants: only whoever answers for all of them reads which.
fn shown_to(caller: &Caller, errors: Vec<String>) -> Vec<String> {
    if caller.at == At::Here || caller.tenants() == Tenants::All || errors.is_empty() {
        return errors;
    }
    for error in &errors {
        tracing::warn!(error, "housekeeping");
    }
    vec![format!("{} things could not be done; the server's log says which", errors.len())]
}

fn mismatch() -> Error {
    Error::internal("a request was answered by the reply to another one")
}
