//! Contract suites that every driver and every store is run through unchanged, and the sample
//! data they use.

pub mod driver_contract;
pub mod sample;
pub mod store_contract;
