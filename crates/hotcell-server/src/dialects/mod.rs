//! The dialects there are.

pub(crate) mod hotcell;
