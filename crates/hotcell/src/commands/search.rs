//! `hotcell search`: text in the files of a cell.

use std::fmt::Write;

use hotcell_model::{FileCall, FileMatch, FileMatches, FileSearch, SearchIn};

use crate::errors::{Failure, in_flags};
use crate::file_args::Search;
use crate::session::Session;
use crate::show::{note, one_line, print, print_json};

/// As grep tells that there was nothing.
const NOTHING_FOUND: u8 = 1;
const HOME: &str = "/workspace/";

/// Looks for text or names.
pub(super) async fn search(session: &Session, args: Search) -> Result<u8, Failure> {
    let directory = args.directory.0;
    session.look_for(&directory.cell).await?;
    let is_relative = !directory.path.starts_with('/');
    let search = FileSearch {
        path: directory.path,
        pattern: args.pattern,
        within: if args.names { SearchIn::Names } else { SearchIn::Content },
        literal: args.literal,
        ignore_case: args.ignore_case,
        glob: args.glob,
        include_ignored: args.hidden,
        context_lines: args.context,
        limit: args.limit,
    };
    let call = FileCall::new(directory.cell, search.into());
    let done = session.ask(call).await.map_err(in_flags)?;
    let found: FileMatches = done.result.try_into()?;
    if args.json {
        print_json(&found)?;
    } else {
        let shown = |path: &str| match is_relative {
            true => one_line(path.strip_prefix(HOME).unwrap_or(path), usize::MAX),
            false => one_line(path, usize::MAX),
        };
        print(text(&found.matches, shown, args.context > 0))?;
        if found.truncated {
            note(&format!("there are more than {} matches; raise --limit", found.matches.len()));
        }
    }
    Ok(if found.matches.is_empty() { NOTHING_FOUND } else { 0 })
}

/// Matches as grep shows them; those with context have a line between them.
fn text(matches: &[FileMatch], shown: impl Fn(&str) -> String, apart: bool) -> String {
    let mut text = String::new();
    for (at, one) in matches.iter().enumerate() {
        let path = shown(&one.path);
        let (Some(line), Some(found)) = (one.line, &one.text) else {
            text.push_str(&path);
            text.push('\n');
            continue;
        };
        if apart && at > 0 {
            text.push_str("--\n");
        }
        let first = line.saturating_sub(one.before.len() as u64);
        // Writing to a string cannot fail.
        for (number, before) in (first..).zip(&one.before) {
            let _ = writeln!(text, "{path}-{number}-{}", harmless(before));
        }
        let _ = writeln!(text, "{path}:{line}:{}", harmless(found));
        for (number, after) in (line + 1..).zip(&one.after) {
            let _ = writeln!(text, "{path}-{number}-{}", harmless(after));
        }
    }
    text
}

/// A line without what a terminal would act upon.
fn harmless(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for char in line.trim_end_matches('\r').chars() {
        match char {
            '\t' => shown.push(char),
            other if other.is_control() => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}
