//! `cell_checkpoint` and `cell_fork`.

use hotcell_model::{
    CellFork, ChangeKind, Checkpoint, CheckpointCompare, CheckpointCreate, CheckpointDelete,
    CheckpointId, CheckpointList, CheckpointMeans, CheckpointRestore, Error, PathChange, Reply,
    Request, Result,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell_tools::{cell_ref, cells};
use super::schema::{self, Object};
use super::text::{SHOWN_BYTES, path_in_line};
use super::tool::{Effect, ToolBounds, ToolKind, answer, named, question, read};
use crate::toolsets::Toolset;
use hotcell_dialects::Question;

/// The most changes in one result.
const MOST_CHANGES: u32 = 300;
const MOST_PATCH_BYTES: u32 = SHOWN_BYTES as u32;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "cell_checkpoint",
        toolset: Toolset::Cell,
        about: "Undo: save a cell's files (not /tmp), list what was saved, diff against it, or \
                restore it.",
        found_by: "undo changes, rollback, revert, snapshot, backup, restore files",
        effect: Effect::Works,
        example: r#"{"action": "create"}"#,
        input: schema::of::<Asked>,
        output: schema::output::<CheckpointView>,
        call: checkpoint,
    },
    ToolKind {
        name: "cell_fork",
        toolset: Toolset::Cell,
        about: "Create cells that start with a copy of another's files, to try alternatives.",
        found_by: "clone or copy a sandbox, try several approaches in parallel, branch",
        effect: Effect::Adds,
        example: r#"{"count": 2}"#,
        input: schema::of::<Fork>,
        output: schema::output::<super::cell_tools::CellsView>,
        call: |arguments, _| {
            let Fork { cell, checkpoint, alias, count } = read(arguments)?;
            let checkpoint = checkpoint.map(|id| named("checkpoint", id.parse())).transpose()?;
            let alias = alias.map(|alias| named("alias", alias.parse())).transpose()?;
            let cell = cell_ref(cell.as_deref())?;
            let (keep, ttl_s, idempotency_key) = (None, None, None);
            let fork = CellFork { cell, checkpoint, alias, count, keep, ttl_s, idempotency_key };
            Ok(question(fork, cells))
        },
    },
];

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Create,
    List,
    Diff,
    Restore,
    Delete,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// id or alias; default: yours
    cell: Option<String>,
    action: Action,
    /// for diff, restore, delete: its id
    checkpoint: Option<String>,
    /// restore: end execs that run
    #[serde(default)]
    force: bool,
    /// diff: as a patch
    #[serde(default)]
    content: bool,
    /// diff: a next_cursor
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fork {
    /// default: yours
    cell: Option<String>,
    /// default: now
    checkpoint: Option<String>,
    alias: Option<String>,
    /// default 1, at most 100
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    count: u32,
}

fn one() -> u32 {
    1
}

fn checkpoint(arguments: JsonObject, _: ToolBounds) -> Result<Question> {
    let Asked { cell, action, checkpoint, force, content, cursor } = read(arguments)?;
    let skip = changes_before(cursor.as_deref())?;
    let cell = cell_ref(cell.as_deref())?;
    let named = || -> Result<CheckpointId> {
        let missing = || {
            Error::invalid("checkpoint is missing")
                .hint("use the id that action list or create returned")
        };
        named("checkpoint", checkpoint.as_deref().ok_or_else(missing)?.parse())
    };
    let request: Request = match action {
        Action::Create => CheckpointCreate { cell }.into(),
        Action::List => CheckpointList { cell }.into(),
        Action::Diff => {
            let patch_bytes = content.then_some(MOST_PATCH_BYTES);
            let (checkpoint, limit) = (named()?, MOST_CHANGES);
            CheckpointCompare { cell, checkpoint, limit, skip, patch_bytes }.into()
        }
        Action::Restore => CheckpointRestore { cell, checkpoint: named()?, force }.into(),
        Action::Delete => CheckpointDelete { cell, checkpoint: named()? }.into(),
    };
    Ok(question(request, move |reply| result(reply, action, skip)))
}

/// The cursor of a list of changes is how many of them came before.
pub(super) fn changes_before(cursor: Option<&str>) -> Result<u32> {
    let Some(cursor) = cursor else { return Ok(0) };
    cursor.parse().map_err(|_| {
        Error::argument("cursor", "the next_cursor of a page", format!("{cursor:?}"))
            .hint("leave cursor out for the first page")
    })
}

/// What a patch leaves out, and how to see it.
pub(super) fn left_out_of_patch(left_out: &[String]) -> String {
    let names: Vec<_> = left_out.iter().map(|path| path_in_line(path)).collect();
    let which = if names.is_empty() { "more files".to_owned() } else { names.join(", ") };
    format!("[no room in the patch for {which}: see them with fs_read]")
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct CheckpointView {
    #[schemars(with = "Vec<Object>")]
    checkpoints: Vec<Checkpoint>,
    /// A, M or D and a path
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

fn result(reply: Reply, action: Action, skip: u32) -> Option<CallToolResult> {
    let mut view = CheckpointView::default();
    let mut notes = Vec::new();
    if let Reply::Checkpoint(checkpoint) = reply {
        view.checkpoints = vec![checkpoint];
    } else if let Reply::Checkpoints(list) = reply {
        view.checkpoints = list.checkpoints;
    } else if let Reply::CheckpointDiff(diff) = reply {
        view.changes = Some(diff.changes.iter().map(change_line).collect());
        let cut = diff.patch.as_ref().is_some_and(|patch| patch.truncated);
        view.truncated = Some(diff.truncated || cut);
        let told = u32::try_from(diff.changes.len()).unwrap_or(u32::MAX);
        view.next_cursor = diff.truncated.then(|| skip.saturating_add(told).to_string());
        if let Some(patch) = diff.patch {
            (view.patch, view.left_out) = (Some(patch.text), patch.left_out);
            if patch.truncated {
                notes.push(left_out_of_patch(&view.left_out));
            }
        }
        if let Some(cursor) = &view.next_cursor {
            notes.push(format!("[more: continue with cursor {cursor}]"));
        }
    } else {
        return None;
    }
    let kept = view.checkpoints.iter().map(|checkpoint| {
        let means = match checkpoint.means {
            CheckpointMeans::Stacked => "stacked",
            CheckpointMeans::Copied => "copied",
        };
        let size = checkpoint.bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
        let Checkpoint { id, cell, created_at, .. } = checkpoint;
        format!("{id} of {cell} at {created_at} ({means}{size})")
    });
    let changes = view.changes.iter().flatten().cloned();
    let patch = view.patch.clone();
    let lines: Vec<String> = kept.chain(changes).chain(patch).chain(notes).collect();
    let done = match action {
        Action::Create => "saved ",
        Action::Restore => "restored ",
        Action::Delete => "deleted ",
        Action::List | Action::Diff => "",
    };
    let text = match lines.is_empty() {
        true => "nothing".to_owned(),
        false => format!("{done}{}", lines.join("\n")),
    };
    Some(answer(&view, text))
}

fn change_line(change: &PathChange) -> String {
    let letter = match change.change {
        ChangeKind::Added => 'A',
        ChangeKind::Changed => 'M',
        ChangeKind::Removed => 'D',
    };
    let path = path_in_line(&change.path);
    format!("{letter} {path}{}", if change.directory { "/" } else { "" })
}
