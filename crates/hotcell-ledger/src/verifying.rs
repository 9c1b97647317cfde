//! Looks whether every entry is as it was written, and says of what is not what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;

use hotcell_model::{
    EntryKind, Error, FaultKind, LedgerCheck, LedgerFault, LedgerReport, LedgerState, Result,
};
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;

use crate::boot::this_boot;
use crate::chain::{Keys, Mac, hex, take_apart};
use crate::files::{OrFailed, Places, read_at};
use crate::going_on::{Rest, Tail};
use crate::head::{self, Breach, Found, HEAD_BYTES, Head};
use crate::segment::{self, BadOpening, Opening, lines};
use crate::writing::{hold_off_writers, key_file};

/// How many faults are told one by one.
const MOST_FAULTS: usize = 100;
/// How often it is begun anew because old entries were removed meanwhile.
const ATTEMPTS: u32 = 5;

/// Verifies a ledger. Nothing of it is changed.
pub(crate) fn verify(places: &Places, check: &LedgerCheck) -> Result<LedgerReport> {
    let mut report = LedgerReport {
        state: LedgerState::Intact,
        first: 0,
        last: 0,
        verified: 0,
        ledger: None,
        mac: None,
        faults: Vec::new(),
        more_faults: 0,
        notes: Vec::new(),
    };
    let segments = segment::list(&places.directory).or_failed("list", &places.directory)?;
    let key = match key_file(&places.key).find()? {
        Some(key) => Keys::new(&key),
        None => {
            if segments.is_empty() && !places.head.exists() {
                report.notes.push("nothing was ever written to the ledger here".to_owned());
            } else {
                let message = format!("there is no key at {}", places.key.display());
                tell(&mut report, check, fault(FaultKind::KeyMissing, 0, 0, message));
            }
            return Ok(report);
        }
    };
    for _ in 0..ATTEMPTS {
        let seen = Snapshot::take(places, &key)?;
        let mut verifier = Verifier::new(places, &key, &seen, check, report.clone());
        match verifier.run()? {
            Run::Done => return Ok(verifier.progress.report),
            Run::Overtaken => {}
        }
    }
    Err(Error::unavailable("entries are removed faster than they are verified"))
}

fn fault(kind: FaultKind, from: u64, to: u64, message: String) -> LedgerFault {
    LedgerFault { kind, from, to, file: None, message }
}

fn tell(report: &mut LedgerReport, check: &LedgerCheck, fault: LedgerFault) {
    if fault.to > 0 && fault.to <= check.after {
        return;
    }
    report.state = LedgerState::Damaged;
    if report.faults.len() < MOST_FAULTS {
        report.faults.push(fault);
    } else {
        report.more_faults += 1;
    }
}

/// How far the ledger goes at one moment.
struct Snapshot {
    found: Option<Found>,
    segments: Vec<u64>,
    /// What stood beyond the head.
    tail: Vec<u8>,
    torn_head: bool,
    /// Whether there are segments that the head does not know of.
    goes_beyond: bool,
}

impl Snapshot {
    fn take(places: &Places, keys: &Keys) -> Result<Self> {
        // Only to read: whoever verifies may change nothing.
        let file = match fs::File::open(&places.head) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).or_failed("open", &places.head),
        };
        if let Some(file) = &file {
            hold_off_writers(file, places)?;
        }
        let taken = Self::look(places, keys, file.as_ref());
        if let Some(file) = &file {
            let _ = flock(file, FlockOperation::Unlock);
        }
        taken
    }

    fn look(places: &Places, keys: &Keys, file: Option<&fs::File>) -> Result<Self> {
        let segments = segment::list(&places.directory).or_failed("list", &places.directory)?;
        let mut seen =
            Self { found: None, segments, tail: Vec::new(), torn_head: false, goes_beyond: false };
        let Some(file) = file else { return Ok(seen) };
        let mut bytes = read_at(file, 0, HEAD_BYTES).or_failed("read", &places.head)?;
        bytes.resize(HEAD_BYTES, 0);
        let found = head::read(&bytes, keys);
        if let Found::Head { head, torn } = &found {
            seen.torn_head = *torn;
            // One that was only begun is left by a process that died, or is just being begun.
            seen.segments.retain(|first| {
                let path = segment::path(&places.directory, *first);
                *first <= head.segment || segment::has_entries(&path).unwrap_or(true)
            });
            seen.goes_beyond = seen.segments.last().is_some_and(|last| *last > head.segment);
            let path = segment::path(&places.directory, head.segment);
            if let Ok(file) = fs::File::open(&path) {
                let size = file.metadata().or_failed("examine", &path)?.len();
                let beyond = usize::try_from(size.saturating_sub(head.size)).unwrap_or_default();
                seen.tail = read_at(&file, head.size, beyond).or_failed("read", &path)?;
            }
        }
        seen.found = Some(found);
        Ok(seen)
    }

    fn head(&self) -> Option<&Head> {
        match &self.found {
            Some(Found::Head { head, .. }) => Some(head),
            Some(Found::Nothing | Found::Unreadable | Found::OtherKey) | None => None,
        }
    }
}

