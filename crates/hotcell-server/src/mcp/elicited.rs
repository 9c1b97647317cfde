//! Asks the person at the client to approve a command.

use std::time::Duration;

use hotcell_model::{Caller, Exec, Grant, Role};
use rmcp::model::{ElicitRequest, InputRequests, InputRequiredResult, ServerRequest};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

/// What the question is called.
pub(super) const APPROVAL: &str = "approval";
/// What of a command a person is shown.
const SHOWN_CHARS: usize = 2000;

/// Whether the client can put a form before a person.
pub(super) fn is_possible(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation);
    elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// Who answers when the person at a client does.
pub(super) fn person_at(caller: &Caller) -> Caller {
    let person = Caller::of(format!("client:{}", caller.principal), Role::Operator);
    Caller { tenant: caller.tenant.clone(), call_id: caller.call_id.clone(), ..person }
}

/// The question as a result, for revisions in which a server asks by answering.
pub(super) fn required(exec: &Exec) -> Result<InputRequiredResult, ErrorData> {
    let asked: InputRequests = wire(json!({ APPROVAL: question(exec) }))?;
    // Which exec it is about; whose it is and whether it still waits is looked up.
    Ok(InputRequiredResult::new(Some(asked), Some(exec.id.to_string())))
}

/// The question as a request, for revisions in which a server may send one. `None` when nobody
/// answered it in time, or left it open.
pub(super) async fn ask(
    context: &RequestContext<RoleServer>,
    exec: &Exec,
    within: Duration,
) -> Option<Grant> {
    let asked: ElicitRequest = wire(question(exec)).ok()?;
    let answer = context.peer.send_request(ServerRequest::ElicitRequest(asked));
    let answered = tokio::time::timeout(within, answer).await.ok()?;
    match answered {
        Ok(answer) => answer_of(&serde_json::to_value(answer).ok()?),
        Err(error) => {
            tracing::debug!(%error, "the client did not put an approval before a person");
            None
        }
    }
}

/// What a person answered; `None` for a form that was left.
pub(super) fn answer_of(answer: &Value) -> Option<Grant> {
    match (answer["action"].as_str(), answer["content"]["approve"].as_bool()) {
        (Some("accept"), Some(true)) => Some(Grant::Approve),
        (Some("accept"), Some(false) | None) | (Some("decline"), _) => Some(Grant::Refuse),
        (_, _) => None,
    }
}

fn question(exec: &Exec) -> Value {
    let approval = exec.approval.as_ref();
    let (reason, rule) =
        approval.map(|it| (it.reason.as_str(), it.rule.as_str())).unwrap_or_default();
    let command = shown(&exec.command.to_string());
    let message = format!(
        "An agent wants to run this in cell {}:\n\n{command}\n\n{reason} (rule {rule})",
        exec.cell
    );
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "approve": { "type": "boolean", "title": "Let it run", "default": false },
                },
                "required": ["approve"],
            },
        },
    })
}

/// A command as it is, without what could hide a part of it from whoever reads.
fn shown(command: &str) -> String {
    let mut text: String = command
        .chars()
        .take(SHOWN_CHARS)
        .flat_map(|char| match char {
            '\n' | '\t' => vec![char],
            other if other.is_control() || is_directional(other) => {
                other.escape_unicode().collect()
            }
            other => vec![other],
        })
        .collect();
    let more = command.chars().count().saturating_sub(SHOWN_CHARS);
    if more > 0 {
        text.push_str(&format!("… and {more} more characters"));
    }
    text
}

/// Characters that make a text look other than it is.
fn is_directional(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn wire<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a question went wrong: {error}"), None))
}
