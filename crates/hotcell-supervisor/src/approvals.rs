//! Execs that wait for a person to approve them.

use std::time::Duration;

use hotcell_journal::Entry;
use hotcell_model::{
    Approval, ApprovalAnswer, ApprovalNeed, ApprovalVerdict, CheckpointId, EndCause, Error, ExecId,
    Result, Timestamp,
};

use crate::cell::{Supervisor, end_without_process};
use crate::clock::Moment;
use crate::exec::State;

/// Who answers when nobody does.
const NOBODY: &str = "deadline";

impl Supervisor {
    /// Lets a queued exec wait, outside of the queue.
    pub(crate) fn await_approval(&mut self, number: u32, need: Option<ApprovalNeed>) {
        let (Some(need), Some(exec)) = (need, self.execs.get_mut(&number)) else { return };
        let until = Moment::now().after(Duration::from_millis(need.within_ms));
        let approval = Approval::pending(need, exec.queued_at);
        self.journal.append(&Entry::Awaited {
            exec: exec.id.clone(),
            approval: approval.clone(),
            at: exec.queued_at,
        });
        exec.approval = Some(approval);
        self.awaiting.insert(number, until);
    }

    /// Takes a person's answer. A second one changes nothing.
    pub(crate) fn answer_approval(
        &mut self,
        exec: &ExecId,
        answer: ApprovalAnswer,
        checkpoint: Option<CheckpointId>,
    ) -> Result<()> {
        let number = self.number(exec)?;
        if self.awaiting.remove(&number).is_none() {
            let message = format!("exec {exec} does not wait for approval");
            return Err(Error::conflict(message).hint("list what does with `hotcell approvals`"));
        }
        let verdict = answer.verdict;
        self.note_answer(number, answer);
        if let Some(checkpoint) = checkpoint {
            self.journal.append(&Entry::Kept {
                exec: exec.clone(),
                checkpoint,
                at: Timestamp::now(),
            });
        }
        match verdict {
            ApprovalVerdict::Granted => {
                let priority = match self.execs.get(&number).map(|found| &found.state) {
                    Some(State::Queued(queued)) => queued.spec.priority,
                    Some(State::Running(_) | State::Ended(_)) | None => return Ok(()),
                };
                self.queue.push(exec.clone(), priority);
                self.bound_wait(number);
                self.start_waiting();
            }
            ApprovalVerdict::Refused | ApprovalVerdict::Expired => self.deny(number),
        }
        Ok(())
    }

    /// Ends what nobody answered for in time.
    pub(crate) fn expire_approvals(&mut self, now: Moment) {
        let due = self.awaiting.iter().filter(|(_, until)| **until <= now);
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.awaiting.remove(&number);
            let answer = ApprovalAnswer {
                verdict: ApprovalVerdict::Expired,
                by: NOBODY.to_owned(),
                at: Timestamp::now(),
            };
            self.note_answer(number, answer);
            self.deny(number);
        }
    }

    fn note_answer(&mut self, number: u32, answer: ApprovalAnswer) {
        let Some(exec) = self.execs.get_mut(&number) else { return };
        self.journal.append(&Entry::Answered { exec: exec.id.clone(), answer: answer.clone() });
        if let Some(approval) = &mut exec.approval {
            approval.answer = Some(answer);
        }
    }

    fn deny(&mut self, number: u32) {
        self.record_end(number, end_without_process(EndCause::Denied));
    }
}
