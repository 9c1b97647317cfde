//! Puts in order what a process that died left, and goes on from a ledger that is not as it was
//! left, which is written down.

use std::fs;
use std::fs::File;
use std::io::ErrorKind;

use hotcell_model::{EntryKind, Error, LedgerEntry, Result, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;

use crate::boot::Boot;
use crate::chain::{Keys, LedgerId, Mac, line_end, take_apart};
use crate::files::{OrFailed, add_to, make, make_directory, open, read_at};
use crate::head::{Breach, Head, Pending};
use crate::segment::{self, BadOpening, LINE_BYTES, Opening, lines};
use crate::writing::Writer;

/// The part of an entry that the chain is about.
#[derive(Debug, Deserialize)]
pub(crate) struct Numbered {
    pub(crate) n: u64,
}

/// What lies beyond the head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Entries that are as they were written.
    pub(crate) entries: u64,
    /// How many bytes they have.
    pub(crate) bytes: u64,
    /// What the last one is tied by.
    pub(crate) mac: Mac,
    pub(crate) rest: Rest,
}

/// What comes after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// The beginning of an entry, so many bytes.
    Torn(u64),
    /// Something else, so many bytes.
    Foreign(u64),
}

impl Tail {
    /// Takes apart what stands after the entry `count`, in this start of the machine.
    pub(crate) fn read(keys: &Keys, head: &Head, bytes: &[u8], boot: &Boot) -> Self {
        let mut tail = Self { entries: 0, bytes: 0, mac: head.mac, rest: Rest::Nothing };
        let (whole, _) = lines(bytes);
        for line in whole {
            let Some(parts) = take_apart(line) else { break };
            let n = serde_json::from_slice::<Numbered>(&parts.body).ok().map(|it| it.n);
            let is_next = n == Some(head.count + tail.entries + 1);
            if !is_next || keys.entry(&tail.mac, &parts.body) != parts.mac {
                break;
            }
            tail.mac = parts.mac;
            tail.entries += 1;
            tail.bytes += line.len() as u64 + 1;
        }
        let rest =
            bytes.get(usize::try_from(tail.bytes).unwrap_or(usize::MAX)..).unwrap_or_default();
        let length = rest.len() as u64;
        // What was not on the disk yet when the machine went down may come back as zeros.
        let is_lost = head.boot != *boot && rest.iter().all(|byte| *byte == 0);
        tail.rest = if rest.is_empty() {
            Rest::Nothing
        } else if is_lost || is_beginning(rest, head.count + tail.entries + 1) {
            Rest::Torn(length)
        } else {
            Rest::Foreign(length)
        };
        tail
    }

    /// What it shows to be wrong. A process dies with at most one entry beyond the head, or a part
    /// of one; and a head that is not whole was being written for an entry that is there.
    pub(crate) fn breach(&self, torn_head: bool) -> Option<Breach> {
        match (self.entries, self.rest) {
            (_, Rest::Foreign(_)) => Some(Breach::Foreign),
            (0, Rest::Nothing | Rest::Torn(_)) if torn_head => Some(Breach::HeadChanged),
            (0, Rest::Nothing | Rest::Torn(_)) | (1, Rest::Nothing) => None,
            (_, Rest::Nothing | Rest::Torn(_)) => Some(Breach::HeadOlder),
        }
    }
}

/// Whether these bytes can be the first ones of the entry `n`.
fn is_beginning(bytes: &[u8], n: u64) -> bool {
    let begins = format!("{{\"n\":{n},\"time\":\"");
    let compared = bytes.len().min(begins.len());
    let is_own = bytes.get(..compared) == begins.as_bytes().get(..compared);
    is_own && !bytes.contains(&b'\n') && bytes.len() <= LINE_BYTES
}

/// A name for a ledger that is begun.
pub(crate) fn fresh_id() -> Result<LedgerId> {
    let mut id = LedgerId::default();
    SystemRandom::new()
        .fill(&mut id)
        .map_err(|_| Error::unavailable("the kernel gave no random bytes for a ledger"))?;
    Ok(id)
}

impl Writer {
    /// Takes over a head that is not the one this process wrote or saw last; whether one of its
    /// slots is torn. One that is older than what this process knows, or than the segments, is gone
    /// on from, and that is written down.
    pub(crate) fn take_head(&mut self, found: Head, raw: Vec<u8>, torn: bool) -> Result<bool> {
        self.raw = raw;
        if !self.is_seen {
            if self.goes_beyond(&found)? {
                self.find_end(Breach::HeadOlder, Some(&found))?;
                return Ok(false);
            }
            self.head = found;
            return Ok(torn);
        }
        let (count, mac) = (self.head.count, self.head.mac);
        let found = Head { pending: found.pending.or(self.head.pending), ..found };
        if found.ledger != self.head.ledger {
            let pending = Some(self.pending(Breach::Replaced));
            self.head = Head { pending, ..found };
        } else if found.count < count || (found.count == count && found.mac != mac) {
            self.go_on(Breach::RolledBack)?;
            return Ok(false);
        } else if self.still_has_the_last(&found)? {
            self.head = found;
        } else {
            let pending = Some(self.pending(Breach::RolledBack));
            self.head = Head { pending, ..found };
        }
        Ok(torn)
    }

