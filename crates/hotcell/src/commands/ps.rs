//! `hotcell ps`: which execs there are.

use hotcell_model::{ExecList, ExecStatusFilter, Timestamp};

use crate::args::Ps;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{exec_table, note, or_dash, print, print_json};

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
    let found = match args.all_tenants {
        true => session.above_tenants().ask(list).await?,
        false => session.ask(list).await?,
    };
    if args.json {
        print_json(&found)?;
        return Ok(0);
    }
    let mut shown = exec_table(&found.execs, Timestamp::now());
    if args.all_tenants {
        let tenants = found.execs.iter().map(|exec| or_dash(found.tenants.get(&exec.cell)));
        shown = shown.with_column("TENANT", tenants);
    }
    print(shown.to_string())?;
    if let Some(cursor) = found.next_cursor {
        note(&format!("there are more: --cursor {cursor}, or a larger --limit"));
    }
    Ok(0)
}
