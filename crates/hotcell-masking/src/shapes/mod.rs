//! Secrets that nobody told of, by their form: the tokens of well-known services, keys, passwords
//! in addresses, and values whose name says what they are.
//!
//! Whether a byte belongs to a secret depends on what stands around it within [`REACH_BEFORE`] and
//! on nothing else: each place where a secret may begin is judged by itself, and what was found lies
//! together where it overlaps. So a stream can be taken up anywhere, and shows the same.

mod addresses;
mod anchors;
mod finder;
mod headers;
mod jwt;
mod keys;
mod names;
mod redactor;
mod text;
mod tokens;
mod values;
mod verdict;

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod finder_tests;
#[cfg(test)]
mod samples;

use aho_corasick::packed::{Config, MatchKind, Searcher};
use aho_corasick::{AhoCorasick, Input, StartKind};

use self::anchors::{ANCHORS, Rule};
pub use self::finder::{Finder, Region};
pub use self::redactor::Redactor;

/// The longest secret.
const MOST_BYTES: usize = {
    assert!(tokens::MOST_BYTES <= keys::MOST_BYTES && jwt::MOST_BYTES <= keys::MOST_BYTES);
    keys::MOST_BYTES
};
/// What stands before the letters by which a place is found, as far as it matters.
const BEFORE: usize = 2 * names::MOST_BEFORE;
/// How far before a byte that is shown a stream is to be read, so that all is known about it.
pub const REACH_BEFORE: usize = MOST_BYTES + 1024;
/// So many letters can be looked for at once by vectors.
const AT_ONCE: usize = 32;
/// The longest name that can be added.
pub const MOST_NAME: usize = 32;

/// All that is looked for.
#[derive(Debug)]
pub struct Shapes {
    searches: Vec<Search>,
    /// The letters and the rule of each pattern.
    patterns: Vec<(Vec<u8>, Rule)>,
    longest: usize,
    /// The first letters of what is not to be shown before it is known what follows.
    firsts: Vec<u8>,
    /// Names beyond the known ones, in small letters without what separates their words.
    others: Vec<Vec<u8>>,
}

/// How letters are found: many at once by the vectors of the processor, where it has them.
#[derive(Debug)]
enum Search {
    Packed(Box<Searcher>),
    Automaton(Box<AhoCorasick>),
    Nothing,
}

impl Default for Shapes {
    fn default() -> Self {
        Self::with_names(&[])
    }
}

impl Shapes {
    /// What is known, and values under these names. A name counts whatever the case of its letters
    /// and whatever separates its words.
    #[must_use]
    pub fn with_names(names: &[String]) -> Self {
        let mut patterns: Vec<(Vec<u8>, Rule)> =
            ANCHORS.iter().map(|(text, rule)| (text.as_bytes().to_vec(), *rule)).collect();
        let mut others = Vec::new();
        for name in names {
            let plain = names::plain(name.as_bytes());
            if plain.is_empty() || name.len() > MOST_NAME || others.contains(&plain) {
                continue;
            }
            others.push(plain);
            patterns.extend(beginnings(name).map(|text| (text, Rule::Name)));
        }
        let texts: Vec<&[u8]> = patterns.iter().map(|(text, _)| text.as_slice()).collect();
        let searches = texts.chunks(AT_ONCE).map(Search::new).collect();
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let held = patterns.iter().filter(|(_, rule)| rule.holds());
        let mut firsts: Vec<u8> = held.filter_map(|(text, _)| text.first().copied()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        Self { searches, patterns, longest, firsts, others }
    }

    /// The same bytes with a marker in the place of each secret.
    #[must_use]
    pub fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        let mut redactor = Redactor::default();
        let mut shown = redactor.feed(self, bytes);
        shown.extend(redactor.finish(self));
        shown
    }

    /// The same text with a marker in the place of each secret.
    #[must_use]
    pub fn redact_text(&self, text: &str) -> String {
        // No secret begins or ends within a character.
        String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
    }

    /// All places from one on where letters are found: which, and where.
    fn places(&self, bytes: &[u8], from: usize, mut found: impl FnMut(usize, usize)) {
        for (search, first) in self.searches.iter().zip((0..).step_by(AT_ONCE)) {
            let mut from = from;
            while let Some((pattern, place)) = search.next(bytes, from) {
                from = place + 1;
                found(first + pattern, place);
            }
        }
    }
}

impl Search {
    /// Which is found next from a place on, and where.
    fn next(&self, bytes: &[u8], from: usize) -> Option<(usize, usize)> {
        let found = match self {
            Self::Packed(searcher) => searcher.find_in(bytes, (from..bytes.len()).into())?,
            Self::Automaton(automaton) => automaton.find(Input::new(bytes).range(from..))?,
            Self::Nothing => return None,
        };
        Some((found.pattern().as_usize(), found.start()))
    }

    fn new(texts: &[&[u8]]) -> Self {
        let packed =
            Config::new().match_kind(MatchKind::LeftmostFirst).builder().extend(texts).build();
        if let Some(searcher) = packed {
            return Self::Packed(Box::new(searcher));
        }
        let automaton = AhoCorasick::builder()
            .match_kind(aho_corasick::MatchKind::LeftmostFirst)
            .start_kind(StartKind::Unanchored)
            .build(texts);
        debug_assert!(automaton.is_ok());
        automaton.map_or(Self::Nothing, |automaton| Self::Automaton(Box::new(automaton)))
    }
}

/// How a name is found: by its first word, small, in capitals, and with a capital.
fn beginnings(name: &str) -> impl Iterator<Item = Vec<u8>> {
    let word: Vec<u8> = name.bytes().take_while(u8::is_ascii_alphanumeric).collect();
    let (small, capitals) = (word.to_ascii_lowercase(), word.to_ascii_uppercase());
    let mut capital = small.clone();
    capital[..1].make_ascii_uppercase();
    [small, capitals, capital].into_iter()
}
