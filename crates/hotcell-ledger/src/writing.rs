//! Adds entries: one lock for all processes, one write for the entry, one for the head.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hotcell_model::{AppendWait, EntryKind, Error, LedgerEntry, LedgerRecord, Result, Timestamp};
use hotcell_secrets::KeyFile;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use crate::boot::{Boot, this_boot};
use crate::chain::{Keys, line};
use crate::files::{Identity, Look, OrFailed, Places, make_directory, open, open_or_make, read_at};
use crate::going_on::fresh_id;
use crate::head::{self, Breach, Found, HEAD_BYTES, Head, Missed, Pending, SLOT_BYTES};
use crate::ledger::{LedgerSettings, Sync};
use crate::retention::begun_at;
use crate::segment::{self, LINE_BYTES, Opening};

/// How long one process may hold the lock and write nothing, and how long the others wait in all.
const WAIT: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_micros(200);
/// Fewer tries than this in that time say that the machine stood still, and its holder with it.
const LEAST_TRIES: u32 = 1000;
/// How much room there is at least for what is about to be written, and how much is made at once.
const ROOM: u64 = 64 << 10;
const ROOM_AT_ONCE: u64 = 256 << 10;
/// Only whole segments are removed: one has at most such a part of the time that entries are kept.
const PARTS_OF_KEPT_TIME: u32 = 8;

/// Whether the ledger is ours to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    Yes,
    /// Another process has it.
    Busy,
}

/// The ledger as a process that writes to it sees it.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) places: Places,
    pub(crate) settings: LedgerSettings,
    pub(crate) keys: Keys,
    pub(crate) head: Head,
    /// Whether that is how far the ledger was seen to go, and not only a beginning.
    pub(crate) is_seen: bool,
    /// Whether all was in order at the last look, or is put in order.
    is_settled: bool,
    head_file: File,
    /// Which file that is.
    head_identity: Identity,
    /// What the file of the head held when it was last looked at.
    pub(crate) raw: Vec<u8>,
    pub(crate) segment: Option<(u64, File)>,
    /// When it was begun.
    begun: Option<Timestamp>,
    /// Up to where the segment has room, whatever else fills the disk.
    room: Room,
    pub(crate) boot: Boot,
    /// What could not be written, and neither could the head say so.
    missed: Missed,
    /// Whether there was a key before there was this ledger.
    pub(crate) had_key: bool,
}

/// Up to where there is room in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Unknown,
    UpTo(u64),
    /// The file system does not say.
    Unknowable,
}

pub(crate) fn key_file(path: &std::path::Path) -> KeyFile<'_> {
    KeyFile { path, setting: "ledger.key_file", if_seen: "begin a new ledger with a new key" }
}

impl Writer {
    /// Opens the ledger, or begins it.
    pub(crate) fn open(places: Places, settings: LedgerSettings) -> Result<Self> {
        make_directory(&places.directory).or_failed("make", &places.directory)?;
        for file in [&places.head, &places.key] {
            if let Some(directory) = file.parent() {
                make_directory(directory).or_failed("make", directory)?;
            }
        }
        let head_file = open_or_make(&places.head).or_failed("open", &places.head)?;
        lock(&head_file, AppendWait::Bounded, &places)?;
        // Made while nobody else looks: of several that begin a ledger one makes its key.
        let (key, had_key) = match key_file(&places.key).find()? {
            Some(key) => (key, true),
            None => (key_file(&places.key).make()?, false),
        };
        let head_identity = Look::of(&head_file).or_failed("examine", &places.head)?.identity;
        let (boot, keys) = (this_boot(), Keys::new(&key));
        let mut writer = Self {
            places,
            settings,
            head: Head::new(&keys, fresh_id()?, boot),
            keys,
            is_seen: false,
            is_settled: false,
            head_file,
            head_identity,
            raw: Vec::new(),
            segment: None,
            begun: None,
            room: Room::Unknown,
            boot,
            missed: Missed::default(),
            had_key,
        };
        let looked = writer.check_key().and_then(|()| writer.look());
        writer.unlock();
        looked?;
        writer.had_key = true;
        Ok(writer)
    }

