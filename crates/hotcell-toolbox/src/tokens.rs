//! What the definitions of tools cost a model, and so how they are best shown.

use hotcell_brief::estimate_tokens;
use serde_json::json;

use crate::passed::Passed;

/// Below this many tokens of definitions, tools are better handed to a model as they are.
pub const PASS_THROUGH_TOKENS: usize = 10_000;

/// How tools are shown to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Showing {
    /// As they are.
    PassThrough,
    /// As files and by search.
    Code,
}

impl Showing {
    /// How tools are best shown, if up to `limit` tokens may be spent on definitions.
    #[must_use]
    pub fn of(tools: &[Passed<'_>], limit: usize) -> Self {
        let mut left = limit;
        for tool in tools {
            match left.checked_sub(tool.tokens()) {
                Some(fewer) => left = fewer,
                None => return Self::Code,
            }
        }
        Self::PassThrough
    }
}

impl Passed<'_> {
    /// What its definition costs a model.
    fn tokens(&self) -> usize {
        let handed = json!({
            "name": self.name,
            "description": self.tool.shown_description(),
            "input_schema": self.tool.shown_schema(),
        });
        estimate_tokens(&handed.to_string())
    }
}
