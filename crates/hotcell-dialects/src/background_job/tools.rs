//! The seven tools as clients of the original know them.

use rmcp::model::Tool;
use serde_json::{Value, json};

use crate::tool::{Effect, described};

pub(super) const EXECUTE: &str = "execute_command";
pub(super) const LIST: &str = "list_jobs";
pub(super) const STATUS: &str = "get_job_status";
pub(super) const OUTPUT: &str = "get_job_output";
pub(super) const TAIL: &str = "tail_job_output";
pub(super) const INTERACT: &str = "interact_with_job";
pub(super) const KILL: &str = "kill_job";

/// What the original's documents call its tools, and what they are called on its wire.
const DOCUMENTED: &[(&str, &str)] = &[
    ("execute", EXECUTE),
    ("list", LIST),
    ("status", STATUS),
    ("output", OUTPUT),
    ("tail", TAIL),
    ("interact", INTERACT),
    ("kill", KILL),
];

/// The name of a tool on the wire.
pub(super) fn wire_name(name: &str) -> &str {
    let known = DOCUMENTED.iter().find(|(documented, _)| *documented == name);
    known.map_or(name, |(_, wire)| wire)
}

pub(super) fn all() -> Vec<Tool> {
    let of_job = |about: &str| arguments(json!({ "job_id": text(about) }), &["job_id"]);
    vec![
        described(
            (LIST, "List Jobs"),
            "List all background jobs with their status.\n\nReturns a list of all background jobs, \
             including their job ID, status, command, and start time. Jobs are sorted by start time \
             (newest first).",
            Effect::Reads,
            (arguments(json!({}), &[]), Some(jobs())),
        ),
        described(
            (STATUS, "Get Job Status"),
            "Get the current status of a background job.",
            Effect::Reads,
            (of_job("Job ID to check"), Some(status())),
        ),
        described(
            (OUTPUT, "Get Job Output"),
            "Get the complete stdout and stderr output of a job.",
            Effect::Reads,
            (of_job("Job ID to get output from"), Some(output())),
        ),
        described(
            (TAIL, "Tail Job Output"),
            "Get the last N lines of stdout and stderr from a job.",
            Effect::Reads,
            (tail(), Some(output())),
        ),
        described(
            (EXECUTE, "Execute Command"),
            "Execute a command as a background job and return job ID.",
            Effect::Adds,
            (
                arguments(json!({ "command": text("Shell command to execute") }), &["command"]),
                Some(fields(json!({ "job_id": text("UUID v4 job identifier") }), &["job_id"])),
            ),
        ),
        described(
            (INTERACT, "Interact With Job"),
            "Send input to a job's stdin and return any immediate output.",
            Effect::Adds,
            (interact(), Some(output())),
        ),
        described(
            (KILL, "Kill Job"),
            "Kill a running background job.",
            Effect::Destroys,
            (
                of_job("Job ID to kill"),
                Some(fields(
                    json!({ "status": text("Kill result: 'killed', 'already_terminated', or 'not_found'") }),
                    &["status"],
                )),
            ),
        ),
    ]
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn arguments(properties: Value, required: &[&str]) -> Value {
    let mut schema = fields(properties, required);
    schema["additionalProperties"] = false.into();
    schema
}

fn fields(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn tail() -> Value {
    let lines = json!({
        "type": "integer",
        "description": "Number of lines to return",
        "default": super::TAIL_LINES,
        "minimum": 1,
        "maximum": super::MOST_LINES,
    });
    arguments(json!({ "job_id": text("Job ID to tail"), "lines": lines }), &["job_id"])
}

fn interact() -> Value {
    let properties = json!({
        "job_id": text("Job ID to interact with"),
        "input": text("Input to send to the job's stdin"),
    });
    arguments(properties, &["job_id", "input"])
}

fn output() -> Value {
    let properties = json!({
        "stdout": text("Standard output content"),
        "stderr": text("Standard error content"),
    });
    fields(properties, &["stdout", "stderr"])
}

fn state() -> Value {
    json!({
        "type": "string",
        "description": "Current job status",
        "enum": ["running", "completed", "failed", "killed"],
    })
}

fn exit_code() -> Value {
    json!({ "type": "integer", "description": "Exit code of a job that has exited" })
}

fn status() -> Value {
    fields(json!({ "status": state(), "exit_code": exit_code() }), &["status"])
}

fn jobs() -> Value {
    let properties = json!({
        "job_id": text("UUID v4 job identifier"),
        "status": state(),
        "command": text("Shell command being executed"),
        "started": {
            "type": "string",
            "format": "date-time",
            "description": "UTC timestamp when job started",
        },
        "exit_code": exit_code(),
    });
    let job = fields(properties, &["job_id", "status", "command", "started"]);
    let jobs = json!({
        "type": "array",
        "items": job,
        "description": "List of all background jobs",
    });
    fields(json!({ "jobs": jobs }), &["jobs"])
}
