//! `/v1/approvals`: what waits for a person's word, and the word.

use hotcell_model::{ApprovalGive, ApprovalList};

use super::asked::{GiveApproval, Nothing};
use super::{Answer, Call, ok};
use crate::call_id;

pub(super) async fn list(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    ok(&call.ask(ApprovalList).await?)
}

pub(super) async fn give(call: Call) -> Answer {
    let exec = call.exec()?;
    let GiveApproval { grant } = call.body()?;
    let exec = call.ask(ApprovalGive { exec, grant }).await?;
    call_id::note_exec(&exec);
    ok(&exec)
}
