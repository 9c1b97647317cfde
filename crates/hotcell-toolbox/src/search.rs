//! Finding a tool by words: BM25 over the fields of its listing.
//!
//! A few hundred tools are some ten thousand words. The index is built in milliseconds when a list changes
//! and needs no library: tantivy would bring 44 crates for the same ranking.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::{Catalog, Server, Tool, ToolKey};
use crate::observations::Observations;
use crate::query::{Term, Vocabulary, understand};
use crate::spelling::Dictionary;
use crate::stub::ToolPolicy;
use crate::synonyms::{SYNONYMS, Synonyms};
use crate::text::{Language, first_sentence};
use crate::types::{Definition, Type};
use crate::words::{asks, is_asking, split, stem, stop_words, tells};

/// How soon more of the same word counts for little.
const SATURATION: f64 = 1.2;
/// What the beginning of a word counts for.
const BEGINNING: f64 = 0.5;
/// What it counts for that a query names the server.
const SERVER_BOOST: f64 = 1.35;
/// What it counts for that a query has all words of the name.
const NAME_BOOST: f64 = 1.15;
/// What it counts for that a tool shows something when a query asks for that.
const SHOWING_BOOST: f64 = 1.25;
/// What it counts for that the name of a tool says what a query wants done.
const ACTION_BOOST: f64 = 1.25;
/// What it counts for that a tool takes something away though nobody asked for that.
const REMOVAL_BOOST: f64 = 0.75;
/// The fit that at least one tool must reach: otherwise the result is empty. Chosen on the tuning half of
/// `examples/servers/search_queries.txt`.
const MIN_FIT: f64 = 0.275;
/// How much a score adds to a fit if it is as high as the rarity of a word that only one tool has.
const SCORE_SHARE: f64 = 0.25;
/// How much an unknown word of a query is worth, compared with the rarest known word.
const UNKNOWN_WORTH: f64 = 2.0;
/// How much a verb such as `create` or `find` is worth, compared with another word that is as rare.
const VERB_WORTH: f64 = 0.5;
/// The most words of one field that are kept.
const MAX_WORDS: usize = 400;
/// The longest text of a query that is looked at.
const MAX_QUERY_TEXT: usize = 2_000;
/// The most tools that a search gives.
pub const MAX_HITS: usize = 50;

/// A part of a listing in which words are looked for.
#[derive(Debug, Clone, Copy)]
struct FieldKind {
    weight: f64,
    /// How much a long field is held against its words.
    length: f64,
    role: FieldRole,
}

/// Whether a field names a tool or describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldRole {
    Names,
    Describes,
}

use FieldRole::{Describes, Names};

const NAME: FieldKind = FieldKind { weight: 3.0, length: 0.5, role: Names };
const TITLE: FieldKind = FieldKind { weight: 1.5, length: 0.4, role: Names };
const SERVER: FieldKind = FieldKind { weight: 1.2, length: 0.2, role: Names };
const SENTENCE: FieldKind = FieldKind { weight: 1.6, length: 0.5, role: Describes };
const DESCRIPTION: FieldKind = FieldKind { weight: 0.7, length: 0.6, role: Describes };
const ARGUMENTS: FieldKind = FieldKind { weight: 0.6, length: 0.6, role: Describes };
const ARGUMENT_TEXTS: FieldKind = FieldKind { weight: 0.3, length: 0.7, role: Describes };
const FIELDS: [FieldKind; 7] =
    [NAME, TITLE, SERVER, SENTENCE, DESCRIPTION, ARGUMENTS, ARGUMENT_TEXTS];

/// How much of each tool an answer shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchDetail {
    /// `server.tool`.
    Name,
    /// The stub on one line.
    #[default]
    Stub,
    /// Types, words and an example, as much of it as a model is given of one tool.
    Full,
    /// All of it, however long.
    Whole,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolQuery {
    /// Words.
    pub text: String,
    /// Only in this server, by its name or identifier.
    pub server: Option<String>,
    /// How many tools at most.
    pub limit: usize,
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolHit {
    /// Which.
    pub key: ToolKey,
    /// How well it fits; comparable within one answer.
    pub score: f64,
}

/// Words of all tools of a catalog.
#[derive(Debug)]
pub struct ToolIndex {
    tools: Vec<Indexed>,
    /// For each stem the tools that have it.
    words: BTreeMap<String, Vec<Posting>>,
    /// Words of the catalog and of the synonyms, for correcting those of queries.
    dictionary: Dictionary,
}

/// A stem in the listing of one tool.
#[derive(Debug, Clone, Copy)]
struct Posting {
    /// The place of the tool in the index.
    tool: usize,
    /// How much of the stem the fields have together, each by its weight and length.
    amount: f64,
    /// Whether a field that names the tool has the stem.
    is_name: bool,
}

/// How well a tool matches one word of a query.
#[derive(Debug, Clone, Copy, Default)]
struct Match {
    score: f64,
    /// How much of one word the names of the tool cover: 0 to 1.
    named: f64,
}

/// How well a tool matches all words of a query.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    score: f64,
    /// How much of the worth of all words the tool covers.
    covered: f64,
    /// How many words the tool has.
    words: u32,
    /// Whether one of them is not a verb that fits nearly every tool.
    is_specific: bool,
}

