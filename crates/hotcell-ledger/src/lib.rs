//! The ledger: entries in files that are only added to, each tied to all before it by a key that is
//! kept apart, as is how far the ledger goes.

mod boot;
mod chain;
mod files;
mod going_on;
mod head;
mod ledger;
mod reading;
mod retention;
mod segment;
mod verifying;
mod writing;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod head_tests;
#[cfg(test)]
mod ledger_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tamper_tests;
#[cfg(test)]
mod testing;

pub use ledger::{ChainedLedger, LedgerSettings, Sync};
