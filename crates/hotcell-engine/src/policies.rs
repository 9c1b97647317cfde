//! What the policy says of a request before anything is done.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use hotcell_model::{
    ApprovalNeed, Caller, CellSpawn, Checked, CheckedLanguage, Code, CodeLanguage, Command, Error,
    ErrorCode, ExecRun, FileCall, FileOp, FileStream, NetRule, OWN_SERVER, PolicyCheck,
    PolicyDecision, PolicyPart, PolicyVerdict, Request, Result, Stdin, Tenant, ToolRun,
};
use hotcell_policy::{Act, Around, Decision, Dynamic, Policy, PolicyError, Verdict};
use hotcell_toolbox::{ToolKey, ToolPolicy};

use crate::asked::bounded;
use crate::check;
use crate::long_text::is_long;
use crate::new_cell_policy::{NewCell, made_by, of_spawn};
use crate::site::Site;
use crate::toolbox::Shelf;

/// Where the rules in force are. They may be others with every call.
pub trait Policies: Send + Sync + std::fmt::Debug {
    /// Those of now.
    fn in_force(&self) -> Arc<Policy>;

    /// The operator's own rules with another profile.
    ///
    /// # Errors
    /// There is no such profile.
    fn by_profile(&self, profile: &str) -> std::result::Result<Policy, PolicyError>;
}

/// Whether callers have to obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyUse {
    /// They have to.
    Enforced,
    /// They are the operator: the policy is there to be asked.
    Explained,
}

/// The rules of a site.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) policies: Arc<dyn Policies>,
    pub(crate) used: PolicyUse,
    /// How long an approval is waited for.
    pub(crate) ask_within_ms: u64,
}

impl Rules {
    /// Whether callers have to obey.
    pub(crate) fn are_enforced(&self) -> bool {
        self.used == PolicyUse::Enforced
    }

    /// Whether something may have to be approved.
    pub(crate) fn may_ask(&self) -> bool {
        self.used == PolicyUse::Enforced && !self.policies.in_force().allows_all()
    }
}

/// Without rules of anybody, for what a command does.
static NO_RULES: LazyLock<Option<Policy>> = LazyLock::new(|| Policy::parse(None, "open").ok());

/// What was decided about a request.
pub(crate) enum Judged {
    Allowed,
    /// A person has to approve it.
    Asked(ApprovalNeed),
    /// It may not be done.
    Denied {
        rule: String,
        error: Error,
    },
}

/// What stands for a rule about tools of which none speaks.
const TOOL_RULE: &str = "tool-default";
/// How many of the parts that rules ask about a person is told of.
const MOST_PARTS: usize = 50;
/// How much of each.
const PART_CHARS: usize = 400;

/// Holds a request against the rules, where callers have to obey them. Whatever runs in a cell has to,
/// whoever had it run: a tool acts outside of the cell.
///
/// # Errors
/// It could not be understood whether it may be done, so it may not.
pub(crate) async fn judge(site: &Site, caller: &Caller, request: &Request) -> Result<Judged> {
    let of_cell = matches!(request, Request::ToolRun(call) if call.exec.is_some());
    match site.rules.as_ref().filter(|rules| of_cell || rules.used == PolicyUse::Enforced) {
        Some(rules) => {
            let made = new_cell(site, rules, caller, request).await?;
            judge_in_turn(site, rules, caller, &caller.principal, request, made).await
        }
        None => Ok(Judged::Allowed),
    }
}

/// The cell that a request is about to make, where rules may speak of it.
async fn new_cell(
    site: &Site,
    rules: &Rules,
    caller: &Caller,
    request: &Request,
) -> Result<Option<NewCell>> {
    if rules.policies.in_force().allows_all() {
        return Ok(None);
    }
    made_by(site, caller, request).await
}

/// Whether a person has to approve the cell that a request makes, whatever the rest of it needs.
///
/// # Errors
/// Those of [`judge`].
pub(crate) async fn asks_about_new_cell(
    site: &Site,
    caller: &Caller,
    request: &Request,
) -> Result<bool> {
    let Some(rules) = site.rules.as_ref().filter(|rules| rules.are_enforced()) else {
        return Ok(false);
    };
    let made = new_cell(site, rules, caller, request).await?;
    let policy = rules.policies.in_force();
    Ok(made.is_some_and(|made| made.verdict(&policy).decision == Decision::Ask))
}

