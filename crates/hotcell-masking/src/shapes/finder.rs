//! Finds secrets in a stream that comes in pieces, the same however it is cut.

use std::collections::VecDeque;

use super::anchors::Rule;
use super::text::{Class, LastRun, Rest, Text};
use super::verdict::{Found, Rank, Verdict};
use super::{BEFORE, Shapes};

/// Bytes of a stream that are not shown, counted from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first, where a marker stands.
    pub start: u64,
    /// The first that is shown again, as far as is known.
    pub end: u64,
    /// What it is.
    pub kind: &'static str,
    rank: Rank,
}

/// One stream on its way.
#[derive(Debug, Default)]
pub struct Finder {
    /// What may still matter, and where in the stream it begins.
    pub(super) bytes: Vec<u8>,
    base: u64,
    /// Places about which more has to be known.
    open: Vec<Place>,
    /// Secrets that go on with what comes, one of each class.
    runs: Vec<OpenRun>,
    /// Secrets that begin after what is settled.
    found: Vec<Region>,
    /// Secrets that begin before.
    regions: VecDeque<Region>,
    settled: u64,
}

/// A place where a secret may begin.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: u64,
    length: usize,
    rule: Rule,
}

/// A secret that goes on as long as bytes of a class come. Of several of one class, which end
/// together unless they get too long, the one is kept that may get longest.
#[derive(Debug, Clone, Copy)]
struct OpenRun {
    region: Region,
    class: &'static Class,
    most: u64,
}

impl Finder {
    /// Takes what comes next.
    pub fn feed(&mut self, shapes: &Shapes, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let known = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.extend_runs(bytes);
        let last = LastRun::default();
        let mut hold = self.judge_open(shapes, Rest::Unknown, &last);
        let from = known.saturating_sub(shapes.longest - 1);
        let mut places = Vec::new();
        shapes.places(&self.bytes, from, |pattern, place| {
            let (letters, rule) = &shapes.patterns[pattern];
            if place + letters.len() > known {
                let at = self.base + place as u64;
                places.push(Place { at, length: letters.len(), rule: *rule });
            }
        });
        for place in places {
            hold = hold.min(self.judge(shapes, place, Rest::Unknown, &last));
        }
        hold = hold.min(self.begun(shapes));
        self.settle(hold.min(self.end()));
        self.forget_bytes(shapes);
    }

    /// Says that nothing comes any more: all is settled.
    pub fn finish(&mut self, shapes: &Shapes) {
        self.judge_open(shapes, Rest::None, &LastRun::default());
        self.open.clear();
        self.runs.clear();
        self.settle(self.end());
    }

    /// Says that something is missing here: what may be a secret by then is taken for one, and so
    /// is what may be the rest of one after it.
    pub fn gap(&mut self, shapes: &Shapes) {
        self.cut(shapes);
        let at = self.end();
        self.open.push(Place { at, length: 0, rule: Rule::AfterGap });
    }

    /// Says that what follows is another part of the stream, the beginning of which will not be
    /// shown: what may be a secret by then is taken for one.
    pub fn cut(&mut self, shapes: &Shapes) {
        let end = self.end();
        let places = std::mem::take(&mut self.open);
        self.runs.clear();
        let last = LastRun::default();
        let text = Text { bytes: &self.bytes, rest: Rest::Unknown, first: 0, last: &last };
        let mut cut = Vec::new();
        for Place { at, length, rule } in places {
            let from = match rule.judge(&text, self.place(at), length, &shapes.others) {
                Verdict::No | Verdict::Undecided(usize::MAX) => continue,
                Verdict::Undecided(from) => from,
                Verdict::Secret(found) => found.start,
            };
            cut.push(Region { start: self.base + from as u64, end, kind: "cut", rank: Rank::Name });
        }
        let begun = self.begun(shapes);
        if begun.saturating_add(BEGUN_BYTES) <= end {
            cut.push(Region { start: begun, end, kind: "cut", rank: Rank::Name });
        }
        self.found.extend(cut.into_iter().filter(|region| region.start < region.end));
        self.settle(end);
        self.bytes.clear();
        self.base = end;
    }

    /// Settles all that is there, for a reader that waits no longer. What is a secret after all is
    /// not shown from here on.
    pub fn release(&mut self) {
        self.settle(self.end());
    }

