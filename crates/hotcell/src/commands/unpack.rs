//! Unpacks a tar archive that comes out of a cell: it is not to be trusted.
//!
//! Nothing is written outside of the directory, and nothing through a link: each directory on the
//! way is opened by itself, and a link in its place is an error.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;
use tar::{Archive, Entry};

/// What was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Unpacked {
    /// How many files.
    pub(super) files: u64,
    /// The size of all files.
    pub(super) bytes: u64,
    /// Entries that are neither file, directory nor link.
    pub(super) left_out: u64,
}

/// Unpacks an archive into a directory that is there. Files in the way are replaced.
pub(super) fn unpack(reader: impl Read, directory: &Path) -> io::Result<Unpacked> {
    let root = Root(openat(CWD, directory, FOLDER & !OFlags::NOFOLLOW, Mode::empty())?);
    let mut archive = Archive::new(reader);
    let mut unpacked = Unpacked::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        root.place(&mut entry, &path, &mut unpacked).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
    }
    // Whoever sends it waits until all was taken.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(unpacked)
}

const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// The directory that is unpacked into.
struct Root(OwnedFd);

impl Root {
    fn place(
        &self,
        entry: &mut Entry<'_, impl Read>,
        path: &Path,
        unpacked: &mut Unpacked,
    ) -> io::Result<()> {
        let names = names(path)?;
        let bits = entry.header().mode().unwrap_or(0o644) & 0o777;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            return self.folder(&names, bits | 0o700).map(drop);
        }
        let Some((name, above)) = names.split_last() else {
            return Err(invalid("it has no name"));
        };
        let folder = self.folder(above, 0o777)?;
        let link_name = |entry: &Entry<'_, _>| -> io::Result<PathBuf> {
            let target = entry.link_name()?;
            Ok(target.ok_or_else(|| invalid("it is a link to nothing"))?.into_owned())
        };
        if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            let mut file = create(&folder, name, bits)?;
            unpacked.bytes += io::copy(entry, &mut file)?;
            unpacked.files += 1;
        } else if kind.is_symlink() {
            let target = link_name(entry)?;
            clear(&folder, name)?;
            symlinkat(target, &folder, name)?;
        } else if kind.is_hard_link() {
            let target = self::names(&link_name(entry)?)?;
            let Some((other, above)) = target.split_last() else {
                return Err(invalid("it is a link to nothing"));
            };
            let from = self.folder(above, 0o777)?;
            clear(&folder, name)?;
            linkat(&from, other, &folder, name, AtFlags::empty())?;
        } else {
            unpacked.left_out += 1;
        }
        Ok(())
    }

    /// A directory below the root; made where it is missing.
    fn folder(&self, names: &[OsString], bits: u32) -> io::Result<OwnedFd> {
        let mut folder = self.0.try_clone()?;
        for name in names {
            folder = match openat(&folder, name, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) => {
                    mkdirat(&folder, name, Mode::from_raw_mode(bits))?;
                    openat(&folder, name, FOLDER, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok(folder)
    }
}

/// A new file, in the place of whatever file or link is there.
fn create(folder: &OwnedFd, name: &OsStr, bits: u32) -> io::Result<File> {
    clear(folder, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, flags, Mode::from_raw_mode(bits))?))
}

fn clear(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The names of a path that stays below where it begins.
fn names(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(invalid("it leads out of the directory"));
            }
        }
    }
    Ok(names)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
