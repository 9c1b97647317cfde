//! New content of a file before it is in place: in nobody's way, and gone if its maker dies.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use hotcell_model::{FileWritten, Precondition, Result};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, fchmod, fstat, fsync,
    futimens, linkat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

use crate::etag::{etag_of, require};
use crate::fault::{Tried, fault};
use crate::tree::{Slot, require_regular};
use crate::undo::Undo;

const PREFIX: &str = ".hotcell-";
/// What a name that nobody asked for is used for: new content, what is kept until all is done, and
/// what is unpacked.
const PURPOSES: [&str; 3] = ["new", "kept", "import"];
const DEFAULT_MODE: u32 = 0o644;
/// How often a file is put in place anew when another comes and goes there meanwhile.
const ATTEMPTS: usize = 100;

/// New content on its way.
#[derive(Debug)]
pub(crate) struct Staged {
    file: File,
    /// Where it lies meanwhile, on file systems that have no nameless files.
    name: Option<Hidden>,
    bytes: u64,
}

/// A name that nobody asked for; removed when it is no longer needed.
#[derive(Debug)]
pub(crate) struct Hidden {
    directory: OwnedFd,
    name: OsString,
}

/// Whether a name is one of those that nobody asked for.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    PURPOSES.iter().any(|purpose| is_for(name, purpose))
}

/// Whether a name is one that nobody asked for, and what is there is not in use yet.
pub(crate) fn is_unfinished(name: &OsStr) -> bool {
    is_for(name, "new") || is_for(name, "import")
}

fn is_for(name: &OsStr, purpose: &str) -> bool {
    let rest = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    let digits = rest.and_then(|rest| rest.strip_prefix(purpose.as_bytes()));
    digits.is_some_and(|digits| digits.len() == 17 && digits[0] == b'-')
}

/// A name that is free in any directory.
pub(crate) fn hidden_name(purpose: &str) -> OsString {
    OsString::from(format!("{PREFIX}{purpose}-{:016x}", fastrand::u64(..)))
}

