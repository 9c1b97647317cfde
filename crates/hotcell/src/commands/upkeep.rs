//! `hotcell gc` and `hotcell reconcile`: keeping house.

use hotcell_model::{Collect, Error, Reconcile};

use crate::errors::{Codes, Failure};
use crate::session::Session;
use crate::show::{Table, note, print, print_json};
use crate::upkeep_args;

/// Removes what is over or that nobody needs.
pub(super) async fn gc(session: &Session, args: upkeep_args::Gc) -> Result<u8, Failure> {
    let done = session.ask(Collect { dry_run: args.dry_run }).await?;
    if args.json {
        print_json(&done)?;
        return Ok(code_of(&done.errors));
    }
    if done.disk_pressure {
        note("the disk is nearly full: more goes than usual");
    }
    match (done.removed.is_empty(), done.dry_run) {
        (true, true) => print("nothing would be removed\n")?,
        (true, false) => print("nothing to remove\n")?,
        (false, _) => {
            let counted = if done.dry_run { "WOULD GO" } else { "REMOVED" };
            let mut table = Table::new(["WHAT", counted, "MB"]);
            for removed in &done.removed {
                let mb = removed.bytes.div_ceil(1 << 20);
                table.row([
                    removed.kind.as_str().to_owned(),
                    removed.count.to_string(),
                    mb.to_string(),
                ]);
            }
            print(table.to_string())?;
        }
    }
    Ok(tell(&done.errors))
}

/// Brings together what is known and what is there.
pub(super) async fn reconcile(
    session: &Session,
    args: upkeep_args::Reconcile,
) -> Result<u8, Failure> {
    let done = session.ask(Reconcile).await?;
    if args.json {
        print_json(&done)?;
        return Ok(code_of(&done.errors));
    }
    let mut table =
        Table::new(["DISCOVERED", "ADOPTED", "CLEANED UP", "ORPHANED", "MISSING", "ERRORS"]);
    table.row([
        done.discovered.to_string(),
        done.adopted.to_string(),
        done.cleaned_up.to_string(),
        done.orphaned.to_string(),
        done.missing.to_string(),
        done.errors.len().to_string(),
    ]);
    print(table.to_string())?;
    Ok(tell(&done.errors))
}

/// Tells what could not be done, and the exit code for it.
fn tell(errors: &[String]) -> u8 {
    for error in errors {
        note(error);
    }
    code_of(errors)
}

fn code_of(errors: &[String]) -> u8 {
    match errors.first() {
        None => 0,
        Some(first) => Failure::Refused(Error::unavailable(first)).exit_code(Codes::Own),
    }
}