/// Refuses a cell that a server makes by itself, for nobody yet, if rules deny it.
///
/// # Errors
/// `denied` by a rule.
pub(crate) async fn check_own_cell(site: &Site, spawn: &CellSpawn) -> Result<()> {
    let Some(rules) = site.rules.as_ref().filter(|rules| rules.are_enforced()) else {
        return Ok(());
    };
    let policy = rules.policies.in_force();
    if policy.allows_all() {
        return Ok(());
    }
    let verdict = of_spawn(site, spawn).await?.verdict(&policy);
    match verdict.decision {
        Decision::Deny => Err(Error::denied(verdict.sentence())),
        Decision::Allow | Decision::Ask => Ok(()),
    }
}

/// Holds what a person is to approve against the rules as they are now, whoever asks.
///
/// # Errors
/// Those of [`judge`].
pub(crate) async fn judge_again(
    site: &Site,
    caller: &Caller,
    asked_by: &str,
    request: &Request,
) -> Result<Judged> {
    match &site.rules {
        // By then its cell is there.
        Some(rules) => judge_in_turn(site, rules, caller, asked_by, request, None).await,
        None => Ok(Judged::Allowed),
    }
}

async fn judge_in_turn(
    site: &Site,
    rules: &Rules,
    caller: &Caller,
    asked_by: &str,
    request: &Request,
    made: Option<NewCell>,
) -> Result<Judged> {
    if let Request::ToolRun(call) = request {
        return judge_tool(site, rules, asked_by, call).await;
    }
    let Request::ExecRun(run) = request else {
        return Ok(judge_by(rules, asked_by, request, made.as_ref()));
    };
    if !is_long(run) || rules.policies.in_force().allows_all() {
        return Ok(judge_by(rules, asked_by, request, made.as_ref()));
    }
    let (rules, asked_by, request) = (rules.clone(), asked_by.to_owned(), request.clone());
    let judging = move || judge_by(&rules, &asked_by, &request, made.as_ref());
    site.long_texts.read(&caller.tenant, judging).await
}

/// What the policy says of a tool; `None` where no rule speaks of it and nothing is refused by default.
/// What the server says of it decides then if the operator takes it at its word, and a person otherwise.
fn decide_tool(policy: &Policy, name: &str) -> Option<Verdict> {
    let verdict = policy.decide(&Act::Tool { name });
    (verdict.rule.is_some() || verdict.decision == Decision::Deny).then_some(verdict)
}

/// Holds the call of another server's tool against the rules.
async fn judge_tool(site: &Site, rules: &Rules, asked_by: &str, call: &ToolRun) -> Result<Judged> {
    let name = call.full_name();
    let asked = |rule: Option<&str>, reason: String| {
        Judged::Asked(ApprovalNeed {
            rule: rule.unwrap_or(TOOL_RULE).to_owned(),
            reason,
            asked_by: asked_by.to_owned(),
            within_ms: rules.ask_within_ms,
            parts: Vec::new(),
            facts: Vec::new(),
        })
    };
    if let Some(verdict) = decide_tool(&rules.policies.in_force(), &name) {
        return Ok(match verdict.decision {
            Decision::Deny => {
                denied(&verdict, "use another tool, or ask the operator to change the policy")
            }
            Decision::Allow => Judged::Allowed,
            Decision::Ask => asked(verdict.rule.as_deref(), verdict.sentence()),
        });
    }
    let shelf = site.toolbox()?.shelf_with(&call.server).await?;
    let key = shelf.find(&call.server, &call.tool)?.key();
    let seeded = shelf.policy(key);
    Ok(match seeded.decision {
        PolicyDecision::Allow => Judged::Allowed,
        PolicyDecision::Ask | PolicyDecision::Deny => {
            let how = line_that_allows(&key.server);
            asked(None, format!("the tool {name}: {}; to allow it always, {how}", seeded.why))
        }
    })
}

/// How the operator lets the tools of a server be called without asking.
pub(crate) fn line_that_allows(server: &str) -> String {
    // Its own tools are on no server that could be declared.
    if server == OWN_SERVER {
        return format!(
            "add a rule with `verdict = \"allow\"` and `tool = \"{server}.*\"` to the file that \
             `policy.file` names"
        );
    }
    format!("add `allow_tools = true` below [toolbox.{server}] in the configuration")
}

