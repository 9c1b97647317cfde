//! `hotcell approvals` and `hotcell approve`: what waits for a person's word, and the word.

use hotcell_model::{ApprovalGive, ApprovalList, Grant, Timestamp};

use crate::errors::Failure;
use crate::policy_args::{Approvals, Approve};
use crate::session::Session;
use crate::show::{Table, one_line, print, print_json};
use crate::values::short;

const SHOWN_CHARS: usize = 80;

/// Lists what waits.
pub(super) async fn approvals(session: &Session, args: Approvals) -> Result<u8, Failure> {
    let found = session.ask(ApprovalList).await?;
    if args.json {
        print_json(&found.execs)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let mut table = Table::new(["EXEC", "CELL", "ASKED BY", "LEFT", "RULE", "COMMAND", "WHY"]);
    for exec in &found.execs {
        let Some(approval) = &exec.approval else { continue };
        table.row([
            exec.id.to_string(),
            exec.cell.to_string(),
            one_line(&approval.asked_by, SHOWN_CHARS),
            short(now.until(approval.until)),
            approval.rule.clone(),
            one_line(&exec.command.to_string(), SHOWN_CHARS),
            one_line(&approval.reason, SHOWN_CHARS),
        ]);
    }
    print(table.to_string())?;
    Ok(0)
}

/// Answers.
pub(super) async fn approve(session: &Session, args: Approve) -> Result<u8, Failure> {
    let grant = if args.refuse { Grant::Refuse } else { Grant::Approve };
    let exec = session.ask(ApprovalGive { exec: args.exec, grant }).await?;
    match args.json {
        true => print_json(&exec)?,
        false => print(format!("{} {}\n", exec.id, grant.verdict().as_str()))?,
    }
    Ok(0)
}
