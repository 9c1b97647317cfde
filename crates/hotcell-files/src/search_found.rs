//! The first matches of a search, by path and line, up to its limits.

use std::cmp::Ordering;
use std::path::Path;

use hotcell_model::{Error, FileMatch, FileMatches, Result};

use crate::search_lines::match_bytes;

/// All matches of one answer together.
pub(crate) const MOST_BYTES: usize = 4 << 20;

/// Where the page before ended.
#[derive(Debug)]
pub(crate) struct PageEnd {
    path: String,
    line: u64,
}

impl PageEnd {
    /// Reads the cursor of a match.
    pub(crate) fn parse(cursor: &str) -> Result<Self> {
        let end = cursor.split_once(':').and_then(|(line, path)| {
            let line = line.parse().ok()?;
            path.starts_with('/').then(|| Self { path: path.to_owned(), line })
        });
        end.ok_or_else(|| {
            Error::argument("cursor", "the next_cursor of a page", format!("{cursor:?}"))
                .hint("leave cursor out for the first page")
        })
    }

    /// Whether a file, or something in a directory, can come after it.
    pub(crate) fn leaves(&self, path: &Path) -> bool {
        let end = Path::new(&self.path);
        path >= end || end.starts_with(path)
    }

    /// The last line of a file that was on a page before.
    pub(crate) fn line_in(&self, path: &str) -> Option<u64> {
        (self.path == path).then_some(self.line)
    }
}

/// The matches found so far, as many as one answer holds.
#[derive(Debug)]
pub(crate) struct Found {
    matches: Vec<FileMatch>,
    bytes: usize,
    limit: usize,
    /// The file after which matches were left out.
    full_at: Option<String>,
}

impl Found {
    /// Nothing yet.
    pub(crate) fn new(limit: usize) -> Self {
        Self { matches: Vec::new(), bytes: 0, limit, full_at: None }
    }

    /// Whether matches in a file, or in a directory, would still be kept.
    pub(crate) fn has_room_for(&self, path: &Path) -> bool {
        self.full_at.as_ref().is_none_or(|last| path <= Path::new(last))
    }

    /// Adds the matches of one file, and leaves out those for which there is no room.
    pub(crate) fn add(&mut self, matches: Vec<FileMatch>, bytes: usize) {
        self.matches.extend(matches);
        self.bytes += bytes;
        if self.matches.len() > self.limit || self.bytes > MOST_BYTES {
            self.keep_the_first();
        }
    }

    fn keep_the_first(&mut self) {
        self.matches.sort_by(in_order);
        self.bytes = 0;
        let mut kept = 0;
        for one in self.matches.iter().take(self.limit) {
            let bytes = match_bytes(&one.path, one.text.as_deref().unwrap_or(""), &one.before)
                + match_bytes("", "", &one.after);
            // Pages make progress: each has at least one.
            if kept > 0 && self.bytes + bytes > MOST_BYTES {
                break;
            }
            self.bytes += bytes;
            kept += 1;
        }
        if kept < self.matches.len() {
            self.matches.truncate(kept);
            self.full_at = self.matches.last().map(|last| last.path.clone());
        }
    }

    /// The answer, when all was looked at.
    pub(crate) fn finish(mut self, files: u64) -> FileMatches {
        self.keep_the_first();
        let truncated = self.full_at.is_some();
        let next_cursor = self.matches.last().filter(|_| truncated).map(FileMatch::cursor);
        FileMatches { matches: self.matches, files, truncated, next_cursor }
    }
}

/// As paths are ordered, component by component, so that what is in a directory stays together.
fn in_order(one: &FileMatch, other: &FileMatch) -> Ordering {
    Path::new(&one.path).cmp(Path::new(&other.path)).then(one.line.cmp(&other.line))
}