    /// Whether there are segments with entries that a head does not know of. One that was only begun
    /// is left by a process that died.
    fn goes_beyond(&self, head: &Head) -> Result<bool> {
        let directory = &self.places.directory;
        let segments = segment::list(directory).or_failed("list", directory)?;
        for first in segments.into_iter().filter(|first| *first > head.segment) {
            let path = segment::path(directory, first);
            let is_ours = self.opening(first)?.is_some_and(|(it, _)| it == head.ledger);
            if is_ours && segment::has_entries(&path).or_failed("read", &path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The ledger that a segment is of and the mac before its first entry, if both can be believed.
    fn opening(&self, first: u64) -> Result<Option<(LedgerId, Mac)>> {
        let path = segment::path(&self.places.directory, first);
        let line = segment::first_line(&path).or_failed("read", &path)?;
        let opening = Opening::read(&self.keys, &line).ok();
        let opening = opening.filter(|(opening, _)| opening.segment == first);
        Ok(opening.and_then(|(opening, before)| Some((opening.ledger()?, before))))
    }

    /// Whether the last entry that this process saw is still where it was.
    fn still_has_the_last(&self, found: &Head) -> Result<bool> {
        let last = &self.head;
        let has_no_entry = last.count < last.segment;
        if has_no_entry || last.segment < found.kept_from {
            return Ok(true);
        }
        let path = segment::path(&self.places.directory, last.segment);
        let file = match File::open(&path) {
            // That a file is gone is found by verifying.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            file => file.or_failed("open", &path)?,
        };
        let end = line_end(&last.mac);
        let from = last.size.saturating_sub(end.len() as u64);
        Ok(read_at(&file, from, end.len()).or_failed("read", &path)? == end)
    }

    /// Compares the segment, which has so many bytes, with the head, and puts in order what lies
    /// beyond it.
    pub(crate) fn settle(&mut self, size: u64, torn_head: bool) -> Result<()> {
        if size == self.head.size && !torn_head {
            return Ok(());
        }
        let path = self.segment_path();
        let Some((_, file)) = self.segment.as_ref().filter(|_| size >= self.head.size) else {
            return self.go_on(Breach::Cut);
        };
        let beyond = usize::try_from(size - self.head.size).unwrap_or(usize::MAX);
        let bytes = read_at(file, self.head.size, beyond).or_failed("read", &path)?;
        let tail = Tail::read(&self.keys, &self.head, &bytes, &self.boot);
        let breach = tail.breach(torn_head);
        let end = self.head.size + tail.bytes;
        if let Rest::Foreign(_) = tail.rest {
            self.put_aside(&bytes[usize::try_from(tail.bytes).unwrap_or_default()..])?;
        }
        if tail.rest != Rest::Nothing {
            file.set_len(end).or_failed("take a part of an entry from", &path)?;
        }
        let head = Head {
            count: self.head.count + tail.entries,
            mac: tail.mac,
            size: end,
            pending: breach.map(|breach| self.pending(breach)).or(self.head.pending),
            ..self.head.clone()
        };
        self.write_head(head)?;
        match (breach, tail.rest) {
            (None, Rest::Torn(bytes)) => {
                let told = LedgerEntry::own(EntryKind::Recovered, "torn").with("bytes", bytes);
                self.write(&told)
            }
            // It is written down as what is pending.
            (_, Rest::Nothing | Rest::Torn(_) | Rest::Foreign(_)) => Ok(()),
        }
    }

    fn pending(&self, breach: Breach) -> Pending {
        Pending { breach, restarted: self.head.boot != self.boot }
    }

    /// Finds where a ledger ends whose head is lost, or an `older` one, and goes on from there.
    pub(crate) fn find_end(&mut self, breach: Breach, older: Option<&Head>) -> Result<()> {
        let directory = self.places.directory.clone();
        make_directory(&directory).or_failed("make", &directory)?;
        let segments = segment::list(&directory).or_failed("list", &directory)?;
        let found = self.newest(&segments)?;
        // What this process saw is not forgotten, whatever became of the files.
        let is_known = self.is_seen
            && found.as_ref().is_none_or(|found| {
                found.ledger == self.head.ledger && found.count < self.head.count
            });
        if is_known {
            self.clear_head()?;
            return self.go_on(breach);
        }
        let begun = older.map_or(0, |older| older.generation);
        let Some(found) = found else {
            self.head = Head::new(&self.keys, fresh_id()?, self.boot);
            self.clear_head()?;
            return match (breach, self.had_key) {
                (Breach::HeadMissing, false) => self.begin_segment(None),
                (Breach::HeadMissing, true) => self.go_on(Breach::BegunAnew),
                (breach, _) => self.go_on(breach),
            };
        };
        let kept_from = match older {
            Some(older) => older.kept_from,
            None => segments.first().copied().unwrap_or(1),
        };
        self.head = Head { generation: begun, kept_from, ..found };
        if older.is_none() {
            self.clear_head()?;
        }
        self.go_on(breach)
    }

    /// How far the segments go, by the newest one that can be believed.
    fn newest(&self, segments: &[u64]) -> Result<Option<Head>> {
        let Some(mut last) = segments.last().copied() else { return Ok(None) };
        for first in segments.iter().rev() {
            if self.opening(*first)?.is_some() {
                last = *first;
                break;
            }
        }
        let path = segment::path(&self.places.directory, last);
        let bytes = fs::read(&path).or_failed("read", &path)?;
        self.end_of(last, &bytes).map(Some)
    }

    /// The number and the mac of the last entry of a segment that can be believed.
    fn end_of(&self, first: u64, bytes: &[u8]) -> Result<Head> {
        let (mut whole, _) = lines(bytes);
        let opening = match whole.next().map(|line| Opening::read(&self.keys, line)) {
            Some(Ok((opening, before))) => opening.ledger().map(|ledger| (ledger, before)),
            Some(Err(BadOpening::OtherKey)) => return Err(self.other_key()),
            Some(Err(BadOpening::Changed)) | None => None,
        };
        let Some((ledger, before)) = opening else {
            let count = self.highest(first, bytes);
            return Ok(Head { count, ..Head::new(&self.keys, fresh_id()?, self.boot) });
        };
        let (mut count, mut mac) = (first.saturating_sub(1), before);
        for line in whole {
            let Some(parts) = take_apart(line) else { break };
            if self.keys.entry(&mac, &parts.body) != parts.mac {
                // Numbers are never used again.
                count = self.highest(first, bytes);
                break;
            }
            mac = parts.mac;
            count += 1;
        }
        Ok(Head { count, mac, ..Head::new(&self.keys, ledger, self.boot) })
    }

    /// The highest number that a segment claims to have.
    fn highest(&self, first: u64, bytes: &[u8]) -> u64 {
        let (whole, _) = lines(bytes);
        let claimed = whole.filter_map(|line| serde_json::from_slice::<Numbered>(line).ok());
        let most = first.saturating_add(bytes.len() as u64);
        claimed
            .map(|it| it.n)
            .filter(|n| *n <= most)
            .max()
            .unwrap_or(0)
            .max(first.saturating_sub(1))
    }

    /// Begins a segment after what the head says, and with it what was found to be wrong.
    fn go_on(&mut self, breach: Breach) -> Result<()> {
        self.segment = None;
        self.begin_segment(Some(self.pending(breach)))
    }

    /// Writes down what was found to be wrong.
    pub(crate) fn write_pending(&mut self, pending: Pending) -> Result<()> {
        let restarted = if pending.restarted { "yes" } else { "no" };
        let told = LedgerEntry::own(EntryKind::Broken, pending.breach.as_str())
            .with("restarted", restarted);
        self.write(&told)
    }

    /// Makes the file of a segment. One that is there has either nothing but its first line, left by
    /// a process that died, or is put aside: it is not of this chain.
    pub(crate) fn make_segment(&self, first: u64) -> Result<File> {
        let path = segment::path(&self.places.directory, first);
        match make(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.or_failed("make", &path),
        }
        let bytes = fs::read(&path).or_failed("read", &path)?;
        if lines(&bytes).0.count() <= 1 {
            let file = open(&path).or_failed("open", &path)?;
            file.set_len(0).or_failed("empty", &path)?;
            return Ok(file);
        }
        let aside = self.aside(first);
        fs::rename(&path, &aside).or_failed("put aside", &path)?;
        make(&path).or_failed("make", &path)
    }

    fn put_aside(&self, bytes: &[u8]) -> Result<()> {
        let path = self.aside(self.head.count + 1);
        add_to(&path, bytes).or_failed("write", &path)
    }

    fn aside(&self, first: u64) -> std::path::PathBuf {
        let name = format!("aside-{first}-{}", Timestamp::now().0);
        self.places.directory.join(name)
    }
}
