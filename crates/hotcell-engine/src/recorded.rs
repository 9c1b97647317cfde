//! Writes every call down in the ledger: who asked for what, and what came of it.

use std::sync::Arc;
use std::time::Instant;

use hotcell_model::{
    AppendWait, Appended, ApprovalGive, ApprovalId, At, Caller, CellId, CellRef, CodeRun,
    CodeStatus, CodeTokens, Command, Detail, EntryKind, Error, ErrorCode, Exec, ExecId, ExecPage,
    ExecRun, Grant, Ledger, LedgerEntry, Reply, Request, Result, Scope, Verdict,
};

use crate::code_shown::cost_of_records;
use crate::engine::Answer;
use crate::site::Site;
use crate::{digest, fault};

/// No name of this length, as those that Hotcell gives itself, has the form of a secret.
const SHORTEST_SECRET: usize = 16;

/// A person's word is about to count.
pub(crate) const ANSWERING: &str = "answering";

tokio::task_local! {
    /// On whose behalf the present task works.
    static CALLER: Caller;
}

/// A call that is under way. One that is given up is written down as such.
#[derive(Debug)]
pub(crate) struct Recording {
    site: Arc<Site>,
    ledger: Arc<dyn Ledger>,
    caller: Caller,
    named: Option<CellRef>,
    entry: Option<LedgerEntry>,
    begun: Instant,
}

impl Recording {
    /// Begins to record a call; `None` for what is nobody's call, and where there is no ledger.
    ///
    /// # Errors
    /// `unavailable` when the ledger cannot be written and the caller is not the operator of the
    /// machine: what cannot be written down is not done.
    pub(crate) async fn begin(
        site: &Arc<Site>,
        caller: &Caller,
        request: &Request,
    ) -> Result<Option<Self>> {
        let Some(ledger) = site.ledger.as_ref().map(Arc::clone) else { return Ok(None) };
        if is_nobodys_call(caller, request) {
            return Ok(None);
        }
        let caller = with_call_id(caller);
        let digest = match prepared(&ledger, request).await {
            Ok(digest) => Some(digest),
            Err(error) if caller.is_local_operator() => {
                tracing::warn!(%error, "a call is not written down in the ledger");
                None
            }
            Err(error) => return Err(unwritable(&error)),
        };
        let kind = match request.needs() {
            Some(Scope::Admin) => EntryKind::Admin,
            Some(Scope::Read | Scope::Run | Scope::Metrics | Scope::Audit) | None => {
                EntryKind::Call
            }
        };
        let mut entry = told(LedgerEntry::of(&caller, kind, request.name()), request);
        let named = cell_of(request).cloned();
        entry.cell = named.as_ref().map(ToString::to_string);
        entry.exec = exec_of(request).cloned();
        entry.args = digest;
        let missing = request.needs().filter(|scope| !caller.may(*scope));
        entry.rule = missing.map(|scope| format!("scope:{}", scope.as_str()));
        let (site, begun) = (Arc::clone(site), Instant::now());
        Ok(Some(Self { site, ledger, caller, named, entry: Some(entry), begun }))
    }

