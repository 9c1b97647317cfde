//! What a cell did over the network, a line of JSON for each thing, bounded by throwing the oldest
//! away.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_model::{NetRecord, NetVerdict, Timestamp};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchown};

use crate::plain_file::open_plain;

pub(crate) const NEWEST: &str = "network.jsonl";
pub(crate) const OLDER: &str = "network.1.jsonl";
/// When the newest file becomes the older one.
pub(crate) const FILE_BYTES: u64 = 8 << 20;
/// No line that is written is longer.
pub(crate) const LINE_BYTES: u64 = 16 << 10;
/// What was refused or failed and is written down, for each window.
const REFUSALS: u32 = 50;
const WINDOW: Duration = Duration::from_secs(10);

/// Writes records.
#[derive(Debug)]
pub struct RecordLog {
    directory: OwnedFd,
    file_bytes: u64,
    owner: Option<(Uid, Gid)>,
    window: Option<(Instant, u32)>,
    left_out: u64,
}

impl RecordLog {
    /// Those in a directory.
    #[must_use]
    pub fn new(directory: OwnedFd) -> Self {
        Self { directory, file_bytes: FILE_BYTES, owner: None, window: None, left_out: 0 }
    }

    /// Gives what is written to somebody else.
    #[must_use]
    pub fn owned_by(self, uid: u32, gid: u32) -> Self {
        Self { owner: Some((Uid::from_raw(uid), Gid::from_raw(gid))), ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_bound(directory: OwnedFd, file_bytes: u64) -> Self {
        Self { file_bytes, ..Self::new(directory) }
    }

    /// Writes one down. What was refused or failed is left out and counted when that happens all
    /// the time: a program must not push out what else is known.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&mut self, record: &NetRecord) -> io::Result<()> {
        match record.verdict {
            NetVerdict::Denied | NetVerdict::Failed => self.write_refusal(record.clone()),
            NetVerdict::Opened | NetVerdict::Closed | NetVerdict::Cut => self.append(record),
        }
    }

    fn write_refusal(&mut self, mut record: NetRecord) -> io::Result<()> {
        let window = self.window.get_or_insert((Instant::now(), 0));
        if window.0.elapsed() > WINDOW {
            *window = (Instant::now(), 0);
        }
        window.1 = window.1.saturating_add(1);
        if window.1 > REFUSALS {
            self.left_out = self.left_out.saturating_add(1);
            return Ok(());
        }
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let why = record.reason.unwrap_or_default();
            record.reason = Some(format!("{why}; {left_out} refusals before it are left out"));
        }
        self.append(&record)
    }

    /// Writes down how many are left out that nothing has come after.
    ///
    /// # Errors
    /// The file could not be written.
    pub(crate) fn tell_left_out(&mut self) -> io::Result<()> {
        if self.left_out == 0 {
            return Ok(());
        }
        let left_out = std::mem::take(&mut self.left_out);
        let reason = Some(format!("{left_out} refusals are left out"));
        self.append(&NetRecord { reason, ..blank(NetVerdict::Denied) })
    }

    /// The same, once they were long enough ago.
    ///
    /// # Errors
    /// The file could not be written.
    pub(crate) fn tell_left_out_if_due(&mut self) -> io::Result<()> {
        if self.window.is_none_or(|(begun, _)| begun.elapsed() <= WINDOW) {
            return Ok(());
        }
        self.tell_left_out()
    }

    /// Writes down that a name was looked up that may not be reached.
    ///
    /// # Errors
    /// The file could not be written.
    pub(crate) fn write_lookup(&mut self, name: &str) -> io::Result<()> {
        // Whatever a program asks for, a line stays short.
        let name = name.chars().take(255).collect();
        let reason = Some("the name is not allowed".to_owned());
        self.write(&NetRecord { name, reason, ..blank(NetVerdict::Denied) })
    }

    fn append(&self, record: &NetRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = self.open()?;
        if file.metadata()?.len().saturating_add(line.len() as u64) > self.file_bytes {
            rustix::fs::renameat(&self.directory, NEWEST, &self.directory, OLDER)?;
            file = self.open()?;
        }
        file.write_all(&line)
    }

    fn open(&self) -> io::Result<File> {
        let file =
            open_plain(&self.directory, NEWEST, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
        if let Some((uid, gid)) = self.owner {
            fchown(&file, Some(uid), Some(gid))?;
        }
        Ok(file)
    }
}

/// A record of now with nothing in it.
pub(crate) fn blank(verdict: NetVerdict) -> NetRecord {
    NetRecord {
        ts: Timestamp::now(),
        verdict,
        name: String::new(),
        port: None,
        connection: None,
        address: None,
        sent_bytes: None,
        received_bytes: None,
        duration_ms: None,
        reason: None,
    }
}

/// The newest records of a directory, the newest last. A line that is not whole, or too long to be
/// one of ours, is left out.
///
/// # Errors
/// A file could not be read.
pub fn read_records(directory: &Path, limit: usize) -> io::Result<Vec<NetRecord>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(directory, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut records = std::collections::VecDeque::new();
    for name in [OLDER, NEWEST] {
        let file = match open_plain(&directory, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        // Whatever somebody put there, no more is read than would be written.
        let mut reader = BufReader::new(file.take(FILE_BYTES));
        let mut line = Vec::new();
        let mut is_rest = false;
        loop {
            line.clear();
            if reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let is_end = line.last() == Some(&b'\n');
            let was_rest = std::mem::replace(&mut is_rest, !is_end);
            if was_rest {
                continue;
            }
            let Ok(record) = serde_json::from_slice::<NetRecord>(&line) else { continue };
            if records.len() == limit {
                records.pop_front();
            }
            if limit > 0 {
                records.push_back(record);
            }
        }
    }
    Ok(records.into())
}
