//! `fs_read`, `fs_write`, `fs_edit`, `fs_list`, `fs_stat`, `fs_delete`, `fs_search`, `fs_batch`.

use hotcell_model::{FileCall, FileList, FileMatches, FileResult, FileSearch, FileStat, Result};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::Serialize;

use super::file_tool::{
    FileBounds, FileTool, SHOWN_BYTES, answer, asked, bounded, call, input, request,
};
use super::schema::{self, Object};
use super::tool::{Effect, answer_value};
use crate::encoded::encoded;
use crate::file_asked::{
    Batch, BatchFiles, DeleteFile, EditFile, ListFiles, ReadFile, SearchFiles, ShowFile, WriteFile,
    yes,
};
use crate::file_shown::{BASE64, BatchShown, ContentShown, EntryShown, ListShown};
use hotcell_dialects::Question;

/// What is told to a model of a file at most, about 64,000 tokens; programs get all that they ask for.
const TOLD_BYTES: usize = 256 * 1024;
/// What is shown of a line that was found.
const LINE_BYTES: usize = 1000;

pub(super) const TOOLS: &[FileTool] = &[
    FileTool {
        name: "fs_read",
        about: "Read a file, or part of it. Without limit at most 48 KiB.",
        effect: Effect::Reads,
        input: input::<ReadFile>,
        output: schema::of::<ContentShown>,
        call: read_file,
    },
    FileTool {
        name: "fs_write",
        about: "Write a whole file, at once or not at all.",
        effect: Effect::Replaces,
        input: input::<WriteFile>,
        output: schema::of::<Written>,
        call: write_file,
    },
    FileTool {
        name: "fs_edit",
        about: "Replace text in a file; shows the diff.",
        effect: Effect::Changes,
        input: input::<EditFile>,
        output: schema::of::<Edited>,
        call: edit_file,
    },
    FileTool {
        name: "fs_list",
        about: "List a directory.",
        effect: Effect::Reads,
        input: input::<ListFiles>,
        output: schema::of::<Listed>,
        call: list_files,
    },
    FileTool {
        name: "fs_stat",
        about: "Show one file, directory or link.",
        effect: Effect::Reads,
        input: input::<ShowFile>,
        output: schema::of::<EntryShown>,
        call: show_file,
    },
    FileTool {
        name: "fs_delete",
        about: "Delete a file or directory.",
        effect: Effect::Ends,
        input: input::<DeleteFile>,
        output: schema::of::<Deleted>,
        call: delete_file,
    },
    FileTool {
        name: "fs_search",
        about: "Search lines of files, or their names.",
        effect: Effect::Reads,
        input: input::<SearchFiles>,
        output: schema::of::<Found>,
        call: search_files,
    },
    FileTool {
        name: "fs_batch",
        about: "Do several things with files, all or none.",
        effect: Effect::Changes,
        input: input::<BatchSchema>,
        output: schema::of::<BatchedSchema>,
        call: batch_files,
    },
];

fn read_file(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, asked): (_, ReadFile) = asked(arguments)?;
    let encoding = asked.encoding;
    let op = asked.op(SHOWN_BYTES as u64, bounds.content_bytes)?;
    Ok(call(request(cell, op, bounds), move |done| {
        let FileResult::Content(read) = done.result else { return None };
        let view = ContentShown::new(read, done.content, encoding);
        let text = text_of(&view);
        Some(answer_value(view.into_value(), text))
    }))
}

fn text_of(view: &ContentShown) -> String {
    let more = view
        .next_offset
        .map(|next| format!("[{next} of {} bytes: go on with offset {next}]", view.size.max(next)));
    if view.encoding == BASE64 {
        let what = format!("[{}: {} bytes, {}]", view.path, view.size, view.mime_type);
        return more.map_or(what.clone(), |more| format!("{what}\n{more}"));
    }
    let told = view.content.floor_char_boundary(TOLD_BYTES);
    let mut text = view.content[..told].to_owned();
    let more = match (told < view.content.len(), view.is_lossy) {
        (false, _) => more,
        (true, false) => {
            let next = view.offset + told as u64;
            Some(format!("[go on with offset {next}; structuredContent has more]"))
        }
        (true, true) => Some("[ask with a smaller limit; structuredContent has more]".to_owned()),
    };
    if let Some(more) = more {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&more);
    }
    text
}

#[derive(Debug, Serialize, JsonSchema)]
struct Written {
    path: String,
    etag: String,
    size: u64,
    created: bool,
}

fn write_file(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, asked): (_, WriteFile) = asked(arguments)?;
    let (op, content) = asked.op(bounds.content_bytes)?;
    let request = FileCall { content, ..request(cell, op, bounds) };
    Ok(call(request, |done| {
        let FileResult::Written(written) = done.result else { return None };
        let view = Written {
            path: written.path,
            etag: written.etag.to_string(),
            size: written.size,
            created: written.created,
        };
        let verb = if view.created { "made" } else { "wrote" };
        let text = format!("{verb} {}: {} bytes, etag {}", view.path, view.size, view.etag);
        answer(&view, text)
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Edited {
    path: String,
    etag: String,
    size: u64,
    replaced: u64,
    diff: String,
}

fn edit_file(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, asked): (_, EditFile) = asked(arguments)?;
    let op = asked.op()?;
    Ok(call(request(cell, op, bounds), |done| {
        let FileResult::Edited(edited) = done.result else { return None };
        let view = Edited {
            path: edited.path,
            etag: edited.etag.to_string(),
            size: edited.size,
            replaced: edited.replaced,
            diff: edited.diff,
        };
        let text = format!("{}[{}: etag {}]", view.diff, view.path, view.etag);
        answer(&view, text)
    }))
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "a shape for the schema alone")]
struct Listed {
    /// as of fs_stat
    entries: Option<Vec<Object>>,
    names: Option<Vec<String>>,
    next_cursor: Option<String>,
}

fn list_files(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, asked): (_, ListFiles) = asked(arguments)?;
    Ok(call(request(cell, FileList::from(asked), bounds), |done| {
        let view = ListShown::try_from(done.result).ok()?;
        let (mut text, left_out) = match &view {
            ListShown::Entries(view) => bounded(view.entries.iter().map(EntryShown::line)),
            ListShown::Names(view) => bounded(view.names.iter().cloned()),
        };
        if text.is_empty() {
            text.push_str("[nothing]\n");
        }
        if left_out > 0 {
            text.push_str(&format!("[{left_out} more: ask with a smaller limit]\n"));
        } else if let Some(cursor) = view.next_cursor() {
            text.push_str(&format!("[there are more: go on with cursor {cursor}]\n"));
        }
        Some(answer_value(encoded(&view), text))
    }))
}

