//! Tests of what clients read of the tools: bounds of numbers, types of choices, and words that a
//! client's own search for tools finds them by.

use rmcp::model::Tool;
use serde_json::Value;

use crate::dialects::hotcell::{HotcellDialect, Reach, ToolBounds};
use crate::project_offer::ProjectOffer;
use hotcell_dialects::Dialect;

fn dialect() -> HotcellDialect {
    let toolsets = "cell,exec,fs,code,admin".parse().unwrap();
    HotcellDialect::new(&toolsets, ToolBounds::default(), Reach::default())
        .with_project(&ProjectOffer::Allowed)
}

/// Every property of a schema with its path, at every level.
fn properties(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
    match schema {
        Value::Object(fields) => {
            let own = fields.get("properties").and_then(Value::as_object);
            for (name, property) in own.into_iter().flatten() {
                let path = format!("{path}.{name}");
                found.push((path.clone(), property.clone()));
                properties(&path, property, found);
            }
            for (_, part) in fields.iter().filter(|(name, _)| *name != "properties") {
                properties(path, part, found);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| properties(path, part, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_choice_has_a_type() {
    let dialect = dialect();
    let mut found = Vec::new();
    for tool in dialect.tools() {
        properties(&tool.name, &Value::Object((*tool.input_schema).clone()), &mut found);
    }
    assert!(found.len() > 150, "{}", found.len());
    for (path, property) in &found {
        assert!(property.get("enum").is_none() || property["type"] == "string", "{path}");
    }
}

#[test]
fn descriptions_state_the_bounds_of_numbers() {
    let dialect = dialect();
    let mut found = Vec::new();
    for (kind, input) in dialect.kinds.iter().zip(&dialect.inputs) {
        properties(kind.name, &Value::Object(input.clone()), &mut found);
    }
    let types = [u64::MAX as f64, f64::from(u32::MAX), f64::from(i32::MAX)];
    let mut bounded = 0;
    for (path, property) in found {
        let Some(most) = property["maximum"].as_f64().filter(|most| !types.contains(most)) else {
            continue;
        };
        bounded += 1;
        let about = property["description"].as_str().unwrap_or_default();
        let plain = about.replace(',', "");
        assert!(plain.contains(&most.to_string()), "{path} is at most {most}: {about:?}");
    }
    assert!(bounded > 10, "{bounded}");
}

/// How Claude Code ranks tools that it loads on demand, by the words of a query: parts of names count
/// most, then words of the hint, then words of the description.
fn found_by(tools: &[Tool], query: &str) -> Vec<String> {
    let has_word = |text: &str, wanted: &str| {
        text.split(|character: char| !character.is_alphanumeric()).any(|word| word == wanted)
    };
    let score = |tool: &Tool| -> u32 {
        let name = format!("mcp__hotcell__{}", tool.name);
        let parts: Vec<&str> = name.split('_').filter(|part| !part.is_empty()).collect();
        let about = tool.description.as_deref().unwrap_or_default().to_lowercase();
        let meta = tool.meta.as_ref().and_then(|meta| meta.0.get("anthropic/searchHint"));
        let hint = meta.and_then(Value::as_str).unwrap_or_default().to_lowercase();
        query.split(' ').map(str::to_lowercase).fold(0, |sum, word| {
            let in_name = if parts.contains(&word.as_str()) {
                12
            } else if parts.iter().any(|part| part.contains(&word)) {
                6
            } else {
                0
            };
            let in_hint = if has_word(&hint, &word) { 4 } else { 0 };
            let in_about = if has_word(&about, &word) { 2 } else { 0 };
            sum + in_name + in_hint + in_about
        })
    };
    let mut ranked: Vec<(u32, String)> =
        tools.iter().map(|tool| (score(tool), tool.name.to_string())).collect();
    ranked.retain(|(score, _)| *score > 0);
    ranked.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    ranked.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn a_search_of_claude_code_finds_the_tool_for_the_job() {
    let dialect = dialect();
    let tools = dialect.tools();
    for (query, wanted) in [
        ("run a shell command", "exec_run"),
        ("bash terminal", "exec_run"),
        ("bash", "exec_run"),
        ("execute command", "exec_run"),
        ("background process logs", "exec_poll"),
        ("undo", "cell_checkpoint"),
        ("undo changes", "cell_checkpoint"),
        ("snapshot", "cell_checkpoint"),
        ("read file", "fs_read"),
        ("write file", "fs_write"),
        ("edit file", "fs_edit"),
        ("grep", "fs_search"),
        ("search files", "fs_search"),
        ("run python code", "code_run"),
        ("stop background job", "exec_cancel"),
        ("create sandbox", "cell_spawn"),
        ("rename", "fs_batch"),
        ("answer a prompt", "exec_input"),
    ] {
        let found = found_by(tools, query);
        assert_eq!(found.first().map(String::as_str), Some(wanted), "{query}: {found:?}");
    }
}
