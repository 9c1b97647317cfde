//! Cells in the database.

use hotcell_model::{Alias, CellId, Isolation, StoredCell, Tenant, Tenants, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::StoreError;

const READ: &str = "read a cell";
const COLUMNS: &str = "id, spec, isolation, ended_at, kept";

pub(crate) fn insert(connection: &Connection, cell: &StoredCell) -> Result<(), StoreError> {
    let spec = &cell.spec;
    let inserted = connection
        .prepare_cached(
            "INSERT INTO cell
                 (id, alias, created_at, ended_at, spec, isolation, tenant, kept, pool)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                spec.id.as_str(),
                spec.alias.as_ref().map(Alias::as_str),
                millis(spec.created_at),
                cell.ended_at.map(millis),
                to_json(spec),
                cell.isolation.as_ref().map(to_json),
                spec.tenant.as_str(),
                cell.kept,
                spec.pool_shape(),
            ])
        });
    match inserted {
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) => Err(conflict(connection, cell)?),
        Err(source) => Err(StoreError::Query { what: "add a cell", source }),
    }
}

/// Which of the two things that must be unique was not.
fn conflict(connection: &Connection, cell: &StoredCell) -> Result<StoreError, StoreError> {
    let spec = &cell.spec;
    match find(connection, &spec.id)? {
        None => taken(connection, &spec.tenant, spec.alias.clone(), &spec.id),
        Some(_) => Ok(StoreError::CellExists(spec.id.clone())),
    }
}

pub(crate) fn set_isolation(
    connection: &Connection,
    cell: &CellId,
    isolation: &Isolation,
) -> Result<(), StoreError> {
    let changed = connection
        .prepare_cached("UPDATE cell SET isolation = ?2 WHERE id = ?1")
        .and_then(|mut statement| statement.execute(params![cell.as_str(), to_json(isolation)]))
        .map_err(StoreError::query("record a cell's isolation"))?;
    if changed == 0 { Err(StoreError::NoCell(cell.clone())) } else { Ok(()) }
}

pub(crate) fn end(connection: &Connection, cell: &CellId, at: Timestamp) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE cell SET ended_at = ?2, kept = 0 WHERE id = ?1 AND (ended_at IS NULL OR kept)",
        )
        .and_then(|mut statement| statement.execute(params![cell.as_str(), millis(at)]))
        .map_err(StoreError::query("mark a cell as ended"))?;
    Ok(())
}

pub(crate) fn keep(
    connection: &Connection,
    cell: &CellId,
    at: Timestamp,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE cell SET ended_at = ?2, kept = 1 WHERE id = ?1 AND ended_at IS NULL",
        )
        .and_then(|mut statement| statement.execute(params![cell.as_str(), millis(at)]))
        .map_err(StoreError::query("mark a cell as ended and kept"))?;
    Ok(())
}

pub(crate) fn restore(connection: &Connection, cell: &CellId) -> Result<(), StoreError> {
    let restored = connection
        .prepare_cached("UPDATE cell SET ended_at = NULL, kept = 0 WHERE id = ?1 AND kept")
        .and_then(|mut statement| statement.execute([cell.as_str()]));
    match restored {
        Ok(0) => Err(StoreError::NoCell(cell.clone())),
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) => Err(alias_taken(connection, cell)?),
        Err(source) => Err(StoreError::Query { what: "bring a cell back", source }),
    }
}

/// Gives a cell that was made ahead of need out as another one: of the same id, tenant and shape.
pub(crate) fn assign(connection: &Connection, cell: &StoredCell) -> Result<(), StoreError> {
    let spec = &cell.spec;
    let assigned = connection
        .prepare_cached(
            "UPDATE cell SET alias = ?2, created_at = ?3, spec = ?4, pool = NULL
             WHERE id = ?1 AND pool IS NOT NULL AND ended_at IS NULL",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                spec.id.as_str(),
                spec.alias.as_ref().map(Alias::as_str),
                millis(spec.created_at),
                to_json(spec),
            ])
        });
    match assigned {
        Ok(0) => Err(StoreError::NoCell(spec.id.clone())),
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) => {
            let alias = spec.alias.clone();
            Err(taken(connection, &spec.tenant, alias, &spec.id)?)
        }
        Err(source) => Err(StoreError::Query { what: "give a cell out", source }),
    }
}

/// The cells of a tenant that were made ahead of need and can be given out as this, oldest first.
pub(crate) fn list_pooled(
    connection: &Connection,
    tenant: &Tenant,
    shape: &str,
) -> Result<Vec<StoredCell>, StoreError> {
    let read = || {
        connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM cell
                 WHERE tenant = ?1 AND pool = ?2 AND ended_at IS NULL ORDER BY created_at, rowid"
            ))?
            .query_map(params![tenant.as_str(), shape], CellRow::read)?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(StoreError::query(READ))?.into_iter().map(CellRow::parse).collect()
}

