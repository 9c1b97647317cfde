//! Keeps secrets out of streams of bytes: the values that are known ([`Masks`]) out of what execs
//! print, before anything is written down, and out of what servers answer; what has the form of a
//! secret ([`Shapes`]) out of what agents are shown. However it is cut into pieces, the same is
//! replaced.

mod automaton;
mod forms;
pub mod marker;
mod shapes;

#[cfg(test)]
mod marker_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::automaton::{Automaton, START, State};
use self::forms::{forms, is_break};
pub use self::shapes::{Finder, MOST_NAME, REACH_BEFORE, Redactor, Region, Shapes};

/// So many line breaks in a row are passed over at least: a terminal makes two of one.
const LEAST_BREAKS: usize = 2;

/// What is in the place of each byte where lengths have to stay as they are.
const STAR: u8 = b'*';

/// What is shown instead of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shown {
    /// Its name.
    #[default]
    Name,
    /// As many stars as it had bytes.
    Stars,
}

/// What is replaced, and by what.
#[derive(Default)]
pub struct Masks {
    with: Shown,
    /// The values by name; one that was changed leaves what it was.
    values: BTreeSet<(String, Vec<u8>)>,
    patterns: Automaton,
    /// What is shown instead of each pattern.
    shown: Vec<Arc<[u8]>>,
    /// So many line breaks in a row are passed over.
    most_breaks: usize,
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masks").field("patterns", &self.shown.len()).finish_non_exhaustive()
    }
}

impl Masks {
    /// Those that replace each byte by a star, so that whatever tells a length stays true.
    #[must_use]
    pub fn of_same_length() -> Self {
        Self { with: Shown::Stars, ..Self::default() }
    }

    /// Adds a value of a secret, unless it is known.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        self.add_all([(name, value)]);
    }

    /// Adds values, each with the name of its secret. Many cost less at once than one by one.
    pub fn add_all<'a>(&mut self, secrets: impl IntoIterator<Item = (&'a str, &'a [u8])>) {
        let known = self.values.len();
        for (name, value) in secrets {
            self.insert(name, value);
        }
        if self.values.len() > known {
            self.patterns.link();
        }
    }

    /// Adds a value, which is looked for once the patterns are linked.
    fn insert(&mut self, name: &str, value: &[u8]) {
        if !self.values.insert((name.to_owned(), value.to_vec())) {
            return;
        }
        let mut shown = Vec::new();
        marker::write(name, &mut shown);
        let shown: Arc<[u8]> = Arc::from(shown);
        for form in forms(value) {
            if self.patterns.add(form.into_iter()).is_some() {
                self.shown.push(Arc::clone(&shown));
            }
        }
        let in_a_row = value.split(|byte| !is_break(*byte)).map(<[u8]>::len).max();
        let breaks = LEAST_BREAKS.max(2 * in_a_row.unwrap_or_default());
        self.most_breaks = self.most_breaks.max(breaks);
    }

    /// Whether nothing is replaced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

/// One stream on its way.
#[derive(Debug, Default)]
pub struct Masker {
    /// What may be part of a secret.
    held: Vec<u8>,
    /// What of it is to be replaced, in order, none over another.
    runs: Vec<Run>,
    state: State,
    /// Where the last bytes are that brought it there, which are no line breaks.
    places: Vec<usize>,
    /// The line breaks in a row at the end.
    breaks: usize,
    /// How many values were known then.
    known: usize,
}

/// Bytes that are replaced together: patterns that lie over one another.
#[derive(Debug)]
struct Run {
    start: usize,
    end: usize,
    /// The longest of its patterns, which gives it its name, and its length.
    pattern: usize,
    length: usize,
}

impl Masker {
    /// Whether something waits for what comes after it.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// What can be written now that these bytes have come.
    pub fn take(&mut self, masks: &Masks, bytes: &[u8]) -> Vec<u8> {
        let mut masked = Vec::with_capacity(bytes.len());
        if self.known != masks.values.len() {
            self.begin_anew(masks, &mut masked);
        }
        self.scan(masks, bytes);
        self.state = masks.patterns.unfinished(self.state);
        let depth = masks.patterns.depth(self.state);
        self.places.drain(..self.places.len() - depth);
        let settled = self.places.first().copied().unwrap_or(self.held.len());
        self.write(masks, settled, &mut masked);
        masked
    }

    /// What was held, when nothing comes after it or nobody is to wait for that any longer.
    pub fn release(&mut self, masks: &Masks) -> Vec<u8> {
        let mut masked = Vec::with_capacity(self.held.len());
        self.forget_place();
        self.write(masks, self.held.len(), &mut masked);
        masked
    }

    /// Looks at what is held once more, when there is more to look for.
    fn begin_anew(&mut self, masks: &Masks, masked: &mut Vec<u8>) {
        self.known = masks.values.len();
        self.forget_place();
        let replaced = self.runs.last().map_or(0, |run| run.end);
        self.write(masks, replaced, masked);
        let held = std::mem::take(&mut self.held);
        self.scan(masks, &held);
    }

    fn forget_place(&mut self) {
        (self.state, self.breaks) = (START, 0);
        self.places.clear();
    }

    fn scan(&mut self, masks: &Masks, bytes: &[u8]) {
        self.held.reserve(bytes.len());
        for byte in bytes {
            self.held.push(*byte);
            if is_break(*byte) {
                self.breaks += 1;
                if self.breaks > masks.most_breaks {
                    self.state = START;
                    self.places.clear();
                }
                continue;
            }
            self.breaks = 0;
            self.state = masks.patterns.step(self.state, *byte);
            if self.state == START {
                self.places.clear();
                continue;
            }
            self.places.push(self.held.len() - 1);
            if let Some((pattern, length)) = masks.patterns.found(self.state) {
                let (start, end) = (self.places[self.places.len() - length], self.held.len());
                self.replace(Run { start, end, pattern, length });
            }
        }
    }

    /// Adds a run, which takes in those that it lies over.
    fn replace(&mut self, mut new: Run) {
        while let Some(last) = self.runs.pop_if(|last| last.end > new.start) {
            new.start = new.start.min(last.start);
            if last.length >= new.length {
                (new.pattern, new.length) = (last.pattern, last.length);
            }
        }
        self.runs.push(new);
    }

    /// Writes what nothing that comes can change: all before a place. Of a run that goes on after
    /// it the end alone is held, as none of it is ever shown.
    fn write(&mut self, masks: &Masks, settled: usize, masked: &mut Vec<u8>) {
        let mut from = 0;
        let over = self.runs.iter().take_while(|run| run.end <= settled).count();
        for run in self.runs.drain(..over) {
            masked.extend_from_slice(&self.held[from..run.start]);
            match masks.with {
                Shown::Name => masked.extend_from_slice(&masks.shown[run.pattern]),
                Shown::Stars => masked.resize(masked.len() + run.end - run.start, STAR),
            }
            from = run.end;
        }
        let until = self.runs.first().map_or(settled, |run| run.start.min(settled));
        masked.extend_from_slice(&self.held[from..until]);
        if masks.with == Shown::Stars {
            // The beginning of a run that is cut off here.
            masked.resize(masked.len() + settled - until.max(from), STAR);
        }
        if settled == 0 {
            return;
        }
        self.held.drain(..settled);
        for run in &mut self.runs {
            run.start = run.start.saturating_sub(settled);
            run.end -= settled;
        }
        for place in &mut self.places {
            *place -= settled;
        }
    }
}
