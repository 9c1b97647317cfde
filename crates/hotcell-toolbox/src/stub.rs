//! What stubs of both languages say in words.

use hotcell_model::PolicyDecision;

use crate::listing::ToolAnnotations;
use crate::literal::expression;
use crate::signature::{Argument, Signature};
use crate::text::{Language, one_line, quoted};
use crate::types::Field;

/// What the policy says of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Whether calls are let through.
    pub decision: PolicyDecision,
    /// The rule, or the reason.
    pub why: String,
}

/// What a full stub says about its tool.
#[derive(Debug)]
pub(crate) struct Heading<'a> {
    /// Identifier of the server.
    pub(crate) server: &'a str,
    /// Identifier of the tool.
    pub(crate) tool: &'a str,
    pub(crate) server_name: &'a str,
    pub(crate) tool_name: &'a str,
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) annotations: Option<&'a ToolAnnotations>,
    pub(crate) policy: Option<&'a ToolPolicy>,
    pub(crate) cut: bool,
    /// Words are left out to keep it short.
    pub(crate) shortened: bool,
}

impl Heading<'_> {
    /// The lines at the top of a full stub.
    pub(crate) fn lines(&self, language: Language) -> Vec<String> {
        let (server, tool) = (self.server, self.tool);
        let mut first = match language {
            Language::Python => format!("from tools.{server} import {tool}"),
            Language::TypeScript => format!("import {{ {tool} }} from \"tools/{server}\""),
        };
        if self.server != self.server_name || self.tool != self.tool_name {
            let (tool, server) = (one_line(self.tool_name, 80), one_line(self.server_name, 80));
            first.push_str(&format!(
                ": tool {} of server {}",
                quoted(&tool, Language::Python),
                quoted(&server, Language::Python)
            ));
        }
        if !self.title.is_empty() {
            first.push_str(&format!(" ({})", one_line(self.title, 80)));
        }
        let mut lines = vec![first];
        if let Some(policy) = self.policy {
            lines.push(format!(
                "policy: {} ({})",
                policy.decision.as_str(),
                one_line(&policy.why, 160)
            ));
        }
        let claims = self.annotations.map(claims).unwrap_or_default();
        if !claims.is_empty() {
            lines.push(format!("the server says: {}", claims.join(", ")));
        }
        if self.shortened {
            lines.push("shortened: detail \"whole\" has all of it".to_owned());
        }
        if self.cut {
            lines.push("the schema is larger than what is shown here".to_owned());
        }
        lines
    }
}

fn claims(annotations: &ToolAnnotations) -> Vec<&'static str> {
    if annotations.read_only_hint == Some(true) && annotations.destructive_hint != Some(true) {
        return vec!["read-only"];
    }
    [
        (annotations.read_only_hint, "read-only", "changes things"),
        (annotations.destructive_hint, "may destroy", "does not destroy"),
        (annotations.idempotent_hint, "idempotent", ""),
        (annotations.open_world_hint, "", "a closed world"),
    ]
    .into_iter()
    .filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no }))
    .filter(|claim| !claim.is_empty())
    .collect()
}

/// What is said behind a key of an object.
pub(crate) fn field_note(field: &Field, language: Language) -> String {
    let mut notes = field.notes.clone();
    if let Some(default) = field.default.as_ref().and_then(|value| expression(value, language)) {
        notes.push(format!("default {default}"));
    }
    let notes = notes.join("; ");
    match (field.doc.is_empty(), notes.is_empty()) {
        (true, _) => notes,
        (false, true) => field.doc.clone(),
        (false, false) => format!("{} ({notes})", field.doc),
    }
}

/// What is said of an argument, if there is something to say.
pub(crate) fn argument_note(argument: &Argument) -> Option<String> {
    let field = &argument.field;
    let mut note = field.notes.join("; ");
    if argument.identifier != field.name {
        let sent = format!("sent as {}", quoted(&field.name, Language::Python));
        note = if note.is_empty() { sent } else { format!("{sent}; {note}") };
    }
    let note = match (field.doc.is_empty(), note.is_empty()) {
        (true, true) => return None,
        (true, false) => note,
        (false, true) => field.doc.clone(),
        (false, false) => format!("{} ({note})", field.doc),
    };
    Some(format!("{}: {note}", argument.identifier))
}

/// What is said of the result.
pub(crate) fn gives(signature: &Signature) -> Vec<String> {
    signature.result_from.note().into_iter().collect()
}