    /// Up to where it is known what is shown.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// How much has come.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// What is not shown, in order, of what is settled and was not forgotten.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter()
    }

    /// Forgets about what lies before a place.
    pub fn forget(&mut self, before: u64) {
        while self.regions.front().is_some_and(|region| region.end <= before) {
            self.regions.pop_front();
        }
    }

    /// Appends what is shown of some bytes, which are those of the stream from `start` on.
    pub fn show(&self, start: u64, bytes: &[u8], shown: &mut Vec<u8>) {
        let end = start + bytes.len() as u64;
        let within = |place: u64| usize::try_from(place.clamp(start, end) - start).unwrap_or(0);
        let mut from = start;
        let later = self.regions.iter().skip_while(|region| region.end <= start);
        for region in later.take_while(|region| region.start < end) {
            shown.extend_from_slice(&bytes[within(from)..within(region.start).max(within(from))]);
            if region.start >= start {
                crate::marker::write(region.kind, shown);
            }
            from = from.max(region.end);
        }
        shown.extend_from_slice(&bytes[within(from)..]);
    }

    fn place(&self, at: u64) -> usize {
        usize::try_from(at - self.base).unwrap_or(0)
    }

    /// Judges the places again about which more had to be known; where the first secret may begin
    /// that is not known yet.
    fn judge_open(&mut self, shapes: &Shapes, rest: Rest, last: &LastRun) -> u64 {
        let places = std::mem::take(&mut self.open);
        let judged = places.into_iter().map(|place| self.judge(shapes, place, rest, last));
        judged.min().unwrap_or(u64::MAX)
    }

    fn judge(&mut self, shapes: &Shapes, place: Place, rest: Rest, last: &LastRun) -> u64 {
        let at = self.place(place.at);
        // Only so much before it is there in every case.
        let first = at.saturating_sub(BEFORE);
        let text = Text { bytes: &self.bytes[first..], rest, first, last };
        match place.rule.judge(&text, at - first, place.length, &shapes.others) {
            Verdict::No => u64::MAX,
            Verdict::Undecided(from) => {
                self.open.push(place);
                self.base.saturating_add(first as u64).saturating_add(from as u64)
            }
            Verdict::Secret(Found { start, end, open, of, kind, rank }) => {
                let offset = self.base + first as u64;
                let region = Region {
                    start: offset + start as u64,
                    end: (offset + end as u64).min(self.end()),
                    kind,
                    rank,
                };
                self.found.push(region);
                match of {
                    _ if !open => u64::MAX,
                    Some((class, most)) => {
                        self.keep_run(OpenRun { region, class, most: offset + most as u64 });
                        u64::MAX
                    }
                    None => {
                        self.open.push(place);
                        region.end
                    }
                }
            }
        }
    }

    fn keep_run(&mut self, new: OpenRun) {
        match self.runs.iter_mut().find(|run| std::ptr::eq(run.class, new.class)) {
            Some(run) if run.most >= new.most => {}
            Some(run) => *run = new,
            None => self.runs.push(new),
        }
    }

    /// Lets secrets go on with what came.
    fn extend_runs(&mut self, bytes: &[u8]) {
        let (known, end) = (self.end() - bytes.len() as u64, self.end());
        for OpenRun { mut region, class, most } in std::mem::take(&mut self.runs) {
            let goes_on = bytes.iter().position(|byte| !class.has(*byte)).unwrap_or(bytes.len());
            region.end = most.min(known + goes_on as u64);
            self.found.push(region);
            if region.end == end && end < most {
                self.runs.push(OpenRun { region, class, most });
            }
        }
    }

    /// Where letters begin at the end that are cut off there, and that are not to be shown.
    fn begun(&self, shapes: &Shapes) -> u64 {
        let tail = self.bytes.len().saturating_sub(shapes.longest - 1);
        let last = LastRun::default();
        let text = Text { bytes: &self.bytes, rest: Rest::Unknown, first: 0, last: &last };
        for place in tail..self.bytes.len() {
            let end = &self.bytes[place..];
            if !shapes.firsts.contains(&end[0]) {
                continue;
            }
            let begins = |(letters, rule): &(Vec<u8>, Rule)| {
                rule.holds() && letters.len() > end.len() && letters.starts_with(end)
            };
            if shapes.patterns.iter().any(begins) && (end[0] == b'-' || text.begins(place)) {
                return self.base + place as u64;
            }
        }
        u64::MAX
    }

    /// Settles what lies before a place: which secrets begin there is known.
    fn settle(&mut self, before: u64) {
        self.settled = self.settled.max(before);
        let settled = self.settled;
        let begin = |region: &mut Region| region.start < settled;
        let mut new: Vec<Region> = self.found.extract_if(.., begin).collect();
        // In order, each comes near the end.
        new.sort_by_key(|region| region.start);
        new.into_iter().for_each(|region| add(&mut self.regions, region));
    }

    fn forget_bytes(&mut self, shapes: &Shapes) {
        let end = self.end();
        let first = self.open.iter().map(|place| place.at).min().unwrap_or(end);
        let first = first.min(end.saturating_sub(shapes.longest as u64));
        let keep = self.place(first.max(self.base)).saturating_sub(BEFORE);
        self.bytes.drain(..keep);
        self.base += keep as u64;
    }
}

/// So many letters of a beginning count before a gap.
const BEGUN_BYTES: u64 = 3;

/// Adds a region, which becomes one with those that it overlaps.
fn add(regions: &mut VecDeque<Region>, mut new: Region) {
    let mut place = regions.len();
    while let Some(index) = place.checked_sub(1)
        && let Some(last) = regions.get(index)
    {
        let overlaps = last.start < new.end && new.start < last.end || last.start == new.start;
        if overlaps {
            if (last.start, last.rank) <= (new.start, new.rank) {
                (new.kind, new.rank) = (last.kind, last.rank);
            }
            (new.start, new.end) = (new.start.min(last.start), new.end.max(last.end));
            regions.remove(index);
        } else if last.start < new.start {
            break;
        }
        place = index;
    }
    regions.insert(place.min(regions.len()), new);
}
