//! Clients of cells in the database.

use hotcell_model::{ATTACHMENTS, Attachment, CellId, Timestamp};
use rusqlite::{Connection, params};

use crate::StoreError;
use crate::cells::{millis, timestamp};

const NOTE: &str = "note a client";

/// Notes a client; those that were not seen for longest make room.
pub(crate) fn put(
    connection: &mut Connection,
    cell: &CellId,
    attachment: &Attachment,
) -> Result<(), StoreError> {
    if crate::cells::find(connection, cell)?.is_none() {
        return Err(StoreError::NoCell(cell.clone()));
    }
    let mut note = || {
        let transaction = crate::sqlite::begin(connection)?;
        transaction.execute(
            "INSERT INTO attachment
                 (cell, principal, client_name, session_id, attached_at, last_seen)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET last_seen = excluded.last_seen",
            params![
                cell.as_str(),
                attachment.principal,
                attachment.client_name,
                attachment.session_id,
                millis(attachment.attached_at),
                millis(attachment.last_seen),
            ],
        )?;
        transaction.execute(
            "DELETE FROM attachment WHERE cell = ?1
             AND (principal, client_name, session_id) NOT IN (
                 SELECT principal, client_name, session_id FROM attachment
                 WHERE cell = ?1 ORDER BY last_seen DESC LIMIT ?2)",
            params![cell.as_str(), i64::try_from(ATTACHMENTS).unwrap_or(i64::MAX)],
        )?;
        transaction.commit()
    };
    note().map_err(StoreError::query(NOTE))
}

pub(crate) fn list(connection: &Connection, cell: &CellId) -> Result<Vec<Attachment>, StoreError> {
    let read = || {
        connection
            .prepare_cached(
                "SELECT principal, client_name, session_id, attached_at, last_seen
                 FROM attachment WHERE cell = ?1 ORDER BY last_seen DESC",
            )?
            .query_map([cell.as_str()], |row| {
                Ok(Attachment {
                    principal: row.get(0)?,
                    client_name: row.get(1)?,
                    session_id: row.get(2)?,
                    attached_at: timestamp(row.get(3)?),
                    last_seen: timestamp(row.get(4)?),
                })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(StoreError::query("list clients"))
}

/// Forgets those that were last seen before a time, or only counts them.
pub(crate) fn forget(
    connection: &Connection,
    before: Timestamp,
    dry_run: bool,
) -> Result<u64, StoreError> {
    let old = "FROM attachment WHERE last_seen < ?1";
    let count = || -> rusqlite::Result<u64> {
        if dry_run {
            let count: i64 = connection.query_row(
                &format!("SELECT COUNT(*) {old}"),
                [millis(before)],
                |row| row.get(0),
            )?;
            return Ok(u64::try_from(count).unwrap_or(0));
        }
        Ok(connection.execute(&format!("DELETE {old}"), [millis(before)])? as u64)
    };
    count().map_err(StoreError::query("forget clients"))
}