    /// A new key for a ledger that has entries would only hide that the old one is gone.
    fn check_key(&self) -> Result<()> {
        let segments =
            segment::list(&self.places.directory).or_failed("list", &self.places.directory)?;
        let bytes = self.read_head()?;
        let is_new = segments.is_empty() && bytes.iter().all(|byte| *byte == 0);
        if self.had_key || is_new {
            return Ok(());
        }
        // It was made a moment ago, and protects nothing yet.
        let _ = std::fs::remove_file(&self.places.key);
        Err(Error::unavailable(format!(
            "the key of the ledger is not at {}",
            self.places.key.display()
        ))
        .hint("bring the key file back, or name it with ledger.key_file"))
    }

    /// Takes the lock. The file may have been replaced since it was opened.
    pub(crate) fn lock(&mut self, wait: AppendWait) -> Result<Locked> {
        loop {
            if lock(&self.head_file, wait, &self.places)? == Locked::Busy {
                return Ok(Locked::Busy);
            }
            match Look::at(&self.places.head) {
                Ok(there) if there.identity == self.head_identity => return Ok(Locked::Yes),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    self.unlock();
                    return Err(error).or_failed("examine", &self.places.head);
                }
            }
            self.unlock();
            self.head_file =
                open_or_make(&self.places.head).or_failed("open", &self.places.head)?;
            self.head_identity =
                Look::of(&self.head_file).or_failed("examine", &self.places.head)?.identity;
            self.raw.clear();
        }
    }

    pub(crate) fn unlock(&self) {
        // It cannot fail for a file that is open, and ends with the process.
        let _ = flock(&self.head_file, FlockOperation::Unlock);
    }

    pub(crate) fn read_head(&self) -> Result<Vec<u8>> {
        let bytes = read_at(&self.head_file, 0, HEAD_BYTES);
        let mut bytes = bytes.or_failed("read", &self.places.head)?;
        bytes.resize(HEAD_BYTES, 0);
        Ok(bytes)
    }

    /// Looks how far the ledger goes. What a process that died left is put in order.
    pub(crate) fn look(&mut self) -> Result<()> {
        self.is_settled = false;
        let looked = self.look_closely();
        match looked.is_ok() {
            true => self.is_settled = true,
            // What was found has to be found again.
            false => self.raw.clear(),
        }
        looked
    }

    fn look_closely(&mut self) -> Result<()> {
        let bytes = self.read_head()?;
        let mut torn_head = false;
        if bytes != self.raw {
            match head::read(&bytes, &self.keys) {
                Found::Head { head, torn } => torn_head = self.take_head(head, bytes, torn)?,
                Found::Nothing => self.find_end(Breach::HeadMissing, None)?,
                Found::Unreadable => self.find_end(Breach::HeadChanged, None)?,
                Found::OtherKey => return Err(self.other_key()),
            }
            self.is_seen = true;
        }
        let size = self.open_segment()?;
        self.settle(size, torn_head)?;
        match self.head.pending {
            Some(pending) => self.write_pending(pending),
            None => Ok(()),
        }
    }

    pub(crate) fn other_key(&self) -> Error {
        Error::unavailable(format!(
            "the ledger was written with another key than the one in {}",
            self.places.key.display()
        ))
        .hint("bring the right key file back, or name it with ledger.key_file; `hotcell audit verify` tells more")
    }

    /// Opens the segment that the head names, if there is one; how many bytes it has.
    fn open_segment(&mut self) -> Result<u64> {
        let wanted = self.head.segment;
        let path = self.segment_path();
        if let Some((first, file)) = &self.segment {
            let found = Look::of(file).or_failed("examine", &path)?;
            if *first == wanted && found.names > 0 {
                return Ok(found.size);
            }
        }
        self.room = Room::Unknown;
        match open(&path) {
            Ok(file) => {
                let size = Look::of(&file).or_failed("examine", &path)?.size;
                self.segment = Some((wanted, file));
                self.begun = begun_at(&path);
                Ok(size)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.segment = None;
                Ok(0)
            }
            Err(error) => Err(error).or_failed("open", &path),
        }
    }

    /// Where the segment that is written to lies.
    pub(crate) fn segment_path(&self) -> PathBuf {
        segment::path(&self.places.directory, self.head.segment)
    }

    /// Writes an entry, under the lock, after a look.
    pub(crate) fn append(&mut self, entry: &LedgerEntry) -> Result<u64> {
        self.look()?;
        if self.segment.is_none() || self.is_full() {
            self.rotate()?;
        }
        self.tell_missed()?;
        self.write(entry)?;
        Ok(self.head.count)
    }

    /// Writes down how many entries could not be written, by whatever process.
    fn tell_missed(&mut self) -> Result<()> {
        let by_others = self.head.missed;
        let missed = by_others.and(self.missed);
        if missed.count == 0 {
            return Ok(());
        }
        let told = LedgerEntry::own(EntryKind::Missed, "not_written")
            .with("count", missed.count)
            .with("since", Timestamp(missed.since).to_string());
        self.head.missed = Missed::default();
        if let Err(error) = self.write(&told) {
            self.head.missed = by_others;
            return Err(error);
        }
        self.missed = Missed::default();
        Ok(())
    }

    /// Remembers, under the lock, that entries could not be written: in the head, so that it is told
    /// whoever writes next.
    pub(crate) fn miss(&mut self, missed: Missed) {
        self.missed = self.missed.and(missed);
        let told = self.head.missed.and(self.missed);
        // What is wrong with a head must not be hidden by another.
        if self.is_settled && self.write_head(Head { missed: told, ..self.head.clone() }).is_ok() {
            self.missed = Missed::default();
        }
    }

    fn is_full(&self) -> bool {
        let is_long = self.head.size >= self.settings.segment_bytes;
        (is_long || self.is_old()) && self.head.count >= self.head.segment
    }

    /// Whether its oldest entries would otherwise wait too long for their removal.
    fn is_old(&self) -> bool {
        match (self.settings.keep, self.begun) {
            (Some(keep), Some(begun)) => begun.until(Timestamp::now()) > keep / PARTS_OF_KEPT_TIME,
            (_, _) => false,
        }
    }

    /// Goes on in a new segment. While there is no room for one, the old one is gone on with.
    fn rotate(&mut self) -> Result<()> {
        let old = self.segment.take();
        match self.begin_segment(None) {
            Ok(()) => {
                if let Some((_, file)) = old
                    && let Ok(found) = file.metadata()
                {
                    // Gives back the room that was made for more; whether it does is no matter.
                    let _ = file.set_len(found.len());
                }
                self.retain()
            }
            Err(error) => match old {
                Some(old) => {
                    self.segment = Some(old);
                    Ok(())
                }
                None => Err(error),
            },
        }
    }

    /// Begins the segment of the next entry. It is the one that is written to once the head says so.
    pub(crate) fn begin_segment(&mut self, pending: Option<Pending>) -> Result<()> {
        let first = self.head.count + 1;
        let path = segment::path(&self.places.directory, first);
        let file = self.make_segment(first)?;
        let opening = Opening::line(&self.keys, &self.head.ledger, first, &self.head.mac);
        let written = file.write_all_at(&opening, 0);
        if let Err(error) = written {
            let _ = file.set_len(0);
            return Err(error).or_failed("write to", &path);
        }
        self.sync(&file).or_failed("sync", &path)?;
        let size = opening.len() as u64;
        let head = Head { segment: first, size, pending, ..self.head.clone() };
        self.write_head(head)?;
        self.segment = Some((first, file));
        self.begun = Some(Timestamp::now());
        self.room = Room::Unknown;
        Ok(())
    }

    /// Writes an entry at the end, and then how far the ledger goes.
    pub(crate) fn write(&mut self, entry: &LedgerEntry) -> Result<()> {
        let (n, path) = (self.head.count + 1, self.segment_path());
        let record = LedgerRecord::new(n, Timestamp::now(), entry.clone());
        let body = serde_json::to_vec(&record)
            .map_err(|error| Error::internal(format!("an entry has no form in JSON: {error}")))?;
        let mac = self.keys.entry(&self.head.mac, &body);
        let text = line(body, &mac);
        if text.len() > LINE_BYTES {
            return Err(Error::invalid(format!("an entry of {} bytes is too long", text.len())));
        }
        let Some((_, file)) = &self.segment else {
            return Err(Error::internal("an entry came before its segment"));
        };
        if let Err(error) = file.write_all_at(&text, self.head.size) {
            // A half of it is seen by the next look, if it cannot be taken away now.
            let _ = file.set_len(self.head.size);
            return Err(error).or_failed("write to", &path);
        }
        self.sync(file).or_failed("sync", &path)?;
        let size = self.head.size + text.len() as u64;
        self.write_head(Head { count: n, mac, size, pending: None, ..self.head.clone() })
    }

    /// Writes the head into the slot that does not have the present one.
    pub(crate) fn write_head(&mut self, head: Head) -> Result<()> {
        let head = Head { generation: self.head.generation + 1, boot: self.boot, ..head };
        let (at, slot) = head.encode(&self.keys);
        let written = self.head_file.write_all_at(&slot, at);
        written
            .and_then(|()| self.sync(&self.head_file))
            .or_failed("write to", &self.places.head)?;
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        self.raw.resize(HEAD_BYTES, 0);
        if let Some(place) = self.raw.get_mut(from..from.saturating_add(SLOT_BYTES)) {
            place.copy_from_slice(&slot);
        }
        self.head = head;
        Ok(())
    }

    /// Forgets a head that cannot be read.
    pub(crate) fn clear_head(&mut self) -> Result<()> {
        self.raw.clear();
        self.head_file.set_len(0).or_failed("write to", &self.places.head)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        match self.settings.sync {
            Sync::Off => Ok(()),
            Sync::Each => file.sync_data(),
        }
    }

    /// Whether there is known to be room for what is about to be written.
    pub(crate) fn has_room(&self) -> bool {
        match self.room {
            Room::Unknown => false,
            Room::Unknowable => self.missed.and(self.head.missed).count == 0,
            Room::UpTo(end) => end >= self.head.size + ROOM,
        }
    }

    /// Makes room, under the lock.
    pub(crate) fn make_room(&mut self) -> Result<()> {
        self.look()?;
        if self.segment.is_none() || self.is_full() {
            self.rotate()?;
        }
        self.check_most()?;
        let path = self.segment_path();
        let Some((_, file)) = &self.segment else { return Ok(()) };
        let end = self.head.size + ROOM_AT_ONCE;
        match fallocate(file, FallocateFlags::KEEP_SIZE, self.head.size, ROOM_AT_ONCE) {
            Ok(()) => self.room = Room::UpTo(end),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.room = Room::Unknowable,
            // What is left of the room that somebody else made may do.
            Err(error) => match fallocate(file, FallocateFlags::KEEP_SIZE, self.head.size, ROOM) {
                Ok(()) => self.room = Room::UpTo(self.head.size + ROOM),
                Err(_) => return Err(error.into()).or_failed("make room in", &path),
            },
        }
        Ok(())
    }
}

