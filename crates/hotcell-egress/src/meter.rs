//! What a cell used of the network, and how much it may.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hotcell_model::{NetworkStats, Timestamp};
use rustix::fs::{Mode, OFlags, renameat};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::EgressSettings;
use crate::plain_file::open_plain;

const USED: &str = "network-used.json";
const USED_NEW: &str = "network-used.new";
/// It is never longer.
const USED_BYTES: u64 = 4096;
/// What may be ahead of the rate, so that small things are not slowed down.
const BURST: Duration = Duration::from_millis(200);

/// Out of the cell or into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

/// The cell has used all that it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsedUp;

/// What was used, as it is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Used {
    #[serde(flatten)]
    stats: NetworkStats,
    /// The day of UTC on which something was last carried, since the epoch.
    #[serde(default)]
    day: u64,
    /// What was carried on it, both ways.
    #[serde(default)]
    day_bytes: u64,
}

/// Whether the tenant of a cell may carry more today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowance {
    /// It may.
    Open,
    /// Its cells have carried all that they may.
    UsedUp,
}

#[derive(Debug)]
pub(crate) struct Meter {
    day: AtomicU64,
    day_bytes: AtomicU64,
    is_cut: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    open: AtomicU32,
    max_connections: u32,
    max_bytes: Option<u64>,
    bytes_per_s: Option<u64>,
    /// When what was carried so far would have been carried at the rate.
    paid_until: Mutex<Instant>,
    directory: OwnedFd,
    saved: AtomicU64,
}

impl Meter {
    /// Goes on from what was used before, as a file in this directory says.
    pub(crate) fn new(settings: &EgressSettings, directory: OwnedFd) -> Self {
        let before = read(&directory).unwrap_or_default();
        let Used { stats: before, day, day_bytes } = before;
        Self {
            day: day.into(),
            day_bytes: day_bytes.into(),
            is_cut: false.into(),
            sent: before.sent_bytes.into(),
            received: before.received_bytes.into(),
            open: 0.into(),
            max_connections: settings.max_connections,
            max_bytes: settings.max_bytes,
            bytes_per_s: settings.bytes_per_s,
            paid_until: Mutex::new(Instant::now()),
            directory,
            saved: before.sent_bytes.wrapping_add(before.received_bytes).into(),
        }
    }

    pub(crate) fn stats(&self) -> NetworkStats {
        NetworkStats {
            connections: self.open.load(Ordering::Relaxed),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            received_bytes: self.received.load(Ordering::Relaxed),
        }
    }

    /// Writes down what was used, if that has changed.
    pub(crate) fn save(&self) -> io::Result<()> {
        let stats = NetworkStats { connections: 0, ..self.stats() };
        let total = stats.sent_bytes.wrapping_add(stats.received_bytes);
        if self.saved.swap(total, Ordering::Relaxed) == total {
            return Ok(());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let mut file = open_plain(&self.directory, USED_NEW, flags)?;
        file.set_len(0)?;
        let day = self.day.load(Ordering::Relaxed);
        let used = Used { stats, day, day_bytes: self.day_bytes.load(Ordering::Relaxed) };
        file.write_all(&serde_json::to_vec(&used)?)?;
        Ok(renameat(&self.directory, USED_NEW, &self.directory, USED)?)
    }

    /// Counts a connection as long as it is held; none when there are as many as may be.
    pub(crate) fn open(self: &std::sync::Arc<Self>) -> Option<OpenConnection> {
        if self.open.load(Ordering::Relaxed) >= self.max_connections {
            return None;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(OpenConnection(std::sync::Arc::clone(self)))
    }

    pub(crate) fn max_connections(&self) -> u32 {
        self.max_connections
    }

    fn total(&self) -> u64 {
        let stats = self.stats();
        stats.sent_bytes.saturating_add(stats.received_bytes)
    }

    /// Takes note of whether the tenant may carry more.
    pub(crate) fn allow(&self, allowance: Allowance) {
        self.is_cut.store(allowance == Allowance::UsedUp, Ordering::Relaxed);
    }

    /// Whether the tenant may carry nothing more today.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    fn count_today(&self, bytes: u64, today: u64) {
        if self.day.swap(today, Ordering::Relaxed) != today {
            self.day_bytes.store(0, Ordering::Relaxed);
        }
        self.day_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether nothing more may be carried.
    pub(crate) fn is_used_up(&self) -> bool {
        self.max_bytes.is_some_and(|most| self.total() >= most)
    }

    /// Counts bytes that are about to be carried, and waits until that is within the rate.
    pub(crate) async fn take(&self, way: Way, bytes: usize) -> Result<(), UsedUp> {
        let bytes = bytes as u64;
        let is_beyond = |most| self.total().saturating_add(bytes) > most;
        if self.is_cut() || self.max_bytes.is_some_and(is_beyond) {
            return Err(UsedUp);
        }
        self.count_today(bytes, today());
        let count = match way {
            Way::Out => &self.sent,
            Way::In => &self.received,
        };
        // One thread counts, so nothing comes in between.
        count.store(count.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
        if let Some(rate) = self.bytes_per_s {
            let until = {
                let mut paid = self.paid_until.lock().await;
                let begin = (*paid).max(Instant::now() - BURST);
                *paid = begin + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
                *paid
            };
            tokio::time::sleep_until(until).await;
        }
        Ok(())
    }
}

/// The day of UTC, since the epoch.
fn today() -> u64 {
    const DAY_MS: u64 = 24 * 3600 * 1000;
    Timestamp::now().0 / DAY_MS
}

/// What the cell with these records has carried today, both ways; as of the last second.
#[must_use]
pub fn used_today(records: &Path) -> u64 {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(records, flags, Mode::empty()) else { return 0 };
    match read(&directory) {
        Ok(used) if used.day == today() => used.day_bytes,
        Ok(_) | Err(_) => 0,
    }
}

fn read(directory: &OwnedFd) -> io::Result<Used> {
    let mut text = Vec::new();
    open_plain(directory, USED, OFlags::RDONLY)?.take(USED_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// One connection that counts.
#[derive(Debug)]
pub(crate) struct OpenConnection(std::sync::Arc<Meter>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
