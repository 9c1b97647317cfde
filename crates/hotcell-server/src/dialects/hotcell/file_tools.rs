//! `fs_read`, `fs_write`, `fs_edit`, `fs_list`, `fs_stat`, `fs_delete`, `fs_search`.

use hotcell_model::{
    FileCall, FileList, FileMatches, FileResult, FileSearch, FileStat, PageRoom, Result,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file_tool::{answer, asked, call, input, request};
use super::schema::{self, Object};
use super::text::{SHOWN_BYTES, cut_diff, path_in_line, short_path, shown_path};
use super::tool::{Effect, ToolBounds, ToolKind, answer_value};
use super::views::{Detail, plain};
use crate::encoded::encoded;
use crate::file_asked::{
    DeleteFile, EditFile, Encoding, ListFiles, ReadFile, SearchFiles, ShowFile, WriteFile, here,
};
use crate::file_shown::{BASE64, ContentShown, EntryShown, ListShown};
use crate::toolsets::Toolset;
use hotcell_dialects::Question;

/// The most of a found line in a result.
const LINE_BYTES: usize = 500;
/// What a name takes in a listing beside its characters.
const NAME_BYTES: u64 = 3;
/// What an entry takes beside its path.
const BRIEF_BYTES: u64 = 40;
/// What an entry with all details takes beside its path.
const FULL_BYTES: u64 = 220;
/// The largest picture that a model is shown.
const IMAGE_BYTES: u64 = 3 << 20;
/// Pictures that models can look at.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "fs_read",
        toolset: Toolset::Fs,
        about: "Read a text file or a picture, or part of a file. Without limit at most 32 KiB; \
                continue with offset.",
        found_by: "read a file, cat, view source code, show an image, open a file",
        effect: Effect::Reads,
        example: r#"{"path": "src/main.py", "lines": "1-100"}"#,
        input: input::<ReadFile>,
        output: schema::output::<ContentShown>,
        call: read_file,
    },
    ToolKind {
        name: "fs_write",
        toolset: Toolset::Fs,
        about: "Create a file or replace its whole content.",
        found_by: "write a file, create a file, save",
        effect: Effect::Replaces,
        example: r#"{"path": "notes.txt", "content": "hello\n"}"#,
        input: input::<WriteFile>,
        output: schema::output::<Written>,
        call: write_file,
    },
    ToolKind {
        name: "fs_edit",
        toolset: Toolset::Fs,
        about: "Replace text in a file; returns the diff.",
        found_by: "edit a file, change code, search and replace, patch",
        effect: Effect::Works,
        example: r#"{"path": "a.py", "edits": [{"old": "x = 1", "new": "x = 2"}]}"#,
        input: input::<EditFile>,
        output: schema::output::<Edited>,
        call: edit_file,
    },
    ToolKind {
        name: "fs_list",
        toolset: Toolset::Fs,
        about: "List a directory: paths and sizes in bytes.",
        found_by: "list files, directory tree, ls, find files",
        effect: Effect::Reads,
        example: r#"{"path": ".", "recursive": true, "glob": "**/*.py"}"#,
        input: input::<List>,
        output: schema::output::<Listed>,
        call: list_files,
    },
    ToolKind {
        name: "fs_stat",
        toolset: Toolset::Fs,
        about: "Show one file, directory or link: size, mode, time, etag.",
        found_by: "file size, permissions, modification time, does a file exist",
        effect: Effect::Reads,
        example: r#"{"path": "notes.txt"}"#,
        input: input::<ShowFile>,
        output: schema::output::<EntryShown>,
        call: show_file,
    },
    ToolKind {
        name: "fs_delete",
        toolset: Toolset::Fs,
        about: "Delete a file or directory.",
        found_by: "remove a file, rm, delete a directory",
        effect: Effect::Replaces,
        example: r#"{"path": "build", "recursive": true}"#,
        input: input::<DeleteFile>,
        output: schema::output::<Deleted>,
        call: delete_file,
    },
    ToolKind {
        name: "fs_search",
        toolset: Toolset::Fs,
        about: "Search lines of files by regular expression, or file names.",
        found_by: "grep, search code, find text in files, ripgrep",
        effect: Effect::Reads,
        example: r#"{"pattern": "TODO", "glob": "*.py"}"#,
        input: input::<SearchFiles>,
        output: schema::output::<Found>,
        call: search_files,
    },
];

