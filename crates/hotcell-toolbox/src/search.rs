//! Finding a tool by words: BM25 over the fields of its listing.
//!
//! A few hundred tools are some ten thousand words. The index is built in milliseconds when a list changes
//! and needs no library: tantivy would bring 44 crates for the same ranking.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::{Catalog, Server, Tool, ToolKey};
use crate::observations::Observations;
use crate::stub::ToolPolicy;
use crate::synonyms::Synonyms;
use crate::text::{Language, first_sentence};
use crate::types::{Definition, Type};
use crate::words::{asks, split, stem, tells};

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
/// The most words of one field that are kept.
const MAX_WORDS: usize = 400;
/// The longest text of a query that is looked at.
const MAX_QUERY_TEXT: usize = 2_000;
/// The most words of a query that are looked for.
const MAX_QUERY: usize = 32;
/// The most tools that a search gives.
pub const MAX_HITS: usize = 50;

/// A part of a listing in which words are looked for.
#[derive(Debug, Clone, Copy)]
struct FieldKind {
    weight: f64,
    /// How much a long field is held against its words.
    length: f64,
}

const NAME: FieldKind = FieldKind { weight: 3.0, length: 0.5 };
const TITLE: FieldKind = FieldKind { weight: 1.5, length: 0.4 };
const SERVER: FieldKind = FieldKind { weight: 1.2, length: 0.2 };
const SENTENCE: FieldKind = FieldKind { weight: 1.6, length: 0.5 };
const DESCRIPTION: FieldKind = FieldKind { weight: 0.7, length: 0.6 };
const ARGUMENTS: FieldKind = FieldKind { weight: 0.6, length: 0.6 };
const ARGUMENT_TEXTS: FieldKind = FieldKind { weight: 0.3, length: 0.7 };
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
    /// For each stem the tools that have it, and how much of it.
    words: BTreeMap<String, Vec<(usize, f64)>>,
    synonyms: Synonyms,
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
        let synonyms = Synonyms::new();
        let mut tools = Vec::new();
        let mut fields: Vec<[Vec<String>; FIELDS.len()]> = Vec::new();
        for server in catalog.servers() {
            for tool in server.tools() {
                let words = words_of(server, tool, &synonyms);
                tools.push(Indexed {
                    key: tool.key().clone(),
                    server: server.identifier().to_owned(),
                    server_stems: stems(&names_of(server), &synonyms).into_iter().collect(),
                    name_stems: words[0].iter().cloned().collect(),
                    shows: shows(tool),
                    removes: words[0].iter().any(|word| synonyms.is_removal(word)),
                });
                fields.push(words);
            }
        }
        let words = weighed(&fields);
        Self { tools, words, synonyms }
    }

    /// The tools that fit best, the best first.
    #[must_use]
    pub fn search(&self, query: &ToolQuery) -> Vec<ToolHit> {
        let text: String = query.text.chars().take(MAX_QUERY_TEXT).collect();
        let mut wanted = stems(&text, &self.synonyms);
        wanted.truncate(MAX_QUERY);
        let mut seen = BTreeSet::new();
        wanted.retain(|word| seen.insert(word.clone()));
        let mut scores = vec![0.0; self.tools.len()];
        let mut found = vec![0_u32; self.tools.len()];
        for word in &wanted {
            for (at, score) in self.scores_of(word) {
                scores[at] += score;
                found[at] += 1;
            }
        }
        let asks = asks(&split(&text));
        let actions: BTreeSet<&str> =
            wanted.iter().flat_map(|word| self.synonyms.actions_like(word)).collect();
        let removes = wanted.iter().any(|word| self.synonyms.is_removal(word));
        let all = f64::from(u32::try_from(wanted.len().max(1)).unwrap_or(u32::MAX));
        let in_server = |tool: &Indexed| {
            query
                .server
                .as_ref()
                .is_none_or(|name| *name == tool.server || *name == tool.key.server)
        };
        let mut hits: Vec<ToolHit> = self
            .tools
            .iter()
            .enumerate()
            .filter(|(at, tool)| scores[*at] > 0.0 && in_server(tool))
            .map(|(at, tool)| {
                let coverage = f64::from(found[at]) / all;
                let named = tool.server_stems.iter().any(|word| seen.contains(word));
                let whole = tool.name_stems.iter().all(|word| seen.contains(word));
                let boosts = [
                    (named, SERVER_BOOST),
                    (whole, NAME_BOOST),
                    (asks && tool.shows, SHOWING_BOOST),
                    (tool.name_stems.iter().any(|word| actions.contains(&**word)), ACTION_BOOST),
                    (tool.removes && !removes, REMOVAL_BOOST),
                ];
                let boosts = boosts.iter().filter(|(holds, _)| *holds).map(|(_, boost)| boost);
                let score = scores[at] * (0.4 + 0.6 * coverage) * boosts.product::<f64>();
                ToolHit { key: tool.key.clone(), score }
            })
            .collect();
        hits.sort_by(|one, other| {
            other.score.total_cmp(&one.score).then_with(|| one.key.cmp(&other.key))
        });
        hits.truncate(query.limit.min(MAX_HITS));
        hits
    }

    /// How well each tool fits one word of a query, by the word or by what can stand for it.
    fn scores_of(&self, word: &str) -> BTreeMap<usize, f64> {
        let mut variants: Vec<(&str, f64)> = vec![(word, 1.0)];
        variants.extend(self.synonyms.of(word));
        if !self.words.contains_key(word) && word.len() >= 4 {
            let beginning = self.words.range(word.to_owned()..).map(|(known, _)| known.as_str());
            let longer = beginning.take_while(|known| known.starts_with(word)).take(8);
            variants.extend(longer.map(|known| (known, BEGINNING)));
        }
        // To do something again is to do it.
        if let Some(again) = word.strip_prefix("re").filter(|again| self.words.contains_key(*again))
        {
            variants.push((again, BEGINNING));
        }
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        let meant: BTreeSet<usize> = variants
            .iter()
            .filter_map(|(variant, _)| self.words.get(*variant))
            .flatten()
            .map(|(at, _)| *at)
            .collect();
        // A rare word for a common thing says little more than the common word.
        let rarity_meant = rarity(self.tools.len(), meant.len());
        for (variant, weight) in variants {
            let Some(places) = self.words.get(variant) else { continue };
            let rarity = (rarity(self.tools.len(), places.len()) + rarity_meant) / 2.0;
            for (at, amount) in places {
                let score = weight * rarity * amount / (SATURATION + amount);
                let slot = best.entry(*at).or_default();
                *slot = slot.max(score);
            }
        }
        best
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

fn words_of(server: &Server, tool: &Tool, synonyms: &Synonyms) -> [Vec<String>; FIELDS.len()] {
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
    [&tool.key().tool, title, &server_text, &sentence, &rest, &names, &texts]
        .map(|text| stems(text, synonyms))
}

fn names_of(server: &Server) -> String {
    format!("{} {}", server.name(), server.identifier())
}

/// How much of each word every tool has: all its fields together, each by its weight and length.
fn weighed(tools: &[[Vec<String>; FIELDS.len()]]) -> BTreeMap<String, Vec<(usize, f64)>> {
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let mut average = [0.0; FIELDS.len()];
    for tool in tools {
        for (sum, words) in average.iter_mut().zip(tool) {
            *sum += count(words.len()) / count(tools.len());
        }
    }
    let mut weighed: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
    for (at, tool) in tools.iter().enumerate() {
        let mut amounts: BTreeMap<&str, f64> = BTreeMap::new();
        for ((words, kind), average) in tool.iter().zip(FIELDS).zip(average) {
            let length = 1.0 - kind.length + kind.length * count(words.len()) / average.max(1.0);
            for word in words {
                *amounts.entry(word).or_default() += kind.weight / length;
            }
        }
        for (word, amount) in amounts {
            weighed.entry(word.to_owned()).or_default().push((at, amount));
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
