//! Held calls in the database.

use hotcell_model::{
    ApprovalAnswer, ApprovalVerdict, Asked, HeldCall, HeldId, Holding, Tenants, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::StoreError;
use crate::cells::{millis, of_tenants, timestamp, to_json};

const READ: &str = "read a held call";
const CHANGE: &str = "change a held call";
/// How long one is kept after its deadline, for whoever looks what became of it.
const KEEP_MS: u64 = 24 * 3600 * 1000;
/// Who answers when nobody does.
const NOBODY: &str = "deadline";
const COLUMNS: &str = "id, digest, used_at, record";

/// A call as its row has it.
struct Stored {
    id: String,
    digest: String,
    used_at: Option<i64>,
    record: String,
}

pub(crate) fn hold(
    connection: &mut Connection,
    call: &HeldCall,
    now: Timestamp,
    most: u64,
) -> Result<Holding, StoreError> {
    let HeldCall { asked, digest } = call;
    let tenant = asked.tenant.as_str();
    let mut hold = || {
        let transaction = crate::sqlite::begin(connection)?;
        transaction
            .prepare_cached("DELETE FROM held_call WHERE until < ?1")?
            .execute([millis(Timestamp(now.0.saturating_sub(KEEP_MS)))])?;
        let found = transaction
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM held_call
                 WHERE tenant = ?1 AND caller = ?2 AND digest = ?3
                   AND until > ?4 AND used_at IS NULL"
            ))?
            .query_row(params![tenant, call.caller(), digest, millis(now)], read)
            .optional()?;
        if let Some(found) = found {
            return Ok(Ok(found));
        }
        let waiting: i64 = transaction
            .prepare_cached(
                "SELECT count(*) FROM held_call
                 WHERE tenant = ?1 AND verdict IS NULL AND until > ?2",
            )?
            .query_row(params![tenant, millis(now)], |row| row.get(0))?;
        let waiting = u64::try_from(waiting).unwrap_or(0);
        if waiting >= most {
            return Ok(Err(Holding::Full(waiting)));
        }
        transaction
            .prepare_cached(
                "INSERT INTO held_call (id, tenant, caller, digest, until, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                asked.id.to_string(),
                tenant,
                call.caller(),
                digest,
                millis(asked.approval.until),
                to_json(asked),
            ])?;
        transaction.commit()?;
        Ok(Err(Holding::New))
    };
    match hold().map_err(StoreError::query("hold a call"))? {
        Ok(found) => parse(found).map(|found| Holding::Held(Box::new(found))),
        Err(holding) => Ok(holding),
    }
}

/// Those of other tenants are left out by the query, so that they cost what is not there costs.
pub(crate) fn find(
    connection: &Connection,
    tenants: &Tenants,
    held: &HeldId,
) -> Result<Option<HeldCall>, StoreError> {
    let (condition, value) = of_tenants(tenants);
    let values = [held.as_str()].into_iter().chain(value);
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM held_call WHERE id = ? AND {condition}"))
        .and_then(|mut statement| statement.query_row(params_from_iter(values), read).optional())
        .map_err(StoreError::query(READ))?
        .map(parse)
        .transpose()
}

pub(crate) fn list(
    connection: &Connection,
    tenants: &Tenants,
    now: Timestamp,
) -> Result<Vec<HeldCall>, StoreError> {
    let (condition, value) = of_tenants(tenants);
    let now = millis(now).to_string();
    let values = [now.as_str()].into_iter().chain(value);
    let list = || {
        connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM held_call
                 WHERE until > CAST(? AS INTEGER) AND verdict IS NULL AND {condition}
                 ORDER BY rowid"
            ))?
            .query_map(params_from_iter(values), read)?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    list().map_err(StoreError::query(READ))?.into_iter().map(parse).collect()
}

pub(crate) fn answer(
    connection: &mut Connection,
    held: &HeldId,
    answer: &ApprovalAnswer,
) -> Result<bool, StoreError> {
    let transaction = crate::sqlite::begin(connection).map_err(StoreError::query(CHANGE))?;
    let waiting = transaction
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM held_call WHERE id = ?1 AND verdict IS NULL AND until > ?2"
        ))
        .and_then(|mut statement| {
            statement.query_row(params![held.as_str(), millis(answer.at)], read).optional()
        })
        .map_err(StoreError::query(READ))?;
    let Some(waiting) = waiting else { return Ok(false) };
    put_answer(&transaction, parse(waiting)?, answer.clone())?;
    transaction.commit().map_err(StoreError::query(CHANGE))?;
    Ok(true)
}

/// It is on the disk when this returns: an approval that was used must not come back with the
/// machine.
pub(crate) fn use_up(
    connection: &Connection,
    held: &HeldId,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let synchronous = |mode: &str| connection.pragma_update(None, "synchronous", mode);
    synchronous("FULL").map_err(StoreError::query(CHANGE))?;
    let used = connection
        .prepare_cached(
            "UPDATE held_call SET used_at = ?2
             WHERE id = ?1 AND verdict = ?3 AND used_at IS NULL AND until > ?2",
        )
        .and_then(|mut statement| {
            let granted = ApprovalVerdict::Granted.as_str();
            statement.execute(params![held.as_str(), millis(at), granted])
        })
        .map(|changed| changed == 1)
        .map_err(StoreError::query(CHANGE));
    synchronous("NORMAL").map_err(StoreError::query(CHANGE))?;
    used
}

pub(crate) fn expire(
    connection: &mut Connection,
    now: Timestamp,
) -> Result<Vec<HeldCall>, StoreError> {
    let due = |connection: &Connection| {
        connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM held_call WHERE verdict IS NULL AND until <= ?1"
            ))?
            .query_map([millis(now)], read)?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    // Most of the time there is none, and nobody has to be kept from writing to see that.
    if due(connection).map_err(StoreError::query(READ))?.is_empty() {
        return Ok(Vec::new());
    }
    let transaction = crate::sqlite::begin(connection).map_err(StoreError::query(CHANGE))?;
    let mut expired = Vec::new();
    for stored in due(&transaction).map_err(StoreError::query(READ))? {
        let verdict = ApprovalVerdict::Expired;
        let answer = ApprovalAnswer { verdict, by: NOBODY.to_owned(), at: now };
        expired.push(put_answer(&transaction, parse(stored)?, answer)?);
    }
    transaction.commit().map_err(StoreError::query(CHANGE))?;
    Ok(expired)
}

fn put_answer(
    connection: &Connection,
    mut call: HeldCall,
    answer: ApprovalAnswer,
) -> Result<HeldCall, StoreError> {
    let verdict = answer.verdict.as_str();
    call.asked.approval.answer = Some(answer);
    connection
        .prepare_cached("UPDATE held_call SET verdict = ?2, record = ?3 WHERE id = ?1")
        .and_then(|mut statement| {
            statement.execute(params![call.asked.id.to_string(), verdict, to_json(&call.asked)])
        })
        .map_err(StoreError::query(CHANGE))?;
    Ok(call)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored { id: row.get(0)?, digest: row.get(1)?, used_at: row.get(2)?, record: row.get(3)? })
}

fn parse(stored: Stored) -> Result<HeldCall, StoreError> {
    let Stored { id, digest, used_at, record } = stored;
    let mut asked: Asked =
        serde_json::from_str(&record).map_err(|source| StoreError::Record { id, source })?;
    asked.used_at = used_at.map(timestamp);
    Ok(HeldCall { asked, digest })
}