/// What stubs say is decided about a tool, which is what a call of it comes to.
pub(crate) fn told_of_tool(policy: Option<&Policy>, shelf: &Shelf, key: &ToolKey) -> ToolPolicy {
    let decided = shelf.catalog.find_by_key(key).zip(policy).and_then(|(tool, policy)| {
        decide_tool(policy, &format!("{}.{}", tool.server_identifier(), tool.identifier()))
    });
    let Some(verdict) = decided else { return shelf.policy(key) };
    let decision = match verdict.decision {
        Decision::Allow => PolicyDecision::Allow,
        Decision::Ask => PolicyDecision::Ask,
        Decision::Deny => PolicyDecision::Deny,
    };
    let why = match verdict.rule {
        Some(rule) => format!("rule {rule}"),
        None => "the default of the policy".to_owned(),
    };
    ToolPolicy { decision, why }
}

fn judge_by(rules: &Rules, asked_by: &str, request: &Request, made: Option<&NewCell>) -> Judged {
    let policy = rules.policies.in_force();
    if policy.allows_all() {
        return Judged::Allowed;
    }
    let mut asked = Vec::new();
    let of_cell = made.map(|made| made.verdict(&policy));
    for verdict in verdicts(&policy, request).into_iter().chain(of_cell) {
        match verdict.decision {
            Decision::Allow => {}
            Decision::Deny => {
                let hint = "do it another way, or ask the operator to change the policy";
                return denied(&verdict, hint);
            }
            Decision::Ask => asked.push(verdict),
        }
    }
    let Some(first) = asked.first() else { return Judged::Allowed };
    let parts = asked.iter().flat_map(|verdict| &verdict.parts);
    let mut parts: Vec<PolicyPart> =
        parts.filter(|part| part.decision == Decision::Ask).map(bounded_part).collect();
    let left_out = parts.len().saturating_sub(MOST_PARTS);
    parts.truncate(MOST_PARTS);
    let mut reason = first.sentence();
    if left_out > 0 {
        reason.push_str(&format!("; {left_out} more parts are asked about and not told"));
    }
    Judged::Asked(ApprovalNeed {
        rule: rule_of(first),
        reason,
        asked_by: asked_by.to_owned(),
        within_ms: rules.ask_within_ms,
        parts,
        facts: Vec::new(),
    })
}

fn denied(verdict: &Verdict, hint: &str) -> Judged {
    Judged::Denied { rule: rule_of(verdict), error: Error::denied(verdict.sentence()).hint(hint) }
}

fn rule_of(verdict: &Verdict) -> String {
    verdict.rule.clone().unwrap_or_else(|| "default".to_owned())
}

