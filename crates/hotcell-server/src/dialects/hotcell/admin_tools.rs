//! `policy_check`, `reconcile`, `garbage_collect`.

use hotcell_model::{
    Checked, CheckedLanguage, Collect, Collected, Error, PolicyCheck, PolicyDecision, PolicyPart,
    Reconcile, Reconciled, Reply, Result,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, Object};
use super::tool::{Effect, ToolBounds, ToolKind, answer, question, read};
use crate::toolsets::Toolset;
use hotcell_dialects::Question;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "policy_check",
        toolset: Toolset::Admin,
        about: "Show whether a command would be allowed, need approval or be denied, and why. \
                Nothing runs.",
        found_by: "is a command allowed, policy, permission",
        effect: Effect::Reads,
        example: r#"{"command": "rm -rf build"}"#,
        input: schema::of::<Check>,
        output: schema::output::<Verdict>,
        call: check,
    },
    ToolKind {
        name: "reconcile",
        toolset: Toolset::Admin,
        about: "Compare the index of cells with what the drivers have, and repair differences.",
        found_by: "repair the index of sandboxes",
        effect: Effect::Works,
        example: "{}",
        input: schema::of::<Nothing>,
        output: schema::output::<Reconciled>,
        call: |arguments, _| {
            let Nothing {} = read(arguments)?;
            Ok(question(Reconcile, reconciled))
        },
    },
    ToolKind {
        name: "garbage_collect",
        toolset: Toolset::Admin,
        about: "Remove ended cells and logs, volumes and images that are no longer used.",
        found_by: "free disk space, clean up, prune",
        effect: Effect::Removes,
        example: r#"{"dry_run": true}"#,
        input: schema::of::<Garbage>,
        output: schema::output::<Collected>,
        call: |arguments, _| {
            let Garbage { dry_run } = read(arguments)?;
            Ok(question(Collect { dry_run }, collected))
        },
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Garbage {
    /// only report
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
    /// shell (default) or python
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

fn check(arguments: JsonObject, _: ToolBounds) -> Result<Question> {
    let Check { command, argv, language, as_root, profile } = read(arguments)?;
    let checked = match (command, argv) {
        (Some(text), None) => Checked::Text(language, text),
        (None, Some(argv)) => Checked::Argv(argv),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Error::invalid("give either command or argv"));
        }
    };
    Ok(question(PolicyCheck { checked, as_root, profile }, verdict))
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
