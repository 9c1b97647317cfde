//! Prompts with each kind of content.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, InputRequiredResult, Prompt,
};
use serde_json::{Value, json};

use super::{complete, content, rounds, wire};

pub(super) fn all() -> Result<Vec<Prompt>, ErrorData> {
    wire(json!([
        { "name": "test_simple_prompt", "description": "a text" },
        {
            "name": "test_prompt_with_arguments",
            "description": "a text with two arguments in it",
            "arguments": [
                { "name": "arg1", "description": "the first", "required": true },
                { "name": "arg2", "description": "the second", "required": true },
            ],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "a resource",
            "arguments": [
                { "name": "resourceUri", "description": "its address", "required": true },
            ],
        },
        { "name": "test_prompt_with_image", "description": "a picture" },
        {
            "name": "test_input_required_result_prompt",
            "description": "a text about what the user answers",
        },
    ]))
}

pub(super) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let value = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        value.map(ToOwned::to_owned).ok_or_else(|| {
            ErrorData::invalid_params(format!("{}: {name} is missing", request.name), None)
        })
    };
    let messages: Vec<Value> = match request.name.as_str() {
        "test_simple_prompt" => vec![content::text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1")?, argument("arg2")?);
            vec![content::text(format!("arg1 is {first}, arg2 is {second}"))]
        }
        "test_prompt_with_embedded_resource" => {
            let uri = argument("resourceUri")?;
            vec![
                content::resource(&uri, "text/plain", "Embedded resource content for testing."),
                content::text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => {
            vec![content::image(), content::text("Please look at the picture above.")]
        }
        "test_input_required_result_prompt" => {
            let responses = request.input_responses.as_ref();
            match responses.and_then(|responses| responses.get("user_context")) {
                Some(answer) if answer.is_object() => {
                    let context = answer["content"]["context"].as_str().unwrap_or_default();
                    vec![content::text(format!("With this in mind: {context}"))]
                }
                Some(_) | None => {
                    let ask = rounds::form("What is it about?", &[("context", "string")]);
                    let asked = wire(json!({ "user_context": ask }))?;
                    return Ok(InputRequiredResult::from_input_requests(asked).into());
                }
            }
        }
        other => {
            return Err(ErrorData::invalid_params(format!("there is no prompt {other}"), None));
        }
    };
    let messages: Vec<Value> =
        messages.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    complete::<GetPromptResult>(json!({ "messages": messages })).map(Into::into)
}
