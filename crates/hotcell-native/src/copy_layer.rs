//! A copy of what a cell has written, as the kernel's overlay has it on disk.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use hotcell_jail::StepError;
use hotcell_jail::ids::IdLayout;
use hotcell_jail::namespace_work::{Namespace, work_in};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr,
    lsetxattr, mknodat, utimensat,
};

/// Copies directories with everything in them, to where nothing is yet. Content is shared where the
/// file system can.
pub(crate) fn copy_layer(pairs: &[(PathBuf, PathBuf)], ids: &IdLayout) -> Result<(), StepError> {
    let namespace = match ids {
        IdLayout::Private { .. } | IdLayout::Host { .. } => Namespace::Own,
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } => Namespace::New(ids),
    };
    let copy_all = || {
        let mut copy = Copy::default();
        for (from, to) in pairs {
            copy.inside(from, to)?;
            copy_attributes(from, to, &|_| true)?;
        }
        Ok(0)
    };
    work_in(namespace, copy_all).map(drop)
}

/// A copy under way; files with several names keep them.
#[derive(Debug, Default)]
struct Copy {
    linked: HashMap<(u64, u64), PathBuf>,
}

impl Copy {
    fn inside(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            self.entry(&entry.path(), &to.join(entry.file_name()))?;
        }
        Ok(())
    }

    fn entry(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(from)?;
        let key = (metadata.dev(), metadata.ino());
        if !metadata.is_dir() && metadata.nlink() > 1 {
            if let Some(first) = self.linked.get(&key) {
                return fs::hard_link(first, to);
            }
            self.linked.insert(key, to.to_owned());
        }
        match FileType::from_raw_mode(metadata.mode()) {
            FileType::Directory => {
                fs::create_dir(to)?;
                self.inside(from, to)?;
            }
            FileType::RegularFile => {
                io::copy(&mut File::open(from)?, &mut File::create_new(to)?)?;
            }
            FileType::Symlink => symlink(fs::read_link(from)?, to)?,
            kind @ (FileType::CharacterDevice | FileType::Fifo | FileType::Socket) => {
                // A device of these numbers is how an overlay marks what was removed.
                mknodat(CWD, to, kind, Mode::from_raw_mode(0o600), metadata.rdev())?;
            }
            FileType::BlockDevice | FileType::Unknown => {}
        }
        copy_attributes(from, to, &|_| true)
    }
}

/// Copies one file with everything that it has.
pub(crate) fn copy_entry(from: &Path, to: &Path) -> io::Result<()> {
    Copy::default().entry(from, to)
}

/// Owner, mode, extended attributes if they are wanted and times, in the order in which they do not
/// undo each other.
pub(crate) fn copy_attributes(
    from: &Path,
    to: &Path,
    is_wanted: &dyn Fn(&OsStr) -> bool,
) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    lchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    for name in attribute_names(from)?.into_iter().filter(|name| is_wanted(name)) {
        let mut value = vec![0; 64 * 1024];
        let length = lgetxattr(from, &name, &mut value)?;
        lsetxattr(to, &name, &value[..length], XattrFlags::empty())?;
    }
    if !metadata.is_symlink() {
        fs::set_permissions(to, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    }
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

fn attribute_names(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = vec![0; 64 * 1024];
    let length = match llistxattr(path, &mut names) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
}
