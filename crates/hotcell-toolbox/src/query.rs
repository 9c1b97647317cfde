//! Understands a query: corrects misspelt words, translates words of other languages, and drops those that say nothing.

use crate::spelling::Dictionary;
use crate::translations::{TRANSLATIONS, Translations, is_unspaced};
use crate::words::{Token, stem, tells, tokens};

/// What the word counts for that a misspelt one was corrected to.
const CORRECTED: f64 = 0.9;
/// What the English word for a word of another language counts for, and the next ones.
const TRANSLATED: f64 = 0.95;
const TRANSLATED_NEXT: f64 = 0.75;
/// What the parts of a compound count for.
const PART: f64 = 0.8;
/// What counts against the tools of a query for each unknown word of a script without spaces: names are frequent.
const UNKNOWN_UNSPACED: f64 = 0.3;
/// The same for words of other languages: the table has few of them.
const UNKNOWN_FOREIGN: f64 = 0.6;
/// The most words of a query that are looked for.
const MAX_TERMS: usize = 32;

/// A word of a query.
#[derive(Debug)]
pub(crate) struct Term {
    /// The stems that it can stand for, each with what it counts for; none if it is not known.
    pub(crate) stems: Vec<(String, f64)>,
    /// How much it says about what is wanted: 1 for an ordinary word.
    pub(crate) weight: f64,
}

/// What is known about the words of a catalog.
pub(crate) struct Vocabulary<'a> {
    /// Whether a stem is one of the catalog or a synonym of one.
    pub(crate) is_known: &'a dyn Fn(&str) -> bool,
    /// Whether a stem is one of the catalog.
    pub(crate) is_listed: &'a dyn Fn(&str) -> bool,
    pub(crate) dictionary: &'a Dictionary,
}

/// The words of a query in their order, understood.
pub(crate) fn understand(text: &str, vocabulary: &Vocabulary<'_>) -> Vec<Term> {
    let tokens = tokens(text);
    let table = &*TRANSLATIONS;
    let mut terms = if is_foreign(&tokens, vocabulary, table) {
        foreign_terms(&tokens, vocabulary, table)
    } else {
        english_terms(&tokens, vocabulary, table)
    };
    terms.truncate(MAX_TERMS);
    terms
}

/// Whether a query is in another language than English: it has more words of others than plainly English ones.
fn is_foreign(tokens: &[Token], vocabulary: &Vocabulary<'_>, table: &Translations) -> bool {
    let mut foreign = 0;
    let mut english = 0;
    for token in tokens {
        let word = &token.word;
        let is_english = !tells(word) || (vocabulary.is_known)(&stem(word));
        if word.chars().any(is_unspaced) {
            foreign += 2;
        } else if !is_english && (table.is_stop(word) || !table.of(word).is_empty()) {
            foreign += 1;
        } else if !tells(word) && !table.is_stop(word) {
            english += 1;
        }
    }
    foreign > english
}

fn english_terms(tokens: &[Token], vocabulary: &Vocabulary<'_>, table: &Translations) -> Vec<Term> {
    let mut terms = Vec::new();
    for token in tokens {
        if !tells(&token.word) {
            continue;
        }
        let found = english(&token.word, vocabulary).or_else(|| {
            if token.is_name {
                return None;
            }
            corrected(&token.word, vocabulary).or_else(|| {
                let english = table.of(&token.word);
                (!english.is_empty()).then(|| vec![translated(&english)])
            })
        });
        terms.extend(found.unwrap_or_else(|| unknown(token, 1.0)));
    }
    for pair in tokens.windows(2) {
        let joined = format!("{}{}", pair[0].word, pair[1].word);
        let joined = stem(&joined);
        if joined.len() >= 6 && (vocabulary.is_listed)(&joined) {
            terms.push(Term { stems: vec![(joined, 1.0)], weight: 1.0 });
        }
    }
    terms
}

fn foreign_terms(tokens: &[Token], vocabulary: &Vocabulary<'_>, table: &Translations) -> Vec<Term> {
    let telling: Vec<&Token> = tokens.iter().filter(|token| !table.is_stop(&token.word)).collect();
    let words: Vec<String> = telling.iter().map(|token| token.word.clone()).collect();
    let mut terms = Vec::new();
    let mut at = 0;
    while let Some(token) = telling.get(at) {
        if let Some((english, length)) = table.phrase(&words[at..]) {
            terms.push(translated(&english));
            at += length;
            continue;
        }
        at += 1;
        if token.word.chars().any(is_unspaced) {
            terms.extend(table.segments(&token.word).into_iter().map(|(part, english)| {
                if !english.is_empty() {
                    return translated(&english);
                }
                let stems = english_stem(part, vocabulary).into_iter().collect();
                Term { stems, weight: UNKNOWN_UNSPACED }
            }));
            continue;
        }
        terms.extend(foreign_word(token, vocabulary, table));
    }
    terms
}

fn foreign_word(token: &Token, vocabulary: &Vocabulary<'_>, table: &Translations) -> Vec<Term> {
    let word = &token.word;
    let meanings = table.of(word);
    if !meanings.is_empty() {
        let mut term = translated(&meanings);
        term.stems.extend(english_stem(word, vocabulary));
        return vec![term];
    }
    if let Some(terms) = english(word, vocabulary) {
        return terms;
    }
    if !tells(word) {
        return Vec::new();
    }
    if let Some(parts) = table.parts(word) {
        let parts = parts.iter().map(|part| {
            let mut term = translated(part);
            term.stems.iter_mut().for_each(|(_, weight)| *weight *= PART);
            term
        });
        return parts.collect();
    }
    let corrected = if token.is_name { None } else { corrected(word, vocabulary) };
    corrected.unwrap_or_else(|| unknown(token, UNKNOWN_FOREIGN))
}

fn english_stem(word: &str, vocabulary: &Vocabulary<'_>) -> Option<(String, f64)> {
    let stem = stem(word);
    (tells(word) && (vocabulary.is_known)(&stem)).then_some((stem, 1.0))
}

/// A word of the catalog or a synonym.
fn english(word: &str, vocabulary: &Vocabulary<'_>) -> Option<Vec<Term>> {
    let found = english_stem(word, vocabulary)?;
    Some(vec![Term { stems: vec![found], weight: 1.0 }])
}

/// A misspelt word.
fn corrected(word: &str, vocabulary: &Vocabulary<'_>) -> Option<Vec<Term>> {
    let right = vocabulary.dictionary.correct(word)?;
    let term = || Term { stems: vec![(stem(right), CORRECTED)], weight: 1.0 };
    Some(if tells(right) { vec![term()] } else { Vec::new() })
}

/// The English words for one word of another language: the first is the best.
fn translated(english: &[&str]) -> Term {
    let mut stems: Vec<(String, f64)> = Vec::new();
    for (place, word) in english.iter().enumerate() {
        let weight = if place == 0 { TRANSLATED } else { TRANSLATED_NEXT };
        let stem = stem(word);
        if !stems.iter().any(|(known, _)| *known == stem) {
            stems.push((stem, weight));
        }
    }
    Term { stems, weight: 1.0 }
}

/// A word that nothing is known about: a name or a value says nothing, others say that something else is wanted.
fn unknown(token: &Token, weight: f64) -> Vec<Term> {
    if token.is_name {
        return Vec::new();
    }
    vec![Term { stems: vec![(stem(&token.word), 1.0)], weight }]
}
