//! The programs that run code inside a cell: what they are told, and what they report.
//!
//! Nothing here does IO: the programs are text, orders are written and reports are read by others.

mod node;
mod order;
mod python;
mod report;

#[cfg(test)]
mod node_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod python_tests;
#[cfg(test)]
mod report_tests;

pub use node::{READER, script_arguments, script_source};
pub use order::{Inserted, Limits, Order, Places, ScriptOrder, Warmth, ZygoteOrder};
pub use python::{
    CALLS, CONTROL, DONE, FORK, ORDER, READY, REPORT, RUN, SOURCE, TURNS, arguments, source,
};
pub use report::{MAX_ARTIFACTS, MAX_REPORT_BYTES, ReportError, read_report};
