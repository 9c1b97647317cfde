//! What a model is shown of what code printed, returned and raised, within one budget of tokens.
//!
//! Nothing here does IO: texts and values go in, shorter ones come out, with a word on what was left out
//! and how to read it. Whatever goes in, what comes out costs no more than the budget by
//! [`estimate_tokens`], and the work grows with the length of the texts and not faster.

mod brief;
mod error;
mod json;
mod kind;
mod log;
mod parts;
mod pieces;
mod sample;
mod shape;
mod table;
mod text;
mod tokens;

#[cfg(test)]
mod brief_tests;
#[cfg(test)]
mod strategy_tests;

pub use self::brief::{Brief, DEFAULT_BUDGET, LEAST_BUDGET, Strategy};
pub use self::parts::{
    Cut, ErrorPart, How, Part, Parts, ResultContent, ResultPart, Shown, ShownError, ShownResult,
    Text,
};
pub use self::tokens::estimate_tokens;