/// Takes the lock on the head, which is that on the ledger.
fn lock(file: &File, wait: AppendWait, places: &Places) -> Result<Locked> {
    lock_as(FlockOperation::NonBlockingLockExclusive, file, wait, places)
}

fn lock_as(lock: FlockOperation, file: &File, wait: AppendWait, places: &Places) -> Result<Locked> {
    let mut turn = None;
    loop {
        match flock(file, lock) {
            Ok(()) => return Ok(Locked::Yes),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                if wait == AppendWait::Never {
                    return Ok(Locked::Busy);
                }
                turn.get_or_insert_with(|| Turn::new(file)).wait(file, places)?;
            }
            Err(error) => return Err(error.into()).or_failed("lock", &places.head),
        }
    }
}

/// A wait for the lock. Nobody is given up on while others get on with their writing: many processes
/// on a slow machine may take it from one another for longer than one would ever hold it.
struct Turn {
    begun: Instant,
    until: Instant,
    tries: u32,
    /// The head when it was last looked whether somebody writes.
    seen: Option<Vec<u8>>,
}

impl Turn {
    fn new(file: &File) -> Self {
        let begun = Instant::now();
        let seen = read_at(file, 0, HEAD_BYTES).ok();
        Self { begun, until: begun + WAIT, tries: 0, seen }
    }

    fn wait(&mut self, file: &File, places: &Places) -> Result<()> {
        self.tries += 1;
        if Instant::now() > self.until && self.tries > LEAST_TRIES {
            let head = read_at(file, 0, HEAD_BYTES).ok();
            if head == self.seen || self.begun.elapsed() > LONGEST_WAIT {
                return Err(self.in_vain(places));
            }
            *self = Self { until: Instant::now() + WAIT, tries: 0, seen: head, ..*self };
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn in_vain(&self, places: &Places) -> Error {
        Error::unavailable(format!(
            "other processes have held the ledger's lock, {}, for {} s",
            places.head.display(),
            self.begun.elapsed().as_secs()
        ))
        .hint("look with `fuser` or `lsof` who has it open")
    }
}

/// Holds off whoever writes, waiting for a while. The file may be open for reading alone.
pub(crate) fn hold_off_writers(file: &File, places: &Places) -> Result<()> {
    let shared = FlockOperation::NonBlockingLockShared;
    lock_as(shared, file, AppendWait::Bounded, places).map(drop)
}
