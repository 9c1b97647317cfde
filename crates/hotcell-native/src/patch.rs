//! Changes of files as text, in the format of git's patches.
//!
//! Whatever is in the text can be applied: a change for which there is no room is left out whole, and
//! named.
//! What is no UTF-8 text, or too large to be compared, is named as binary.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use hotcell_model::{ChangeKind, Patch};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use similar::TextDiff;

use crate::compare::{Change, content_differs};
use crate::tree;

/// The largest file that is compared line by line.
const MOST_FILE_BYTES: u64 = 4 << 20;
const CONTEXT: usize = 3;
/// After so many files without room no more are looked at.
const MOST_LEFT_OUT: usize = 20;
/// No change is shorter than this.
const LEAST: usize = 60;
/// A comparison that takes longer is coarser.
const WITHIN: Duration = Duration::from_millis(500);
/// Where git looks for a zero byte, which makes a file binary.
const LOOKED_AT: usize = 8000;

/// The changes between two states of some files as a patch of at most `most_bytes`. Paths are
/// shown below `shown_in`. No link is followed, whatever becomes of the files meanwhile.
pub(crate) fn patch(
    before: &OwnedFd,
    now: &OwnedFd,
    changes: &[Change],
    shown_in: &Path,
    most_bytes: usize,
) -> io::Result<Patch> {
    let mut patch = Patch { text: String::new(), truncated: false, left_out: Vec::new() };
    for change in changes.iter().filter(|change| !change.directory) {
        let old = match change.kind {
            ChangeKind::Added => None,
            ChangeKind::Changed | ChangeKind::Removed => Side::read(before, &change.path)?,
        };
        let new = match change.kind {
            ChangeKind::Removed => None,
            ChangeKind::Changed | ChangeKind::Added => Side::read(now, &change.path)?,
        };
        let path = shown_in.join(&change.path);
        let text = change_text(path.strip_prefix("/").unwrap_or(&path), old, new)?;
        if patch.text.len() + text.len() > most_bytes {
            patch.truncated = true;
            if patch.left_out.len() == MOST_LEFT_OUT || patch.text.len() + LEAST > most_bytes {
                break;
            }
            // One that is shorter may still have room.
            patch.left_out.push(path.to_string_lossy().into_owned());
            continue;
        }
        patch.text.push_str(&text);
    }
    Ok(patch)
}

/// A file or link as one state has it.
#[derive(Debug)]
struct Side {
    /// Its permissions; none for a link.
    permissions: Option<u32>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Text(String),
    /// Of a file, to be compared; none for a link.
    Binary(Option<File>),
}

impl Side {
    /// What is at a path; `None` for what git knows nothing of, and what is there no more.
    fn read(root: &OwnedFd, path: &Path) -> io::Result<Option<Self>> {
        match Self::try_to_read(root, path) {
            Err(error) if tree::is_absent(&error) => Ok(None),
            read => read,
        }
    }

    fn try_to_read(root: &OwnedFd, path: &Path) -> io::Result<Option<Self>> {
        let (directory, name) = tree::parent(root, path)?;
        let directory = &directory;
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                // Not for reading yet: something else may be there by now.
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(directory, name, flags, Mode::empty())?;
                let stat = fstat(&file)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Ok(None);
                }
                let content = content_of(&file)?;
                Ok(Some(Self { permissions: Some(stat.st_mode & 0o7777), content }))
            }
            FileType::Symlink => {
                let target = readlinkat(directory, name, Vec::new())?.into_bytes();
                let content = as_text(target).map_or(Content::Binary(None), Content::Text);
                Ok(Some(Self { permissions: None, content }))
            }
            FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(None),
        }
    }

    /// As git writes it: links, and files that can be run or not.
    fn git_mode(&self) -> &'static str {
        match self.permissions {
            None => "120000",
            Some(permissions) if permissions & 0o100 != 0 => "100755",
            Some(_) => "100644",
        }
    }
}