fn read_file(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, asked): (_, ReadFile) = asked(arguments)?;
    let (encoding, is_bounded) = (asked.encoding, asked.limit.is_some());
    // A picture is of use only as a whole.
    let usual = if asked.names_picture() { IMAGE_BYTES } else { SHOWN_BYTES as u64 };
    let op = asked.op(usual, bounds.content_bytes)?;
    Ok(call(request(cell, op, bounds), move |mut done| {
        let FileResult::Content(mut read) = done.result else { return None };
        let is_shown = |kind: &str, size| IMAGES.contains(&kind) && size <= IMAGE_BYTES;
        if usual == IMAGE_BYTES && !is_shown(&read.mime_type, read.size) {
            // It is none after all, or none that a model can be shown.
            done.content.truncate(SHOWN_BYTES);
            read.truncated |= (done.content.len() as u64) < read.bytes;
            read.bytes = done.content.len() as u64;
        }
        let mut view = ContentShown::new(read, done.content, encoding);
        let is_picture = encoding == Encoding::Auto
            && view.encoding == BASE64
            && !view.truncated
            && is_shown(&view.mime_type, view.size);
        let content = if is_picture {
            // Its bytes are of no use as text.
            let bytes = std::mem::take(&mut view.content);
            ContentBlock::image(bytes, view.mime_type.clone())
        } else {
            if !is_bounded {
                view = view.with_base64_of(SHOWN_BYTES);
            }
            ContentBlock::text(view.content.clone())
        };
        let about = ContentBlock::text(match is_picture {
            true => format!("{} shown as an image", about(&view)),
            false => about(&view),
        });
        let mut value = view.into_value();
        if is_picture {
            value["shown_as"] = "image".into();
        }
        let mut result = answer_value(value, String::new());
        result.content = vec![content, about];
        Some(result)
    }))
}

/// What there is to know of a file beside its content.
pub(super) fn about(view: &ContentShown) -> String {
    let ContentShown { path, size, etag, .. } = view;
    let mut about = format!("[{}: {size} bytes, etag {etag}", shown_path(path));
    if view.encoding == BASE64 {
        about.push_str(&format!(", {} as base64", view.mime_type));
    }
    if let Some(next) = view.next_offset {
        about.push_str(&format!("; more: continue with offset {next}"));
    }
    about.push(']');
    about
}

#[derive(Debug, Serialize, JsonSchema)]
struct Written {
    path: String,
    etag: String,
    size: u64,
    created: bool,
}

fn write_file(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
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
        let verb = if view.created { "created" } else { "wrote" };
        let path = shown_path(&view.path);
        let text = format!("{verb} {path}: {} bytes, etag {}", view.size, view.etag);
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

fn edit_file(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, asked): (_, EditFile) = asked(arguments)?;
    let op = asked.op()?;
    Ok(call(request(cell, op, bounds), |done| {
        let FileResult::Edited(edited) = done.result else { return None };
        let mut view = Edited {
            path: edited.path,
            etag: edited.etag.to_string(),
            size: edited.size,
            replaced: edited.replaced,
            diff: edited.diff,
        };
        cut_diff(&mut view.diff, SHOWN_BYTES);
        let text = format!("{}[{}: etag {}]", view.diff, shown_path(&view.path), view.etag);
        answer(&view, text)
    }))
}

/// A directory to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// default .
    #[serde(default = "here")]
    path: String,
    #[serde(default)]
    recursive: bool,
    /// such as **/*.rs
    glob: Option<String>,
    /// default 200, at most 1000
    #[serde(default = "most_entries")]
    #[schemars(range(min = 1, max = 1000))]
    limit: u32,
    /// a next_cursor
    cursor: Option<String>,
    /// only paths
    #[serde(default)]
    names_only: bool,
    /// add mode, time and etag
    #[serde(default)]
    details: bool,
}

fn most_entries() -> u32 {
    200
}

/// An entry in short.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
}

impl<'a> Entry<'a> {
    fn of(entry: &'a EntryShown) -> Self {
        let is_file = entry.kind == "file";
        Self {
            path: short_path(&entry.path),
            kind: (!is_file).then_some(entry.kind),
            size: is_file.then_some(entry.size),
            target: entry.target.as_deref(),
        }
    }

