//! What a cell did over the network, a line of JSON for each thing, bounded by throwing the oldest
//! away.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_model::{NetRecord, NetVerdict, Timestamp};
use rustix::fs::{Mode, OFlags};

const NEWEST: &str = "network.jsonl";
const OLDER: &str = "network.1.jsonl";
/// When the newest file becomes the older one.
const FILE_BYTES: u64 = 8 << 20;
/// Lookups of names that may not be reached that are written down, for each window.
const LOOKUPS: u32 = 50;
const WINDOW: Duration = Duration::from_secs(10);

/// Writes records.
#[derive(Debug)]
pub struct RecordLog {
    directory: OwnedFd,
    file_bytes: u64,
    window: Option<(Instant, u32)>,
    left_out: u64,
}

impl RecordLog {
    /// Those in a directory.
    #[must_use]
    pub fn new(directory: OwnedFd) -> Self {
        Self { directory, file_bytes: FILE_BYTES, window: None, left_out: 0 }
    }

    #[cfg(test)]
    pub(crate) fn with_bound(directory: OwnedFd, file_bytes: u64) -> Self {
        Self { file_bytes, ..Self::new(directory) }
    }

    /// Writes one down.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&self, record: &NetRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = self.open()?;
        if file.metadata()?.len() + line.len() as u64 > self.file_bytes {
            rustix::fs::renameat(&self.directory, NEWEST, &self.directory, OLDER)?;
            file = self.open()?;
        }
        file.write_all(&line)
    }

    /// Writes down that a name was looked up that may not be reached, unless that happens all the
    /// time.
    ///
    /// # Errors
    /// The file could not be written.
    pub(crate) fn write_lookup(&mut self, name: &str) -> io::Result<()> {
        let window = self.window.get_or_insert((Instant::now(), 0));
        if window.0.elapsed() > WINDOW {
            *window = (Instant::now(), 0);
        }
        window.1 += 1;
        if window.1 > LOOKUPS {
            self.left_out += 1;
            return Ok(());
        }
        let left_out = std::mem::take(&mut self.left_out);
        let reason = match left_out {
            0 => "the name is not allowed".to_owned(),
            more => format!("the name is not allowed; {more} lookups before it are left out"),
        };
        // Whatever a program asks for, a line stays short.
        let name = name.chars().take(255).collect();
        self.write(&NetRecord { name, reason: Some(reason), ..blank(NetVerdict::Denied) })
    }

    fn open(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
        let file = rustix::fs::openat(&self.directory, NEWEST, flags, mode)?;
        Ok(File::from(file))
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

/// The newest records of a directory, the newest last. A line that is not whole is left out.
///
/// # Errors
/// A file could not be read.
pub fn read_records(directory: &Path, limit: usize) -> io::Result<Vec<NetRecord>> {
    let mut records = std::collections::VecDeque::new();
    for name in [OLDER, NEWEST] {
        let file = match File::open(directory.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        for line in BufReader::new(file).split(b'\n') {
            let Ok(record) = serde_json::from_slice::<NetRecord>(&line?) else { continue };
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
