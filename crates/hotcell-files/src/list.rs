//! Listing directories and showing single files.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread;

use hotcell_model::{
    Error, FileEntries, FileEntry, FileKind, FileList, FileNames, FileResult, FileStat, PageRoom,
    Result,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::conversation::Conversation;
use crate::etag::etag_of;
use crate::fault::{Tried, cancelled, fault};
use crate::kinds::{is_file, mime_type};
use crate::path::CellPath;
use crate::pattern::Pattern;
use crate::read::modified;
use crate::removal::{names, open_directory, within};
use crate::search_lines::json_bytes;
use crate::search_walk::{Helper, threads};
use crate::settled::Ticks;
use crate::staged::is_ours;
use crate::tree::{Links, Tree};

/// The most entries of one page.
const MOST_ENTRIES: u32 = 10_000;
/// What a page has on the wire at most, but for its last entry.
const MOST_BYTES: usize = 8 << 20;
const ENTRY_BYTES: usize = 256;
const NAME_BYTES: usize = 3;
/// Names that are looked at together; after them it is looked whether anybody wants more.
const NAMES_AT_ONCE: usize = 4096;
/// With fewer of them another thread does not help.
const WORTH_THREADS: usize = 1024;
/// What is looked at to see what a file is.
const SNIFFED_BYTES: usize = 8 * 1024;

/// Shows one file or directory.
pub(crate) fn stat(tree: &Tree, ticks: &Ticks, request: &FileStat) -> Result<FileEntry> {
    let path = CellPath::parse(&request.path)?;
    let what = || format!("look at {path}");
    let seen = tree.look(&path, Links::Kept)?;
    let found = ticks.settle(tree, || fstat(&seen)).tried(what)?;
    let mut entry = entry(path.to_string(), &found);
    if entry.kind == FileKind::Symlink {
        let target = readlinkat(&seen, "", Vec::new()).tried(what)?;
        entry.target = Some(target.to_string_lossy().into_owned());
    }
    if entry.kind == FileKind::File
        && let Ok((file, _)) = tree.read(&path)
    {
        entry.mime_type = Some(sniffed(path.as_path(), &file).tried(what)?);
    }
    Ok(entry)
}

/// What a file is that is open.
fn sniffed(path: &Path, file: impl AsFd) -> rustix::io::Result<String> {
    let mut head = [0; SNIFFED_BYTES];
    let length = rustix::io::read(file, &mut head)?;
    Ok(mime_type(path, Some(&head[..length])))
}

/// Lists a directory, page by page and by path.
pub(crate) fn list(
    tree: &Tree,
    ticks: &Ticks,
    request: &FileList,
    conversation: &Conversation,
) -> Result<FileResult> {
    let path = CellPath::parse(&request.path)?;
    let directory = tree.directory(&path)?;
    let pattern = request.glob.as_deref().map(Pattern::parse).transpose()?;
    if request.limit == 0 || request.limit > MOST_ENTRIES {
        let range = format!("between 1 and {MOST_ENTRIES}");
        return Err(Error::argument("limit", range, request.limit));
    }
    let mut walk = Walk {
        tree,
        ticks,
        conversation,
        base: &path,
        pattern,
        recursive: request.recursive,
        after: request.cursor.as_deref().map(read_cursor).transpose()?,
        limit: request.limit as usize,
        page: match request.names_only {
            true => Page::Names(Vec::new()),
            false => Page::Entries(Vec::new()),
        },
        mime_types: request.mime_types,
        room: request.room,
        bytes: 0,
        last: PathBuf::new(),
        more: false,
    };
    walk.directory(&directory, Path::new(""), 0)?;
    let next_cursor = walk.more.then(|| write_cursor(&walk.last));
    Ok(match walk.page {
        Page::Entries(entries) => FileResult::Entries(FileEntries { entries, next_cursor }),
        Page::Names(names) => FileResult::Names(FileNames { names, next_cursor }),
    })
}

/// What is on a page so far.
enum Page {
    Entries(Vec<FileEntry>),
    Names(Vec<String>),
}

impl Page {
    fn len(&self) -> usize {
        match self {
            Self::Entries(entries) => entries.len(),
            Self::Names(names) => names.len(),
        }
    }
}

/// A listing under way: depth first, each directory before what is in it.
struct Walk<'a> {
    tree: &'a Tree,
    ticks: &'a Ticks,
    conversation: &'a Conversation,
    base: &'a CellPath,
    pattern: Option<Pattern>,
    recursive: bool,
    /// The last path of the page before this one.
    after: Option<PathBuf>,
    limit: usize,
    page: Page,
    /// Whether files are looked into.
    mime_types: bool,
    /// How long it is on the wire.
    room: Option<PageRoom>,
    bytes: usize,
    last: PathBuf,
    more: bool,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &OwnedFd, below: &Path, depth: usize) -> Result<()> {
        let what = || format!("list {}", self.base.join(below));
        within(depth).tried(what)?;
        let mut found = names(directory).tried(what)?;
        found.retain(|(name, _)| !is_ours(name));
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let shown = shown_directory(&self.base.join(below));
        let before = found.partition_point(|(name, _)| self.is_before(&below.join(name)));
        let mut rest = &found[before..];
        while !rest.is_empty() && !self.more {
            if self.conversation.is_over() {
                return Err(cancelled());
            }
            // No more than fit on the page are looked at, and one that tells that there are more.
            let most = (self.limit - self.page.len() + 1).min(NAMES_AT_ONCE).min(rest.len());
            let (chunk, later) = rest.split_at(most);
            rest = later;
            let is_wanted = |name| self.wants_all() || self.is_wanted(&below.join(name));
            let wanted: Vec<bool> = chunk.iter().map(|(name, _)| is_wanted(name)).collect();
            let mut seen = match self.page {
                Page::Entries(_) => {
                    let names = chunk.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
                    let names: Vec<&OsStr> = names.map(|((name, _), _)| name.as_os_str()).collect();
                    let look = Look {
                        tree: self.tree,
                        ticks: self.ticks,
                        directory,
                        shown: &shown,
                        mime_types: self.mime_types,
                    };
                    look_at_all(look, &names)
                }
                Page::Names(_) => Vec::new(),
            }
            .into_iter();
            for ((name, kind), wanted) in chunk.iter().zip(wanted) {
                let path = below.join(name);
                if wanted {
                    match seen.next() {
                        Some(seen) => self.add(seen, &path)?,
                        None => self.add_name(directory, (name, *kind), &path),
                    }
                }
                if self.more {
                    break;
                }
                self.descend(directory, (name, *kind), &path, depth)?;
            }
        }
        Ok(())
    }

    fn wants_all(&self) -> bool {
        self.after.is_none() && self.pattern.is_none()
    }

    /// Whether a path belongs on this page or a later one.
    fn is_wanted(&self, path: &Path) -> bool {
        self.after.as_ref().is_none_or(|after| path > after.as_path())
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(path))
    }

    /// Whether a path and all below it was on the pages before this one.
    fn is_before(&self, path: &Path) -> bool {
        self.after.as_ref().is_some_and(|after| path < after.as_path() && !after.starts_with(path))
    }

    fn descend(
        &mut self,
        directory: &OwnedFd,
        (name, kind): (&OsStr, FileType),
        path: &Path,
        depth: usize,
    ) -> Result<()> {
        let may_be_directory = matches!(kind, FileType::Directory | FileType::Unknown);
        if !(self.recursive && may_be_directory) {
            return Ok(());
        }
        match open_directory(directory, name) {
            Ok(inside) => self.directory(&inside, path, depth + 1),
            // Gone or replaced meanwhile, or another user's: it was shown, its content is not.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(()),
            Err(errno) => Err(fault(&format!("list {}", self.base.join(path)), errno)),
        }
    }

    /// Puts something on the page, unless it is gone or the page is full.
    fn add(&mut self, seen: rustix::io::Result<FileEntry>, path: &Path) -> Result<()> {
        let entry = match seen {
            Ok(entry) => entry,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(fault(&format!("look at {}", self.base.join(path)), errno)),
        };
        let target = entry.target.as_deref().map_or(0, json_bytes);
        let bytes = json_bytes(&entry.path) + target;
        if self.takes(ENTRY_BYTES, bytes, path)
            && let Page::Entries(entries) = &mut self.page
        {
            entries.push(entry);
        }
        Ok(())
    }

    /// Puts a name on the page, unless that is full.
    fn add_name(&mut self, directory: &OwnedFd, (name, kind): (&OsStr, FileType), path: &Path) {
        let mut shown = path.to_string_lossy().into_owned();
        if is_directory(directory, name, kind) {
            shown.push('/');
        }
        if self.takes(NAME_BYTES, json_bytes(&shown), path)
            && let Page::Names(names) = &mut self.page
        {
            names.push(shown);
        }
    }

    /// Whether there is room for one more; it is then the last one so far.
    fn takes(&mut self, usual: usize, bytes: usize, path: &Path) -> bool {
        let clamped = |bytes: u64| usize::try_from(bytes).unwrap_or(MOST_BYTES).min(MOST_BYTES);
        let bytes = bytes + self.room.map_or(usual, |room| clamped(room.per_entry));
        let is_full = match self.room {
            None => self.bytes > MOST_BYTES,
            Some(room) => self.page.len() > 0 && self.bytes + bytes > clamped(room.bytes),
        };
        self.more = self.page.len() == self.limit || is_full;
        if !self.more {
            self.bytes += bytes;
            path.clone_into(&mut self.last);
        }
        !self.more
    }
}

