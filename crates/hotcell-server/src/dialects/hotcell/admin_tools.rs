//! `policy_check`.

use hotcell_model::{
    Checked, CheckedLanguage, Error, PolicyCheck, PolicyDecision, PolicyPart, Reply, Request,
    Result,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, Object};
use super::tool::{Effect, ToolKind, answer, read};
use crate::toolsets::Toolset;

pub(super) const TOOLS: &[ToolKind] = &[ToolKind {
    name: "policy_check",
    toolset: Toolset::Admin,
    about: "Tell whether a command would be allowed, asked about or denied, and why. Nothing runs.",
    effect: Effect::Reads,
    input: schema::of::<Check>,
    output: schema::of::<Verdict>,
    request: check,
    result: verdict,
}];

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
