//! What comes before a command starts: a checkpoint, where its cell is to have one.

use std::sync::Arc;

use hotcell_model::{
    ApprovalGive, ApprovalNeed, Caller, CellRef, CheckpointBefore, CheckpointCreate, CheckpointId,
    Command, ErrorCode, Exec, ExecRun, Grant, Request, Result, Verdict,
};

use crate::Engine;
use crate::approvals::{approval_give, get_awaiting};
use crate::checkpoint::checkpoint_create;
use crate::exec_run::Before;
use crate::policies::{Judged, destroys, judge};
use crate::site::Site;

impl Engine {
    /// What has to be approved before a request is done. What was decided is written down.
    ///
    /// # Errors
    /// `denied` for what may not be done.
    pub(crate) async fn judged(
        &self,
        caller: &Caller,
        request: &Request,
    ) -> Result<Option<ApprovalNeed>> {
        let site = self.site();
        match judge(site, caller, request) {
            Judged::Allowed => Ok(None),
            Judged::Asked(need) => {
                site.note_decision(request, Verdict::Asked, &need.rule).await?;
                Ok(Some(need))
            }
            Judged::Denied { rule, error } => {
                site.note_decision(request, Verdict::Denied, &rule).await?;
                Err(error)
            }
        }
    }

    /// Makes the checkpoint that is to be there before a command. One that has to be approved
    /// first gets its own right before it starts.
    pub(crate) async fn before(
        &self,
        request: &ExecRun,
        approval: Option<ApprovalNeed>,
    ) -> Result<Before> {
        let checkpoint = match approval {
            None => self.keep_before(&request.cell, &request.command).await?,
            Some(_) => None,
        };
        Ok(Before { approval, checkpoint })
    }

    /// Answers for an exec that waits for approval.
    pub(crate) async fn answer_approval(
        &self,
        caller: &Caller,
        request: ApprovalGive,
    ) -> Result<Exec> {
        let exec = get_awaiting(self.site(), &request).await?;
        let checkpoint = match request.grant {
            Grant::Approve => {
                self.keep_before(&CellRef::Id(exec.cell.clone()), &exec.command).await?
            }
            Grant::Refuse => None,
        };
        let answered = approval_give(self.site(), caller, &exec, request.grant, checkpoint).await?;
        self.site().note_approval(&answered, request.grant).await?;
        Ok(answered)
    }

    async fn keep_before(&self, cell: &CellRef, command: &Command) -> Result<Option<CheckpointId>> {
        match self.site().checkpoint_before(cell).await? {
            Some(CheckpointBefore::Destructive) if destroys(command) => {}
            Some(CheckpointBefore::Destructive) | None => return Ok(None),
        }
        let request = CheckpointCreate { cell: cell.clone() };
        let keep = |site: Arc<Site>| async move { checkpoint_create(&site, request).await };
        self.to_its_end(keep).await.map(|kept| Some(kept.id))
    }
}

impl Site {
    async fn checkpoint_before(&self, cell: &CellRef) -> Result<Option<CheckpointBefore>> {
        match self.links.find_checkpoint_before(cell) {
            Some(known) => Ok(known),
            // One that is not there is told of where the command is to start.
            None => match self.get_cell(cell).await {
                Ok(cell) => Ok(cell.spec.checkpoint_before),
                Err(error) if error.code == ErrorCode::NotFound => Ok(None),
                Err(error) => Err(error),
            },
        }
    }
}
