//! `hotcell kill`: the end of cells.

use std::io;

use hotcell_model::{CellKill, KillWait, Volume};

use crate::args::Kill;
use crate::errors::{Codes, Failure};
use crate::session::Session;
use crate::show::{note, print, print_json};

/// Ends cells; one that cannot be ended does not save the others.
pub(super) async fn kill(session: &Session, args: Kill) -> Result<u8, Failure> {
    let mut code = 0;
    for cell in args.cells {
        match session
            .ask(CellKill {
                cell,
                force: args.force,
                volumes: args.volumes,
                wait: KillWait::Removed,
            })
            .await
        {
            Ok(killed) if args.json => print_json(&killed)?,
            Ok(killed) => {
                print(format!("{}\n", killed.cell))?;
                if let Some(volume) = killed.volume {
                    note(&kept(&volume));
                }
            }
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

/// What is said of files that stay.
fn kept(volume: &Volume) -> String {
    let cell = &volume.cell;
    let until = match volume.expires_at {
        Some(at) => format!("until {at}"),
        None => "until they are removed".to_owned(),
    };
    format!(
        "its files are kept {until}: `hotcell volume restore {cell}` brings it back, `hotcell volume rm \
         {cell}` removes them"
    )
}
