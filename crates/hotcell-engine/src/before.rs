//! What comes before a request is done: a person's word, and a checkpoint before a command.

use std::sync::Arc;

use hotcell_model::{
    ApprovalGive, ApprovalId, ApprovalNeed, Asked, Caller, CellRef, CheckpointBefore,
    CheckpointCreate, CheckpointId, CheckpointPurpose, ErrorCode, ExecId, ExecRun, Grant, Request,
    Result, Verdict,
};

use crate::approvals::{approval_give, asked_about, get_awaiting, run_of};
use crate::checkpoint::checkpoint_create;
use crate::held::{answer_held, await_word, check_other};
use crate::policies::{Judged, asks_about_new_cell, destroys, judge, judge_again};
use crate::recorded::is_housekeeping;
use crate::site::Site;
use crate::{Engine, asked};

impl Engine {
    /// Lets a request through that may be done. Where a person has to approve it first, it is waited
    /// for; a command waits in its cell, so what it has to be approved for is handed on. What was
    /// decided is written down.
    ///
    /// # Errors
    /// `denied` for what may not be done, and those of a wait.
    pub(crate) async fn judged(
        &self,
        caller: &Caller,
        request: &Request,
    ) -> Result<Option<ApprovalNeed>> {
        let site = self.site();
        if is_housekeeping(request) {
            return Ok(None);
        }
        match judge(site, caller, request).await? {
            Judged::Allowed => Ok(None),
            // A person's word needs no other one's.
            Judged::Asked(_) if is_word(request) => Ok(None),
            // A command waits in its cell, if the cell needs no approval itself.
            Judged::Asked(need)
                if matches!(request, Request::ExecRun(_))
                    && !asks_about_new_cell(site, caller, request).await? =>
            {
                site.note_decision(request, Verdict::Asked, &need.rule).await?;
                let facts = asked::facts(site, request).await?;
                Ok(Some(ApprovalNeed { facts, ..need }))
            }
            Judged::Asked(need) => {
                Box::pin(await_word(site, caller, request, need)).await?;
                Ok(None)
            }
            Judged::Denied { rule, error } => {
                site.note_decision(request, Verdict::Denied, &rule).await?;
                Err(error)
            }
        }
    }

    /// Waits for the approval that a request needs whatever the policy says. The policy may still
    /// deny it.
    ///
    /// # Errors
    /// `denied` for what may not be done, and those of a wait.
    pub(crate) async fn approved(
        &self,
        caller: &Caller,
        request: &Request,
        need: ApprovalNeed,
    ) -> Result<()> {
        let site = self.site();
        if let Judged::Denied { rule, error } = judge(site, caller, request).await? {
            site.note_decision(request, Verdict::Denied, &rule).await?;
            return Err(error);
        }
        Box::pin(await_word(site, caller, request, need)).await
    }

    /// Answers for what waits for approval.
    pub(crate) async fn answer_approval(
        &self,
        caller: &Caller,
        request: ApprovalGive,
    ) -> Result<Asked> {
        match request.id {
            ApprovalId::Held(held) => answer_held(self.site(), caller, &held, request.grant).await,
            ApprovalId::Exec(exec) => self.answer_for_exec(caller, &exec, request.grant).await,
        }
    }

    async fn answer_for_exec(&self, caller: &Caller, exec: &ExecId, grant: Grant) -> Result<Asked> {
        let site = self.site();
        let exec = get_awaiting(site, exec).await?;
        let asked_by = exec.approval.as_ref().map(|it| it.asked_by.clone()).unwrap_or_default();
        check_other(caller, &asked_by)?;
        let now_denied = match grant {
            Grant::Approve => {
                match judge_again(site, caller, &asked_by, &run_of(&exec).into()).await? {
                    Judged::Denied { error, .. } => Some(error),
                    Judged::Allowed | Judged::Asked(_) => None,
                }
            }
            Grant::Refuse => None,
        };
        // Rules that deny it by now are stronger than a word.
        let grant = if now_denied.is_some() { Grant::Refuse } else { grant };
        let checkpoint = match grant {
            Grant::Approve => self.keep_before(caller, &run_of(&exec)).await?,
            Grant::Refuse => None,
        };
        site.note_answering(&exec, grant).await?;
        let answered = approval_give(site, caller, &exec, grant, checkpoint).await?;
        site.note_approval(&answered, grant).await?;
        match now_denied {
            Some(error) => Err(error),
            None => asked_about(site, &answered).await,
        }
    }

    /// Makes the checkpoint that is to be there before a command.
    pub(crate) async fn keep_before(
        &self,
        caller: &Caller,
        run: &ExecRun,
    ) -> Result<Option<CheckpointId>> {
        match self.site().checkpoint_before(&run.cell).await? {
            Some(CheckpointBefore::Destructive) if destroys(self.site(), caller, run).await? => {}
            Some(CheckpointBefore::Destructive) | None => return Ok(None),
        }
        let (request, purpose) =
            (CheckpointCreate { cell: run.cell.clone() }, CheckpointPurpose::Undoing);
        let keep =
            |site: Arc<Site>| async move { checkpoint_create(&site, request, purpose).await };
        self.to_its_end(keep).await.map(|kept| Some(kept.id))
    }
}

fn is_word(request: &Request) -> bool {
    matches!(request, Request::ApprovalList(_) | Request::ApprovalGive(_))
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