#[derive(Debug)]
struct Indexed {
    key: ToolKey,
    server: String,
    /// Stems of the names of its server.
    server_stems: BTreeSet<String>,
    /// Stems of its name.
    name_stems: BTreeSet<String>,
    /// Whether it shows something, by its name or by what its server says.
    shows: bool,
    /// Whether its name says that something goes away.
    removes: bool,
}

impl ToolIndex {
    /// An index of all tools.
    #[must_use]
    pub fn new(catalog: &Catalog) -> Self {
        let synonyms = &*SYNONYMS;
        let mut tools = Vec::new();
        let mut listed: BTreeSet<String> = BTreeSet::new();
        let mut fields: Vec<[Vec<String>; FIELDS.len()]> = Vec::new();
        for server in catalog.servers() {
            for tool in server.tools() {
                let texts = texts_of(server, tool);
                listed.extend(texts.iter().flat_map(|text| split(text)));
                let words = texts.map(|text| stems(&text, synonyms));
                tools.push(Indexed {
                    key: tool.key().clone(),
                    server: server.identifier().to_owned(),
                    server_stems: stems(&names_of(server), synonyms).into_iter().collect(),
                    name_stems: words[0].iter().cloned().collect(),
                    shows: shows(tool),
                    removes: words[0].iter().any(|word| synonyms.is_removal(word)),
                });
                fields.push(words);
            }
        }
        let words = weighed(&fields);
        listed.extend(Synonyms::words().chain(stop_words()).map(str::to_owned));
        let dictionary = Dictionary::new(listed.iter().map(String::as_str));
        Self { tools, words, dictionary }
    }

    /// The tools that fit best, the best first; none if no tool has enough of what the query asks for.
    #[must_use]
    pub fn search(&self, query: &ToolQuery) -> Vec<ToolHit> {
        let text: String = query.text.chars().take(MAX_QUERY_TEXT).collect();
        let synonyms = &*SYNONYMS;
        let terms = self.terms(&text);
        // The best English stem of each word: what the query would be in the words of a listing.
        let plain: Vec<&str> =
            terms.iter().filter_map(|term| term.stems.first()).map(|(stem, _)| &**stem).collect();
        let seen: BTreeSet<&str> = plain.iter().copied().collect();
        let mut totals = vec![Total::default(); self.tools.len()];
        let mut all_worth = 0.0;
        let is_verb =
            |term: &Term| term.stems.first().is_some_and(|(stem, _)| synonyms.is_verb(stem));
        for term in &terms {
            let (found, rarity) = self.matches_of(term);
            let is_verb = is_verb(term);
            let worth = term.weight
                * rarity
                * if found.is_empty() { UNKNOWN_WORTH } else { 1.0 }
                * if is_verb { VERB_WORTH } else { 1.0 };
            all_worth += worth;
            for (at, one) in found {
                // A name says what a tool is for; a description also mentions other things.
                totals[at].covered += worth * (one.named + (one.score / rarity).min(1.0)) / 2.0;
                totals[at].score += one.score;
                totals[at].words += 1;
                totals[at].is_specific |= !is_verb;
            }
        }
        let asks = asks(&split(&text)) || plain.first().is_some_and(|word| is_asking(word));
        let actions: BTreeSet<&str> =
            plain.iter().flat_map(|word| synonyms.actions_like(word)).collect();
        let removes = plain.iter().any(|word| synonyms.is_removal(word));
        let all = f64::from(u32::try_from(terms.len().max(1)).unwrap_or(u32::MAX));
        let in_server = |tool: &Indexed| {
            query
                .server
                .as_ref()
                .is_none_or(|name| *name == tool.server || *name == tool.key.server)
        };
        let rarest = rarity(self.tools.len(), 1);
        let only_verbs = terms.iter().all(is_verb);
        let mut best_fit: f64 = 0.0;
        let mut hits: Vec<ToolHit> = self
            .tools
            .iter()
            .zip(&totals)
            .filter(|(tool, total)| total.score > 0.0 && in_server(tool))
            .map(|(tool, total)| {
                let coverage = f64::from(total.words) / all;
                let named = tool.server_stems.iter().any(|word| seen.contains(&**word));
                let whole = tool.name_stems.iter().all(|word| seen.contains(&**word));
                let boosts = [
                    (named, SERVER_BOOST),
                    (whole, NAME_BOOST),
                    (asks && tool.shows, SHOWING_BOOST),
                    (tool.name_stems.iter().any(|word| actions.contains(&**word)), ACTION_BOOST),
                    (tool.removes && !removes, REMOVAL_BOOST),
                ];
                let boosts = boosts.iter().filter(|(holds, _)| *holds).map(|(_, boost)| boost);
                let score = total.score * (0.4 + 0.6 * coverage) * boosts.product::<f64>();
                if total.is_specific || only_verbs {
                    let covered = total.covered / all_worth;
                    best_fit = best_fit.max(covered + SCORE_SHARE * score / rarest);
                }
                ToolHit { key: tool.key.clone(), score }
            })
            .collect();
        // In one server, which the caller chose, the best is better than nothing.
        if query.server.is_none() && best_fit < MIN_FIT {
            return Vec::new();
        }
        hits.sort_by(|one, other| {
            other.score.total_cmp(&one.score).then_with(|| one.key.cmp(&other.key))
        });
        hits.truncate(query.limit.min(MAX_HITS));
        hits
    }

