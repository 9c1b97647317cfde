//! `fs_batch`.

use std::sync::LazyLock;

use hotcell_model::{FileCall, FileResult, Result};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde_json::Value;

use super::arguments;
use super::file_tool::{answer, asked, call, input, request};
use super::schema::{self, Object};
use super::text::{SHOWN_BYTES, cut_diff, end_line, shown_path, shown_size};
use super::tool::{Effect, ToolBounds, ToolKind};
use crate::file_asked::{
    Batch, BatchFiles, DeleteFile, EditFile, MakeDirectory, MoveFile, ReadFile, Replacement,
    WriteFile, yes,
};
use crate::file_shown::{BatchShown, PartShown};
use crate::toolsets::Toolset;
use hotcell_dialects::Question;

pub(super) const TOOLS: &[ToolKind] = &[ToolKind {
    name: "fs_batch",
    toolset: Toolset::Fs,
    about: "Do up to 1000 file operations, all or none.",
    found_by: "move, rename, copy files, create directories, change many files at once",
    effect: Effect::Works,
    example: r#"{"operations": [{"op": "mkdir", "path": "b"}, {"op": "write", "path": "b/a.txt", "content": "hello\n"}]}"#,
    input: input::<BatchSchema>,
    output: schema::output::<BatchedSchema>,
    call: batch_files,
}];

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct BatchSchema {
    operations: Vec<OperationSchema>,
    /// default true: undo everything if one fails
    #[serde(default = "yes")]
    atomic: bool,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct OperationSchema {
    op: OpSchema,
    path: String,
    /// move, copy: the new path
    to: Option<String>,
    /// move, copy: replace a file
    overwrite: Option<bool>,
    /// write
    content: Option<String>,
    /// edit
    edits: Option<Vec<Replacement>>,
    /// read: auto, utf8, base64; write: utf8, base64
    encoding: Option<String>,
    /// read: such as 10-20
    lines: Option<String>,
    /// read: first byte
    offset: Option<u64>,
    /// read: most bytes
    limit: Option<u64>,
    /// write: octal
    mode: Option<String>,
    /// write, mkdir: default true
    create_parents: Option<bool>,
    /// delete
    recursive: Option<bool>,
    /// edit: only show the diff
    dry_run: Option<bool>,
    /// write, edit, delete: the etag it must have
    if_match: Option<String>,
    /// write: * only creates
    if_none_match: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum OpSchema {
    Read,
    Write,
    Edit,
    Delete,
    Move,
    Copy,
    Mkdir,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct BatchedSchema {
    /// status (done, failed, not_done), result, error
    results: Vec<Object>,
    rolled_back: bool,
}

/// The arguments of each operation.
static OPERATIONS: LazyLock<[(&str, JsonObject); 7]> = LazyLock::new(|| {
    [
        ("read", schema::of::<ReadFile>()),
        ("write", schema::of::<WriteFile>()),
        ("edit", schema::of::<EditFile>()),
        ("delete", schema::of::<DeleteFile>()),
        ("move", schema::of::<MoveFile>()),
        ("copy", schema::of::<MoveFile>()),
        ("mkdir", schema::of::<MakeDirectory>()),
    ]
});

/// Checks that each operation has the arguments of its kind.
fn check_operations(arguments: &JsonObject) -> Result<()> {
    let operations = arguments.get("operations").and_then(Value::as_array);
    for (place, operation) in operations.into_iter().flatten().enumerate() {
        let Some(fields) = operation.as_object() else { continue };
        let kind = fields.get("op").and_then(Value::as_str);
        let Some((_, schema)) = OPERATIONS.iter().find(|(name, _)| Some(*name) == kind) else {
            continue;
        };
        let mut fields = fields.clone();
        fields.remove("op");
        arguments::check("fs_batch", schema, &format!("operations[{place}]."), &fields)?;
    }
    Ok(())
}

/// Without empty texts for fields that an operation leaves out; the content of a write may be empty.
fn without_empty(mut arguments: JsonObject) -> JsonObject {
    let operations = arguments.get_mut("operations").and_then(Value::as_array_mut);
    for operation in operations.into_iter().flatten().filter_map(Value::as_object_mut) {
        let writes = operation.get("op").and_then(Value::as_str) == Some("write");
        operation.retain(|name, value| {
            let is_empty = matches!(value, Value::String(text) if text.is_empty());
            !is_empty || name == "path" || writes && name == "content"
        });
    }
    arguments
}

fn batch_files(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let arguments = without_empty(arguments);
    check_operations(&arguments)?;
    let (cell, asked): (_, BatchFiles) = asked(arguments)?;
    let asked = asked.op(SHOWN_BYTES as u64, bounds.content_bytes)?;
    let Batch { op, content, encodings, bounded } = asked;
    let request = FileCall { content, ..request(cell, op, bounds) };
    Ok(call(request, move |done| {
        let FileResult::Batch(batch) = done.result else { return None };
        let mut view = BatchShown::new(batch, &done.content, &encodings);
        leave_out_what_has_no_room(&mut view.results, &bounded);
        let mut text = String::new();
        for (place, part) in view.results.iter().enumerate() {
            text.push_str(&format!("{}: ", place + 1));
            add_part(&mut text, part);
            end_line(&mut text);
        }
        if view.rolled_back {
            text.push_str("[rolled back: nothing was changed]\n");
        }
        answer(&view, text)
    }))
}

/// Leaves out content, diffs and details of later operations where all together are too long for one
/// result. What a read was given a limit for stays.
fn leave_out_what_has_no_room(results: &mut [PartShown], bounded: &[usize]) {
    let diffs = results.iter().filter(|part| body(part, "diff").is_some()).count();
    let each = SHOWN_BYTES / diffs.max(1);
    let (mut bodies, mut details) = (0, 0);
    for (place, part) in results.iter_mut().enumerate() {
        if let Some(Value::String(diff)) = field_mut(part, "diff") {
            cut_diff(diff, each.max(LEAST_DIFF));
        }
        for name in ["content", "diff"] {
            let Some(text) = body(part, name) else { continue };
            let length = shown_size(text);
            if bodies + length > SHOWN_BYTES && !bounded.contains(&place) {
                leave_out(part, name);
            } else {
                bodies += length;
            }
        }
        let bare = part.result.as_ref().map_or(0, |result| {
            let of = |name: &str| result.get(name).map_or(0, |body| body.to_string().len());
            result.to_string().len().saturating_sub(of("content") + of("diff"))
        });
        details += bare;
        if details > 2 * SHOWN_BYTES && !bounded.contains(&place) {
            part.result = None;
        }
    }
}

/// The shortest part of a diff that is worth showing.
const LEAST_DIFF: usize = 256;

fn body<'p>(part: &'p PartShown, name: &str) -> Option<&'p str> {
    part.result.as_ref()?.get(name)?.as_str()
}

fn field_mut<'p>(part: &'p mut PartShown, name: &str) -> Option<&'p mut Value> {
    part.result.as_mut()?.get_mut(name)
}

