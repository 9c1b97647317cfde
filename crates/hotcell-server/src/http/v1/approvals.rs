//! `/v1/approvals`: what waits for a person's word, and the word.

use hotcell_model::{ApprovalGive, ApprovalId, ApprovalList, Error};

use super::asked::{GiveApproval, Nothing};
use super::{Answer, Call, ok};
use crate::call_id;

pub(super) async fn list(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    ok(&call.ask(ApprovalList::default()).await?)
}

pub(super) async fn get(call: Call) -> Answer {
    let id = named(&call)?;
    let found = call.ask(ApprovalList { id: Some(id.clone()) }).await?;
    let asked = found.approvals.into_iter().next();
    ok(&asked.ok_or_else(|| Error::not_found(format!("nothing is known of {id}")))?)
}

pub(super) async fn give(call: Call) -> Answer {
    let id = named(&call)?;
    let GiveApproval { grant } = call.body()?;
    ok(&call.ask(ApprovalGive { id, grant }).await?)
}

/// What the path names.
fn named(call: &Call) -> Result<ApprovalId, Error> {
    let id = call.named.parse()?;
    if let ApprovalId::Exec(exec) = &id {
        call_id::note_exec_id(exec);
    }
    Ok(id)
}