    /// The caller, with an id for the call.
    pub(crate) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// Does what is asked for, and writes down what came of it.
    pub(crate) async fn of(mut self, work: impl Future<Output = Result<Answer>>) -> Result<Answer> {
        let answered = CALLER.scope(self.caller.clone(), work).await;
        let Some(mut entry) = self.entry.take() else { return answered };
        entry.took_ms = Some(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        match &answered {
            Ok(answer) => {
                entry.verdict = Some(Verdict::Allowed);
                entry.outcome = Some("ok".to_owned());
                entry = self.with_answer(entry, answer);
            }
            Err(error) => {
                let denied = error.code == ErrorCode::Denied;
                entry.verdict = Some(if denied { Verdict::Denied } else { Verdict::Allowed });
                entry.outcome = Some(error.code.as_str().to_owned());
            }
        }
        let entry = self.site.without_secrets(entry);
        if let Err(error) = append(&self.ledger, entry).await {
            // It is done, and whoever asked has to learn what came of it.
            tracing::error!(%error, "a call that was answered is not in the ledger");
        }
        answered
    }

    fn with_answer(&self, mut entry: LedgerEntry, answer: &Answer) -> LedgerEntry {
        if let Answer::Stream(stream) = answer {
            entry.cell = Some(stream.exec().cell.to_string());
        }
        if let Answer::Reply(reply) = answer {
            let (cell, exec) = about(reply);
            if let Some(cell) = cell {
                entry.cell = Some(cell.to_string());
            }
            if let Some(exec) = exec {
                entry.exec = Some(exec.clone());
            }
            if let Reply::ExecResult(result) = reply {
                entry = with_shown(with_end(entry, &result.exec), result.code.as_deref());
            }
            if let Reply::ExecPage(page) = reply {
                entry = with_page(entry, page);
            }
            if let Reply::ToolRan(ran) = reply {
                entry = entry.with("bytes_out", ran.bytes).with("tokens", ran.tokens);
                entry = entry.with_some("failed", ran.failed.then_some("yes"));
            }
        }
        // A name may stand for another cell tomorrow.
        if let Some(named @ CellRef::Alias(_)) = &self.named
            && entry.cell.as_deref() == Some(named.to_string().as_str())
            && let Some((id, _)) = self.site.links.find_open(named)
        {
            entry.cell = Some(id.to_string());
        }
        entry
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        entry.took_ms = Some(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        entry.outcome = Some("given_up".to_owned());
        let entry = self.site.without_secrets(entry);
        if let Err(error) = self.ledger.append(&entry, AppendWait::Bounded) {
            tracing::error!(%error, "a call that was given up is not in the ledger");
        }
    }
}

/// What nobody asked for: the server looks after cells, counts them for whoever reads its metrics,
/// and is looked at by probes.
fn is_nobodys_call(caller: &Caller, request: &Request) -> bool {
    let only_looks = matches!(request.needs(), Some(Scope::Read | Scope::Metrics));
    let is_own_look = caller.at == At::Inside && only_looks;
    is_own_look || is_housekeeping(request)
}

/// What no caller can ask for.
pub(crate) fn is_housekeeping(request: &Request) -> bool {
    matches!(request, Request::CellAdopt(_) | Request::Probe(_))
}

fn with_call_id(caller: &Caller) -> Caller {
    let mut caller = caller.clone();
    // Without randomness entries are harder to bring together, and nothing else.
    caller.call_id.get_or_insert_with(|| format!("{:016x}", getrandom::u64().unwrap_or_default()));
    caller
}

/// Makes sure that the call can be written down; the digest of its arguments.
async fn prepared(ledger: &Arc<dyn Ledger>, request: &Request) -> Result<String> {
    if ledger.is_open() {
        ledger.reserve()?;
    } else {
        // The first time it is opened and maybe begun, which takes a while.
        let ledger = Arc::clone(ledger);
        fault::blocking(move || ledger.reserve()).await?;
    }
    digest::of(&**ledger, request)
}

fn unwritable(error: &Error) -> Error {
    let hint = error.hint.clone().unwrap_or_default();
    Error::unavailable(format!("nothing is done that cannot be written down: {error}")).hint(hint)
}

/// Writes an entry without holding up what else this thread does while another process writes.
pub(crate) async fn append(ledger: &Arc<dyn Ledger>, entry: LedgerEntry) -> Result<()> {
    match ledger.append(&entry, AppendWait::Never)? {
        Appended::Written(_) => Ok(()),
        Appended::Busy => {
            let ledger = Arc::clone(ledger);
            fault::blocking(move || ledger.append(&entry, AppendWait::Bounded).map(drop)).await
        }
    }
}

impl Site {
    /// Writes down that an exec is about to start, on behalf of whoever is being answered.
    ///
    /// # Errors
    /// `unavailable` when that cannot be done and the caller is not the operator of the machine.
    pub(crate) async fn note_start(
        &self,
        exec: &ExecId,
        cell: &CellId,
        request: &ExecRun,
    ) -> Result<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let Ok(caller) = CALLER.try_with(Clone::clone) else { return Ok(()) };
        let mut entry = LedgerEntry::of(&caller, EntryKind::ExecStart, "exec_start");
        entry.exec = Some(exec.clone());
        entry.cell = Some(cell.to_string());
        if request.as_root {
            entry = entry.with("as_root", "yes");
        }
        let written = match digest::of_run(&**ledger, request) {
            Ok(digest) => {
                let entry = LedgerEntry { args: Some(digest), ..entry };
                append(ledger, self.without_secrets(entry)).await
            }
            Err(error) => Err(error),
        };
        written.or_else(|error| unless_local(&caller, &error))
    }

    /// Writes down what a rule decided about a request.
    ///
    /// # Errors
    /// Those of [`Site::note_start`].
    pub(crate) async fn note_decision(
        &self,
        request: &Request,
        verdict: Verdict,
        rule: &str,
    ) -> Result<()> {
        self.note(EntryKind::Decision, request.name(), |mut entry| {
            entry.cell = cell_of(request).map(ToString::to_string);
            entry.exec = exec_of(request).cloned();
            entry.verdict = Some(verdict);
            entry.rule = Some(rule.to_owned());
            entry
        })
        .await
    }

    /// Writes down that a person's word on an exec is about to be passed on: it counts the moment
    /// the cell has it.
    ///
    /// # Errors
    /// Those of [`Site::note_start`].
    pub(crate) async fn note_answering(&self, exec: &Exec, grant: Grant) -> Result<()> {
        self.note(EntryKind::Approval, ANSWERING, |entry| {
            answered_for(entry, exec).with("answer", grant.verdict().as_str())
        })
        .await
    }

    /// Writes down what a person answered for an exec.
    ///
    /// # Errors
    /// Those of [`Site::note_start`].
    pub(crate) async fn note_approval(&self, exec: &Exec, grant: Grant) -> Result<()> {
        self.note(EntryKind::Approval, grant.verdict().as_str(), |mut entry| {
            entry.verdict = Some(match grant {
                Grant::Approve => Verdict::Allowed,
                Grant::Refuse => Verdict::Denied,
            });
            answered_for(entry, exec)
        })
        .await
    }

    /// The same without what has the form of a secret: a caller may choose the id of its call and the
    /// name of a cell, and what runs in a cell the names that it looks up.
    pub(crate) fn without_secrets(&self, mut entry: LedgerEntry) -> LedgerEntry {
        let Some(shapes) = self.find_shapes() else { return entry };
        let details = entry.details.values_mut().filter_map(|detail| match detail {
            Detail::Text(text) => Some(text),
            Detail::Number(_) => None,
        });
        let texts = entry.call_id.iter_mut().chain(&mut entry.cell).chain(details);
        for text in texts.filter(|text| text.len() > SHORTEST_SECRET) {
            *text = shapes.redact_text(text);
        }
        entry
    }

    /// Writes down something else about the call that is being answered.
    ///
    /// # Errors
    /// Those of [`Site::note_start`].
    pub(crate) async fn note(
        &self,
        kind: EntryKind,
        what: &'static str,
        told: impl FnOnce(LedgerEntry) -> LedgerEntry,
    ) -> Result<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let Ok(caller) = CALLER.try_with(Clone::clone) else { return Ok(()) };
        let entry = self.without_secrets(told(LedgerEntry::of(&caller, kind, what)));
        append(ledger, entry).await.or_else(|error| unless_local(&caller, &error))
    }
}

