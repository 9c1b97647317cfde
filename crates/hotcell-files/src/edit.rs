//! Replacing text in a file.

use std::io::{Read, Write};
use std::time::Duration;

use hotcell_model::{Error, FileEdit, FileEdited, Precondition, Result, TextEdit};
use rustix::fs::fstat;
use similar::TextDiff;

use crate::etag::{etag_of, require};
use crate::fault::Tried;
use crate::nearest::nearest_place;
use crate::path::CellPath;
use crate::settled::Ticks;
use crate::staged::Staged;
use crate::tree::{Links, Parents, Tree};
use crate::undo::Undo;

/// The largest file that is edited; what is larger is better changed by a command.
const MOST_BYTES: u64 = 16 << 20;
/// The largest text that edits may make.
const MOST_TEXT_BYTES: usize = 64 << 20;
const DIFF_CONTEXT: usize = 3;
/// A diff that takes longer is coarser.
const DIFF_WITHIN: Duration = Duration::from_millis(500);
const MOST_DIFF_BYTES: usize = 64 * 1024;
/// Places that are named when a text stands in a file more than once.
const MOST_PLACES: usize = 10;
/// So much of a text is quoted in an error.
const MOST_QUOTED: usize = 80;

/// Replaces text in a file, or shows what would change.
pub(crate) fn edit(
    tree: &Tree,
    ticks: &Ticks,
    request: &FileEdit,
    undo: &mut dyn Undo,
) -> Result<FileEdited> {
    let path = CellPath::parse(&request.path)?;
    let what = || format!("edit {path}");
    if request.edits.is_empty() {
        return Err(Error::argument("edits", "at least one item", "empty"));
    }
    let slot = tree.slot(&path, Parents::Expected, Links::Followed)?;
    let (mut file, _) = tree.read(&slot.path)?;
    let stat = ticks.settle(tree, || fstat(&file)).tried(what)?;
    let etag = etag_of(&stat);
    require(&path, &request.precondition, Some(&etag))?;
    if stat.st_size.cast_unsigned() > MOST_BYTES {
        return Err(Error::limit_exceeded(format!("{path} is larger than {MOST_BYTES} bytes"))
            .hint("change it by a command, for example sed"));
    }
    let mut before = String::new();
    let read = (&mut file).take(MOST_BYTES + 1).read_to_string(&mut before);
    if let Err(error) = &read
        && error.kind() == std::io::ErrorKind::InvalidData
    {
        return Err(Error::invalid(format!("{path} is no UTF-8 text"))
            .hint("change it by a command, or write it anew"));
    }
    read.tried(what)?;
    let (after, replaced) = apply(&path, &before, &request.edits)?;
    let mut edited = FileEdited {
        path: path.to_string(),
        etag: etag.clone(),
        size: after.len() as u64,
        replaced,
        diff: diff(&path, &before, &after),
    };
    if !request.dry_run {
        let mut staged = Staged::new(&slot)?;
        staged.write_all(after.as_bytes()).tried(what)?;
        // It is the text that was read that is replaced, whatever the caller asked for.
        let unchanged = Precondition {
            if_match: Some(hotcell_model::EtagMatch::Etag(etag)),
            if_none_match: None,
        };
        edited.etag = staged.place(&slot, None, &unchanged, undo)?.etag;
    }
    Ok(edited)
}

/// The text after all edits, and how many places they changed.
fn apply(path: &CellPath, before: &str, edits: &[TextEdit]) -> Result<(String, u64)> {
    let ends_with_return = has_carriage_returns(before);
    let mut text = before.to_owned();
    let mut replaced = 0;
    for (number, edit) in edits.iter().enumerate() {
        let edit = if ends_with_return { with_carriage_returns(edit) } else { edit.clone() };
        replaced += apply_one(path, &mut text, &edit, number)?;
    }
    Ok((text, replaced))
}

fn apply_one(path: &CellPath, text: &mut String, edit: &TextEdit, number: usize) -> Result<u64> {
    if edit.old.is_empty() {
        return Err(Error::invalid(format!("edits[{number}].old is empty"))
            .hint("name the text to be replaced; a whole file is written, not edited"));
    }
    if edit.old == edit.new {
        let same = edit.old.chars().take(MOST_QUOTED).collect::<String>();
        return Err(Error::invalid(format!("edits[{number}].old and .new are the same: {same:?}"))
            .hint("leave it out, or give another text as new"));
    }
    let count = text.matches(&edit.old).count();
    let grows = edit.new.len().saturating_sub(edit.old.len());
    if text.len().saturating_add(count.saturating_mul(grows)) > MOST_TEXT_BYTES {
        return Err(Error::limit_exceeded(format!("edits[{number}] would make {path} too large"))
            .hint("change it by a command"));
    }
    match count {
        0 => Err(Error::not_found(format!("the text of edits[{number}].old is not in {path}"))
            .hint(nearest_place(text, &edit.old))),
        1 => {
            *text = text.replacen(&edit.old, &edit.new, 1);
            Ok(1)
        }
        many if edit.replace_all => {
            *text = text.replace(&edit.old, &edit.new);
            Ok(many as u64)
        }
        many => {
            let lines: Vec<String> = text
                .match_indices(&edit.old)
                .take(MOST_PLACES)
                .map(|(at, _)| (text[..at].matches('\n').count() + 1).to_string())
                .collect();
            let more = if many > MOST_PLACES { " and more" } else { "" };
            Err(Error::conflict(format!(
                "the text of edits[{number}].old is in {path} {many} times, at lines {}{more}",
                lines.join(", ")
            ))
            .hint("give more of the text around it, or replace_all"))
        }
    }
}

/// Whether every line ends with a carriage return too.
fn has_carriage_returns(text: &str) -> bool {
    let lines = text.matches('\n').count();
    lines > 0 && text.matches("\r\n").count() == lines
}

fn with_carriage_returns(edit: &TextEdit) -> TextEdit {
    let convert = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    TextEdit { old: convert(&edit.old), new: convert(&edit.new), replace_all: edit.replace_all }
}

/// What changed, as a unified diff of bounded length.
pub(crate) fn diff(path: &CellPath, before: &str, after: &str) -> String {
    let below = path.below_root().to_string_lossy();
    let diff = TextDiff::configure().timeout(DIFF_WITHIN).diff_lines(before, after);
    let mut text = diff
        .unified_diff()
        .context_radius(DIFF_CONTEXT)
        .header(&format!("a/{below}"), &format!("b/{below}"))
        .to_string();
    if text.len() > MOST_DIFF_BYTES {
        let cut = text.floor_char_boundary(MOST_DIFF_BYTES);
        let left_out = text.len() - cut;
        text.truncate(cut);
        text.push_str(&format!("\n… {left_out} more bytes of the diff are left out\n"));
    }
    text
}
