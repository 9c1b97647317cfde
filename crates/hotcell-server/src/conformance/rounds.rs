//! Tools that ask their caller for something before they answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, InputRequests, InputRequiredResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};

use super::{complete, content, wire};

/// What was asked so far. A caller carries a number only; what it stands for stays here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: AtomicU64,
    asked: Mutex<HashMap<String, u32>>,
}

/// A form with these fields, as a request to the user.
pub(super) fn form(message: &str, fields: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind }))).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object", "properties": properties, "required": required,
            },
        },
    })
}

/// A question to the caller's model.
pub(super) fn question(text: &str) -> Value {
    json!({
        "method": "sampling/createMessage",
        "params": {
            "messages": [{ "role": "user", "content": content::text(text) }],
            "maxTokens": 100,
        },
    })
}

fn roots() -> Value {
    json!({ "method": "roots/list" })
}

/// What a round leads to.
enum Step {
    /// These are to be answered first, with nothing to carry over.
    Ask(Value),
    /// The same, in this round.
    AskInRound(u32, Value),
    Answer(String),
}

impl Rounds {
    /// The answer of a tool that asks; `None` when the tool does not.
    pub(super) fn call(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        let Some(name) = request.name.strip_prefix("test_input_required_result_") else {
            return Ok(None);
        };
        let answer = |key: &str| {
            let found = request.input_responses.as_ref().and_then(|all| all.get(key));
            found.filter(|answer| answer.is_object())
        };
        let round = match &request.request_state {
            Some(state) => Some(self.round_of(state)?),
            None => None,
        };
        let step = match name {
            "elicitation" => match answer("user_name") {
                Some(given) => Step::Answer(format!("Hello, {}!", field(given, "name"))),
                None => Step::Ask(json!({ "user_name": name_form() })),
            },
            "sampling" => match answer("capital_question") {
                Some(given) => Step::Answer(format!("Sampling response: {}", said(given))),
                None => Step::Ask(
                    json!({ "capital_question": question("What is the capital of France?") }),
                ),
            },
            "list_roots" => match answer("client_roots") {
                Some(given) => Step::Answer(format!("The roots are {}", given["roots"])),
                None => Step::Ask(json!({ "client_roots": roots() })),
            },
            "request_state" | "tampered_state" => match (answer("confirm"), round) {
                (Some(_), Some(_)) => Step::Answer("state-ok: it is as it was given".to_owned()),
                _ => Step::AskInRound(
                    1,
                    json!({ "confirm": form("Is that right?", &[("ok", "boolean")]) }),
                ),
            },
            "multiple_inputs" => {
                let keys = ["user_name", "greeting", "client_roots"];
                match keys.map(answer) {
                    [Some(user), Some(greeting), Some(_)] => {
                        Step::Answer(format!("{}, {}", said(greeting), field(user, "name")))
                    }
                    _ => Step::AskInRound(
                        1,
                        json!({
                            "user_name": name_form(),
                            "greeting": question("How does one greet?"),
                            "client_roots": roots(),
                        }),
                    ),
                }
            }
            "multi_round" => match (round, answer("step1"), answer("step2")) {
                (Some(2), _, Some(_)) => Step::Answer("Both steps are done".to_owned()),
                (Some(_), Some(_), _) => Step::AskInRound(
                    2,
                    json!({ "step2": form("And then?", &[("color", "string")]) }),
                ),
                _ => Step::AskInRound(1, json!({ "step1": name_form() })),
            },
            "capabilities" => Step::Ask(askable(context)),
            _ => return Ok(None),
        };
        self.respond(step).map(Some)
    }

    fn respond(&self, step: Step) -> Result<CallToolResponse, ErrorData> {
        let (asked, state) = match step {
            Step::Answer(text) => {
                let result: CallToolResult = complete(json!({ "content": [content::text(text)] }))?;
                return Ok(result.into());
            }
            Step::Ask(asked) => (asked, None),
            Step::AskInRound(round, asked) => (asked, Some(self.note(round))),
        };
        let asked: InputRequests = wire(asked)?;
        Ok(InputRequiredResult::new(Some(asked), state).into())
    }

    fn note(&self, round: u32) -> String {
        let state = format!("round-{}", self.0.last.fetch_add(1, Ordering::Relaxed));
        let mut asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert(state.clone(), round);
        state
    }

    fn round_of(&self, state: &str) -> Result<u32, ErrorData> {
        let asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(state).copied().ok_or_else(|| {
            ErrorData::invalid_params("requestState is not one that was given out", None)
        })
    }
}

fn name_form() -> Value {
    form("What is your name?", &[("name", "string")])
}

/// Only what the caller says it can answer.
fn askable(context: &RequestContext<RoleServer>) -> Value {
    let capabilities = context.client_capabilities();
    let can = serde_json::to_value(capabilities).unwrap_or_default();
    let all = [
        ("elicitation", "user_name", name_form()),
        ("sampling", "capital_question", question("What is the capital of France?")),
        ("roots", "client_roots", roots()),
    ];
    let asked: Map<String, Value> = all
        .into_iter()
        .filter(|(capability, _, _)| can.get(capability).is_some_and(|it| !it.is_null()))
        .map(|(_, key, request)| (key.to_owned(), request))
        .collect();
    Value::Object(asked)
}

fn field(answer: &Value, name: &str) -> String {
    answer["content"][name].as_str().unwrap_or("nobody").to_owned()
}

fn said(answer: &Value) -> String {
    answer["content"]["text"].as_str().unwrap_or("nothing").to_owned()
}