fn is_conflict(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

fn alias_taken(connection: &Connection, cell: &CellId) -> Result<StoreError, StoreError> {
    match find(connection, cell)? {
        None => Ok(StoreError::NoCell(cell.clone())),
        Some(stored) => taken(connection, &stored.spec.tenant, stored.spec.alias, cell),
    }
}

/// The error for an alias that another cell has.
fn taken(
    connection: &Connection,
    tenant: &Tenant,
    alias: Option<Alias>,
    cell: &CellId,
) -> Result<StoreError, StoreError> {
    let Some(alias) = alias else { return Ok(StoreError::CellExists(cell.clone())) };
    // The owner may have ended meanwhile; the conflict was real all the same.
    let owner = find_alias(connection, tenant, &alias)?;
    let owner = owner.map_or_else(|| "that has just ended".to_owned(), |o| o.spec.id.to_string());
    Ok(StoreError::AliasTaken { alias, owner })
}

/// Its execs go with it, by their foreign key; its keys here.
pub(crate) fn delete(connection: &mut Connection, cell: &CellId) -> Result<(), StoreError> {
    let mut forget = || {
        let transaction = crate::sqlite::begin(connection)?;
        transaction.execute("DELETE FROM claimed_key WHERE cell = ?1", [cell.as_str()])?;
        transaction.execute("DELETE FROM cell WHERE id = ?1", [cell.as_str()])?;
        transaction.commit()
    };
    forget().map_err(StoreError::query("forget a cell"))
}

pub(crate) fn find(
    connection: &Connection,
    cell: &CellId,
) -> Result<Option<StoredCell>, StoreError> {
    find_where(connection, "id = ?1", &[cell.as_str()])
}

/// Those of other tenants are left out by the query, so that they cost what is not there costs.
pub(crate) fn find_among(
    connection: &Connection,
    tenants: &Tenants,
    cell: &CellId,
) -> Result<Option<StoredCell>, StoreError> {
    match tenants {
        Tenants::All => find(connection, cell),
        Tenants::Of(tenant) => {
            find_where(connection, "id = ?1 AND tenant = ?2", &[cell.as_str(), tenant.as_str()])
        }
    }
}

pub(crate) fn find_alias(
    connection: &Connection,
    tenant: &Tenant,
    alias: &Alias,
) -> Result<Option<StoredCell>, StoreError> {
    let condition = "tenant = ?1 AND alias = ?2 AND ended_at IS NULL";
    find_where(connection, condition, &[tenant.as_str(), alias.as_str()])
}

fn find_where(
    connection: &Connection,
    condition: &str,
    values: &[&str],
) -> Result<Option<StoredCell>, StoreError> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM cell WHERE {condition}"))
        .and_then(|mut statement| {
            statement.query_row(params_from_iter(values), CellRow::read).optional()
        })
        .map_err(StoreError::query(READ))?
        .map(CellRow::parse)
        .transpose()
}

/// The condition for what belongs to these tenants, and its value.
pub(crate) fn of_tenants(tenants: &Tenants) -> (&'static str, Option<&str>) {
    match tenants {
        Tenants::All => ("TRUE", None),
        Tenants::Of(tenant) => ("tenant = ?", Some(tenant.as_str())),
    }
}

pub(crate) fn count(connection: &Connection, tenants: &Tenants) -> Result<u64, StoreError> {
    let (condition, value) = of_tenants(tenants);
    connection
        .prepare_cached(&format!(
            "SELECT COUNT(*) FROM cell WHERE ended_at IS NULL AND {condition}"
        ))
        .and_then(|mut statement| {
            statement.query_row(params_from_iter(value), |row| row.get::<_, i64>(0))
        })
        .map(|count| u64::try_from(count).unwrap_or(0))
        .map_err(StoreError::query("count the cells"))
}

pub(crate) fn list(
    connection: &Connection,
    tenants: &Tenants,
) -> Result<Vec<StoredCell>, StoreError> {
    let (condition, value) = of_tenants(tenants);
    let read = || {
        connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM cell WHERE {condition} ORDER BY created_at DESC, rowid DESC"
            ))?
            .query_map(params_from_iter(value), CellRow::read)?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(StoreError::query(READ))?.into_iter().map(CellRow::parse).collect()
}

struct CellRow {
    id: String,
    spec: String,
    isolation: Option<String>,
    ended_at: Option<i64>,
    kept: bool,
}

impl CellRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            spec: row.get(1)?,
            isolation: row.get(2)?,
            ended_at: row.get(3)?,
            kept: row.get(4)?,
        })
    }

    fn parse(self) -> Result<StoredCell, StoreError> {
        let Self { id, spec, isolation, ended_at, kept } = self;
        let parsed = || {
            Ok(StoredCell {
                spec: serde_json::from_str(&spec)?,
                isolation: isolation.as_deref().map(serde_json::from_str).transpose()?,
                ended_at: ended_at.map(timestamp),
                kept,
            })
        };
        parsed().map_err(|source| StoreError::Record { id, source })
    }
}

pub(crate) fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

pub(crate) fn timestamp(millis: i64) -> Timestamp {
    Timestamp(u64::try_from(millis).unwrap_or(0))
}

pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> String {
    // Our own types, whose keys are strings: serialising cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}
