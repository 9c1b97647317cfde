//! Where the files of one exec's log lie, and what they are called.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hotcell_model::ExecId;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::segment::{HEADER_BYTES, HeaderRead, SegmentHeader, VERSION};

/// The directory of all logs, in the records directory.
pub(crate) const DIRECTORY: &str = "log";
/// Digits of a seq in a segment's name.
const NAME_DIGITS: usize = 20;

/// The files of one exec's log.
#[derive(Debug)]
pub(crate) struct LogPlace {
    records: OwnedFd,
    exec: String,
}

/// The statement that output is missing at the end, left where no record could be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GapNote {
    /// The last seq there was.
    pub(crate) to_seq: u64,
    /// All bytes there were.
    pub(crate) total_bytes: u64,
}

impl LogPlace {
    pub(crate) fn new(records: OwnedFd, exec: &ExecId) -> Self {
        Self { records, exec: exec.as_str().to_owned() }
    }

    fn path(&self, name: u64) -> String {
        format!("{DIRECTORY}/{}.{name:0width$}", self.exec, width = NAME_DIGITS)
    }

    fn note_path(&self) -> String {
        format!("{DIRECTORY}/{}.gap", self.exec)
    }

    /// Opens a segment for writing, and makes it and the directory if they are not there.
    pub(crate) fn create(&self, name: u64) -> Result<OwnedFd, Errno> {
        let path = self.path(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = || rustix::fs::openat(&self.records, &path, flags, Mode::RUSR | Mode::WUSR);
        match open() {
            Err(Errno::NOENT) => {
                self.make_directory()?;
                open()
            }
            outcome => outcome,
        }
    }

    fn make_directory(&self) -> Result<(), Errno> {
        match rustix::fs::mkdirat(&self.records, DIRECTORY, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Removes a segment; one that is left behind is only space lost.
    pub(crate) fn unlink(&self, name: u64) {
        let _ = rustix::fs::unlinkat(&self.records, self.path(name), AtFlags::empty());
    }

    /// Opens a segment for reading, if it is there.
    pub(crate) fn find(&self, name: u64) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.records, self.path(name), flags, Mode::empty()) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The names of all segments, in order. It reads the directory of all logs: called only where
    /// a name cannot be known otherwise.
    pub(crate) fn list(&self) -> io::Result<Vec<u64>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = match rustix::fs::openat(&self.records, DIRECTORY, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(errno.into()),
        };
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            names.extend(self.parse_name(entry.file_name().to_bytes()));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn parse_name(&self, file: &[u8]) -> Option<u64> {
        let digits = file.strip_prefix(self.exec.as_bytes())?.strip_prefix(b".")?;
        if digits.len() != NAME_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// States a gap at the end of the log in a symbolic link's target, which lies in the inode: a
    /// full disk still takes it.
    pub(crate) fn write_note(&self, note: GapNote) -> Result<(), Errno> {
        let target = format!("{VERSION}.{}.{}", note.to_seq, note.total_bytes);
        let link = || rustix::fs::symlinkat(&target, &self.records, self.note_path());
        match link() {
            Err(Errno::NOENT) => {
                self.make_directory()?;
                link()
            }
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&self.records, self.note_path(), AtFlags::empty())?;
                link()
            }
            outcome => outcome,
        }
    }

    /// The statement of a gap at the end, if there is one.
    pub(crate) fn find_note(&self) -> io::Result<Option<GapNote>> {
        let target = match rustix::fs::readlinkat(&self.records, self.note_path(), Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let fields = target.to_str().ok().and_then(|text| {
            let (to_seq, total_bytes) = text.strip_prefix("1.")?.split_once('.')?;
            Some(GapNote { to_seq: to_seq.parse().ok()?, total_bytes: total_bytes.parse().ok()? })
        });
        Ok(fields)
    }

    /// Reads a segment's header.
    pub(crate) fn header(&self, file: &OwnedFd) -> io::Result<HeaderRead> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        read_at(file.as_fd(), &mut bytes, 0)?;
        let read = SegmentHeader::decode(&bytes);
        if let HeaderRead::Newer(found) = read {
            let exec = &self.exec;
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "the log of {exec} has format version {found}, this hotcell reads versions up to {VERSION}: use the newer hotcell that wrote it"
                ),
            ));
        }
        Ok(read)
    }
}

/// Fills the spare room of `buffer` from a place in a file, as far as the file goes.
pub(crate) fn read_at(
    file: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    offset: u64,
) -> io::Result<usize> {
    loop {
        match rustix::io::pread(file, spare_capacity(buffer), offset) {
            Ok(read) => return Ok(read),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A file's size.
pub(crate) fn size_of(file: &OwnedFd) -> io::Result<u64> {
    Ok(u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}