    fn line(&self) -> String {
        let path = path_in_line(self.path);
        match (self.kind, self.target) {
            (Some("directory"), _) => format!("{}/", path.trim_end_matches('/')),
            (_, Some(target)) => format!("{path} -> {}", path_in_line(target)),
            (Some(kind), None) => format!("{path} ({kind})"),
            (None, None) => format!("{path} {}", self.size.unwrap_or_default()),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed<'a> {
    /// path, kind unless file, size
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Object>>")]
    entries: Option<Vec<Entry<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
}

fn list_files(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, asked): (_, List) = asked(arguments)?;
    let detail = Detail::of(asked.details);
    let List { path, recursive, glob, limit, cursor, names_only, .. } = asked;
    let limit = limit.min(1000);
    let list = ListFiles { path, recursive, glob, limit, cursor, names_only };
    let per_entry = match (names_only, detail) {
        (true, _) => NAME_BYTES,
        (false, Detail::Brief) => BRIEF_BYTES,
        (false, Detail::Full) => FULL_BYTES,
    };
    let room = Some(PageRoom { bytes: SHOWN_BYTES as u64, per_entry });
    let list = FileList { room, ..list.into() };
    Ok(call(request(cell, list, bounds), move |done| {
        let page = ListShown::try_from(done.result).ok()?;
        let next_cursor = page.next_cursor();
        Some(match (&page, detail) {
            (ListShown::Entries(found), Detail::Full) => {
                let lines = found.entries.iter().map(plain);
                answer_value(encoded(&page), page_text(lines, next_cursor))
            }
            (ListShown::Entries(found), Detail::Brief) => {
                let entries: Vec<Entry<'_>> = found.entries.iter().map(Entry::of).collect();
                let text = page_text(entries.iter().map(Entry::line), next_cursor);
                let view = Listed { entries: Some(entries), names: None, next_cursor };
                answer_value(encoded(&view), text)
            }
            (ListShown::Names(found), _) => {
                let lines = found.names.iter().map(|name| path_in_line(name).into_owned());
                let text = page_text(lines, next_cursor);
                let view = Listed { entries: None, names: Some(&found.names), next_cursor };
                answer_value(encoded(&view), text)
            }
        })
    }))
}

fn page_text(lines: impl Iterator<Item = String>, cursor: Option<&str>) -> String {
    let mut text: String = lines.map(|line| line + "\n").collect();
    if text.is_empty() {
        text.push_str("[nothing]\n");
    }
    if let Some(cursor) = cursor {
        text.push_str(&format!("[more: continue with cursor {cursor}]\n"));
    }
    text
}

fn show_file(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, ShowFile { path }) = asked(arguments)?;
    Ok(call(request(cell, FileStat { path }, bounds), |done| {
        let FileResult::Entry(entry) = done.result else { return None };
        let view = EntryShown::from(entry);
        let text = plain(&view);
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

fn delete_file(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, asked): (_, DeleteFile) = asked(arguments)?;
    let op = asked.op()?;
    Ok(call(request(cell, op, bounds), |done| {
        let FileResult::Deleted(deleted) = done.result else { return None };
        let view = Deleted { status: "deleted", path: deleted.path, removed: deleted.removed };
        let text = format!("deleted {} ({} in all)", shown_path(&view.path), view.removed);
        answer(&view, text)
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// path, line, text, before, after
    #[schemars(with = "Vec<Object>")]
    matches: Vec<hotcell_model::FileMatch>,
    files: u64,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn search_files(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, asked): (_, SearchFiles) = asked(arguments)?;
    Ok(call(request(cell, FileSearch::from(asked), bounds), |done| {
        let FileResult::Matches(found) = done.result else { return None };
        found_result(found)
    }))
}

/// Matches up to the bound of a text, and of JSON, which repeats names and paths.
pub(super) fn found_result(found: FileMatches) -> Option<CallToolResult> {
    let FileMatches { matches: all, files, truncated, next_cursor } = found;
    let mut view = Found { matches: Vec::new(), files, truncated, next_cursor };
    let mut text = String::new();
    let mut json_bytes = 0;
    let mut cursor = None;
    for mut one in all {
        let end = one.cursor();
        let lines = one.text.iter_mut().chain(&mut one.before).chain(&mut one.after);
        lines.for_each(shorten);
        one.path = short_path(&one.path).to_owned();
        let is_new = view.matches.last().is_none_or(|last| last.path != one.path);
        let heading = if is_new { format!("{}\n", path_in_line(&one.path)) } else { String::new() };
        let mut shown = heading + &match_lines(&one);
        let mut json = json_length(&one);
        if view.matches.is_empty() && !fits(shown.len(), json) {
            // One match alone: its own line is shown at least.
            (one.before, one.after) = (Vec::new(), Vec::new());
            shown = format!("{}\n{}", path_in_line(&one.path), match_lines(&one));
            json = json_length(&one);
        } else if !fits(text.len() + shown.len(), json_bytes + json) {
            (view.truncated, view.next_cursor) = (true, cursor);
            break;
        }
        json_bytes += json;
        cursor = Some(end);
        text.push_str(&shown);
        view.matches.push(one);
    }
    if view.matches.is_empty() {
        text.push_str(&format!("[nothing found in {files} files]\n"));
    }
    if let Some(cursor) = &view.next_cursor {
        text.push_str(&format!("[more: continue with cursor {cursor}, or narrow path or glob]\n"));
    }
    answer(&view, text)
}

fn fits(text_bytes: usize, json_bytes: usize) -> bool {
    text_bytes <= SHOWN_BYTES && json_bytes <= 2 * SHOWN_BYTES
}

fn json_length(one: &hotcell_model::FileMatch) -> usize {
    serde_json::to_string(one).map_or(0, |json| json.len())
}

/// The lines of a match, below the path of its file.
fn match_lines(one: &hotcell_model::FileMatch) -> String {
    let (Some(line), Some(text)) = (one.line, &one.text) else { return String::new() };
    let mut shown = String::new();
    let first = line.saturating_sub(one.before.len() as u64);
    for (number, before) in (first..).zip(&one.before) {
        shown.push_str(&format!("{number}- {before}\n"));
    }
    shown.push_str(&format!("{line}: {text}\n"));
    for (number, after) in (line + 1..).zip(&one.after) {
        shown.push_str(&format!("{number}- {after}\n"));
    }
    shown
}

fn shorten(line: &mut String) {
    if line.len() > LINE_BYTES {
        line.truncate(line.floor_char_boundary(LINE_BYTES));
        line.push('…');
    }
}
