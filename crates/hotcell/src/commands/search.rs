//! `hotcell search`: text in the files of a cell.

use std::fmt::Write;

use hotcell_model::{FileCall, FileMatch, FileMatches, FileSearch, FileStream, SearchIn};

use crate::errors::Failure;
use crate::file_args::Search;
use crate::pieces;
use crate::session::Session;
use crate::show::{harmless, note, one_line, print, print_json};

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
        cursor: args.cursor,
        early: !args.json,
    };
    if args.json {
        let call = FileCall::new(directory.cell, search.into());
        let done = session.ask(call).await?;
        let found: FileMatches = done.result.try_into()?;
        print_json(&found)?;
        return Ok(code(found.matches.len()));
    }
    let mut printed = Printed { is_relative, apart: args.context > 0, count: 0 };
    let stream = FileStream { cell: directory.cell, op: search.into() };
    let mut unread = Vec::new();
    let found = pieces::receive(session, stream, async |piece| {
        unread.extend_from_slice(&piece);
        printed.lines(&mut unread)
    })
    .await?;
    let found: FileMatches = found.try_into()?;
    if printed.count == 0 {
        // A cell of an older version tells all of it in the end.
        printed.matches(&found.matches)?;
    }
    if found.truncated {
        note(&format!("there are more than {} matches; raise --limit", printed.count));
    }
    Ok(code(printed.count))
}

fn code(count: usize) -> u8 {
    if count == 0 { NOTHING_FOUND } else { 0 }
}

/// What was printed so far.
struct Printed {
    is_relative: bool,
    /// Whether there is a line between matches.
    apart: bool,
    count: usize,
}

impl Printed {
    /// Prints the matches that are told by whole lines, and leaves the rest.
    fn lines(&mut self, unread: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(end) = unread.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = unread.split_off(end + 1);
        let lines = std::mem::replace(unread, rest);
        let matches: Vec<FileMatch> = lines
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        self.matches(&matches)
    }

    /// Prints matches as grep shows them.
    fn matches(&mut self, matches: &[FileMatch]) -> Result<(), Failure> {
        let mut text = String::new();
        for one in matches {
            let path = match self.is_relative {
                true => one_line(one.path.strip_prefix(HOME).unwrap_or(&one.path), usize::MAX),
                false => one_line(&one.path, usize::MAX),
            };
            self.count += 1;
            let (Some(line), Some(found)) = (one.line, &one.text) else {
                text.push_str(&path);
                text.push('\n');
                continue;
            };
            if self.apart && self.count > 1 {
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
        print(text)
    }
}
