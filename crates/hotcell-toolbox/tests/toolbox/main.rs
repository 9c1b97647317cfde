//! The toolbox on a catalog as large as real ones, and on one that means harm, with real languages.

#![expect(
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a fixture that is wrong is a failed test, and figures are for whoever runs it"
)]

mod bounds;
mod conformance;
mod fixture;
mod hostile;
mod languages;
mod passed;
mod search;
mod tokens;
