//! The copy of a cell's records.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hotcell_place::write_whole;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::file_name::{FileName, LOGS};
use crate::held::{directory_flags, size_of};

/// Writes what the other end sends. Whoever reads it does so at the same time.
#[derive(Debug)]
pub(crate) struct Copy {
    records: OwnedFd,
    beside: PathBuf,
    /// The file that was written last, which is mostly the next one.
    last: Option<(FileName, OwnedFd, u64)>,
}

impl Copy {
    pub(crate) fn open(records: &Path, beside: &Path) -> io::Result<Self> {
        let records = rustix::fs::openat(CWD, records, directory_flags(), Mode::empty())?;
        match rustix::fs::mkdirat(&records, LOGS, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Self { records, beside: beside.to_owned(), last: None })
    }

    /// Lets a file have these bytes at a place and nothing after them.
    pub(crate) fn write(&mut self, file: &FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (opened, length) = match self.last.take() {
            Some((last, opened, length)) if last == *file => (opened, length),
            Some(_) | None => self.open_file(file)?,
        };
        if offset > length {
            return Err(io::Error::other(format!(
                "the other end goes on with {file} at {offset}, and there are {length} bytes of it"
            )));
        }
        if offset < length {
            rustix::fs::ftruncate(&opened, offset)?;
        }
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&opened, &bytes[written..], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.last = Some((file.clone(), opened, offset + bytes.len() as u64));
        Ok(())
    }

    fn open_file(&self, file: &FileName) -> io::Result<(OwnedFd, u64)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open =
            || rustix::fs::openat(&self.records, file.as_str(), flags, Mode::RUSR | Mode::WUSR);
        let opened = match open() {
            // It was a link.
            Err(Errno::LOOP) => {
                self.unlink(file)?;
                open()?
            }
            opened => opened?,
        };
        let length = size_of(&opened)?;
        Ok((opened, length))
    }

    pub(crate) fn rename(&mut self, from: &FileName, to: &FileName) -> io::Result<()> {
        self.last = None;
        let renamed =
            rustix::fs::renameat(&self.records, from.as_str(), &self.records, to.as_str());
        match renamed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(crate) fn link(&mut self, file: &FileName, target: &str) -> io::Result<()> {
        self.remove(file)?;
        Ok(rustix::fs::symlinkat(target, &self.records, file.as_str())?)
    }

    pub(crate) fn remove(&mut self, file: &FileName) -> io::Result<()> {
        self.last.take_if(|(last, _, _)| last == file);
        self.unlink(file)
    }

    fn unlink(&self, file: &FileName) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.records, file.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Has a file beside the records on the disk.
    pub(crate) fn sync(&self, file: &str) -> io::Result<()> {
        File::open(self.beside.join(file))?.sync_all()?;
        File::open(&self.beside)?.sync_all()
    }

    /// Replaces a file beside the records.
    pub(crate) fn put(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        write_whole(&self.beside.join(file), bytes)
    }
}
