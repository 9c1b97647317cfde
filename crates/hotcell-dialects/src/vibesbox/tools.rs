//! The three tools as clients of the original know them.

use rmcp::model::Tool;
use serde_json::{Value, json};

use crate::tool::{Effect, described};

pub(super) const EXECUTE: &str = "execute_command";
pub(super) const MANAGE: &str = "manage_process";
pub(super) const HEALTH: &str = "health";

pub(super) fn all() -> Vec<Tool> {
    vec![
        described(
            (EXECUTE, "Execute Command"),
            "Execute a shell command with optional streaming of its output. Returns a JSON string with \
             success, exit_code, stdout, stderr, truncated and error. With background it goes on: manage \
             it by its pid with manage_process.",
            Effect::Changes,
            (execute(), Some(result())),
        ),
        described(
            (MANAGE, "Manage Process"),
            "List, kill or read the output of processes. Returns a JSON string.",
            Effect::Changes,
            (manage(), Some(result())),
        ),
        described(
            (HEALTH, "Health"),
            "Tell whether the server is healthy. Returns a JSON string.",
            Effect::Reads,
            (json!({ "type": "object", "properties": {} }), Some(result())),
        ),
    ]
}

fn execute() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "description": "Shell command to execute",
                "maxLength": super::MOST_CHARS,
            },
            "shell": {
                "type": "string",
                "description": "Shell to use",
                "default": super::SHELL,
            },
            "timeout": {
                "type": "integer",
                "description": "Timeout in seconds",
                "default": super::TIMEOUT_S,
                "minimum": 1,
                "maximum": super::MOST_TIMEOUT_S,
            },
            "stream": {
                "type": "boolean",
                "description": "Pass output on while the command runs",
                "default": true,
            },
            "background": {
                "type": "boolean",
                "description": "Do not wait: the result has a pid for manage_process",
                "default": false,
            },
        },
        "required": ["command"],
    })
}

fn manage() -> Value {
    json!({
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "description": "list, kill or read",
            },
            "pid": {
                "anyOf": [{ "type": "integer" }, { "type": "null" }],
                "description": "Process ID, for kill and read",
                "default": null,
            },
            "signal": {
                "type": "string",
                "description": "SIGTERM or SIGKILL, for kill",
                "default": super::SIGTERM,
            },
        },
        "required": ["action"],
    })
}

/// A JSON text in a field, as clients of the original expect it.
fn result() -> Value {
    json!({
        "type": "object",
        "properties": { "result": { "type": "string" } },
        "required": ["result"],
        "x-fastmcp-wrap-result": true,
    })
}
