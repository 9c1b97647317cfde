//! What the definitions of a catalog cost a model, and so how it is best shown.

use hotcell_brief::estimate_tokens;

use crate::catalog::Catalog;
use crate::listing::ToolListing;

/// Below this many tokens of definitions, tools are better handed to a model as they are.
pub const PASS_THROUGH_TOKENS: usize = 10_000;

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
