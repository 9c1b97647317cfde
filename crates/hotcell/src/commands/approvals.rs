//! `hotcell approvals` and `hotcell approve`: what waits for a person's word, and the word.

use std::io::{self, Write};

use hotcell_model::{ApprovalGive, ApprovalList, Error, ErrorCode, Grant, Timestamp};

use crate::confirm::{self, Answer};
use crate::errors::Failure;
use crate::policy_args::{Approvals, Approve};
use crate::session::Session;
use crate::show::{Table, one_line, or_dash, print, print_json};
use crate::values::short;

const SHOWN_CHARS: usize = 80;

/// Lists what waits, or shows one.
pub(super) async fn approvals(session: &Session, args: Approvals) -> Result<u8, Failure> {
    let list = ApprovalList { id: args.id.clone() };
    // Whoever is here owns the state directory: an id says enough.
    let found = match args.all_tenants || args.id.is_some() {
        true => session.above_tenants().ask(list).await.map_err(|it| unknown_here(session, it))?,
        false => session.ask(list).await?,
    };
    match (args.id, args.json) {
        (Some(_), true) => print_json(&found.approvals.first())?,
        (None, true) => print_json(&found.approvals)?,
        (Some(_), false) => {
            let all: Vec<String> = found.approvals.iter().map(ToString::to_string).collect();
            print(all.concat())?;
        }
        (None, false) => {
            let now = Timestamp::now();
            let columns = ["ID", "CELL", "ASKED BY", "LEFT", "RULE", "WHAT", "WHY"];
            let mut table = Table::new(columns);
            for asked in &found.approvals {
                let approval = &asked.approval;
                table.row([
                    asked.id.to_string(),
                    or_dash(asked.cell.as_ref()),
                    one_line(&approval.asked_by, SHOWN_CHARS),
                    short(now.until(approval.until)),
                    approval.rule.clone(),
                    one_line(&asked.what, SHOWN_CHARS),
                    one_line(&approval.reason, SHOWN_CHARS),
                ]);
            }
            if args.all_tenants {
                let tenants = found.approvals.iter().map(|asked| asked.tenant.to_string());
                table = table.with_column("TENANT", tenants);
            }
            print(table.to_string())?;
        }
    }
    Ok(0)
}

/// Answers. What is approved is shown before, and a person at a terminal is asked: an agent may have
/// described it in other words.
pub(super) async fn approve(session: &Session, args: Approve) -> Result<u8, Failure> {
    let grant = if args.refuse { Grant::Refuse } else { Grant::Approve };
    if grant == Grant::Approve && !args.json && !args.yes {
        let list = ApprovalList { id: Some(args.id.clone()) };
        let found = session.above_tenants().ask(list).await;
        for asked in found.map_err(|error| unknown_here(session, error))?.approvals {
            if asked.approval.is_pending() {
                let _ = io::stderr().write_all(format!("{asked}\n").as_bytes());
                ask_person()?;
            }
        }
    }
    let given = session.above_tenants().ask(ApprovalGive { id: args.id, grant }).await;
    let asked = given.map_err(|error| unknown_here(session, error))?;
    match args.json {
        true => print_json(&asked)?,
        false => print(format!("{} {}\n", asked.id, grant.verdict().as_str()))?,
    }
    Ok(0)
}

/// An id that is not found may be known in another state directory: that of the agent's server.
fn unknown_here(session: &Session, error: Error) -> Error {
    if error.code != ErrorCode::NotFound {
        return error;
    }
    let message =
        format!("{} in the state directory {}", error.message, session.state_dir().display());
    Error { message, ..error }.hint(
        "list what awaits approval here with `hotcell approvals`; if the agent's server has another \
         state directory, name it with --state-dir DIR or HOTCELL_STATE_DIR",
    )
}

/// Asks the person at the terminal, if there is one.
fn ask_person() -> Result<(), Failure> {
    if !confirm::is_possible() {
        return Ok(());
    }
    match confirm::ask("Approve this? [y/N] ").map_err(Failure::Terminal)? {
        Answer::Yes => Ok(()),
        Answer::No => Err(Error::cancelled("nothing was approved").into()),
    }
}
