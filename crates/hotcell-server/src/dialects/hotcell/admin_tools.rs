//! `policy_check`, `reconcile`, `garbage_collect`.

use hotcell_model::{
    Checked, CheckedLanguage, Collect, Collected, Error, PolicyCheck, PolicyDecision, PolicyPart,
    Reconcile, Reconciled, Reply, Request, Result,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, Object};
use super::tool::{Effect, ToolKind, answer, read};
use crate::toolsets::Toolset;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "policy_check",
        toolset: Toolset::Admin,
        about: "Tell whether a command would be allowed, asked about or denied, and why. Nothing runs.",
        effect: Effect::Reads,
        input: schema::of::<Check>,
        output: schema::of::<Verdict>,
        request: check,
        result: verdict,
    },
    ToolKind {
        name: "reconcile",
        toolset: Toolset::Admin,
        about: "Compare what is known of cells with what is there, and mend what differs.",
        effect: Effect::Changes,
        input: schema::of::<Nothing>,
        output: schema::of::<Reconciled>,
        request: |arguments| read::<Nothing>(arguments).map(|Nothing {}| Reconcile.into()),
        result: reconciled,
    },
    ToolKind {
        name: "garbage_collect",
        toolset: Toolset::Admin,
        about: "Remove cells, logs, volumes and images that are over or that nobody needs.",
        effect: Effect::Changes,
        input: schema::of::<Garbage>,
        output: schema::of::<Collected>,
        request: |arguments| {
            let Garbage { dry_run } = read(arguments)?;
            Ok(Collect { dry_run }.into())
        },
        result: collected,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Garbage {
    /// only tell
    #[serde(default)]
    dry_run: bool,
}

fn reconciled(reply: Reply) -> Option<CallToolResult> {
    let Reply::Reconciled(done) = reply else { return None };
    let Reconciled { discovered, adopted, cleaned_up, orphaned, missing, errors } = &done;
    let text = format!(
        "discovered {discovered}, adopted {adopted}, cleaned up {cleaned_up}, orphaned {orphaned}, \
         missing {missing}, errors {}",
        errors.len()
    );
    Some(answer(&done, text))
}

fn collected(reply: Reply) -> Option<CallToolResult> {
    let Reply::Collected(done) = reply else { return None };
    let told = |it: &hotcell_model::Removed| format!("{} {}", it.count, it.kind.as_str());
    let removed: Vec<String> = done.removed.iter().map(told).collect();
    let text = match (removed.is_empty(), done.dry_run) {
        (true, _) => "nothing to remove".to_owned(),
        (false, true) => format!("would remove {}", removed.join(", ")),
        (false, false) => format!("removed {}", removed.join(", ")),
    };
    Some(answer(&done, text))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Check {
    /// shell text, or code
    command: Option<String>,
    /// instead of command: program and arguments
    argv: Option<Vec<String>>,
    /// shell or python
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    language: CheckedLanguage,
    #[serde(default)]
    as_root: bool,
    /// another profile than the one in force
    profile: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Verdict {
    /// allow, ask or deny
    #[schemars(with = "String")]
    decision: PolicyDecision,
    profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    reason: String,
    destructive: bool,
    dynamic: bool,
    #[schemars(with = "Vec<Object>")]
    parts: Vec<PolicyPart>,
}

fn check(arguments: JsonObject) -> Result<Request> {
    let Check { command, argv, language, as_root, profile } = read(arguments)?;
    let checked = match (command, argv) {
        (Some(text), None) => Checked::Text(language, text),
        (None, Some(argv)) => Checked::Argv(argv),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Error::invalid("give either command or argv"));
        }
    };
    Ok(PolicyCheck { checked, as_root, profile }.into())
}

fn verdict(reply: Reply) -> Option<CallToolResult> {
    let Reply::PolicyVerdict(verdict) = reply else { return None };
    let shown = Verdict {
        decision: verdict.decision,
        profile: verdict.profile,
        rule: verdict.rule,
        reason: verdict.reason,
        destructive: verdict.destructive,
        dynamic: verdict.dynamic,
        parts: verdict.parts,
    };
    Some(answer(&shown, verdict.explanation))
}