impl Hidden {
    /// A name that is free in a directory.
    pub(crate) fn new(directory: &OwnedFd, purpose: &str) -> io::Result<Self> {
        Ok(Self { directory: directory.try_clone()?, name: hidden_name(purpose) })
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Leaves what is there where it is.
    pub(crate) fn keep(mut self) {
        self.name.clear();
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Nothing there is as good as removed.
            let _ = unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

impl Staged {
    /// Empty content that can be put in place in this directory.
    pub(crate) fn new(slot: &Slot) -> Result<Self> {
        let what = || format!("write {}", slot.path);
        let mode = Mode::from_raw_mode(0o600);
        let nameless = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match openat(&slot.directory, ".", nameless, mode) {
            Ok(file) => Ok(Self { file: File::from(file), name: None, bytes: 0 }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let hidden = Hidden::new(&slot.directory, "new").tried(what)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                let file = openat(&slot.directory, hidden.name(), flags, mode).tried(what)?;
                Ok(Self { file: File::from(file), name: Some(hidden), bytes: 0 })
            }
            Err(errno) => Err(fault(&what(), errno)),
        }
    }

    /// Takes over what is in a file; where the file system can share it, nothing is copied.
    pub(crate) fn copy_from(&mut self, mut source: &File) -> io::Result<()> {
        self.bytes += io::copy(&mut source, &mut self.file)?;
        Ok(())
    }

    /// Puts the content in place of what is there, in one step.
    pub(crate) fn place(
        self,
        slot: &Slot,
        mode: Option<u32>,
        precondition: &Precondition,
        undo: &mut dyn Undo,
    ) -> Result<FileWritten> {
        let what = || format!("write {}", slot.path);
        fsync(&self.file).tried(what)?;
        for _ in 0..ATTEMPTS {
            let present = slot.stat()?;
            if let Some(present) = &present {
                require_replaceable(slot, present)?;
            }
            let etag = present.as_ref().map(etag_of);
            require(&slot.path, precondition, etag.as_ref())?;
            // As with any write to a file, its set-user-id bit goes.
            let kept = present.as_ref().map(|present| present.st_mode & 0o777);
            let bits = mode.or(kept).unwrap_or(DEFAULT_MODE);
            fchmod(&self.file, Mode::from_raw_mode(bits)).tried(what)?;
            let placed = match &present {
                None => self.create(slot, undo)?,
                Some(present) => self.replace(slot, present, precondition, undo)?,
            };
            if placed {
                return self.finish(slot, present.is_none());
            }
        }
        Err(fault(&what(), Errno::AGAIN))
    }

    /// Puts the content where nothing is; whether that was still so.
    fn create(&self, slot: &Slot, undo: &mut dyn Undo) -> Result<bool> {
        let inode = fstat(&self.file).tried(|| format!("write {}", slot.path))?.st_ino;
        undo.creating(slot, Some(inode))?;
        match self.link_to(slot, &slot.name) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(fault(&format!("write {}", slot.path), errno)),
        }
    }

    /// Puts the content in place of a file; whether that was still the one that was looked at.
    fn replace(
        &self,
        slot: &Slot,
        present: &Stat,
        precondition: &Precondition,
        undo: &mut dyn Undo,
    ) -> Result<bool> {
        let what = || format!("write {}", slot.path);
        undo.replacing(slot)?;
        let hidden = Hidden::new(&slot.directory, "new").tried(what)?;
        self.link_to(slot, hidden.name()).tried(what)?;
        let directory = &slot.directory;
        if *precondition == Precondition::default() {
            renameat(directory, hidden.name(), directory, &slot.name).tried(what)?;
            hidden.keep();
            return Ok(true);
        }
        // Both change places, so that what was really there can be looked at afterwards.
        let exchange = || {
            renameat_with(directory, hidden.name(), directory, &slot.name, RenameFlags::EXCHANGE)
        };
        match exchange() {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(fault(&what(), errno)),
        }
        let was = statat(directory, hidden.name(), AtFlags::SYMLINK_NOFOLLOW).tried(what)?;
        if is_same_content(&was, present) {
            return Ok(true);
        }
        exchange().tried(what)?;
        Ok(false)
    }

    fn link_to(&self, slot: &Slot, name: &OsStr) -> rustix::io::Result<()> {
        match &self.name {
            None => {
                let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, open, &slot.directory, name, AtFlags::SYMLINK_FOLLOW)
            }
            Some(hidden) => {
                linkat(&slot.directory, hidden.name(), &slot.directory, name, AtFlags::empty())
            }
        }
    }

    fn finish(self, slot: &Slot, created: bool) -> Result<FileWritten> {
        let what = || format!("write {}", slot.path);
        drop(self.name);
        mark_moment(&self.file).tried(what)?;
        let stat = fstat(&self.file).tried(what)?;
        Ok(FileWritten {
            path: slot.path.to_string(),
            etag: etag_of(&stat),
            size: self.bytes,
            created,
        })
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.file.write(bytes)?;
        self.bytes += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sets the time of change to one between the ticks of the kernel's clock.
pub(crate) fn mark_moment(file: impl AsFd) -> rustix::io::Result<()> {
    let now = clock_gettime(ClockId::Realtime);
    let now = Timespec { tv_sec: now.tv_sec, tv_nsec: now.tv_nsec };
    futimens(file, &Timestamps { last_access: now, last_modification: now })
}

/// A file of another user could be replaced in a directory of one's own, but not kept as theirs.
fn require_replaceable(slot: &Slot, present: &Stat) -> Result<()> {
    let what = format!("write {}", slot.path);
    require_regular(&what, present, "delete it first, or choose another name")?;
    if present.st_uid == geteuid().as_raw() { Ok(()) } else { Err(fault(&what, Errno::PERM)) }
}

/// Moving a file changes one of its times; its content is told by the others.
fn is_same_content(one: &Stat, other: &Stat) -> bool {
    (one.st_ino, one.st_size, one.st_mtime, one.st_mtime_nsec)
        == (other.st_ino, other.st_size, other.st_mtime, other.st_mtime_nsec)
}
