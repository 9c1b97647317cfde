//! `/v1/cells/{cell}/checkpoints` and `/v1/cells/{cell}/forks`.

use hotcell_model::{
    CellFork, CheckpointCompare, CheckpointCreate, CheckpointDelete, CheckpointList,
    CheckpointRestore,
};
use http::StatusCode;

use super::asked::{CompareCheckpoint, ForkCell, Nothing, RestoreCheckpoint};
use super::{Answer, Call, ok};
use crate::http::answer::json;

/// Text of changes at most.
const MOST_PATCH_BYTES: u32 = 8 << 20;

pub(super) async fn create(call: Call) -> Answer {
    let Nothing {} = call.body()?;
    let made = call.ask(CheckpointCreate { cell: call.cell()? }).await?;
    Ok(json(StatusCode::CREATED, &made))
}

pub(super) async fn list(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    ok(&call.ask(CheckpointList { cell: call.cell()? }).await?)
}

pub(super) async fn diff(call: Call) -> Answer {
    let CompareCheckpoint { limit, content } = call.query()?;
    let (cell, checkpoint) = (call.cell()?, call.checkpoint()?);
    let patch_bytes = content.then_some(MOST_PATCH_BYTES);
    ok(&call.ask(CheckpointCompare { cell, checkpoint, limit, skip: 0, patch_bytes }).await?)
}

pub(super) async fn restore(call: Call) -> Answer {
    let RestoreCheckpoint { force } = call.body()?;
    let (cell, checkpoint) = (call.cell()?, call.checkpoint()?);
    ok(&call.ask(CheckpointRestore { cell, checkpoint, force }).await?)
}

pub(super) async fn delete(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    let (cell, checkpoint) = (call.cell()?, call.checkpoint()?);
    ok(&call.ask(CheckpointDelete { cell, checkpoint }).await?)
}

pub(super) async fn fork(call: Call) -> Answer {
    let ForkCell { checkpoint, alias, count, ttl_s, idempotency_key } = call.body()?;
    let (cell, keep) = (call.cell()?, None);
    let fork = CellFork { cell, checkpoint, alias, count, keep, ttl_s, idempotency_key };
    Ok(json(StatusCode::CREATED, &call.ask(fork).await?))
}
