//! Words of other languages and the English words for them, from a table of general terms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::words::fold;

const TABLE: &str = include_str!("translations.txt");

/// The shortest beginning of a word that stands for the word: Cyrillic stems are shorter.
const SHORTEST: usize = 4;
const SHORTEST_CYRILLIC: usize = 3;
/// The longest ending that may follow a beginning.
const ENDING: usize = 4;

/// Endings of words in languages of Latin script. English words that begin like a word of the table have others.
const ENDINGS: &[&str] = &[
    "a", "ac", "ach", "ada", "adas", "ado", "ados", "am", "ame", "ami", "amos", "an", "ando", "ar",
    "are", "as", "ata", "ato", "cao", "cion", "ciones", "coes", "de", "den", "e", "ee", "ees",
    "eis", "em", "emos", "en", "endo", "ens", "ent", "er", "ere", "ern", "es", "est", "et", "eur",
    "eurs", "ez", "i", "iamo", "ic", "ida", "ido", "ie", "in", "innen", "ion", "iones", "ir",
    "ire", "ja", "je", "la", "las", "le", "les", "lo", "los", "me", "ment", "moi", "n", "nd", "ns",
    "o", "ons", "ono", "os", "ow", "owac", "re", "s", "st", "t", "te", "ten", "ter", "tje", "uj",
    "ung", "ungen", "x", "y",
];

pub(crate) static TRANSLATIONS: LazyLock<Translations> = LazyLock::new(Translations::new);

/// The table, by words without accents.
#[derive(Debug)]
pub(crate) struct Translations {
    /// The English words of each line.
    meanings: Vec<Vec<&'static str>>,
    /// For each word the lines that have it.
    words: BTreeMap<String, Vec<usize>>,
    phrases: Vec<(Vec<String>, usize)>,
    stop: BTreeSet<String>,
    /// The longest word that is written without spaces, in characters.
    longest: usize,
}

impl Translations {
    fn new() -> Self {
        let mut table = Self {
            meanings: Vec::new(),
            words: BTreeMap::new(),
            phrases: Vec::new(),
            stop: BTreeSet::new(),
            longest: 0,
        };
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some(words) = line.strip_prefix('!') {
                table.stop.extend(words.split_whitespace().map(fold));
                continue;
            }
            let Some((english, words)) = line.split_once('=') else { continue };
            let meaning = table.meanings.len();
            table.meanings.push(english.split_whitespace().collect());
            for word in words.split_whitespace().map(fold) {
                if word.contains('_') {
                    table.phrases.push((word.split('_').map(str::to_owned).collect(), meaning));
                    continue;
                }
                if word.chars().any(is_unspaced) {
                    table.longest = table.longest.max(word.chars().count());
                }
                let lines = table.words.entry(word).or_default();
                if !lines.contains(&meaning) {
                    lines.push(meaning);
                }
            }
        }
        table
    }

    /// Whether a word says nothing about what is wanted, in one of the languages.
    pub(crate) fn is_stop(&self, word: &str) -> bool {
        self.stop.contains(word)
    }

    /// The English words for a word, by itself or by its beginning; empty if it is not known.
    pub(crate) fn of(&self, word: &str) -> Vec<&'static str> {
        if let Some(lines) = self.words.get(word) {
            return self.english(lines);
        }
        let is_cyrillic = word.chars().all(|letter| ('\u{400}'..='\u{52f}').contains(&letter));
        let shortest = if is_cyrillic { SHORTEST_CYRILLIC } else { SHORTEST };
        let ends = |ending: &str| match is_cyrillic {
            true => ending.chars().count() <= ENDING,
            false => ENDINGS.contains(&ending),
        };
        let places = word.char_indices().skip(shortest).map(|(end, _)| word.split_at(end));
        let known = places
            .filter(|(_, ending)| ends(ending))
            .filter_map(|(beginning, _)| self.words.get(beginning));
        known.last().map(|lines| self.english(lines)).unwrap_or_default()
    }

    /// The English words for the phrase that words begin with, and how many words it has.
    pub(crate) fn phrase(&self, words: &[String]) -> Option<(Vec<&'static str>, usize)> {
        let begins = |word: &String, part: &String| {
            word.strip_prefix(part.as_str()).is_some_and(|end| end.chars().count() <= ENDING)
        };
        let (parts, meaning) = self.phrases.iter().find(|(parts, _)| {
            parts.len() <= words.len()
                && words.iter().zip(parts).all(|(word, part)| begins(word, part))
        })?;
        Some((self.english(&[*meaning]), parts.len()))
    }

    /// The two known words that a word is made of, as German and Dutch join them.
    pub(crate) fn parts(&self, word: &str) -> Option<[Vec<&'static str>; 2]> {
        let places = word.char_indices().map(|(at, _)| at).skip(SHORTEST);
        let places: Vec<usize> =
            places.filter(|at| word[*at..].chars().count() >= SHORTEST).collect();
        places.into_iter().rev().find_map(|at| {
            let (first, second) = word.split_at(at);
            let first = self.of(first);
            let second = self.of(second);
            (!first.is_empty() && !second.is_empty()).then_some([first, second])
        })
    }

    /// A text that is written without spaces, cut into known words (the longest that fit) and the rest.
    pub(crate) fn segments<'a>(&self, text: &'a str) -> Vec<(&'a str, Vec<&'static str>)> {
        let mut found = Vec::new();
        let mut rest = text;
        let mut unknown = 0;
        while unknown < rest.len() {
            let here = &rest[unknown..];
            let ends: Vec<usize> = here
                .char_indices()
                .map(|(at, letter)| at + letter.len_utf8())
                .take(self.longest)
                .collect();
            let word = ends.iter().rev().map(|end| &here[..*end]).find_map(|word| {
                if self.stop.contains(word) {
                    return Some((word, Vec::new()));
                }
                self.words.get(word).map(|lines| (word, self.english(lines)))
            });
            let Some((word, english)) = word else {
                unknown += ends.first().copied().unwrap_or(1);
                continue;
            };
            if unknown > 0 {
                found.push((&rest[..unknown], Vec::new()));
            }
            if !english.is_empty() {
                found.push((word, english));
            }
            rest = &here[word.len()..];
            unknown = 0;
        }
        if !rest.is_empty() {
            found.push((rest, Vec::new()));
        }
        found
    }

    fn english(&self, lines: &[usize]) -> Vec<&'static str> {
        lines.iter().flat_map(|line| &self.meanings[*line]).copied().collect()
    }
}

/// Whether a script is written without spaces between words, or with particles joined to them.
pub(crate) fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}