fn is_directory(directory: &OwnedFd, name: &OsStr, kind: FileType) -> bool {
    if kind != FileType::Unknown {
        return kind == FileType::Directory;
    }
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// What it takes to look at something in a directory.
#[derive(Clone, Copy)]
struct Look<'a> {
    tree: &'a Tree,
    ticks: &'a Ticks,
    directory: &'a OwnedFd,
    /// Its path, to which names are added.
    shown: &'a str,
    mime_types: bool,
}

impl Look<'_> {
    fn all(self, names: &[&OsStr]) -> Vec<rustix::io::Result<FileEntry>> {
        names.iter().map(|name| self.one(name)).collect()
    }

    fn one(self, name: &OsStr) -> rustix::io::Result<FileEntry> {
        let look = || statat(self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let found = self.ticks.settle(self.tree, look)?;
        let name_shown = name.to_string_lossy();
        let mut path = String::with_capacity(self.shown.len() + name_shown.len());
        path.push_str(self.shown);
        path.push_str(&name_shown);
        let mut entry = entry(path, &found);
        if entry.kind == FileKind::Symlink {
            let target = readlinkat(self.directory, name, Vec::new());
            entry.target = target.ok().map(|target| target.to_string_lossy().into_owned());
        }
        if self.mime_types && entry.kind == FileKind::File {
            entry.mime_type = self.mime_type(name);
        }
        Ok(entry)
    }

    /// What a file is; nothing of one that is another's, gone, or no file any more.
    fn mime_type(self, name: &OsStr) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(self.directory, name, flags, Mode::empty()).ok()?;
        let is_file = fstat(&file).is_ok_and(|stat| is_file(&stat));
        is_file.then(|| sniffed(Path::new(name), &file).ok()).flatten()
    }
}

