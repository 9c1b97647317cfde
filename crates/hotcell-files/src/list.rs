//! Listing directories and showing single files.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hotcell_model::{Error, FileEntries, FileEntry, FileKind, FileList, FileStat, Result};
use rustix::fs::{AtFlags, FileType, Stat, fstat, readlinkat, statat};
use rustix::io::Errno;

use crate::conversation::Conversation;
use crate::etag::etag_of;
use crate::fault::{Tried, cancelled, fault};
use crate::kinds::mime_type;
use crate::path::CellPath;
use crate::pattern::Pattern;
use crate::read::modified;
use crate::removal::{names, open_directory, within};
use crate::search_lines::json_bytes;
use crate::settled::Ticks;
use crate::staged::is_ours;
use crate::tree::{Links, Tree};

/// The most entries of one page.
const MOST_ENTRIES: u32 = 10_000;
/// What a page has on the wire at most, but for its last entry.
const MOST_BYTES: usize = 8 << 20;
const ENTRY_BYTES: usize = 256;
/// What is looked at to see what a file is.
const SNIFFED_BYTES: usize = 8 * 1024;

/// Shows one file or directory.
pub(crate) fn stat(tree: &Tree, ticks: &Ticks, request: &FileStat) -> Result<FileEntry> {
    let path = CellPath::parse(&request.path)?;
    let what = || format!("look at {path}");
    let seen = tree.look(&path, Links::Kept)?;
    let found = ticks.settle(tree, || fstat(&seen)).tried(what)?;
    let mut entry = entry(&path, &found);
    if entry.kind == FileKind::Symlink {
        let target = readlinkat(&seen, "", Vec::new()).tried(what)?;
        entry.target = Some(target.to_string_lossy().into_owned());
    }
    if entry.kind == FileKind::File
        && let Ok((file, _)) = tree.read(&path)
    {
        let mut head = vec![0; SNIFFED_BYTES];
        let length = rustix::io::read(&file, &mut head).tried(what)?;
        entry.mime_type = Some(mime_type(path.as_path(), Some(&head[..length])));
    }
    Ok(entry)
}

/// Lists a directory, page by page and by path.
pub(crate) fn list(
    tree: &Tree,
    ticks: &Ticks,
    request: &FileList,
    conversation: &Conversation,
) -> Result<FileEntries> {
    let path = CellPath::parse(&request.path)?;
    let directory = tree.directory(&path)?;
    let pattern = request.glob.as_deref().map(Pattern::parse).transpose()?;
    if request.limit == 0 || request.limit > MOST_ENTRIES {
        return Err(Error::invalid(format!("a page cannot have {} entries", request.limit))
            .hint(format!("ask for 1 to {MOST_ENTRIES}")));
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
        entries: Vec::new(),
        bytes: 0,
        last: PathBuf::new(),
        more: false,
    };
    walk.directory(&directory, Path::new(""), 0)?;
    let next_cursor = walk.more.then(|| write_cursor(&walk.last));
    Ok(FileEntries { entries: walk.entries, next_cursor })
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
    entries: Vec<FileEntry>,
    /// How long they are on the wire.
    bytes: usize,
    last: PathBuf,
    more: bool,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &OwnedFd, below: &Path, depth: usize) -> Result<()> {
        let what = || format!("list {}", self.base.join(below));
        within(depth).tried(what)?;
        let mut found = names(directory).tried(what)?;
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (name, kind) in found {
            if self.more {
                break;
            }
            if is_ours(&name) {
                continue;
            }
            if self.conversation.is_over() {
                return Err(cancelled());
            }
            let path = below.join(&name);
            let is_after = self.after.as_ref().is_none_or(|after| path > *after);
            let leads_on = self.after.as_ref().is_some_and(|after| after.starts_with(&path));
            if is_after && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(&path)) {
                self.entry(directory, &name, &path)?;
            }
            let may_be_directory = matches!(kind, FileType::Directory | FileType::Unknown);
            if self.recursive && may_be_directory && (is_after || leads_on) && !self.more {
                self.descend(directory, &name, &path, depth)?;
            }
        }
        Ok(())
    }

    fn descend(
        &mut self,
        directory: &OwnedFd,
        name: &OsStr,
        path: &Path,
        depth: usize,
    ) -> Result<()> {
        match open_directory(directory, name) {
            Ok(inside) => self.directory(&inside, path, depth + 1),
            // Gone or replaced meanwhile, or another user's: it was shown, its content is not.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(()),
            Err(errno) => Err(fault(&format!("list {}", self.base.join(path)), errno)),
        }
    }

    fn entry(&mut self, directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<()> {
        let whole = self.base.join(path);
        let look = || statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let found = match self.ticks.settle(self.tree, look) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(fault(&format!("look at {whole}"), errno)),
        };
        if self.entries.len() == self.limit || self.bytes > MOST_BYTES {
            self.more = true;
            return Ok(());
        }
        let mut entry = entry(&whole, &found);
        if entry.kind == FileKind::Symlink {
            let target = readlinkat(directory, name, Vec::new());
            entry.target = target.ok().map(|target| target.to_string_lossy().into_owned());
        }
        let target = entry.target.as_deref().map_or(0, json_bytes);
        self.bytes += ENTRY_BYTES + json_bytes(&entry.path) + target;
        self.entries.push(entry);
        path.clone_into(&mut self.last);
        Ok(())
    }
}

fn entry(path: &CellPath, stat: &Stat) -> FileEntry {
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
        path: path.to_string(),
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
        Error::invalid(format!("`{text}` is no cursor of a listing"))
            .hint("pass next_cursor as the page before gave it")
    };
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for pair in text.as_bytes().chunks(2) {
        let digits = std::str::from_utf8(pair).map_err(|_| refused())?;
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| pair.len() == 2);
        bytes.push(byte.ok_or_else(refused)?);
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}
