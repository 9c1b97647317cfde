//! The index of cells, keys, execs and held calls in SQLite, and the locks on cells, shared by any number of
//! processes.
//!
//! Everything here but the keys and the held calls can be rebuilt: from the drivers, which keep what each cell was
//! spawned with, and from the journals of the supervisors. So a database that is damaged is moved
//! aside, never repaired, and commits wait for no disk (`synchronous = NORMAL`).

mod attachments;
mod cell_lock;
mod cells;
mod database;
mod error;
mod execs;
mod held_calls;
mod keys;
mod schema;
mod sqlite;

#[cfg(test)]
mod database_tests;
#[cfg(test)]
mod schema_tests;

pub use error::StoreError;
pub use sqlite::SqliteStore;
