//! Looking for text in files, and for files by their paths.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use hotcell_model::{Error, FileMatch, FileMatches, FileSearch, Result, SearchIn};
use rustix::fs::{Stat, fstat};

use crate::conversation::Conversation;
use crate::fault::{Tried, cancelled};
use crate::ignored::Ignored;
use crate::kinds::is_directory;
use crate::path::CellPath;
use crate::pattern::Pattern;
use crate::removal::{is_of_kernel, open_file};
use crate::search_found::{Found, MOST_BYTES, PageEnd};
use crate::search_lines::{Lines, match_bytes};
use crate::search_walk::{Directory, LeftOut, Visited, Walk};
use crate::tree::{Links, Tree};

const MOST_MATCHES: u32 = 10_000;
const MOST_CONTEXT: u32 = 100;
/// What a compiled pattern may take.
const MOST_PATTERN_BYTES: usize = 10 << 20;
/// A file with a longer line is passed over.
const LONGEST_LINE: usize = 16 << 20;

/// Looks for text or names.
pub(crate) fn search(
    tree: &Tree,
    request: &FileSearch,
    conversation: &Conversation,
) -> Result<FileMatches> {
    let path = CellPath::parse(&request.path)?;
    let what = || format!("search {path}");
    let hunt = Hunt::new(request, &path, conversation)?;
    let seen = tree.look(&path, Links::Followed)?;
    let seen = fstat(&seen).tried(what)?;
    if is_directory(&seen) {
        let directory = tree.directory(&path)?;
        if is_of_kernel(&directory) {
            return Err(Error::denied(format!("{path} is made up by the kernel, not stored"))
                .hint("read single files there, or search by a command"));
        }
        hunt.walk(tree, request, &path, directory);
    } else {
        let name = path.as_path().file_name().unwrap_or_default();
        match hunt.within {
            SearchIn::Names => hunt.name(&path, Path::new(name)),
            SearchIn::Content => {
                let opened = tree.read(&path)?;
                if hunt.is_chosen(Path::new(name)) {
                    hunt.content(&mut hunt.searcher(), opened, path.as_path());
                }
            }
        }
    }
    if conversation.is_over() {
        return Err(cancelled());
    }
    Ok(hunt.finish())
}

/// A search under way.
struct Hunt<'a> {
    conversation: &'a Conversation,
    matcher: RegexMatcher,
    glob: Option<Pattern>,
    within: SearchIn,
    base: &'a CellPath,
    context: usize,
    limit: usize,
    after: Option<PageEnd>,
    files: AtomicU64,
    found: Mutex<Found>,
    /// How many matches may still be told early. Held while they are: lines are not to mix.
    untold: Option<Mutex<usize>>,
}

impl<'a> Hunt<'a> {
    fn new(
        request: &FileSearch,
        base: &'a CellPath,
        conversation: &'a Conversation,
    ) -> Result<Self> {
        if request.limit == 0 || request.limit > MOST_MATCHES {
            let range = format!("between 1 and {MOST_MATCHES}");
            return Err(Error::argument("limit", range, request.limit));
        }
        if request.context_lines > MOST_CONTEXT {
            let range = format!("at most {MOST_CONTEXT}");
            return Err(Error::argument("context_lines", range, request.context_lines)
                .hint("read the file for more"));
        }
        Ok(Self {
            conversation,
            matcher: matcher(request)?,
            glob: request.glob.as_deref().map(Pattern::parse).transpose()?,
            within: request.within,
            base,
            context: request.context_lines as usize,
            limit: request.limit as usize,
            after: request.cursor.as_deref().map(PageEnd::parse).transpose()?,
            files: AtomicU64::new(0),
            found: Mutex::new(Found::new(request.limit as usize)),
            untold: request.early.then(|| Mutex::new(request.limit as usize)),
        })
    }

    fn walk(
        &self,
        tree: &Tree,
        request: &FileSearch,
        path: &CellPath,
        directory: std::os::fd::OwnedFd,
    ) {
        let (left_out, above) = if request.include_ignored {
            (LeftOut::Nothing, Ignored::default())
        } else {
            (LeftOut::Ignored, Ignored::above(tree, path))
        };
        let visited = match self.within {
            SearchIn::Content => Visited::Files,
            SearchIn::Names => Visited::Names,
        };
        let walk = Walk::new(directory, path.as_path(), above, left_out, visited);
        let is_wanted = |path: &Path| self.is_wanted(path);
        walk.run(&is_wanted, || {
            let mut searcher = self.searcher();
            let walk = &walk;
            move |directory: &Directory, name: &OsStr| {
                if self.conversation.is_over() {
                    return walk.stop();
                }
                self.visit(&mut searcher, directory, name);
            }
        });
    }

