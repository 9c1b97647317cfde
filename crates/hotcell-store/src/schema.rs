//! The versions of the database and the way from each to the next.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a file as ours; the bytes read `HOTC`.
pub(crate) const APPLICATION_ID: i64 = 0x484F_5443;

/// Each takes a database from the version of its place to the next. Never changed once released.
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_cells_execs_keys.sql"),
    include_str!("../migrations/0002_tenants.sql"),
    include_str!("../migrations/0003_held_calls.sql"),
    include_str!("../migrations/0004_volumes_pool_attachments.sql"),
];

/// What every database of [`known_version`] has.
const TABLES: &[&str] = &["cell", "exec", "claimed_key", "setting", "held_call", "attachment"];

/// The version that this build makes and understands.
pub(crate) fn known_version() -> i64 {
    version_after(MIGRATIONS)
}

fn version_after(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

/// What the head of a database says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) application_id: i64,
    pub(crate) version: i64,
}

/// Reads a database's stamp.
pub(crate) fn read_stamp(connection: &Connection) -> rusqlite::Result<Stamp> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok(Stamp { application_id: pragma("application_id")?, version: pragma("user_version")? })
}

/// Whether every table that must be there is.
pub(crate) fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let mut named = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)",
    )?;
    for table in TABLES {
        if !named.query_row([table], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings a database to the version after the last of `migrations`, in one transaction: a process
/// that dies on the way leaves the database as it was. Safe when several do it at once.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let reached = read_stamp(&transaction)?.version;
    let done = usize::try_from(reached).unwrap_or(0);
    for migration in migrations.iter().skip(done) {
        transaction.execute_batch(migration)?;
    }
    if reached < version_after(migrations) {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version_after(migrations))?;
    }
    transaction.commit()
}
