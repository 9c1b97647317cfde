//! The index of execs in the database.

use hotcell_model::{CellId, Exec, ExecFilter, ExecId, ExecState, ExecStatusFilter, Tenants};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use crate::StoreError;
use crate::cells::{millis, of_tenants, to_json};

const READ: &str = "read an exec";

pub(crate) fn indexed_bytes(connection: &Connection, cell: &CellId) -> Result<u64, StoreError> {
    Ok(position(connection, cell)
        .map_err(StoreError::query("read how much of a journal is indexed"))?
        .unwrap_or(0))
}

fn position(connection: &Connection, cell: &CellId) -> rusqlite::Result<Option<u64>> {
    connection
        .prepare_cached("SELECT indexed_bytes FROM cell WHERE id = ?1")?
        .query_row([cell.as_str()], |row| row.get::<_, i64>(0))
        .optional()
        .map(|bytes| bytes.map(|bytes| u64::try_from(bytes).unwrap_or(0)))
}

/// What was read from less of the journal than is indexed is known already and may be outdated:
/// it changes nothing. Only zero sets the position back, for a journal that was begun anew.
pub(crate) fn put(
    connection: &mut Connection,
    cell: &CellId,
    execs: &[Exec],
    indexed_bytes: u64,
) -> Result<(), StoreError> {
    let put = StoreError::query;
    const WHAT: &str = "index the execs of a cell";
    let transaction = crate::sqlite::begin(connection).map_err(put(WHAT))?;
    let Some(position) = position(&transaction, cell).map_err(put(WHAT))? else {
        return Err(StoreError::NoCell(cell.clone()));
    };
    if indexed_bytes != 0 && indexed_bytes < position {
        return Ok(());
    }
    write(&transaction, cell, execs, indexed_bytes).map_err(put(WHAT))?;
    transaction.commit().map_err(put(WHAT))
}

fn write(
    connection: &Connection,
    cell: &CellId,
    execs: &[Exec],
    indexed_bytes: u64,
) -> rusqlite::Result<()> {
    // The end is final: whoever still believes that an exec runs is late.
    let mut upsert = connection.prepare_cached(
        "INSERT INTO exec (id, cell, queued_at, ended, record, tenant)
         VALUES (?1, ?2, ?3, ?4, ?5, (SELECT tenant FROM cell WHERE id = ?2))
         ON CONFLICT (id) DO UPDATE SET
             queued_at = excluded.queued_at, ended = excluded.ended, record = excluded.record
         WHERE excluded.ended >= exec.ended AND excluded.cell = exec.cell",
    )?;
    for exec in execs {
        upsert.execute(params![
            exec.id.as_str(),
            cell.as_str(),
            millis(exec.queued_at),
            exec.state == ExecState::Ended,
            to_json(exec),
        ])?;
    }
    connection
        .prepare_cached("UPDATE cell SET indexed_bytes = ?2 WHERE id = ?1")?
        .execute(params![cell.as_str(), i64::try_from(indexed_bytes).unwrap_or(i64::MAX)])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, exec: &ExecId) -> Result<Option<Exec>, StoreError> {
    connection
        .prepare_cached("SELECT id, record FROM exec WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([exec.as_str()], read).optional())
        .map_err(StoreError::query(READ))?
        .map(parse)
        .transpose()
}

/// Those of other tenants are left out by the query, so that they cost what is not there costs.
pub(crate) fn find_among(
    connection: &Connection,
    tenants: &Tenants,
    exec: &ExecId,
) -> Result<Option<Exec>, StoreError> {
    let (condition, value) = of_tenants(tenants);
    let values = [exec.as_str()].into_iter().chain(value);
    connection
        .prepare_cached(&format!("SELECT id, record FROM exec WHERE id = ? AND {condition}"))
        .and_then(|mut statement| statement.query_row(params_from_iter(values), read).optional())
        .map_err(StoreError::query(READ))?
        .map(parse)
        .transpose()
}

pub(crate) fn list(connection: &Connection, filter: &ExecFilter) -> Result<Vec<Exec>, StoreError> {
    let (query, values) = list_query(filter);
    let read = || {
        connection
            .prepare_cached(&query)?
            .query_map(params_from_iter(values), read)?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(StoreError::query(READ))?.into_iter().map(parse).collect()
}

/// One text for each choice of filters, so that each is served by its own index.
fn list_query(filter: &ExecFilter) -> (String, Vec<Value>) {
    let (of_tenants, tenant) = of_tenants(&filter.tenants);
    let after;
    let mut conditions = vec![of_tenants];
    let tenant: Option<Value> = tenant.map(|tenant| tenant.to_owned().into());
    let mut values: Vec<Value> = tenant.iter().cloned().collect();
    if let Some(cell) = &filter.cell {
        conditions.push("cell = ?");
        values.push(cell.to_string().into());
    }
    match filter.status {
        Some(ExecStatusFilter::Live) => conditions.push("ended = 0"),
        Some(ExecStatusFilter::Ended) => conditions.push("ended = 1"),
        Some(ExecStatusFilter::EndedSince(time)) => {
            conditions.push("ended = 1 AND record ->> '$.end.ended_at' >= ?");
            values.push(time.to_string().into());
        }
        None => {}
    }
    if let Some((queued_at, exec)) = &filter.before {
        // Where that exec is gone, those of its millisecond come again rather than never.
        after = format!(
            "(queued_at, place) < (?, coalesce(\
             (SELECT place FROM exec WHERE id = ? AND {of_tenants}), 9223372036854775807))"
        );
        conditions.push(&after);
        values.push(millis(*queued_at).into());
        values.push(exec.to_string().into());
        values.extend(tenant);
    }
    values.push(i64::from(filter.limit).into());
    let query = format!(
        "SELECT id, record FROM exec WHERE {} ORDER BY queued_at DESC, place DESC LIMIT ?",
        conditions.join(" AND "),
    );
    (query, values)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn parse((id, record): (String, String)) -> Result<Exec, StoreError> {
    serde_json::from_str(&record).map_err(|source| StoreError::Record { id, source })
}