fn show_file(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, ShowFile { path }) = asked(arguments)?;
    Ok(call(request(cell, FileStat { path }, bounds), |done| {
        let FileResult::Entry(entry) = done.result else { return None };
        let view = EntryShown::from(entry);
        let text = format!("{} {} {}", view.kind, view.mode, view.line());
        answer(&view, text)
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Deleted {
    /// deleted
    status: &'static str,
    path: String,
    removed: u64,
}

fn delete_file(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, asked): (_, DeleteFile) = asked(arguments)?;
    let op = asked.op()?;
    Ok(call(request(cell, op, bounds), |done| {
        let FileResult::Deleted(deleted) = done.result else { return None };
        let view = Deleted { status: "deleted", path: deleted.path, removed: deleted.removed };
        let text = format!("deleted {} ({} in all)", view.path, view.removed);
        answer(&view, text)
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// path, line, text, before, after
    #[schemars(with = "Vec<Object>")]
    matches: Vec<hotcell_model::FileMatch>,
    /// looked at
    files: u64,
    truncated: bool,
}

fn search_files(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, asked): (_, SearchFiles) = asked(arguments)?;
    Ok(call(request(cell, FileSearch::from(asked), bounds), |done| {
        let FileResult::Matches(found) = done.result else { return None };
        found_result(found)
    }))
}

/// Matches up to the bound of a text.
pub(super) fn found_result(found: FileMatches) -> Option<CallToolResult> {
    let mut view = Found { matches: Vec::new(), files: found.files, truncated: found.truncated };
    let mut text = String::new();
    for mut one in found.matches {
        let lines = one.text.iter_mut().chain(&mut one.before).chain(&mut one.after);
        lines.for_each(shorten);
        let shown = match_lines(&one);
        if text.len() + shown.len() > SHOWN_BYTES {
            view.truncated = true;
            break;
        }
        text.push_str(&shown);
        view.matches.push(one);
    }
    if view.matches.is_empty() {
        text.push_str(&format!("[nothing found in {} files]\n", view.files));
    }
    if view.truncated {
        text.push_str("[there are more: narrow path, glob or pattern, or raise limit]\n");
    }
    answer(&view, text)
}

fn match_lines(one: &hotcell_model::FileMatch) -> String {
    let path = &one.path;
    let (Some(line), Some(text)) = (one.line, &one.text) else { return format!("{path}\n") };
    let mut shown = String::new();
    let first = line.saturating_sub(one.before.len() as u64);
    for (number, before) in (first..).zip(&one.before) {
        shown.push_str(&format!("{path}-{number}- {before}\n"));
    }
    shown.push_str(&format!("{path}:{line}: {text}\n"));
    for (number, after) in (line + 1..).zip(&one.after) {
        shown.push_str(&format!("{path}-{number}- {after}\n"));
    }
    shown
}

fn shorten(line: &mut String) {
    if line.len() > LINE_BYTES {
        line.truncate(line.floor_char_boundary(LINE_BYTES));
        line.push('…');
    }
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "a shape for the schema alone")]
struct BatchSchema {
    operations: Vec<OperationSchema>,
    #[serde(default = "yes")]
    atomic: bool,
}

/// and what fs_read, fs_write, fs_edit, fs_delete take; move, copy: to, overwrite
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a shape for the schema alone")]
struct OperationSchema {
    op: OpSchema,
    path: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "a shape for the schema alone")]
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
#[expect(dead_code, reason = "a shape for the schema alone")]
struct BatchedSchema {
    /// status (done, failed, not_done), result, error
    results: Vec<Object>,
    rolled_back: bool,
}

fn batch_files(arguments: JsonObject, bounds: FileBounds) -> Result<Question> {
    let (cell, asked): (_, BatchFiles) = asked(arguments)?;
    let Batch { op, content, encodings } = asked.op(SHOWN_BYTES as u64, bounds.content_bytes)?;
    let request = FileCall { content, ..request(cell, op, bounds) };
    Ok(call(request, move |done| {
        let FileResult::Batch(batch) = done.result else { return None };
        let view = BatchShown::new(batch, &done.content, &encodings);
        let line = |(at, part): (usize, &crate::file_shown::PartShown)| match &part.error {
            Some(error) => format!("{}: {}: {}", at + 1, error.code, error.message),
            None => format!("{}: {}", at + 1, part.status),
        };
        let (mut text, _) = bounded(view.results.iter().enumerate().map(line));
        if view.rolled_back {
            text.push_str("[rolled back: nothing was changed]\n");
        }
        answer(&view, text)
    }))
}
