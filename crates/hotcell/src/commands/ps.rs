//! `hotcell ps`: which execs there are.

use hotcell_model::{ExecList, ExecStatusFilter, Timestamp};

use crate::args::Ps;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{exec_table, note, print, print_json};

/// Lists execs.
pub(super) async fn ps(session: &Session, args: Ps) -> Result<u8, Failure> {
    let list = ExecList {
        cell: args.cell,
        status: match args.all {
            true => None,
            false => Some(ExecStatusFilter::Live),
        },
        limit: args.limit,
        cursor: args.cursor,
    };
    let found = session.ask(list).await?;
    if args.json {
        print_json(&found)?;
        return Ok(0);
    }
    print(exec_table(&found.execs, Timestamp::now()).to_string())?;
    if let Some(cursor) = found.next_cursor {
        note(&format!("there are more: --cursor {cursor}, or a larger --limit"));
    }
    Ok(0)
}