fn answered_for(mut entry: LedgerEntry, exec: &Exec) -> LedgerEntry {
    entry.cell = Some(exec.cell.to_string());
    entry.exec = Some(exec.id.clone());
    let approval = exec.approval.as_deref();
    entry.rule = approval.map(|approval| approval.rule.clone());
    entry.with_some("asked_by", approval.map(|approval| approval.asked_by.clone()))
}

/// Whoever runs `hotcell` on the machine goes on without an entry.
fn unless_local(caller: &Caller, error: &Error) -> Result<()> {
    if caller.is_local_operator() {
        tracing::warn!(%error, "something is missing in the ledger");
        return Ok(());
    }
    Err(unwritable(error))
}

/// What else is told of a call. Names may stand in the ledger; what a caller wrote may not.
fn told(entry: LedgerEntry, request: &Request) -> LedgerEntry {
    match request {
        Request::FileCall(request) => entry.with("op", request.op.name()),
        Request::FileStream(request) => entry.with("op", request.op.name()),
        Request::SecretSet(request) => entry.with("secret", request.name.as_str()),
        Request::SecretRemove(request) => entry.with("secret", request.name.as_str()),
        Request::ImageImport(request) => {
            entry.with_some("image", request.name.as_ref().map(ToString::to_string))
        }
        Request::ImagePull(request) => entry.with("image", request.name.to_string()),
        Request::ImageRemove(request) => entry.with("image", request.name.to_string()),
        Request::PortDial(request) => entry.with("port", u64::from(request.port)),
        Request::ToolRun(request) => {
            entry.with("tool", request.full_name()).with("bytes_in", request.bytes())
        }
        Request::NetChange(request) => {
            let names = |rules: &[hotcell_model::NetRule]| {
                let names: Vec<String> = rules.iter().map(ToString::to_string).collect();
                (!names.is_empty()).then(|| names.join(","))
            };
            let (allow, deny) = (names(&request.allow), names(&request.deny));
            entry.with_some("allow", allow).with_some("deny", deny)
        }
        Request::CellSpawn(request) => {
            entry.with_some("alias", request.alias.as_ref().map(ToString::to_string))
        }
        Request::CellList(_)
        | Request::ImagesList(_)
        | Request::CellInfo(_)
        | Request::CellKill(_)
        | Request::CellAttach(_)
        | Request::VolumesList(_)
        | Request::VolumeRestore(_)
        | Request::VolumeRemove(_)
        | Request::Reconcile(_)
        | Request::Collect(_)
        | Request::CellAdopt(_)
        | Request::CheckpointCreate(_)
        | Request::CheckpointList(_)
        | Request::CheckpointCompare(_)
        | Request::CheckpointRestore(_)
        | Request::CheckpointDelete(_)
        | Request::CellFork(_)
        | Request::NetShow(_)
        | Request::NetLog(_)
        | Request::ProjectDiff(_)
        | Request::ProjectApply(_)
        | Request::ProjectDiscard(_)
        | Request::ExecRun(_)
        | Request::ExecWait(_)
        | Request::ToolSearch(_)
        | Request::ToolNames(_)
        | Request::ToolList(_)
        | Request::ExecGet(_)
        | Request::ExecPoll(_)
        | Request::ExecInput(_)
        | Request::ExecCancel(_)
        | Request::ExecList(_)
        | Request::ExecFollow(_)
        | Request::SecretsList(_)
        | Request::AuditQuery(_)
        | Request::AuditSummary(_)
        | Request::CodeStats(_)
        | Request::PolicyCheck(_)
        | Request::ApprovalList(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::ApprovalGive(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => entry,
    }
}

/// How an exec ended, as an entry tells it.
pub(crate) fn with_end(entry: LedgerEntry, exec: &Exec) -> LedgerEntry {
    let Some(end) = &exec.end else { return entry.with("state", exec.state.as_str()) };
    let limits: Vec<&str> = end.limits_hit.iter().map(|limit| limit.as_str()).collect();
    let language = match &exec.command {
        Command::Code(code) => Some(code.language.as_str()),
        Command::Shell(_) | Command::Argv(_) => None,
    };
    entry
        .with_some("code", language)
        .with("cause", end.cause.as_str())
        .with_some("exit_code", end.exit_code)
        .with_some("signal", end.signal.map(|signal| signal.to_string()))
        .with_some("limit", end.limit.map(|limit| limit.as_str()))
        .with_some("limits_hit", (!limits.is_empty()).then(|| limits.join(",")))
        .with("wall_ms", end.usage.wall_ms)
}

/// What an answer about code costs and spares a model.
fn with_shown(entry: LedgerEntry, code: Option<&CodeRun>) -> LedgerEntry {
    let Some(code) = code else { return entry };
    let CodeTokens { shown, kept_out } = code.shown.tokens;
    let is_over = code.status != CodeStatus::Running;
    entry
        .with("tokens_shown", shown)
        .with_some("tokens_kept_out", is_over.then_some(kept_out))
        .with_some("cut", (!code.shown.cut.is_empty()).then_some("yes"))
}

fn with_page(entry: LedgerEntry, page: &ExecPage) -> LedgerEntry {
    match (&page.exec.command, &page.code) {
        (Command::Code(_), None) => entry.with("tokens_shown", cost_of_records(&page.records)),
        (_, code) => with_shown(entry, code.as_deref()),
    }
}

/// The cell that a request names.
pub(crate) fn cell_of(request: &Request) -> Option<&CellRef> {
    match request {
        Request::CellInfo(it) => Some(&it.cell),
        Request::CellKill(it) => Some(&it.cell),
        Request::CellAttach(it) => Some(&it.cell),
        Request::VolumeRestore(it) => Some(&it.cell),
        Request::VolumeRemove(it) => Some(&it.cell),
        Request::CheckpointCreate(it) => Some(&it.cell),
        Request::CheckpointList(it) => Some(&it.cell),
        Request::CheckpointCompare(it) => Some(&it.cell),
        Request::CheckpointRestore(it) => Some(&it.cell),
        Request::CheckpointDelete(it) => Some(&it.cell),
        Request::CellFork(it) => Some(&it.cell),
        Request::NetShow(it) => Some(&it.cell),
        Request::NetChange(it) => Some(&it.cell),
        Request::NetLog(it) => Some(&it.cell),
        Request::ProjectDiff(it) => Some(&it.cell),
        Request::ProjectApply(it) => Some(&it.cell),
        Request::ProjectDiscard(it) => Some(&it.cell),
        Request::ExecRun(it) => Some(&it.cell),
        Request::ExecList(it) => it.cell.as_ref(),
        Request::FileCall(it) => Some(&it.cell),
        Request::FileStream(it) => Some(&it.cell),
        Request::PortDial(it) => Some(&it.cell),
        Request::AuditQuery(it) => it.cell.as_ref(),
        Request::CellSpawn(_)
        | Request::CellList(_)
        | Request::VolumesList(_)
        | Request::Reconcile(_)
        | Request::Collect(_)
        | Request::CellAdopt(_)
        | Request::ExecWait(_)
        | Request::ToolRun(_)
        | Request::ToolSearch(_)
        | Request::ToolNames(_)
        | Request::ToolList(_)
        | Request::ExecGet(_)
        | Request::ExecPoll(_)
        | Request::ExecInput(_)
        | Request::ExecCancel(_)
        | Request::ExecFollow(_)
        | Request::SecretSet(_)
        | Request::SecretsList(_)
        | Request::SecretRemove(_)
        | Request::ImageImport(_)
        | Request::ImagePull(_)
        | Request::ImagesList(_)
        | Request::ImageRemove(_)
        | Request::AuditSummary(_)
        | Request::CodeStats(_)
        | Request::PolicyCheck(_)
        | Request::ApprovalList(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::ApprovalGive(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => None,
    }
}

/// The exec that a request names.
fn exec_of(request: &Request) -> Option<&ExecId> {
    match request {
        Request::ExecRun(it) => it.exec.as_ref(),
        Request::ExecWait(it) => Some(&it.exec),
        Request::ToolRun(it) => it.exec.as_ref(),
        Request::ExecGet(it) => Some(&it.exec),
        Request::ExecPoll(it) => Some(&it.exec),
        Request::ExecInput(it) => Some(&it.exec),
        Request::ExecCancel(it) => Some(&it.exec),
        Request::ExecFollow(it) => Some(&it.exec),
        Request::ApprovalGive(ApprovalGive { id: ApprovalId::Exec(exec), .. }) => Some(exec),
        Request::AuditQuery(it) => it.exec.as_ref(),
        Request::CellSpawn(_)
        | Request::CellList(_)
        | Request::CellInfo(_)
        | Request::CellKill(_)
        | Request::CellAttach(_)
        | Request::VolumesList(_)
        | Request::VolumeRestore(_)
        | Request::VolumeRemove(_)
        | Request::Reconcile(_)
        | Request::Collect(_)
        | Request::CellAdopt(_)
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
        | Request::ToolSearch(_)
        | Request::ToolNames(_)
        | Request::ToolList(_)
        | Request::ExecList(_)
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
        | Request::AuditSummary(_)
        | Request::CodeStats(_)
        | Request::PolicyCheck(_)
        | Request::ApprovalList(_)
        | Request::ApprovalGive(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => None,
    }
}

/// The cell and the exec that a reply is about.
fn about(reply: &Reply) -> (Option<&CellId>, Option<&ExecId>) {
    match reply {
        Reply::Cell(it) => (Some(&it.id), None),
        Reply::CellDetails(it) => (Some(&it.cell.id), None),
        Reply::CellKilled(it) => (Some(&it.cell), None),
        Reply::Volume(it) => (Some(&it.cell), None),
        Reply::Checkpoint(it) => (Some(&it.cell), None),
        Reply::NetworkState(it) => (Some(&it.cell), None),
        Reply::NetRecords(it) => (Some(&it.cell), None),
        Reply::ExecResult(it) => (Some(&it.exec.cell), Some(&it.exec.id)),
        Reply::Exec(it) => (Some(&it.cell), Some(&it.id)),
        Reply::ExecPage(it) => (Some(&it.exec.cell), Some(&it.exec.id)),
        Reply::InputAccepted(it) => (None, Some(&it.exec)),
        Reply::ExecCancelled(it) => (None, Some(&it.exec)),
        Reply::Asked(it) => match &it.id {
            ApprovalId::Exec(exec) => (None, Some(exec)),
            ApprovalId::Held(_) => (None, None),
        },
        Reply::Approvals(_)
        | Reply::Cells(_)
        | Reply::Volumes(_)
        | Reply::Reconciled(_)
        | Reply::Collected(_)
        | Reply::Checkpoints(_)
        | Reply::CheckpointDiff(_)
        | Reply::ProjectChanges(_)
        | Reply::ProjectApplied(_)
        | Reply::ProjectDiscarded(_)
        | Reply::Execs(_)
        | Reply::FileDone(_)
        | Reply::Secret(_)
        | Reply::Secrets(_)
        | Reply::Image(_)
        | Reply::Images(_)
        | Reply::AuditPage(_)
        | Reply::LedgerSummary(_)
        | Reply::CodeFigures(_)
        | Reply::PolicyVerdict(_)
        | Reply::TokenCreated(_)
        | Reply::Tokens(_)
        | Reply::Token(_)
        | Reply::ToolRan(_)
        | Reply::ToolsFound(_)
        | Reply::NamesFound(_)
        | Reply::ToolsListed(_)
        | Reply::Diagnoses(_)
        | Reply::Probed(_) => (None, None),
    }
}
