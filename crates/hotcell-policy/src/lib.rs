//! Decides what may be run: understands shell and Python text, and holds it against rules.
//!
//! Nothing here does IO or waits. [`Policy::decide`] takes an [`Act`] and gives a [`Verdict`] with every
//! part that was found, what was decided about it, by which rule and why.
//!
//! # Why a shell parser of our own
//! A policy reads text that somebody may have written to get past it, before every command. Measured on
//! the parsers there are: brush-parser took 4.8 s for 24 nested brackets (its time is exponential in
//! them), and tree-sitter-bash read 749 of 797 real scripts rightly and brings a C library into a static
//! binary. Neither tells bash from sh, of which each runs commands where the other sees none
//! (`((rm -rf /))`, `$'…'`, `{rm,-rf,/}`). The parser here is a hand-written recursive descent: time is
//! linear in the length, depth is bounded, and what it cannot read is `unparsable`, which rules see. That
//! it misses nothing is shown against the real shells (`tests/ran.rs`).

mod act;
#[cfg(test)]
mod allowlist_tests;
#[cfg(test)]
mod cell_rules_tests;
mod finding;
mod lines;
#[cfg(test)]
mod lines_tests;
#[cfg(test)]
mod overwriting_tests;
mod policy;
#[cfg(test)]
mod policy_tests;
mod python;
mod rules;
mod shell;
mod steps;
#[cfg(test)]
mod steps_tests;
mod verdict;
#[cfg(test)]
mod vibesbox_tests;
mod walk;

pub use self::act::{Act, ImageNames};
pub use self::finding::{Dynamic, Finding, Kind, Known, Touch, Touched, Value};
pub use self::lines::AllowedLines;
pub use self::policy::{Policy, PolicyError};
pub use self::python::{PythonError, python_syntax};
pub use self::rules::Decision;
pub use self::shell::Span;
pub use self::verdict::{Part, Verdict};
pub use self::walk::Around;
