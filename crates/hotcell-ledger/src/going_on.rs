//! Puts in order what a process that died left, and goes on from a ledger that is not as it was
//! left, which is written down.

use std::fs;
use std::fs::File;
use std::io::ErrorKind;

use hotcell_model::{EntryKind, LedgerEntry, Result, Timestamp};
use serde::Deserialize;

use crate::chain::{Keys, Mac, NOTHING, take_apart};
use crate::files::{OrFailed, make, make_directory, open, read_at};
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
    /// Takes apart what stands after the entry `count`.
    pub(crate) fn read(keys: &Keys, head: &Head, bytes: &[u8]) -> Self {
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
        tail.rest = match rest {
            [] => Rest::Nothing,
            rest if rest.contains(&b'\n') || rest.len() > LINE_BYTES => {
                Rest::Foreign(rest.len() as u64)
            }
            rest => Rest::Torn(rest.len() as u64),
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

impl Writer {
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
        let tail = Tail::read(&self.keys, &self.head, &bytes);
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

    /// Finds where a ledger ends whose head is lost, and goes on from there.
    pub(crate) fn find_end(&mut self, breach: Breach) -> Result<()> {
        let directory = self.places.directory.clone();
        make_directory(&directory).or_failed("make", &directory)?;
        let segments = segment::list(&directory).or_failed("list", &directory)?;
        let Some(last) = segments.last().copied() else {
            self.head = Head::new(self.boot);
            self.clear_head()?;
            return match (breach, self.had_key) {
                (Breach::HeadMissing, false) => self.begin_segment(None),
                (Breach::HeadMissing, true) => self.go_on(Breach::BegunAnew),
                (breach, _) => self.go_on(breach),
            };
        };
        let path = segment::path(&directory, last);
        let bytes = fs::read(&path).or_failed("read", &path)?;
        let (count, mac) = self.end_of(last, &bytes)?;
        let kept_from = segments.first().copied().unwrap_or(1);
        self.head = Head { count, mac, kept_from, ..Head::new(self.boot) };
        self.clear_head()?;
        self.go_on(breach)
    }

    /// The number and the mac of the last entry of a segment that can be believed.
    fn end_of(&self, first: u64, bytes: &[u8]) -> Result<(u64, Mac)> {
        let (mut whole, _) = lines(bytes);
        let before = match whole.next().map(|line| Opening::read(&self.keys, line)) {
            Some(Ok((_, before))) => before,
            Some(Err(BadOpening::OtherKey)) => return Err(self.other_key()),
            Some(Err(BadOpening::Changed)) | None => {
                return Ok((self.highest(first, bytes), NOTHING));
            }
        };
        let (mut count, mut mac) = (first.saturating_sub(1), before);
        for line in whole {
            let Some(parts) = take_apart(line) else { break };
            if self.keys.entry(&mac, &parts.body) != parts.mac {
                // Numbers are never used again.
                return Ok((self.highest(first, bytes), mac));
            }
            mac = parts.mac;
            count += 1;
        }
        Ok((count, mac))
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
        fs::write(&path, bytes).or_failed("write", &path)
    }

    fn aside(&self, first: u64) -> std::path::PathBuf {
        let name = format!("aside-{first}-{}", Timestamp::now().0);
        self.places.directory.join(name)
    }
}
