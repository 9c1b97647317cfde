//! Idempotency keys in the database.

use hotcell_model::{Claim, KeyScope, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::StoreError;
use crate::cells::millis;

/// Claims `name` unless it stands for something; one transaction that excludes all other writers.
pub(crate) fn claim(
    connection: &mut Connection,
    scope: &KeyScope,
    name: &str,
    value: &str,
    fingerprint: u64,
    expires: Timestamp,
) -> Result<Claim, StoreError> {
    let mut claim = || {
        let transaction = crate::sqlite::begin(connection)?;
        transaction
            .prepare_cached("DELETE FROM claimed_key WHERE expires_at <= ?1")?
            .execute([millis(Timestamp::now())])?;
        let taken = transaction
            .prepare_cached(
                "SELECT value, fingerprint FROM claimed_key WHERE cell = ?1 AND name = ?2",
            )?
            .query_row([cell_of(scope).as_str(), name], |row| {
                let fingerprint = row.get::<_, i64>(1)?.cast_unsigned();
                Ok(Claim::Taken { value: row.get(0)?, fingerprint })
            })
            .optional()?;
        let claim = match taken {
            Some(taken) => taken,
            None => {
                transaction
                    .prepare_cached(
                        "INSERT INTO claimed_key (cell, name, value, fingerprint, expires_at)
                         VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![
                        cell_of(scope),
                        name,
                        value,
                        fingerprint.cast_signed(),
                        millis(expires),
                    ])?;
                Claim::New
            }
        };
        transaction.commit()?;
        Ok(claim)
    };
    claim().map_err(StoreError::query("claim an idempotency key"))
}

pub(crate) fn release(
    connection: &Connection,
    scope: &KeyScope,
    name: &str,
    value: &str,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM claimed_key WHERE cell = ?1 AND name = ?2 AND value = ?3")
        .and_then(|mut statement| statement.execute([cell_of(scope).as_str(), name, value]))
        .map_err(StoreError::query("release an idempotency key"))?;
    Ok(())
}

fn cell_of(scope: &KeyScope) -> String {
    match scope {
        KeyScope::Spawn(tenant) => format!("@{tenant}"),
        KeyScope::Run(cell) => cell.to_string(),
    }
}
