//! Examples of calls that a refusal shows: each is accepted and contains the refused argument.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::tool::ToolKind;

/// Optional arguments without which a tool does nothing.
const KEPT: &[&str] = &["command"];

/// Examples for arguments that need others beside them, or exclude some.
const WHOLE: &[(&str, &str, &str)] = &[
    ("exec_run", "argv", r#"{"argv": ["make", "test"]}"#),
    (
        "exec_poll",
        "until",
        r#"{"exec_id": "e_0123456789", "until": "match", "pattern": "listening on port \\d+"}"#,
    ),
    (
        "exec_input",
        "until",
        r#"{"exec_id": "e_0123456789", "text": "run\n", "until": "match", "pattern": "done"}"#,
    ),
    ("policy_check", "argv", r#"{"argv": ["make", "test"]}"#),
    ("code_run", "reset", r#"{"code": "1 + 1", "session": "s1", "reset": true}"#),
    ("cell_checkpoint", "checkpoint", r#"{"action": "restore", "checkpoint": "k_4k7m2x9qpa"}"#),
    (
        "cell_checkpoint",
        "force",
        r#"{"action": "restore", "checkpoint": "k_4k7m2x9qpa", "force": true}"#,
    ),
    (
        "cell_checkpoint",
        "content",
        r#"{"action": "diff", "checkpoint": "k_4k7m2x9qpa", "content": true}"#,
    ),
    ("fs_write", "encoding", r#"{"path": "a.bin", "content": "AAEC", "encoding": "base64"}"#),
    ("fs_export", "max_bytes", r#"{"path": ".", "max_bytes": 20000}"#),
];

/// The last operation of an example of `fs_batch` that shows a field; the file is written before.
const OPERATIONS: &[(&str, &str)] = &[
    ("to", r#"{"op": "copy", "path": "a.txt", "to": "b.txt", "overwrite": true}"#),
    ("overwrite", r#"{"op": "copy", "path": "a.txt", "to": "b.txt", "overwrite": true}"#),
    ("content", r#"{"op": "write", "path": "b.txt", "content": "hello\n"}"#),
    ("edits", r#"{"op": "edit", "path": "a.txt", "edits": [{"old": "hello", "new": "bye"}]}"#),
    (
        "dry_run",
        r#"{"op": "edit", "path": "a.txt", "edits": [{"old": "hello", "new": "bye"}], "dry_run": true}"#,
    ),
    ("encoding", r#"{"op": "read", "path": "a.txt", "encoding": "utf8"}"#),
    ("lines", r#"{"op": "read", "path": "a.txt", "lines": "1-10"}"#),
    ("offset", r#"{"op": "read", "path": "a.txt", "offset": 0, "limit": 1000}"#),
    ("limit", r#"{"op": "read", "path": "a.txt", "offset": 0, "limit": 1000}"#),
    ("mode", r#"{"op": "write", "path": "b.sh", "content": "true\n", "mode": "755"}"#),
    ("create_parents", r#"{"op": "mkdir", "path": "b", "create_parents": true}"#),
    ("recursive", r#"{"op": "delete", "path": "a.txt", "recursive": true}"#),
    ("if_match", r#"{"op": "delete", "path": "a.txt", "if_match": "*"}"#),
    ("if_none_match", r#"{"op": "write", "path": "new.txt", "content": "", "if_none_match": "*"}"#),
];

/// A value of an argument that is accepted.
fn sample(tool: &str, argument: &str) -> Option<Value> {
    Some(match (tool, argument) {
        (_, "cell") => json!("default"),
        (_, "alias") => json!("work"),
        (_, "image") => json!("host"),
        (_, "ttl_s" | "idle_ttl_s") => json!(3600),
        (_, "timeout_s") => json!(600),
        (_, "wait_s") => json!(1),
        (_, "grace_s") => json!(5),
        (_, "limits") => {
            json!({ "memory_mb": 512, "cpus": 1, "pids": 100, "disk_mb": 1000, "disk_files": 10000 })
        }
        (_, "network") => json!("none"),
        (_, "workspace") => json!({ "dir": "/home/me/app", "mode": "cow" }),
        (_, "env") => json!({ "LANG": "C.UTF-8" }),
        (_, "secrets") => json!(["GITHUB_TOKEN"]),
        (_, "checkpoint") => json!("k_4k7m2x9qpa"),
        (_, "checkpoint_before") => json!("destructive"),
        (_, "driver") => json!("native"),
        (_, "on") => json!("gpu=yes"),
        (_, "idempotency_key") => json!("build-1"),
        (_, "client_name") => json!("my-agent"),
        (_, "session_id" | "session") => json!("s1"),
        (_, "cwd") => json!("/workspace"),
        (_, "stdin" | "text") => json!("yes\n"),
        (_, "rows") => json!(24),
        (_, "cols") => json!(80),
        (_, "priority" | "after_seq" | "offset") => json!(0),
        (_, "until") => json!("end"),
        ("exec_poll" | "exec_input", "pattern") => json!("listening on port \\d+"),
        (_, "tail_lines") => json!(20),
        (_, "grep") => json!("error"),
        (_, "stream") => json!("stdout"),
        (_, "max_bytes") => json!(16000),
        (_, "keys") => json!(["down", "enter"]),
        (_, "signal") => json!("INT"),
        (_, "status") => json!("live"),
        ("exec_list" | "tool_search", "limit") => json!(20),
        (_, "limit") => json!(1000),
        ("exec_list", "cursor") => json!("0.e_4k7m2x9qpa"),
        ("fs_search", "cursor") => json!("12:/workspace/src/main.py"),
        ("workspace_diff" | "cell_checkpoint", "cursor") => json!("300"),
        (_, "cursor") => json!("61"),
        ("policy_check", "language") => json!("shell"),
        (_, "language") => json!("python"),
        (_, "strategy") => json!("auto"),
        (_, "detail") => json!("stub"),
        (_, "server") => json!("github"),
        (_, "lines") => json!("1-100"),
        (_, "encoding") => json!("utf8"),
        (_, "mode") => json!("755"),
        (_, "if_match" | "if_none_match") => json!("*"),
        (_, "path") => json!("."),
        (_, "glob") => json!("*.py"),
        (_, "in") => json!("names"),
        (_, "context_lines" | "count") => json!(2),
        (_, "include") => json!(["*.py"]),
        (_, "exclude") => json!(["*.log"]),
        (_, "compression") => json!("gzip"),
        (_, "paths") => json!(["src"]),
        (_, "profile") => json!("default"),
        (_, _) => return None,
    })
}

/// Arguments that are accepted, with the argument that a refusal is about.
pub(super) fn example_for(kind: &ToolKind, schema: &JsonObject, refusal: &str) -> String {
    let usual = || kind.example.to_owned();
    let (argument, field) = refused_argument(kind, refusal);
    let argument = known_argument(schema, argument, refusal).unwrap_or(argument);
    if kind.name == "fs_batch"
        && let Some((_, operation)) = OPERATIONS.iter().find(|(name, _)| *name == field)
    {
        let first = r#"{"op": "write", "path": "a.txt", "content": "hello\n"}"#;
        return format!(r#"{{"operations": [{first}, {operation}]}}"#);
    }
    let of_tool = |(tool, name, _): &&(&str, &str, &str)| *tool == kind.name && *name == argument;
    if let Some((_, _, whole)) = WHOLE.iter().find(of_tool) {
        return (*whole).to_owned();
    }
    let Some(property) = property(schema, argument) else { return usual() };
    let Ok(Value::Object(mut shown)) = serde_json::from_str(kind.example) else { return usual() };
    if shown.contains_key(argument) {
        return usual();
    }
    let is_flag = property.get("type").is_some_and(|name| name == "boolean");
    let names_hosts = field == "allow" || field == "deny" || words(refusal).any(|it| it == "host");
    let value = match argument == "network" && names_hosts {
        true => Some(json!({ "allow": ["pypi.org"] })),
        false => sample(kind.name, argument),
    };
    let Some(value) = value.or(is_flag.then_some(Value::Bool(true))) else {
        return usual();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.into_iter().flatten().any(|it| it == name);
    shown.retain(|name, _| is_required(name) || KEPT.contains(&name.as_str()));
    shown.insert(argument.to_owned(), value);
    Value::Object(shown).to_string()
}

fn property<'a>(schema: &'a JsonObject, argument: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(argument)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(move |character| !is_name(character)).filter(|word| !word.is_empty())
}

/// The argument that a refusal of the engine is about, which may name a field of it or describe it.
fn known_argument<'a>(schema: &'a JsonObject, named: &str, refusal: &str) -> Option<&'a str> {
    let properties = schema.get("properties")?.as_object()?;
    let by_name = |wanted: &str| properties.keys().find(|name| *name == wanted);
    let by_field = |wanted: &str| {
        let mut all = properties.iter();
        all.find(|(_, property)| fields_of(property).any(|field| field == wanted))
            .map(|(name, _)| name)
    };
    let described = |word: &str| {
        let name = match word {
            "host" | "port" => "network",
            "secret" | "header" => "secrets",
            "labels" => "on",
            other => other,
        };
        by_name(name).or_else(|| by_field(name))
    };
    let found = by_name(named).or_else(|| by_field(named));
    found.or_else(|| words(refusal).find_map(described)).map(String::as_str)
}

/// The fields of an argument that is an object, or may be one.
fn fields_of(property: &Value) -> impl Iterator<Item = &str> {
    let either = property.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let objects = either.chain([property]).filter_map(|it| it.get("properties")?.as_object());
    objects.flat_map(|fields| fields.keys().map(String::as_str))
}

/// The argument that a refusal names first, and the innermost field of it.
fn refused_argument<'a>(kind: &ToolKind, refusal: &'a str) -> (&'a str, &'a str) {
    let refusal = refusal
        .strip_prefix(kind.name)
        .map_or(refusal, |rest| rest.strip_prefix(": ").unwrap_or(refusal));
    let is_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let end = refusal.find(|byte| !is_name(byte)).unwrap_or(refusal.len());
    let argument = &refusal[..end];
    let path_end =
        refusal.find(|byte| !is_name(byte) && !"[].".contains(byte)).unwrap_or(refusal.len());
    let inner = refusal[..path_end].split('.').nth(1).unwrap_or_default();
    let end = inner.find('[').unwrap_or(inner.len());
    (argument, &inner[..end])
}