fn content_of(file: &OwnedFd) -> io::Result<Content> {
    let number = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mut file = File::from(openat(CWD, number, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    (&mut file).take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= MOST_FILE_BYTES
        && let Some(text) = as_text(bytes)
    {
        return Ok(Content::Text(text));
    }
    file.rewind()?;
    Ok(Content::Binary(Some(file)))
}

fn as_text(bytes: Vec<u8>) -> Option<String> {
    let has_zero = bytes[..bytes.len().min(LOOKED_AT)].contains(&0);
    String::from_utf8(bytes).ok().filter(|_| !has_zero)
}

/// One path's part of a patch; empty where git would say nothing.
fn change_text(path: &Path, old: Option<Side>, new: Option<Side>) -> io::Result<String> {
    match (old, new) {
        (None, None) => Ok(String::new()),
        // A file that became a link is another: git deletes the one and makes the other.
        (Some(old), Some(new)) if old.permissions.is_some() != new.permissions.is_some() => {
            Ok(change_text(path, Some(old), None)? + &change_text(path, None, Some(new))?)
        }
        (old, new) => {
            let name = |prefix: &str| quoted(prefix, path);
            let mut text = format!("diff --git {} {}\n", name("a/"), name("b/"));
            match (&old, &new) {
                (None, Some(new)) => text += &format!("new file mode {}\n", new.git_mode()),
                (Some(old), None) => text += &format!("deleted file mode {}\n", old.git_mode()),
                (Some(old), Some(new)) => text += &mode_change(old, new),
                (None, None) => {}
            }
            let from = if old.is_some() { name("a/") } else { "/dev/null".to_owned() };
            let to = if new.is_some() { name("b/") } else { "/dev/null".to_owned() };
            let nothing = || Content::Text(String::new());
            let old = old.map_or_else(nothing, |side| side.content);
            let new = new.map_or_else(nothing, |side| side.content);
            match (old, new) {
                (Content::Text(old), Content::Text(new)) => {
                    if old != new {
                        text += &format!("--- {}\n+++ {}\n", ended(&from), ended(&to));
                        text += &hunks(&old, &new);
                    }
                }
                (Content::Binary(Some(old)), Content::Binary(Some(new)))
                    if !content_differs(&old, &new)? => {}
                (Content::Binary(_), _) | (_, Content::Binary(_)) => {
                    text += &format!("Binary files {from} and {to} differ\n");
                }
            }
            Ok(text)
        }
    }
}

fn mode_change(old: &Side, new: &Side) -> String {
    if old.permissions == new.permissions {
        return String::new();
    }
    let mode = |side: &Side| {
        if old.git_mode() == new.git_mode() {
            // Git knows no such change; it is told all the same.
            format!("100{:03o}", side.permissions.unwrap_or_default())
        } else {
            side.git_mode().to_owned()
        }
    };
    format!("old mode {}\nnew mode {}\n", mode(old), mode(new))
}

fn hunks(old: &str, new: &str) -> String {
    // By newlines alone: to git a carriage return ends no line.
    let lines = |text| -> Vec<&str> { str::split_inclusive(text, '\n').collect() };
    let (old, new) = (lines(old), lines(new));
    let diff = TextDiff::configure().timeout(WITHIN).diff_slices(&old, &new);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        text += &format!("{}\n", hunk.header());
        for change in hunk.iter_changes() {
            let line = change.value();
            text += &format!("{}{line}", change.tag());
            if !line.ends_with('\n') {
                text += "\n\\ No newline at end of file\n";
            }
        }
    }
    text
}

/// A name at the end of a line; git ends one with a space in it by a tab.
fn ended(name: &str) -> String {
    if name.contains(' ') && !name.starts_with('"') { format!("{name}\t") } else { name.to_owned() }
}

/// A name as git writes it: in quotes and escaped where it would not be plain.
fn quoted(prefix: &str, path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    if let Ok(plain) = std::str::from_utf8(bytes)
        && !plain.chars().any(|char| char.is_control() || matches!(char, '"' | '\\'))
    {
        return format!("{prefix}{plain}");
    }
    let escaped: String = bytes.iter().map(|byte| escape(*byte)).collect();
    format!("\"{prefix}{escaped}\"")
}

fn escape(byte: u8) -> String {
    match byte {
        b'"' => "\\\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        0x20..=0x7e => char::from(byte).to_string(),
        other => format!("\\{other:03o}"),
    }
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