fn leave_out(part: &mut PartShown, name: &str) {
    let Some(Value::Object(result)) = &mut part.result else { return };
    result.insert(name.to_owned(), String::new().into());
    result.insert("truncated".to_owned(), true.into());
    if name == "content" {
        let offset = result.get("offset").cloned().unwrap_or_else(|| 0.into());
        result.insert("next_offset".to_owned(), offset);
    }
}

/// Adds the result of one operation to a text.
fn add_part(text: &mut String, part: &PartShown) {
    let Some(result) = &part.result else {
        match &part.error {
            None if part.status == "done" => text.push_str("done, details left out"),
            Some(error) => text.push_str(&format!("{}: {}", error.code, error.message)),
            None => text.push_str(part.status),
        }
        return;
    };
    let field = |name: &str| result.get(name).and_then(Value::as_str);
    text.push_str(part.status);
    if let Some(path) = field("path").or_else(|| field("to")) {
        text.push_str(&format!(" {}", shown_path(path)));
    }
    if let Some(etag) = field("etag") {
        text.push_str(&format!(", etag {etag}"));
    }
    if let Some(next) = result.get("next_offset") {
        text.push_str(&format!(", more: continue with offset {next}"));
    }
    if field("encoding") == Some("base64") {
        text.push_str(", base64");
    }
    if result.get("truncated") == Some(&Value::Bool(true)) && field("diff") == Some("") {
        text.push_str(", diff left out");
    }
    for body in ["content", "diff"] {
        if let Some(body) = field(body) {
            text.push('\n');
            text.push_str(body);
        }
    }
}
