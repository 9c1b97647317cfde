//! Packs a directory of this machine into a tar archive.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use crate::show::note;

/// Packs what is in a directory. Links stay links; sockets, pipes and devices are left out.
pub(super) fn pack(directory: &Path, out: impl Write) -> io::Result<()> {
    let mut builder = Builder::new(out);
    let mut ahead = vec![PathBuf::new()];
    while let Some(below) = ahead.pop() {
        let mut names = Vec::new();
        let here = directory.join(&below);
        for entry in fs::read_dir(&here).map_err(|error| about(&here, &error))? {
            names.push(entry.map_err(|error| about(&here, &error))?.file_name());
        }
        names.sort();
        for name in names {
            let inside = below.join(name);
            if add(&mut builder, directory, &inside)? {
                ahead.push(inside);
            }
        }
    }
    builder.into_inner()?.flush()
}

/// Adds one thing; whether it is a directory.
fn add(builder: &mut Builder<impl Write>, directory: &Path, inside: &Path) -> io::Result<bool> {
    let path = directory.join(inside);
    let tried = |error: io::Error| about(&path, &error);
    let found = fs::symlink_metadata(&path).map_err(tried)?;
    if found.is_dir() {
        let mut header = header(&found, EntryType::Directory, 0);
        builder.append_data(&mut header, inside, io::empty())?;
        return Ok(true);
    }
    if found.is_symlink() {
        let target = fs::read_link(&path).map_err(tried)?;
        builder.append_link(&mut header(&found, EntryType::Symlink, 0), inside, target)?;
    } else if found.is_file() {
        let file = File::open(&path).map_err(tried)?;
        let found = file.metadata().map_err(tried)?;
        let mut header = header(&found, EntryType::Regular, found.len());
        builder.append_data(&mut header, inside, Exactly { file, left: found.len(), path })?;
    } else {
        note(&format!("{} is neither file, directory nor link: left out", path.display()));
    }
    Ok(false)
}

fn header(found: &Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(found.permissions().mode() & 0o777);
    header.set_mtime(u64::try_from(found.mtime()).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// A file of which the archive was told how long it is; it may grow meanwhile, but not shrink.
struct Exactly {
    file: File,
    left: u64,
    path: PathBuf,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let length = self.file.read(&mut buffer[..most])?;
        if length == 0 && self.left > 0 && most > 0 {
            let error = io::Error::other("it became shorter while it was read");
            return Err(about(&self.path, &error));
        }
        self.left -= length as u64;
        Ok(length)
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
