//! Files that only the operator may write: the configuration and the rules. What others can change is not
//! read.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Whose a file or a directory is, and who may write to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
    pub(crate) names: u64,
}

impl Held {
    fn of(found: &Metadata) -> Self {
        Self { owner: found.uid(), group: found.gid(), mode: found.mode(), names: found.nlink() }
    }

    /// Who else than `uid` and root can change it.
    fn writer(self, uid: u32) -> Option<String> {
        if self.owner != 0 && self.owner != uid {
            return Some(format!("uid {}, whose it is", self.owner));
        }
        if self.mode & 0o002 != 0 {
            return Some("everybody".to_owned());
        }
        // A group that has the owner's number is the owner's own.
        if self.mode & 0o020 != 0 && self.group != self.owner && self.group != 0 {
            return Some(format!("the group {}", self.group));
        }
        None
    }

    /// Why a file with these may not be relied on.
    pub(crate) fn refuse_file(self, uid: u32) -> Option<String> {
        if let Some(who) = self.writer(uid) {
            return Some(format!("it can be written by {who}"));
        }
        // Under its other name it may lie in a directory that a cell has.
        let linked = self.names > 1 && self.owner != 0;
        linked.then(|| format!("it has {} names, of which others may be anywhere", self.names))
    }

    /// Why nothing in a directory with these may be relied on.
    pub(crate) fn refuse_directory(self, uid: u32) -> Option<String> {
        let is_sticky = self.mode & 0o1000 != 0;
        self.writer(uid).filter(|_| !is_sticky || self.owner != 0 && self.owner != uid)
    }
}

/// The text of a file that nobody but who runs this and root can change, and what the file was when it was read.
///
/// # Errors
/// When it cannot be read, has more than `most` bytes, or somebody else can change it.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<(Metadata, String)> {
    let uid = rustix::process::getuid().as_raw();
    // A pipe without a writer would be waited for.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if let Some(why) = Held::of(&found).refuse_file(uid) {
        return Err(refused(&why, "chmod go-w, chown, or a copy, makes it yours alone"));
    }
    let place = path.canonicalize()?;
    for directory in place.ancestors().skip(1) {
        if let Some(who) = Held::of(&directory.metadata()?).refuse_directory(uid) {
            let shown = directory.display();
            return Err(refused(
                &format!("the directory {shown} above it can be written by {who}"),
                "keep it where only you can write",
            ));
        }
    }
    let text = text_of(&file, &found, most)?;
    Ok((found, text))
}

fn text_of(file: &File, found: &Metadata, most: u64) -> io::Result<String> {
    let mut text = String::new();
    if found.len() <= most {
        file.take(most + 1).read_to_string(&mut text)?;
    }
    if found.len() > most || text.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

fn refused(why: &str, what_to_do: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{why}: {what_to_do}"))
}