/// Everything that is said of a request.
fn verdicts(policy: &Policy, request: &Request) -> Vec<Verdict> {
    let mut verdicts = vec![policy.decide(&Act::Tool { name: tool_of(request) })];
    match request {
        Request::ExecRun(run) => verdicts.push(of_run(policy, run)),
        Request::NetChange(change) => {
            let names: Vec<String> = change.allow.iter().map(NetRule::to_string).collect();
            verdicts.push(policy.decide(&Act::Egress { names: &names }));
        }
        Request::FileCall(call) => of_file(policy, &call.op, &mut verdicts),
        Request::FileStream(stream) => of_file(policy, &stream.op, &mut verdicts),
        // A cell that is made is judged by itself.
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
        | Request::NetLog(_)
        | Request::ProjectDiff(_)
        | Request::ProjectApply(_)
        | Request::ProjectDiscard(_)
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
        | Request::ApprovalGive(_)
        | Request::PolicyCheck(_)
        | Request::PortDial(_)
        | Request::SecretSet(_)
        | Request::SecretsList(_)
        | Request::SecretRemove(_)
        | Request::ImageImport(_)
        | Request::ImagePull(_)
        | Request::ImagesList(_)
        | Request::ImageRemove(_)
        | Request::AuditQuery(_)
        | Request::AuditSummary(_)
        | Request::CodeStats(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => {}
    }
    verdicts
}

fn of_run(policy: &Policy, run: &ExecRun) -> Verdict {
    let directory = in_workspace(&run.cwd);
    let act = of_command(&run.command, run.as_root, Some(&directory));
    let input = match &run.stdin {
        Stdin::Text(text) => Some(text.as_str()),
        Stdin::Empty | Stdin::Open => None,
    };
    policy.decide_in(&act, Around { variables: &of_variables(&run.env), input })
}

fn of_variables(env: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// A path as the cell sees it; a relative one is below its workspace.
fn in_workspace(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/workspace/{path}") }
}

fn of_command<'a>(command: &'a Command, as_root: bool, directory: Option<&'a str>) -> Act<'a> {
    match command {
        // Which shell a cell has is only known inside it.
        Command::Shell(text) => Act::AnyShell { text, as_root, directory },
        Command::Argv(argv) => Act::Argv { argv, as_root, directory },
        Command::Code(Code { language: CodeLanguage::Python, text: code, .. }) => {
            Act::Python { code, as_root, directory }
        }
        Command::Code(Code {
            language: language @ (CodeLanguage::Typescript | CodeLanguage::Javascript),
            ..
        }) => Act::Script { language: language.as_str(), as_root, directory },
    }
}

fn of_file(policy: &Policy, op: &FileOp, verdicts: &mut Vec<Verdict>) {
    let mut written =
        |path: &str| verdicts.push(policy.decide(&Act::Write { path: &in_workspace(path) }));
    match op {
        FileOp::Write(write) => written(&write.path),
        FileOp::Edit(edit) => written(&edit.path),
        FileOp::MakeDirectory(made) => written(&made.path),
        FileOp::Copy(copied) => written(&copied.to),
        FileOp::Import(import) => written(&import.path),
        FileOp::Move(moved) => {
            written(&moved.to);
            removed(policy, &moved.from, verdicts);
        }
        FileOp::Delete(delete) => removed(policy, &delete.path, verdicts),
        FileOp::Batch(batch) => {
            for part in &batch.operations {
                of_file(policy, &part.op, verdicts);
            }
        }
        FileOp::Read(_)
        | FileOp::List(_)
        | FileOp::Stat(_)
        | FileOp::Search(_)
        | FileOp::Export(_)
        | FileOp::Watch(_) => {}
    }
}

fn removed(policy: &Policy, path: &str, verdicts: &mut Vec<Verdict>) {
    verdicts.push(policy.decide(&Act::Remove { path: &in_workspace(path) }));
}

/// What a rule about tools calls it.
pub(crate) fn tool_of(request: &Request) -> &'static str {
    if let Request::FileCall(FileCall { op, .. }) | Request::FileStream(FileStream { op, .. }) =
        request
    {
        return tool_of_file(op);
    }
    match request.name() {
        name if name.starts_with("checkpoint_") => "cell_checkpoint",
        "project_diff" => "workspace_diff",
        "project_apply" => "workspace_apply",
        "project_discard" => "workspace_discard",
        name => name,
    }
}

fn tool_of_file(op: &FileOp) -> &'static str {
    match op {
        FileOp::Read(_) => "fs_read",
        FileOp::Write(_) => "fs_write",
        FileOp::Edit(_) => "fs_edit",
        FileOp::List(_) => "fs_list",
        FileOp::Stat(_) => "fs_stat",
        FileOp::Delete(_) => "fs_delete",
        FileOp::MakeDirectory(_) | FileOp::Move(_) | FileOp::Copy(_) | FileOp::Batch(_) => {
            "fs_batch"
        }
        FileOp::Search(_) => "fs_search",
        FileOp::Export(_) => "fs_export",
        FileOp::Import(_) => "fs_import",
        FileOp::Watch(_) => "fs_watch",
    }
}

/// Whether a run removes or replaces something, or may for all that can be known.
///
/// # Errors
/// It could not be understood.
pub(crate) async fn destroys(site: &Site, caller: &Caller, run: &ExecRun) -> Result<bool> {
    if !is_long(run) {
        return Ok(may_destroy(run));
    }
    let run = run.clone();
    site.long_texts.read(&caller.tenant, move || may_destroy(&run)).await
}

fn may_destroy(run: &ExecRun) -> bool {
    let Some(policy) = &*NO_RULES else { return true };
    let verdict = of_run(policy, run);
    let hides = |what: &Dynamic| match what {
        Dynamic::Name | Dynamic::Code | Dynamic::Input | Dynamic::Network | Dynamic::Unparsable => {
            true
        }
        Dynamic::Script | Dynamic::Language | Dynamic::Environment => false,
    };
    verdict.destructive
        || verdict.overwrites
        || verdict.parts.iter().any(|part| part.finding.dynamic.iter().any(hides))
}