    /// The words of a query, and the phrases that stand for one.
    fn terms(&self, text: &str) -> Vec<Term> {
        let is_listed = |stem: &str| self.words.contains_key(stem);
        let vocabulary = Vocabulary {
            is_known: &|stem| is_listed(stem) || SYNONYMS.knows(stem),
            is_listed: &is_listed,
            dictionary: &self.dictionary,
        };
        let mut terms = understand(text, &vocabulary);
        let all: Vec<String> = split(text).iter().map(|word| stem(word)).collect();
        let mut seen = BTreeSet::new();
        let phrases = SYNONYMS.phrases(&all).into_iter().map(|stem| vec![(stem, 1.0)]);
        terms.extend(phrases.map(|stems| Term { stems, weight: 1.0 }));
        terms.retain(|term| term.stems.first().is_none_or(|(stem, _)| seen.insert(stem.clone())));
        terms
    }

    /// How well each tool matches one word of a query, by the word or by what can stand for it, and how rare
    /// the word is.
    fn matches_of(&self, term: &Term) -> (BTreeMap<usize, Match>, f64) {
        let mut variants: BTreeMap<&str, f64> = BTreeMap::new();
        let mut add = |variant, weight: f64| {
            let slot = variants.entry(variant).or_default();
            *slot = slot.max(weight);
        };
        for (word, weight) in &term.stems {
            add(word.as_str(), *weight);
            for (other, less) in SYNONYMS.of(word) {
                add(other, weight * less);
            }
            if !self.words.contains_key(word) && word.len() >= 4 {
                let beginning = self.words.range(word.clone()..).map(|(known, _)| known.as_str());
                let longer = beginning.take_while(|known| known.starts_with(word.as_str())).take(8);
                longer.for_each(|known| add(known, BEGINNING));
            }
            // To do something again is to do it.
            let again = word.strip_prefix("re").filter(|again| self.words.contains_key(*again));
            again.into_iter().for_each(|again| add(again, BEGINNING));
        }
        let mut best: BTreeMap<usize, Match> = BTreeMap::new();
        let meant: BTreeSet<usize> = variants
            .keys()
            .filter_map(|variant| self.words.get(*variant))
            .flatten()
            .map(|posting| posting.tool)
            .collect();
        // A rare word for a common thing says little more than the common word.
        let rarity_meant = rarity(self.tools.len(), meant.len());
        for (variant, weight) in variants {
            let Some(postings) = self.words.get(variant) else { continue };
            let rarity = (rarity(self.tools.len(), postings.len()) + rarity_meant) / 2.0;
            for Posting { tool, amount, is_name } in postings {
                let slot = best.entry(*tool).or_default();
                slot.score = slot.score.max(weight * rarity * amount / (SATURATION + amount));
                if *is_name {
                    slot.named = slot.named.max(weight);
                }
            }
        }
        (best, rarity(self.tools.len(), meant.len().max(1)))
    }
}

fn shows(tool: &Tool) -> bool {
    let hints = tool.listing().annotations.as_ref();
    hints.and_then(|hints| hints.read_only_hint).unwrap_or_else(|| asks(&split(&tool.key().tool)))
}

