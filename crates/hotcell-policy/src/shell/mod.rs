//! Reads shell text: POSIX sh as dash has it, and bash.

mod characters;
mod compound;
mod parser;
mod redirect;
mod syntax;
mod words;

#[cfg(test)]
mod parser_tests;

pub(crate) use self::parser::{Dialect, LONGEST, MAX_DEPTH, Parsed, TOO_DEEP, TOO_LONG, parse};
pub use self::syntax::Span;
pub(crate) use self::syntax::{
    AndOr, Assign, Assigned, Chunk, Command, Compound, Link, Param, Pipeline, Redirect, RedirectOp,
    Script, Simple, Target, Word,
};
