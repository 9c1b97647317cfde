//! Where the files of one exec's log lie, and what they are called.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hotcell_model::ExecId;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::record_file::{RecordError, open_logs, open_record};
use crate::segment::{HEADER_BYTES, HeaderRead, MAX_NUMBER, SegmentHeader, VERSION};

/// The directory of all logs, in the records directory.
pub(crate) const DIRECTORY: &str = "log";
/// More than the largest segment: its bound is at most 256 MiB, and the last write may pass it.
pub(crate) const MAX_SEGMENT_BYTES: u64 = if cfg!(test) { 8 << 20 } else { 320 << 20 };
/// More segments than a log ever has.
const MAX_SEGMENTS: usize = 24;
/// The longest statement of a gap, which has two numbers.
const MAX_NOTE_BYTES: usize = 64;
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

    fn note_name(&self) -> String {
        format!("{}.gap", self.exec)
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
        Ok(open_record(&self.records, &self.path(name), MAX_SEGMENT_BYTES)?)
    }

    /// The names of all segments, in order. It reads the directory of all logs: called only where
    /// a name cannot be known otherwise.
    pub(crate) fn list(&self) -> io::Result<Vec<u64>> {
        let Some(directory) = open_logs(&self.records)? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            names.extend(self.parse_name(entry.file_name().to_bytes()));
            if names.len() > MAX_SEGMENTS {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("the log of {} has more than {MAX_SEGMENTS} segments", self.exec),
                ));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn parse_name(&self, file: &[u8]) -> Option<u64> {
        let digits = file.strip_prefix(self.exec.as_bytes())?.strip_prefix(b".")?;
        if digits.len() != NAME_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok().filter(|seq| *seq <= MAX_NUMBER)
    }

    /// States a gap at the end of the log in a symbolic link's target, which lies in the inode: a
    /// full disk still takes it.
    pub(crate) fn write_note(&self, note: GapNote) -> io::Result<()> {
        let target = format!("{VERSION}.{}.{}", note.to_seq, note.total_bytes);
        let logs = match open_logs(&self.records)? {
            Some(logs) => logs,
            None => {
                self.make_directory()?;
                open_logs(&self.records)?.ok_or(io::ErrorKind::NotFound)?
            }
        };
        let link = || rustix::fs::symlinkat(&target, &logs, self.note_name());
        match link() {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&logs, self.note_name(), AtFlags::empty())?;
                Ok(link()?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// The statement of a gap at the end, if there is one.
    pub(crate) fn find_note(&self) -> Result<Option<GapNote>, RecordError> {
        let Some(logs) = open_logs(&self.records)? else { return Ok(None) };
        let mut target = Vec::with_capacity(MAX_NOTE_BYTES);
        match rustix::fs::readlinkat_raw(&logs, self.note_name(), spare_capacity(&mut target)) {
            Ok(_) => {}
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            Err(errno) => {
                let name = format!("{DIRECTORY}/{}", self.note_name());
                return Err(RecordError::Open { name, source: errno.into() });
            }
        }
        let fields = std::str::from_utf8(&target).ok().and_then(|text| {
            let (to_seq, total_bytes) = text.strip_prefix("1.")?.split_once('.')?;
            Some(GapNote { to_seq: to_seq.parse().ok()?, total_bytes: total_bytes.parse().ok()? })
        });
        Ok(fields.filter(|note| note.to_seq.max(note.total_bytes) <= MAX_NUMBER))
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

/// Reads all of a small file; `None` if it has more than `max_bytes`.
pub(crate) fn read_whole(file: &OwnedFd, max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(max_bytes + 1);
    while bytes.len() < bytes.capacity() {
        let at = bytes.len() as u64;
        if read_at(file.as_fd(), &mut bytes, at)? == 0 {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
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