fn rarity(all: usize, with: usize) -> f64 {
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    (1.0 + (count(all) - count(with) + 0.5) / (count(with) + 0.5)).ln()
}

/// The stems of a text, and those of pairs of words that stand for one.
fn stems(text: &str, synonyms: &Synonyms) -> Vec<String> {
    let mut words = split(text);
    words.truncate(MAX_WORDS);
    let all: Vec<String> = words.iter().map(|word| stem(word)).collect();
    let joined = synonyms.phrases(&all);
    let telling = words.iter().zip(all).filter(|(word, _)| tells(word)).map(|(_, stem)| stem);
    telling.chain(joined).collect()
}

/// The texts of a tool, one for each of [`FIELDS`].
fn texts_of(server: &Server, tool: &Tool) -> [String; FIELDS.len()] {
    let listing = tool.listing();
    let description = listing.description.as_deref().unwrap_or_default();
    let annotated = listing.annotations.as_ref().and_then(|known| known.title.as_deref());
    let title = listing.title.as_deref().or(annotated).unwrap_or_default();
    let sentence = first_sentence(description, 200);
    let rest: String = description.chars().skip(sentence.chars().count()).take(2_000).collect();
    let signature = tool.signature(None);
    let mut names = String::new();
    let mut texts = String::new();
    for argument in signature.arguments.iter().take(60) {
        names.push_str(&argument.field.name);
        names.push(' ');
        texts.push_str(&argument.field.doc);
        texts.push(' ');
        if argument.field.notes.iter().any(|note| note.starts_with("format date")) {
            texts.push_str("date ");
        }
        if let Type::Literal(values) = &argument.field.kind {
            for value in values.iter().filter_map(Value::as_str).take(16) {
                texts.push_str(value);
                texts.push(' ');
            }
        }
    }
    for (_, definition) in signature.definitions.iter().take(20) {
        if let Definition::Record(record) = definition {
            for field in record.fields.iter().take(20) {
                texts.push_str(&field.name);
                texts.push(' ');
            }
        }
    }
    let server_text = format!("{} {}", names_of(server), server.title().unwrap_or_default());
    [tool.key().tool.clone(), title.to_owned(), server_text, sentence, rest, names, texts]
}

fn names_of(server: &Server) -> String {
    format!("{} {}", server.name(), server.identifier())
}

/// The tools that have each word.
fn weighed(tools: &[[Vec<String>; FIELDS.len()]]) -> BTreeMap<String, Vec<Posting>> {
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let mut average = [0.0; FIELDS.len()];
    for tool in tools {
        for (sum, words) in average.iter_mut().zip(tool) {
            *sum += count(words.len()) / count(tools.len());
        }
    }
    let mut weighed: BTreeMap<String, Vec<Posting>> = BTreeMap::new();
    for (at, tool) in tools.iter().enumerate() {
        let mut postings: BTreeMap<&str, Posting> = BTreeMap::new();
        for ((words, kind), average) in tool.iter().zip(FIELDS).zip(average) {
            let length = 1.0 - kind.length + kind.length * count(words.len()) / average.max(1.0);
            for word in words {
                let none = Posting { tool: at, amount: 0.0, is_name: false };
                let posting = postings.entry(word).or_insert(none);
                posting.amount += kind.weight / length;
                posting.is_name |= kind.role == Names;
            }
        }
        for (word, posting) in postings {
            weighed.entry(word.to_owned()).or_default().push(posting);
        }
    }
    weighed
}

/// What a search gives a model: a line or a stub per tool.
#[must_use]
pub fn show_hits(
    catalog: &Catalog,
    hits: &[ToolHit],
    detail: SearchDetail,
    observations: &Observations,
    policy: &dyn Fn(&ToolKey) -> ToolPolicy,
) -> Vec<String> {
    let tools = hits.iter().filter_map(|hit| catalog.find_by_key(&hit.key));
    tools
        .map(|tool| {
            let observed = observations.find(tool.key());
            match detail {
                SearchDetail::Name => {
                    format!("{}.{}", tool.server_identifier(), tool.identifier())
                }
                SearchDetail::Stub => {
                    let line = tool.line(Language::Python, observed);
                    format!("{}: {line}", tool.server_identifier())
                }
                SearchDetail::Full => tool.short_stub(observed, Some(&policy(tool.key()))),
                SearchDetail::Whole => {
                    tool.stub(Language::Python, observed, Some(&policy(tool.key())))
                }
            }
        })
        .collect()
}
