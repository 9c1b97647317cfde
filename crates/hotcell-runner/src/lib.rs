//! The program that runs code inside a cell: what it is told, and what it reports.
//!
//! Nothing here does IO: the program is text, orders are written and reports are read by others.

mod order;
mod python;
mod report;

#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod python_tests;
#[cfg(test)]
mod report_tests;

pub use order::{Limits, Order, Warmth, ZygoteOrder};
pub use python::{
    CALLS, CONTROL, DONE, FORK, ORDER, READY, REPORT, RUN, SOURCE, TURNS, arguments, source,
};
pub use report::{MAX_ARTIFACTS, MAX_REPORT_BYTES, ReportError, read_report};