enum Run {
    Done,
    /// A segment was removed meanwhile.
    Overtaken,
}

/// What of an entry is looked at besides that it is as it was written.
#[derive(Deserialize)]
struct Looked<'a> {
    n: u64,
    kind: Option<EntryKind>,
    what: Option<std::borrow::Cow<'a, str>>,
}

/// One line of a segment.
struct Line {
    n: Option<u64>,
    kind: Option<EntryKind>,
    what: Option<String>,
    parts: Option<crate::chain::Parts>,
}

impl Line {
    fn read(text: &[u8]) -> Self {
        let parts = take_apart(text);
        let body = parts.as_ref().map_or(text, |parts| &parts.body);
        match serde_json::from_slice::<Looked<'_>>(body) {
            Ok(Looked { n, kind: Some(kind @ (EntryKind::Broken | EntryKind::Missed)), what }) => {
                Self { n: Some(n), kind: Some(kind), what: what.map(Into::into), parts }
            }
            Ok(Looked { n, kind, .. }) => Self { n: Some(n), kind, what: None, parts },
            Err(_) => Self { n: None, kind: None, what: None, parts },
        }
    }
}

struct Verifier<'a> {
    places: &'a Places,
    keys: &'a Keys,
    seen: &'a Snapshot,
    check: &'a LedgerCheck,
    progress: Progress,
}

/// How far it has come.
#[derive(Clone)]
struct Progress {
    report: LedgerReport,
    /// The number that comes next.
    expected: u64,
    /// What the entry before it may be tied by; more than one after one that was changed.
    before: Vec<Mac>,
    /// The numbers of all lines, where their order is not plain.
    numbers: BTreeMap<u64, u32>,
    gaps: Vec<(u64, u64, String)>,
    backwards: Vec<(u64, String)>,
    known_found: bool,
    /// Whether what lies beyond the head was gone through with the rest.
    with_tail: bool,
}

impl Progress {
    fn wrongs(&self) -> usize {
        let told = self.report.faults.len() + self.report.notes.len();
        told + self.gaps.len() + self.backwards.len()
    }
}

impl<'a> Verifier<'a> {
    fn new(
        places: &'a Places,
        keys: &'a Keys,
        seen: &'a Snapshot,
        check: &'a LedgerCheck,
        report: LedgerReport,
    ) -> Self {
        Self {
            places,
            keys,
            seen,
            check,
            progress: Progress {
                report,
                expected: 0,
                before: Vec::new(),
                numbers: BTreeMap::new(),
                gaps: Vec::new(),
                backwards: Vec::new(),
                known_found: false,
                with_tail: false,
            },
        }
    }

    fn tell(
        &mut self,
        kind: FaultKind,
        (from, to): (u64, u64),
        file: Option<&str>,
        message: String,
    ) {
        let file = file.map(str::to_owned);
        tell(&mut self.progress.report, self.check, LedgerFault { kind, from, to, file, message });
    }

