//! `hotcell kill`: the end of cells.

use std::io;

use hotcell_model::{CellKill, KillWait};

use crate::args::Kill;
use crate::errors::{Codes, Failure};
use crate::session::Session;
use crate::show::{print, print_json};

/// Ends cells; one that cannot be ended does not save the others.
pub(super) async fn kill(session: &Session, args: Kill) -> Result<u8, Failure> {
    let mut code = 0;
    for cell in args.cells {
        match session.ask(CellKill { cell, force: args.force, wait: KillWait::Removed }).await {
            Ok(killed) if args.json => print_json(&killed)?,
            Ok(killed) => print(format!("{}\n", killed.cell))?,
            Err(error) => {
                let failure = Failure::Refused(error);
                failure.tell(&mut io::stderr());
                if code == 0 {
                    code = failure.exit_code(Codes::Own);
                }
            }
        }
    }
    Ok(code)
}
