//! TypeScript and JavaScript read inside a cell, before its node runs them: types are taken away, and
//! the value of the last expression is kept.
//!
//! The text is whatever somebody wrote, and reading it may take any amount of stack or memory. So it
//! is read by a process of the cell, under the limits of the exec that it is, and nowhere else.

mod fault;
mod read;
mod start;

#[cfg(test)]
mod read_tests;

pub use fault::Fault;
pub use read::{LAST_VALUE, Language, Script, read};
pub use start::start;