    /// Whether what a file or a directory holds can be on this page.
    fn is_wanted(&self, path: &Path) -> bool {
        // As its matches name it.
        let path = path.to_string_lossy();
        let path = Path::new(path.as_ref());
        self.after.as_ref().is_none_or(|end| end.leaves(path)) && self.lock().has_room_for(path)
    }

    fn visit(&self, searcher: &mut Searcher, directory: &Directory, name: &OsStr) {
        let path = directory.path.join(name);
        if !self.is_wanted(&path) {
            return;
        }
        let below = path.strip_prefix(self.base.as_path()).unwrap_or(&path);
        match self.within {
            SearchIn::Names => self.name(&CellPath::lexical(&path), below),
            SearchIn::Content if self.is_chosen(below) => {
                // Gone or replaced meanwhile, or another user's.
                if let Ok(opened) = open_file(&directory.fd, name) {
                    self.content(searcher, opened, &path);
                }
            }
            SearchIn::Content => {}
        }
    }

    fn is_chosen(&self, below: &Path) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.matches(below))
    }

    /// Looks at a path below the directory that is searched.
    fn name(&self, path: &CellPath, below: &Path) {
        if !self.is_chosen(below) {
            return;
        }
        self.files.fetch_add(1, Ordering::Relaxed);
        if self.matcher.is_match(below.as_os_str().as_bytes()).unwrap_or(false) {
            let path = path.to_string();
            if self.after.as_ref().is_some_and(|end| end.line_in(&path).is_some()) {
                return;
            }
            let bytes = match_bytes(&path, "", &[]);
            let found =
                FileMatch { path, line: None, text: None, before: Vec::new(), after: Vec::new() };
            self.add(vec![found], bytes);
        }
    }

    /// Looks at the content of a file.
    fn content(&self, searcher: &mut Searcher, (file, stat): (File, Stat), path: &Path) {
        self.files.fetch_add(1, Ordering::Relaxed);
        let is_over = || self.conversation.is_over() || !self.is_wanted(path);
        let path = path.to_string_lossy();
        let after = self.after.as_ref().and_then(|end| end.line_in(&path)).unwrap_or(0);
        let most = (self.limit, MOST_BYTES);
        let mut lines = Lines::new(&self.matcher, &path, self.context, most).after(after);
        // A file of /proc tells no size.
        let left = Some(stat.st_size.cast_unsigned()).filter(|size| *size > 0);
        let reader = Stoppable { file, left, is_over: &is_over };
        // One file that cannot be read to its end does not keep the others from being searched.
        let read = searcher.search_reader(&self.matcher, reader, &mut lines);
        if read.is_ok() && !lines.matches.is_empty() {
            self.add(lines.matches, lines.bytes);
        }
    }

    fn add(&self, matches: Vec<FileMatch>, bytes: usize) {
        self.tell(&matches);
        self.lock().add(matches, bytes);
    }

    /// Tells of matches before all of them are found, where that is wanted.
    fn tell(&self, matches: &[FileMatch]) {
        let Some(untold) = &self.untold else { return };
        let mut untold = untold.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for one in matches.iter().take(*untold) {
            // Its keys are strings: serialising cannot fail.
            lines.extend(serde_json::to_vec(one).unwrap_or_default());
            lines.push(b'\n');
        }
        *untold = untold.saturating_sub(matches.len());
        // A caller that is gone is noticed elsewhere.
        let _ = self.conversation.send(&lines);
    }

    fn finish(self) -> FileMatches {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.finish(self.files.into_inner())
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(LONGEST_LINE))
            .build()
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn matcher(request: &FileSearch) -> Result<RegexMatcher> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(request.ignore_case)
        .fixed_strings(request.literal)
        .size_limit(MOST_PATTERN_BYTES);
    if request.within == SearchIn::Content {
        builder.multi_line(true).line_terminator(Some(b'\n'));
    }
    builder.build(&request.pattern).map_err(|error| {
        let shown: String = request.pattern.chars().take(200).collect();
        // It is told with lines that point into the pattern.
        let error = error.to_string();
        let reason = error.lines().next_back().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        let value = format!("{shown:?}: {reason}");
        Error::argument("pattern", "a regular expression for one line", value)
            .hint("pass literal to search for plain text")
    })
}

/// A file that ends with an error when nobody wants the rest, and otherwise where it ended when it
/// was opened: most are read with one call then, instead of two.
struct Stoppable<'a> {
    file: File,
    left: Option<u64>,
    is_over: &'a dyn Fn() -> bool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_over)() {
            return Err(io::Error::other("nobody wants the rest"));
        }
        if self.left == Some(0) {
            return Ok(0);
        }
        let length = self.file.read(buffer)?;
        self.left = self.left.map(|left| left.saturating_sub(length as u64));
        Ok(length)
    }
}
