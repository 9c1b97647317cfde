//! Tools with each kind of result.
#![expect(deprecated, reason = "older revisions have what the newest has not")]

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    CreateMessageRequest, ElicitRequest, InputRequests, InputRequiredResult,
    ProgressNotificationParam, ServerNotification, ServerRequest, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{complete, content, rounds, wire};

/// The suite wants steps that it can tell apart.
const STEP: Duration = Duration::from_millis(50);

/// Names, and the arguments that are texts.
const TOOLS: &[(&str, &[&str])] = &[
    ("test_simple_text", &[]),
    ("test_image_content", &[]),
    ("test_audio_content", &[]),
    ("test_embedded_resource", &[]),
    ("test_multiple_content_types", &[]),
    ("test_error_handling", &[]),
    ("test_tool_with_progress", &[]),
    ("test_tool_with_logging", &[]),
    ("test_logging_tool", &[]),
    ("test_sampling", &["prompt"]),
    ("test_elicitation", &["message"]),
    ("test_elicitation_sep1034_defaults", &[]),
    ("test_elicitation_sep1330_enums", &[]),
    ("test_missing_capability", &[]),
    ("test_streaming_elicitation", &[]),
    ("test_input_required_result_elicitation", &[]),
    ("test_input_required_result_sampling", &[]),
    ("test_input_required_result_list_roots", &[]),
    ("test_input_required_result_request_state", &[]),
    ("test_input_required_result_tampered_state", &[]),
    ("test_input_required_result_multiple_inputs", &[]),
    ("test_input_required_result_multi_round", &[]),
    ("test_input_required_result_capabilities", &[]),
];

pub(super) fn has(name: &str) -> bool {
    TOOLS.iter().any(|(known, _)| *known == name)
}

pub(super) fn all() -> Result<Vec<Tool>, ErrorData> {
    let describe = |(name, arguments): &(&str, &[&str])| {
        let properties: serde_json::Map<String, Value> = arguments
            .iter()
            .map(|argument| ((*argument).to_owned(), json!({ "type": "string" })))
            .collect();
        wire(json!({
            "name": name,
            "description": "Answers the conformance suite.",
            "inputSchema": { "type": "object", "properties": properties },
        }))
    };
    TOOLS.iter().map(describe).collect()
}

pub(super) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let value = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        value.unwrap_or_default().to_owned()
    };
    let content = match request.name.as_ref() {
        "test_simple_text" => json!([content::text("This is a simple text response for testing.")]),
        "test_image_content" => json!([content::image()]),
        "test_audio_content" => json!([content::audio()]),
        "test_embedded_resource" => json!([content::resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]),
        "test_multiple_content_types" => json!([
            content::text("Multiple content types test:"),
            content::image(),
            content::resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ]),
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            let result = json!({ "isError": true, "content": [content::text(text)] });
            return complete::<CallToolResult>(result).map(Into::into);
        }
        "test_tool_with_progress" => {
            show_progress(context).await;
            json!([content::text("100 of 100")])
        }
        "test_tool_with_logging" => {
            let lines =
                ["Tool execution started", "Tool processing data", "Tool execution completed"];
            for line in lines {
                log(context, line).await?;
                sleep(STEP).await;
            }
            json!([content::text("3 lines were logged")])
        }
        "test_logging_tool" => {
            if context.meta.0.0.contains_key("io.modelcontextprotocol/logLevel") {
                log(context, "A line was asked for").await?;
            }
            json!([content::text("A line was logged if it was asked for")])
        }
        "test_sampling" => {
            let asked: CreateMessageRequest = wire(rounds::question(&argument("prompt")))?;
            let answer = ask(context, ServerRequest::CreateMessageRequest(asked)).await?;
            let said = answer["content"]["text"].as_str().unwrap_or_default().to_owned();
            json!([content::text(format!("LLM response: {said}"))])
        }
        "test_elicitation" => {
            let fields = [("username", "string"), ("email", "string")];
            let answer = elicit(context, rounds::form(&argument("message"), &fields)).await?;
            json!([content::text(answered(&answer))])
        }
        "test_elicitation_sep1034_defaults" => {
            json!([content::text(answered(&elicit(context, defaults_form()).await?))])
        }
        "test_elicitation_sep1330_enums" => {
            json!([content::text(answered(&elicit(context, choices_form()).await?))])
        }
        "test_missing_capability" => {
            let can = serde_json::to_value(context.client_capabilities()).unwrap_or_default();
            if can["sampling"].is_null() {
                let needed: ClientCapabilities = wire(json!({ "sampling": {} }))?;
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            json!([content::text("sampling is there")])
        }
        "test_streaming_elicitation" => {
            let form = rounds::form("What is your name?", &[("name", "string")]);
            let asked: InputRequests = wire(json!({ "user_name": form }))?;
            return Ok(InputRequiredResult::from_input_requests(asked).into());
        }
        other => {
            return Err(ErrorData::invalid_params(format!("there is no tool {other}"), None));
        }
    };
    complete::<CallToolResult>(json!({ "content": content })).map(Into::into)
}

async fn show_progress(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    for done in [0.0, 50.0, 100.0] {
        let told = ProgressNotificationParam::new(token.clone(), done)
            .with_total(100.0)
            .with_message(format!("{done} of 100"));
        // A client that is gone is noticed elsewhere.
        let _ = context.peer.notify_progress(told).await;
        sleep(STEP).await;
    }
}

async fn log(context: &RequestContext<RoleServer>, line: &str) -> Result<(), ErrorData> {
    let notification: ServerNotification = wire(json!({
        "method": "notifications/message",
        "params": { "level": "info", "logger": "conformance", "data": line },
    }))?;
    // A client that is gone is noticed elsewhere.
    let _ = context.peer.send_notification(notification).await;
    Ok(())
}

async fn elicit(context: &RequestContext<RoleServer>, form: Value) -> Result<Value, ErrorData> {
    let asked: ElicitRequest = wire(form)?;
    ask(context, ServerRequest::ElicitRequest(asked)).await
}

/// Asks the client, in revisions in which a server may.
async fn ask(
    context: &RequestContext<RoleServer>,
    request: ServerRequest,
) -> Result<Value, ErrorData> {
    let answer = context.peer.send_request(request).await.map_err(|error| {
        ErrorData::internal_error(format!("the client does not answer: {error}"), None)
    })?;
    Ok(serde_json::to_value(answer).unwrap_or_default())
}

fn answered(answer: &Value) -> String {
    let action = answer["action"].as_str().unwrap_or_default();
    format!("User response: action={action}, content={}", answer["content"])
}

fn form_of(properties: Value) -> Value {
    let mut form = rounds::form("Please look through these values", &[]);
    form["params"]["requestedSchema"] = json!({ "type": "object", "properties": properties });
    form
}

fn defaults_form() -> Value {
    form_of(json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": { "type": "boolean", "default": true },
    }))
}

fn choices_form() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    form_of(json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled } },
    }))
}
