//! How many tokens a text costs a model, near enough to choose between two ways of showing tools.
//!
//! The tables of a real tokenizer are megabytes. This counts what those tables are made of: words with
//! the space before them, groups of digits, runs of punctuation. On listings and stubs it is within a
//! tenth of o200k (`tests/toolbox/tokens.rs`).

use crate::catalog::Catalog;
use crate::listing::ToolListing;

/// Below this many tokens of definitions, tools are better handed to a model as they are.
pub const PASS_THROUGH_TOKENS: usize = 10_000;

/// Letters of a word that one token covers, on the average of long words.
const LETTERS: usize = 9;

/// An estimate of the tokens of a text.
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    let mut tokens = 0;
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        let kind = Kind::of(first);
        let mut run = 1;
        let mut last = first;
        while let Some(next) = rest.peek().copied() {
            let new_word = last.is_lowercase() && next.is_uppercase();
            if Kind::of(next) != kind || new_word {
                break;
            }
            last = next;
            run += 1;
            rest.next();
        }
        let before_letter = rest.peek().is_some_and(|next| Kind::of(*next) == Kind::Letter);
        // `_name`, `.name` and the like are often one token.
        let joined = run == 1 && before_letter && "_.-/([".contains(first);
        tokens += if joined { 0 } else { kind.cost(run) };
    }
    tokens
}

/// Characters that tokens are made of together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    Break,
    Mark,
    Other,
}

impl Kind {
    fn of(letter: char) -> Self {
        match letter {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            ' ' | '\t' => Self::Space,
            '\n' | '\r' => Self::Break,
            _ if letter.is_ascii() => Self::Mark,
            _ if letter.is_alphabetic() => Self::Other,
            _ => Self::Mark,
        }
    }

    fn cost(self, run: usize) -> usize {
        match self {
            Self::Letter => run.div_ceil(LETTERS),
            Self::Digit => run.div_ceil(3),
            // One space belongs to the word behind it.
            Self::Space => usize::from(run > 1),
            Self::Break => 1,
            Self::Mark => run.div_ceil(4),
            Self::Other => run.div_ceil(2),
        }
    }
}

/// How a catalog is shown to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Showing {
    /// Its tools as they are.
    PassThrough,
    /// As files and by search.
    Code,
}

impl Catalog {
    /// What all definitions would cost a model.
    #[must_use]
    pub fn definition_tokens(&self) -> usize {
        self.tools().map(|tool| listing_tokens(tool.listing())).sum()
    }

    /// How it is best shown, if up to `limit` tokens may be spent on definitions.
    #[must_use]
    pub fn showing(&self, limit: usize) -> Showing {
        let mut left = limit;
        for tool in self.tools() {
            match left.checked_sub(listing_tokens(tool.listing())) {
                Some(fewer) => left = fewer,
                None => return Showing::Code,
            }
        }
        Showing::PassThrough
    }
}

fn listing_tokens(tool: &ToolListing) -> usize {
    serde_json::to_string(tool).map_or(usize::MAX / 1_000_000, |text| estimate_tokens(&text))
}
