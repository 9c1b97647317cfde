//! `/v1/cells`.

use hotcell_model::{CellInfo, CellKill, CellList, CellSpawn, KillWait};
use http::StatusCode;

use super::asked::{KillCell, ListCells, Nothing, SpawnCell};
use super::{Answer, Call, ok};
use crate::call_id;
use crate::http::answer::json;

pub(super) async fn list(call: Call) -> Answer {
    let ListCells { include_stopped } = call.query()?;
    ok(&call.ask(CellList { include_stopped }).await?)
}

pub(super) async fn spawn(call: Call) -> Answer {
    let asked: SpawnCell = call.body()?;
    let cell = call.ask(CellSpawn::from(asked)).await?;
    call_id::note_cell(&cell.id);
    Ok(json(StatusCode::CREATED, &cell))
}

pub(super) async fn info(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    ok(&call.ask(CellInfo { cell: call.cell()? }).await?)
}

pub(super) async fn kill(call: Call) -> Answer {
    let KillCell { force, volumes } = call.query()?;
    let kill = CellKill { cell: call.cell()?, force, volumes, wait: KillWait::Removed };
    ok(&call.ask(kill).await?)
}
