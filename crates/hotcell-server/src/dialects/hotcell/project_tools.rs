//! `workspace_diff`, `workspace_apply` and `workspace_discard`: what a cell changed in the user's
//! project, and the request to bring it to the real files.

use std::path::{Component, Path, PathBuf};

use hotcell_model::{
    CellRef, ChangeKind, DriftedFiles, Error, ErrorCode, ProjectApplied, ProjectApply,
    ProjectChange, ProjectChanges, ProjectDiff, ProjectDiscard, ProjectDiscarded, ProjectPaths,
    Reply, Result,
};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checkpoint_tools::{changes_before, left_out_of_patch};
use super::file_tool::{asked, input};
use super::schema;
use super::text::path_in_line;
use super::tool::{Effect, ToolKind, answer};
use crate::toolsets::Toolset;
use hotcell_dialects::{Outcome, Question};

/// Paths that one result lists at most.
const MOST_CHANGES: u32 = 300;
/// The length of a patch: about 4,000 tokens by default.
const PATCH_BYTES: u64 = 16_000;
const MOST_PATCH_BYTES: u64 = 64_000;
const WORKSPACE: &str = "/workspace";

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "workspace_diff",
        toolset: Toolset::Fs,
        found_by: "review changes to the user's project, git diff, what would change",
        example: r#"{"paths": ["src"]}"#,
        about: "Show the cell's changes to the user's project as git diff does: what \
                workspace_apply would apply.",
        effect: Effect::Reads,
        input: input::<Diff>,
        output: schema::output::<DiffView>,
        call: |arguments, _| {
            let (cell, Diff { paths, max_bytes, cursor }) = asked(arguments)?;
            let skip = changes_before(cursor.as_deref())?;
            let patch_bytes = max_bytes.unwrap_or(PATCH_BYTES).min(MOST_PATCH_BYTES);
            let (paths, limit) = (project_paths(paths)?, MOST_CHANGES);
            let unused = is_unused(&cell);
            let (plan, leave_out_ignored) = (None, true);
            let request =
                ProjectDiff { cell, paths, limit, skip, patch_bytes, plan, leave_out_ignored };
            let show = move |outcome: Outcome| match outcome.reply {
                Ok(Reply::ProjectChanges(changes)) => Ok(shown(changes, skip)),
                Err(error) if unused(&error) => Ok(shown_unused()),
                Err(error) => Err(error),
                Ok(_) => Err(another_reply()),
            };
            Ok(Question { request: request.into(), show: Some(Box::new(show)) })
        },
    },
    ToolKind {
        name: "workspace_apply",
        toolset: Toolset::Fs,
        found_by: "apply or save changes to the user's real files, deliver the work",
        example: r#"{"paths": ["src/main.py"]}"#,
        about: "Ask the user to approve applying the cell's changes to the project's real files. \
                Files that they changed meanwhile are conflicts and left alone.",
        effect: Effect::Delivers,
        input: input::<Apply>,
        output: schema::output::<ApplyView>,
        call: |arguments, _| {
            let (cell, Apply { paths }) = asked(arguments)?;
            let (paths, drifted) = (project_paths(paths)?, DriftedFiles::Skip);
            let unused = is_unused(&cell);
            let (expected, leave_out_ignored) = (None, true);
            let request = ProjectApply { cell, paths, drifted, expected, leave_out_ignored };
            let show = move |outcome: Outcome| match outcome.reply {
                Ok(Reply::ProjectApplied(done)) => Ok(applied(done)),
                Err(error) if unused(&error) => Ok(nothing_to_do()),
                Err(error) if error.held.is_some() => Ok(awaiting("workspace_apply", &error)),
                Err(error) => Err(error),
                Ok(_) => Err(another_reply()),
            };
            Ok(Question { request: request.into(), show: Some(Box::new(show)) })
        },
    },
    ToolKind {
        name: "workspace_discard",
        toolset: Toolset::Fs,
        found_by: "discard or throw away changes to the user's project",
        example: r#"{"paths": ["src/main.py"]}"#,
        about: "Ask the user to approve discarding the cell's changes: the cell sees the real files \
                again.",
        effect: Effect::Works,
        input: input::<Discard>,
        output: schema::output::<ApplyView>,
        call: |arguments, _| {
            let (cell, Discard { paths }) = asked(arguments)?;
            let paths = project_paths(paths)?;
            let unused = is_unused(&cell);
            let request = ProjectDiscard { cell, paths, expected: None };
            let show = move |outcome: Outcome| match outcome.reply {
                Ok(Reply::ProjectDiscarded(done)) => Ok(discarded(done)),
                Err(error) if unused(&error) => Ok(nothing_to_do()),
                Err(error) if error.held.is_some() => Ok(awaiting("workspace_discard", &error)),
                Err(error) => Err(error),
                Ok(_) => Err(another_reply()),
            };
            Ok(Question { request: request.into(), show: Some(Box::new(show)) })
        },
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Diff {
    /// files and directories; default all that git does not ignore
    paths: Option<Vec<String>>,
    /// bytes of patch; default 16000, at most 64000
    max_bytes: Option<u64>,
    /// a next_cursor
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Apply {
    /// default all; guarded and ignored files only if named
    paths: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Discard {
    /// default all
    paths: Option<Vec<String>>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct DiffView {
    #[serde(skip_serializing_if = "String::is_empty")]
    dir: String,
    /// A, M or D and a path
    changes: Vec<String>,
    /// changed by the user meanwhile: not applied
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<String>,
    /// could make the user's machine run something: applied only if named
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guarded: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    patch: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    /// new and ignored by git: applied only if named
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct ApplyView {
    /// applied, discarded, conflicts, nothing_to_do or awaiting_approval
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<String>,
    /// not applied: name them in paths
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guarded: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Paths as the project has them: relative, or below `/workspace`.
fn project_paths(paths: Option<Vec<String>>) -> Result<ProjectPaths> {
    let mut found = Vec::new();
    for path in paths.unwrap_or_default() {
        let below = path.strip_prefix(WORKSPACE).filter(|it| it.is_empty() || it.starts_with('/'));
        let inside = below.map_or(path.as_str(), |below| below.trim_start_matches('/'));
        let mut parts = PathBuf::new();
        for part in Path::new(inside).components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => parts.push(name),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(Error::invalid(format!("{path:?} in paths is not in the project"))
                        .hint("use paths like src/main.py, relative to /workspace"));
                }
            }
        }
        if parts.as_os_str().is_empty() {
            // The project itself is everything.
            return Ok(Vec::new());
        }
        found.push(parts);
    }
    Ok(found)
}

/// Whether an error means that the default cell has not been made yet: nothing was changed in it.
fn is_unused(cell: &CellRef) -> impl Fn(&Error) -> bool + Send + Sync + 'static {
    let is_default = *cell == CellRef::Default;
    move |error| is_default && error.code == ErrorCode::NotFound
}

fn shown_unused() -> CallToolResult {
    answer(&DiffView::default(), "no changes: the default cell was not used yet\n".to_owned())
}

fn nothing_to_do() -> CallToolResult {
    let status = "nothing_to_do".to_owned();
    answer(&ApplyView { status, ..ApplyView::default() }, "nothing_to_do\n".to_owned())
}

fn shown(found: ProjectChanges, skip: u32) -> CallToolResult {
    let told = u32::try_from(found.changes.len()).unwrap_or(u32::MAX);
    let view = DiffView {
        dir: found.dir.display().to_string(),
        changes: found.changes.iter().map(line).collect(),
        conflicts: found.changes.iter().filter(|it| it.drifted).map(path).collect(),
        guarded: found.changes.iter().filter_map(guard).collect(),
        patch: found.patch,
        truncated: found.truncated || found.patch_truncated,
        next_cursor: found.truncated.then(|| skip.saturating_add(told).to_string()),
        left_out: found.left_out,
        ignored: found.ignored.iter().map(|path| path_in_line(path).into_owned()).collect(),
    };
    let mut text = match view.changes.is_empty() {
        true => format!("no changes in {}\n", view.dir),
        false => format!("{}\n", view.changes.join("\n")),
    };
    text.push_str(&notes(&view.conflicts, &view.guarded));
    if !view.ignored.is_empty() {
        let names = view.ignored.join(", ");
        text.push_str(&format!("ignored by git, applied only if named in `paths`: {names}\n"));
    }
    if !view.patch.is_empty() {
        text.push('\n');
        text.push_str(&view.patch);
    }
    if found.patch_truncated {
        let raise = "or name them in `paths`, with a larger max_bytes";
        text.push_str(&format!("{} {raise}\n", left_out_of_patch(&view.left_out)));
    }
    if let Some(cursor) = &view.next_cursor {
        text.push_str(&format!("[more changes: continue with cursor {cursor}]\n"));
    }
    answer(&view, text)
}

fn applied(done: ProjectApplied) -> CallToolResult {
    let status = match (done.applied.is_empty(), done.conflicts.is_empty()) {
        (false, _) => "applied",
        (true, false) => "conflicts",
        (true, true) => "nothing_to_do",
    };
    let view = ApplyView {
        status: status.to_owned(),
        dir: Some(done.dir.display().to_string()),
        changes: done.applied.iter().map(line).collect(),
        conflicts: done.conflicts.iter().map(path).collect(),
        guarded: done.held_back.iter().filter_map(guard).collect(),
        message: (!done.conflicts.is_empty()).then(|| RESOLVE.to_owned()),
        ..ApplyView::default()
    };
    told(&view)
}

fn discarded(done: ProjectDiscarded) -> CallToolResult {
    let status = if done.discarded.is_empty() { "nothing_to_do" } else { "discarded" };
    let view = ApplyView {
        status: status.to_owned(),
        dir: Some(done.dir.display().to_string()),
        changes: done.discarded.iter().map(line).collect(),
        ..ApplyView::default()
    };
    told(&view)
}

fn told(view: &ApplyView) -> CallToolResult {
    let dir = view.dir.as_deref().unwrap_or_default();
    let mut text = format!("{} in {dir}\n", view.status);
    for change in &view.changes {
        text.push_str(change);
        text.push('\n');
    }
    text.push_str(&notes(&view.conflicts, &view.guarded));
    answer(view, text)
}

/// The result of a call that waits for the user.
fn awaiting(tool: &str, error: &Error) -> CallToolResult {
    let id = error.held.as_ref().map(ToString::to_string).unwrap_or_default();
    let reason = error.message.split_once(": ").map_or("", |(_, reason)| reason);
    let alternative = match tool {
        "workspace_apply" => "`hotcell apply`",
        _ => "`hotcell discard`",
    };
    let message = format!(
        "Nothing has been changed yet: {reason}. Ask the user to run `hotcell approve {id}` in a \
         terminal, which shows the changes first, then call {tool} again with the same arguments. Or \
         the user runs {alternative} in the project directory."
    );
    let text = format!("awaiting_approval {id}\n{message}\n");
    let view = ApplyView {
        status: "awaiting_approval".to_owned(),
        approval_id: Some(id),
        message: Some(message),
        ..ApplyView::default()
    };
    answer(&view, text)
}

/// How a conflict ends.
const RESOLVE: &str = "to resolve a conflict, workspace_discard its path, read the user's version and edit \
                       it again; or let the user run `hotcell apply --force`";

fn notes(conflicts: &[String], guarded: &[String]) -> String {
    let mut text = String::new();
    for path in conflicts {
        text.push_str(&format!("conflict, changed by the user meanwhile, not applied: {path}\n"));
    }
    if !conflicts.is_empty() {
        text.push_str(&format!("[{RESOLVE}]\n"));
    }
    for path in guarded {
        text.push_str(&format!("applied only if named in `paths`: {path}\n"));
    }
    text
}

fn line(change: &ProjectChange) -> String {
    let letter = match change.change {
        ChangeKind::Added => 'A',
        ChangeKind::Changed => 'M',
        ChangeKind::Removed => 'D',
    };
    format!("{letter} {}", path(change))
}

fn path(change: &ProjectChange) -> String {
    format!("{}{}", path_in_line(&change.path), if change.directory { "/" } else { "" })
}

fn guard(change: &ProjectChange) -> Option<String> {
    change.guarded.as_ref().map(|why| format!("{} ({why})", path(change)))
}

fn another_reply() -> Error {
    Error::internal("the reply to another request came")
}