/// Tells what the policy says of a command.
pub(crate) async fn policy_check(
    site: &Site,
    tenant: &Tenant,
    request: PolicyCheck,
) -> Result<PolicyVerdict> {
    if let Checked::Image(image) = &request.checked {
        return of_image(site, image);
    }
    if let Err(error) = check::may_be_root(request.as_root, &site.settings) {
        return Ok(verdict_by(PolicyVerdict::ROOT, PolicyDecision::Deny, error.message));
    }
    let unusable = |error: PolicyError| Error::invalid(error.to_string()).hint(error.hint());
    let policy = match (&site.rules, &request.profile) {
        (Some(rules), None) => rules.policies.in_force(),
        (Some(rules), Some(profile)) => {
            Arc::new(rules.policies.by_profile(profile).map_err(unusable)?)
        }
        (None, profile) => {
            let profile = profile.as_deref().unwrap_or("open");
            Arc::new(Policy::parse(None, profile).map_err(unusable)?)
        }
    };
    site.long_texts.read(tenant, move || check_text(&policy, &request)).await
}

/// What is said of an image that a cell would begin with.
fn of_image(site: &Site, image: &str) -> Result<PolicyVerdict> {
    let checked = site.allowed_image(image);
    let (decision, reason) = match checked {
        Ok(()) => (PolicyDecision::Allow, format!("the image {image} may be used")),
        Err(error) if error.code == ErrorCode::Denied => (PolicyDecision::Deny, error.message),
        Err(error) => return Err(error),
    };
    Ok(verdict_by(PolicyVerdict::IMAGES, decision, reason))
}

/// What is said by a rule that is none of a profile.
fn verdict_by(rule: &str, decision: PolicyDecision, reason: String) -> PolicyVerdict {
    PolicyVerdict {
        profile: rule.to_owned(),
        decision,
        rule: Some(rule.to_owned()),
        explanation: reason.clone(),
        reason,
        destructive: false,
        overwrites: false,
        dynamic: false,
        parts: Vec::new(),
        allowed_commands: Vec::new(),
    }
}

fn check_text(policy: &Policy, request: &PolicyCheck) -> PolicyVerdict {
    // Where commands start unless told otherwise.
    let (as_root, directory) = (request.as_root, Some("/workspace"));
    let verdict = policy.decide(&match &request.checked {
        Checked::Text(CheckedLanguage::Shell, text) => Act::AnyShell { text, as_root, directory },
        Checked::Text(CheckedLanguage::Python, code) => Act::Python { code, as_root, directory },
        Checked::Argv(argv) => Act::Argv { argv, as_root, directory },
        // It is judged by other rules, and before this.
        Checked::Image(_) => Act::Argv { argv: &[], as_root, directory },
    });
    shown(policy, &verdict)
}

fn shown(policy: &Policy, verdict: &Verdict) -> PolicyVerdict {
    PolicyVerdict {
        profile: policy.profile().to_owned(),
        decision: decision(verdict.decision),
        rule: verdict.rule.clone(),
        reason: verdict.reason.clone(),
        destructive: verdict.destructive,
        overwrites: verdict.overwrites,
        dynamic: verdict.dynamic,
        parts: verdict.parts.iter().map(shown_part).collect(),
        explanation: verdict.to_string(),
        allowed_commands: policy.allowed_commands().into_iter().map(str::to_owned).collect(),
    }
}

fn shown_part(part: &hotcell_policy::Part) -> PolicyPart {
    PolicyPart {
        what: part.finding.what.clone(),
        name: part.finding.path.clone().or_else(|| part.finding.name.clone()),
        decision: decision(part.decision),
        rule: part.rule.clone(),
        why: part.why.clone(),
        line: part.finding.line.map(|line| u32::try_from(line).unwrap_or(u32::MAX)),
    }
}

fn bounded_part(part: &hotcell_policy::Part) -> PolicyPart {
    let part = shown_part(part);
    PolicyPart {
        what: bounded(&part.what, PART_CHARS),
        name: part.name.map(|name| bounded(&name, PART_CHARS)),
        why: bounded(&part.why, PART_CHARS),
        ..part
    }
}

fn decision(decision: Decision) -> PolicyDecision {
    match decision {
        Decision::Allow => PolicyDecision::Allow,
        Decision::Ask => PolicyDecision::Ask,
        Decision::Deny => PolicyDecision::Deny,
    }
}
