//! The ledger behind the port.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use hotcell_model::{
    AppendWait, Appended, Error, Ledger, LedgerCheck, LedgerEntry, LedgerFilter, LedgerRecord,
    LedgerReport, Result,
};

use crate::files::Places;
use crate::head::Missed;
use crate::writing::{Locked, Writer};
use crate::{reading, verifying};

/// When what is written is sure to be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// When the kernel sees fit: the newest entries may be lost with the machine.
    #[default]
    Off,
    /// Before a call is answered.
    Each,
}

/// Where a ledger is, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerSettings {
    /// The directory of the entries.
    pub directory: PathBuf,
    /// The file with the key; made when the ledger is begun.
    pub key_file: PathBuf,
    /// The file that tells how far the ledger goes.
    pub head_file: PathBuf,
    /// Past this a new segment is begun.
    pub segment_bytes: u64,
    /// How long entries are kept; for ever when left out.
    pub keep: Option<Duration>,
    /// How much of them is kept; all when left out.
    pub keep_bytes: Option<u64>,
    /// What is younger is not removed, however much there is.
    pub floor: Option<Duration>,
    /// Past this there is no room for more, except for what has to be told in any case.
    pub most_bytes: Option<u64>,
    /// When they are on the disk.
    pub sync: Sync,
}

/// A ledger in files, tied together by a key. It is opened when it is first needed.
#[derive(Debug)]
pub struct ChainedLedger {
    settings: LedgerSettings,
    writer: Mutex<Option<Writer>>,
    /// What could not be written because the ledger could not be opened or had for itself.
    missed: Mutex<Missed>,
}

impl ChainedLedger {
    /// The ledger that the settings name.
    #[must_use]
    pub fn new(settings: LedgerSettings) -> Self {
        Self { settings, writer: Mutex::default(), missed: Mutex::default() }
    }

    pub(crate) fn places(&self) -> Places {
        Places {
            directory: self.settings.directory.clone(),
            head: self.settings.head_file.clone(),
            key: self.settings.key_file.clone(),
        }
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missed(&self) -> MutexGuard<'_, Missed> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the ledger while nobody else writes to it; nothing while somebody does
    /// and is not to be waited for.
    fn locked<T>(
        &self,
        mut place: MutexGuard<'_, Option<Writer>>,
        wait: AppendWait,
        work: impl FnOnce(&mut Writer) -> Result<T>,
    ) -> Result<Option<T>> {
        let writer = self.opened(&mut place)?;
        match writer.lock(wait)? {
            Locked::Busy => Ok(None),
            Locked::Yes => {
                let done = work(writer);
                writer.unlock();
                done.map(Some)
            }
        }
    }

    fn opened<'a>(&self, place: &'a mut Option<Writer>) -> Result<&'a mut Writer> {
        if place.is_none() {
            *place = Some(Writer::open(self.places(), self.settings.clone())?);
        }
        place.as_mut().ok_or_else(|| Error::internal("the ledger was closed"))
    }
}

impl Ledger for ChainedLedger {
    fn is_open(&self) -> bool {
        match self.writer.try_lock() {
            Ok(place) => place.is_some(),
            Err(TryLockError::Poisoned(place)) => place.into_inner().is_some(),
            Err(TryLockError::WouldBlock) => true,
        }
    }

    fn reserve(&self) -> Result<()> {
        let place = match self.writer.try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(place)) => place.into_inner(),
            // Whoever has it is just writing.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if place.as_ref().is_some_and(Writer::has_room) {
            return Ok(());
        }
        self.locked(place, AppendWait::Never, Writer::make_room).map(drop)
    }

    fn append(&self, entry: &LedgerEntry, wait: AppendWait) -> Result<Appended> {
        let place = match (self.writer.try_lock(), wait) {
            (Ok(place), _) => place,
            (Err(TryLockError::Poisoned(place)), _) => place.into_inner(),
            (Err(TryLockError::WouldBlock), AppendWait::Never) => return Ok(Appended::Busy),
            (Err(TryLockError::WouldBlock), AppendWait::Bounded) => self.writer(),
        };
        let appended = self.locked(place, wait, |writer| {
            let missed = std::mem::take(&mut *self.missed());
            if missed.count > 0 {
                writer.miss(missed);
            }
            let appended = writer.append(entry);
            if appended.is_err() {
                writer.miss(Missed::one());
            }
            Ok(appended)
        });
        match appended {
            Ok(Some(appended)) => appended.map(Appended::Written),
            Ok(None) => Ok(Appended::Busy),
            Err(error) => {
                let mut missed = self.missed();
                *missed = missed.and(Missed::one());
                Err(error)
            }
        }
    }

    fn digest(&self, parts: &[&[u8]]) -> Result<String> {
        let mut place = self.writer();
        Ok(self.opened(&mut place)?.keys.digest(parts))
    }

    fn last(&self) -> Result<u64> {
        let looked = self.locked(self.writer(), AppendWait::Bounded, |writer| {
            writer.look()?;
            Ok(writer.head.count)
        });
        looked.map(Option::unwrap_or_default)
    }

    fn scan(&self, filter: &LedgerFilter, each: &mut dyn FnMut(LedgerRecord)) -> Result<()> {
        reading::scan(&self.settings.directory, filter, each)
    }

    fn query(&self, filter: &LedgerFilter, limit: usize) -> Result<Vec<LedgerRecord>> {
        reading::query(&self.settings.directory, filter, limit)
    }

    fn verify(&self, check: &LedgerCheck) -> Result<LedgerReport> {
        // Without putting anything in order: what is wrong is to be seen as it is.
        verifying::verify(&self.places(), check)
    }
}