    fn run(&mut self) -> Result<Run> {
        if !self.tell_head() {
            return Ok(Run::Done);
        }
        let kept_from = self.seen.head().map_or(0, |head| head.kept_from);
        let segments: Vec<u64> =
            self.seen.segments.iter().copied().filter(|first| *first >= kept_from).collect();
        let first = match self.seen.head() {
            Some(head) => head.kept_from,
            None => segments.first().copied().unwrap_or(1),
        };
        self.progress.report.ledger = self.seen.head().map(|head| hex(&head.ledger));
        self.progress.report.first = first;
        self.progress.expected = first;
        for first in segments {
            let path = segment::path(&self.places.directory, first);
            let bytes = match fs::read(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Run::Overtaken),
                bytes => bytes.or_failed("read", &path)?,
            };
            let gone_on = match self.seen.head().filter(|head| head.segment == first) {
                Some(head) => self.written_to(first, head.size, bytes),
                None => self.segment(first, &bytes),
            };
            if !gone_on {
                return Ok(Run::Done);
            }
        }
        self.end();
        Ok(Run::Done)
    }

    /// Tells what is wrong with the head; whether there is a point in going on.
    fn tell_head(&mut self) -> bool {
        let shown = self.places.head.display().to_string();
        match &self.seen.found {
            Some(Found::Head { .. }) => true,
            Some(Found::OtherKey) => {
                let message = format!(
                    "{shown} was written with another key than the one in {}",
                    self.places.key.display()
                );
                self.tell(FaultKind::KeyWrong, (0, 0), None, message);
                false
            }
            Some(Found::Unreadable) => {
                let message = format!("{shown} is not as it was written");
                self.tell(FaultKind::HeadChanged, (0, 0), None, message);
                true
            }
            Some(Found::Nothing) | None => {
                let message = format!(
                    "{shown} is empty or not there: whether the newest entries are cannot be told"
                );
                self.tell(FaultKind::HeadMissing, (0, 0), None, message);
                true
            }
        }
    }

    /// Goes through the segment that is written to, as far as the head says. If that is not as it
    /// was written, what lies beyond may be a part of it.
    fn written_to(&mut self, first: u64, size: u64, mut bytes: Vec<u8>) -> bool {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let cut_short = bytes.len() < size;
        bytes.truncate(size);
        if cut_short {
            // A part of an entry is none.
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            bytes.truncate(end);
        }
        let before = self.progress.clone();
        let gone_on = self.segment(first, &bytes);
        let is_clean = self.progress.wrongs() == before.wrongs() && !self.seen.goes_beyond;
        if is_clean || self.seen.tail.is_empty() {
            return gone_on;
        }
        self.progress = before;
        self.progress.with_tail = true;
        bytes.extend_from_slice(&self.seen.tail);
        self.segment(first, &bytes)
    }

    /// Goes through a segment; whether there is a point in going on.
    fn segment(&mut self, first: u64, bytes: &[u8]) -> bool {
        let file = segment::name(first);
        let (whole, rest) = lines(bytes);
        let whole: Vec<&[u8]> = whole.collect();
        let is_written_to = self.seen.head().is_some_and(|head| head.segment == first);
        if whole.len() <= 1 && !is_written_to {
            // A process died when it had begun it, and others went on elsewhere.
            return true;
        }
        let Some((opening, entries)) = whole.split_first() else { return true };
        match Opening::read(self.keys, opening) {
            Ok((opening, before)) => self.open(first, &opening, before, &file),
            Err(BadOpening::OtherKey) if self.seen.head().is_none() => {
                let message = format!(
                    "{file} was written with another key than the one in {}",
                    self.places.key.display()
                );
                self.tell(FaultKind::KeyWrong, (0, 0), Some(&file), message);
                return false;
            }
            Err(BadOpening::Changed | BadOpening::OtherKey) => {
                let message = format!("the first line of {file} is not as it was written");
                self.tell(FaultKind::Changed, (first, first), Some(&file), message);
                if self.progress.expected < first {
                    self.progress.gaps.push((self.progress.expected, first - 1, file.clone()));
                    (self.progress.expected, self.progress.before) = (first, Vec::new());
                }
            }
        }
        let mut read: Vec<Line> = entries.iter().map(|text| Line::read(text)).collect();
        if !rest.is_empty() {
            read.push(Line { n: None, kind: None, what: None, parts: None });
        }
        for n in read.iter().filter_map(|line| line.n) {
            *self.progress.numbers.entry(n).or_default() += 1;
        }
        for (place, line) in read.iter().enumerate() {
            let next = read.get(place + 1).and_then(|next| next.n);
            self.line(line, next, &file);
        }
        true
    }

    fn open(&mut self, first: u64, opening: &Opening, before: Mac, file: &str) {
        let id = self.progress.report.ledger.get_or_insert_with(|| opening.id.clone());
        if opening.id != *id {
            let message = format!("{file} is of another ledger, {}", opening.id);
            self.tell(FaultKind::Foreign, (first, first), Some(file), message);
        }
        if opening.segment != first {
            let message = format!("{file} is the one that began with entry {}", opening.segment);
            self.tell(FaultKind::Reordered, (first, first), Some(file), message);
        }
        if opening.segment > self.progress.expected {
            self.progress.gaps.push((self.progress.expected, opening.segment - 1, file.to_owned()));
            (self.progress.expected, self.progress.before) = (opening.segment, vec![before]);
        } else if self.progress.before.is_empty() {
            // The first one, or one after what cannot be told.
            self.progress.before = vec![before];
        } else if !self.progress.before.contains(&before) {
            let n = opening.segment.saturating_sub(1);
            let message = format!("entry {n} is not the one that {file} follows upon");
            self.tell(FaultKind::Changed, (n, n), Some(file), message);
            self.progress.before = vec![before];
        } else {
            self.progress.before = vec![before];
        }
    }

    fn line(&mut self, line: &Line, next: Option<u64>, file: &str) {
        let expected = self.progress.expected;
        let follows_upon = line.parts.as_ref().filter(|parts| {
            self.progress
                .before
                .iter()
                .any(|before| self.keys.entry(before, &parts.body) == parts.mac)
        });
        if let (Some(parts), true) = (follows_upon, line.n == Some(expected)) {
            self.take(line, parts.mac, file);
            return;
        }
        let claimed = line.parts.as_ref().map(|parts| parts.mac);
        match line.n {
            // What it is tied to is gone: it is not told apart from one that was changed.
            Some(n) if n == expected && self.progress.before.is_empty() => {
                self.note(format!("entry {n} cannot be verified: what it is tied to is gone"));
                self.go_to(expected + 1, claimed.into_iter().collect());
            }
            Some(n) if n == expected || (next == Some(expected + 1) && self.is_no_other(n)) => {
                let message = format!("entry {expected} is not as it was written");
                self.tell(FaultKind::Changed, (expected, expected), Some(file), message);
                let meant = line.parts.as_ref().map(|parts| {
                    self.progress
                        .before
                        .iter()
                        .map(|before| self.keys.entry(before, &parts.body))
                        .collect()
                });
                let mut after: Vec<Mac> = meant.unwrap_or_default();
                after.extend(claimed);
                self.go_to(expected + 1, after);
            }
            Some(n) if n > expected => {
                self.progress.gaps.push((expected, n - 1, file.to_owned()));
                self.note(format!("entry {n} cannot be verified: what it is tied to is gone"));
                self.go_to(n + 1, claimed.into_iter().collect());
            }
            Some(n) => self.progress.backwards.push((n, file.to_owned())),
            None => self.unreadable(next, claimed, file),
        }
    }

    /// Whether a line with the number `n` in the place of another is that one, changed: the number
    /// is there a second time, or that of its place nowhere.
    fn is_no_other(&self, n: u64) -> bool {
        let times = |n: u64| self.progress.numbers.get(&n).copied().unwrap_or_default();
        times(n) > 1 || times(self.progress.expected) == 0
    }

    /// A line that is no entry.
    fn unreadable(&mut self, next: Option<u64>, claimed: Option<Mac>, file: &str) {
        let expected = self.progress.expected;
        match next {
            Some(next) if next <= expected => {
                let message = format!("a line before entry {expected} is no entry");
                self.tell(FaultKind::Foreign, (expected, expected), Some(file), message);
            }
            Some(next) => {
                let message =
                    format!("entries {expected} to {} are not as they were written", next - 1);
                self.tell(FaultKind::Changed, (expected, next - 1), Some(file), message);
                self.go_to(next, claimed.into_iter().collect());
            }
            None => {
                let message = format!("entry {expected} is not as it was written");
                self.tell(FaultKind::Changed, (expected, expected), Some(file), message);
                self.go_to(expected + 1, claimed.into_iter().collect());
            }
        }
    }

    fn take(&mut self, line: &Line, mac: Mac, file: &str) {
        let n = self.progress.expected;
        self.progress.report.verified += 1;
        if let Some(known) = &self.check.known
            && known.n == n
        {
            self.progress.known_found = known.mac == hex(&mac);
        }
        if let Some(what) = &line.what {
            if line.kind == Some(EntryKind::Broken) {
                let message = format!(
                    "entry {n} says that the ledger was found to be other than it was left: {what}"
                );
                self.tell(FaultKind::Broken, (n, n), Some(file), message);
            } else {
                self.note(format!("entry {n} says that entries could not be written"));
            }
        }
        self.go_to(n + 1, vec![mac]);
    }

    fn go_to(&mut self, expected: u64, before: Vec<Mac>) {
        (self.progress.expected, self.progress.before) = (expected, before);
    }

    fn note(&mut self, note: String) {
        if self.progress.report.notes.len() < MOST_FAULTS {
            self.progress.report.notes.push(note);
        }
    }

    /// Tells what is out of order, and compares the end with the head.
    fn end(&mut self) {
        let mut misplaced = BTreeSet::new();
        for (n, file) in std::mem::take(&mut self.progress.backwards) {
            let (kind, how) = match self.progress.numbers.get(&n) {
                Some(times) if *times > 1 => (FaultKind::Duplicated, "is there more than once"),
                Some(_) | None => (FaultKind::Reordered, "is not in its place"),
            };
            misplaced.insert(n);
            self.tell(kind, (n, n), Some(&file), format!("entry {n} {how}"));
        }
        for (from, to, file) in std::mem::take(&mut self.progress.gaps) {
            // What is only misplaced was told.
            let present: Vec<u64> = misplaced.range(from..=to).copied().collect();
            let mut begin = from;
            for end in present.into_iter().chain([to + 1]) {
                if begin < end {
                    let message = match end - begin {
                        1 => format!("entry {begin} is gone"),
                        _ => format!("entries {begin} to {} are gone", end - 1),
                    };
                    self.tell(FaultKind::Removed, (begin, end - 1), Some(&file), message);
                }
                begin = end + 1;
            }
        }
        self.progress.report.last = self.progress.expected.saturating_sub(1);
        if let Some(head) = self.seen.head().cloned() {
            self.compare(&head);
        }
        self.progress.report.mac = match self.progress.before.as_slice() {
            [mac] if self.progress.report.last > 0 => Some(hex(mac)),
            _ => None,
        };
        if let Some(known) = &self.check.known
            && !self.progress.known_found
        {
            let n = known.n;
            let message = format!("entry {n} is not the one with the mac {}", known.mac);
            self.tell(FaultKind::Unexpected, (n, n), None, message);
        }
        self.progress.report.faults.sort_by_key(|fault| (fault.from, fault.to));
    }

    fn compare(&mut self, head: &Head) {
        let last = self.progress.report.last;
        if last < head.count {
            let mut message = match head.count - last {
                1 => format!("entry {} is gone from the end", head.count),
                _ => format!("entries {} to {} are gone from the end", last + 1, head.count),
            };
            if head.boot != this_boot() {
                message += "; the machine was started anew since: without ledger.sync = each they \
                            may not have been on the disk";
            }
            self.tell(FaultKind::Cut, (last + 1, head.count), None, message);
            self.progress.report.last = head.count;
            self.progress.before = vec![head.mac];
            return;
        }
        // One entry that the head does not count may be among what was gone through.
        if last > head.count + u64::from(self.progress.with_tail && !self.seen.goes_beyond) {
            let message = "the head is older than the ledger".to_owned();
            self.tell(FaultKind::HeadOlder, (head.count + 1, last), None, message);
            return;
        }
        if last == head.count
            && !self.progress.before.contains(&head.mac)
            && self.progress.before.len() == 1
        {
            let message = format!("entry {last} is not the one that was written last");
            self.tell(FaultKind::Changed, (last, last), None, message);
        }
        if !self.progress.with_tail {
            self.compare_tail(head);
        }
    }

    /// What stands beyond the head: an entry or a part of one where a process died.
    fn compare_tail(&mut self, head: &Head) {
        let tail = Tail::read(self.keys, head, &self.seen.tail, &this_boot());
        let last = head.count + tail.entries;
        let message = match tail.breach(self.seen.torn_head) {
            None => {
                match tail.rest {
                    Rest::Torn(bytes) => self.note(format!(
                        "a process died while it wrote an entry: {bytes} bytes of it stand at the end, and \
                         go with the next entry"
                    )),
                    Rest::Nothing | Rest::Foreign(_) => {}
                }
                self.progress.report.verified += tail.entries;
                if tail.entries > 0 {
                    (self.progress.report.last, self.progress.before) = (last, vec![tail.mac]);
                }
                return;
            }
            Some(Breach::Foreign) => (FaultKind::Foreign, "what stands at the end is no entry"),
            Some(Breach::HeadChanged) => {
                (FaultKind::HeadChanged, "the head is not as it was written")
            }
            Some(
                Breach::HeadOlder
                | Breach::Cut
                | Breach::HeadMissing
                | Breach::BegunAnew
                | Breach::RolledBack
                | Breach::Replaced,
            ) => (FaultKind::HeadOlder, "the head is older than the ledger"),
        };
        self.tell(
            message.0,
            (head.count + 1, last.max(head.count + 1)),
            None,
            message.1.to_owned(),
        );
    }
}
