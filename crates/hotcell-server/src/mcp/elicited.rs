//! Asks the person at the client to approve what an agent asks for.

use std::time::Duration;

use hotcell_model::{Asked, Caller, Grant, Role};
use rmcp::model::{ElicitRequest, InputRequests, InputRequiredResult, ServerRequest};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

/// What the question is called.
pub(super) const APPROVAL: &str = "approval";
/// How long the person at a client that is asked by a request is waited for; then whoever else may
/// answers.
pub(super) const ASK_WITHIN: Duration = Duration::from_secs(50);

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
pub(super) fn required(asked: &Asked) -> Result<InputRequiredResult, ErrorData> {
    let questions: InputRequests = wire(json!({ APPROVAL: question(asked) }))?;
    // What it is about; whose it is and whether it still waits is looked up.
    Ok(InputRequiredResult::new(Some(questions), Some(asked.id.to_string())))
}

/// The question as a request, for revisions in which a server may send one. `None` when nobody
/// answered it in time, or left it open.
pub(super) async fn ask(
    context: &RequestContext<RoleServer>,
    asked: &Asked,
    declined: Declined,
) -> Option<Grant> {
    let question: ElicitRequest = wire(question(asked)).ok()?;
    let answer = context.peer.send_request(ServerRequest::ElicitRequest(question));
    let answered = tokio::time::timeout(ASK_WITHIN, answer).await.ok()?;
    match answered {
        Ok(answer) => answer_of(&serde_json::to_value(answer).ok()?, declined),
        Err(error) => {
            tracing::debug!(%error, "the client did not put an approval before a person");
            None
        }
    }
}

/// What it means that a client declines to answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declined {
    /// The person refused.
    ByPerson,
    /// The client may have declined without asking anybody: the question stays open.
    Unasked,
}

/// What a person answered; `None` for a form that was left, or that may not have been shown.
pub(super) fn answer_of(answer: &Value, declined: Declined) -> Option<Grant> {
    match (answer["action"].as_str(), answer["content"]["approve"].as_bool(), declined) {
        (Some("accept"), Some(true), _) => Some(Grant::Approve),
        (Some("accept"), Some(false) | None, _) | (Some("decline"), _, Declined::ByPerson) => {
            Some(Grant::Refuse)
        }
        (_, _, _) => None,
    }
}

fn question(asked: &Asked) -> Value {
    let message = format!("An agent asks for this:\n\n{asked}");
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "approve": { "type": "boolean", "title": "Let it be done", "default": false },
                },
                "required": ["approve"],
            },
        },
    })
}

fn wire<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a question went wrong: {error}"), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_declines_by_itself_refuses_nothing() {
        let decline = json!({ "action": "decline" });
        assert_eq!(answer_of(&decline, Declined::ByPerson), Some(Grant::Refuse));
        assert_eq!(answer_of(&decline, Declined::Unasked), None);
        for declined in [Declined::ByPerson, Declined::Unasked] {
            let accept = |approve: bool| {
                answer_of(
                    &json!({ "action": "accept", "content": { "approve": approve } }),
                    declined,
                )
            };
            assert_eq!(accept(true), Some(Grant::Approve));
            assert_eq!(accept(false), Some(Grant::Refuse), "a person filled in the form");
            assert_eq!(answer_of(&json!({ "action": "cancel" }), declined), None);
        }
    }
}