/// Looks at everything of these names, by several threads when they are many.
fn look_at_all(look: Look<'_>, names: &[&OsStr]) -> Vec<rustix::io::Result<FileEntry>> {
    let threads = if names.len() < WORTH_THREADS { 1 } else { threads() };
    let mut shares = names.chunks(names.len().div_ceil(threads).max(1));
    let own = shares.next().unwrap_or_default();
    thread::scope(|scope| {
        let begin = |share| {
            let helper = Helper::new()?;
            let work = move || {
                let _helper = helper;
                look.all(share)
            };
            thread::Builder::new().spawn_scoped(scope, work).ok()
        };
        let helped: Vec<_> = shares.map(|share| (share, begin(share))).collect();
        let mut seen = look.all(own);
        for (share, helping) in helped {
            let done = helping.and_then(|helping| helping.join().ok());
            seen.extend(done.unwrap_or_else(|| look.all(share)));
        }
        seen
    })
}

/// The path of a directory, to which names in it can be added.
fn shown_directory(path: &CellPath) -> String {
    let mut shown = path.to_string();
    if !shown.ends_with('/') {
        shown.push('/');
    }
    shown
}

fn entry(path: String, stat: &Stat) -> FileEntry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => FileKind::Other,
    };
    FileEntry {
        path,
        kind,
        size: stat.st_size.cast_unsigned(),
        mode: stat.st_mode & 0o7777,
        modified: modified(stat),
        etag: (kind == FileKind::File).then(|| etag_of(stat)),
        mime_type: None,
        target: None,
    }
}

/// The path of a page's last entry, byte by byte: it need not be text.
fn write_cursor(path: &Path) -> String {
    use std::fmt::Write;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn read_cursor(text: &str) -> Result<PathBuf> {
    let refused = || {
        Error::argument("cursor", "the next_cursor of a page", format!("{text:?}"))
            .hint("leave cursor out for the first page")
    };
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for pair in text.as_bytes().chunks(2) {
        let digits = std::str::from_utf8(pair).map_err(|_| refused())?;
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| pair.len() == 2);
        bytes.push(byte.ok_or_else(refused)?);
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}
