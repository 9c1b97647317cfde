//! The store as its users see it: its contract, many processes on it at once, and faults.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod child;
mod contract;
mod faults;
mod kills;
mod races;
