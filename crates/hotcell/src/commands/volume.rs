//! `hotcell volume`: what ended cells left.

use std::io;

use hotcell_model::{Timestamp, VolumeRemove, VolumeRestore, VolumesList};

use crate::errors::{Codes, Failure};
use crate::session::Session;
use crate::show::{Table, or_dash, print, print_json};
use crate::upkeep_args::VolumeAction;
use crate::values::short;

/// Lists, restores or removes.
pub(super) async fn volume(session: &Session, action: VolumeAction) -> Result<u8, Failure> {
    match action {
        VolumeAction::List { all_tenants, json } => {
            let listed = match all_tenants {
                true => session.above_tenants().ask(VolumesList).await?,
                false => session.ask(VolumesList).await?,
            };
            if json {
                print_json(&listed)?;
                return Ok(0);
            }
            let tenants: Vec<String> =
                listed.volumes.iter().map(|volume| volume.tenant.to_string()).collect();
            let now = Timestamp::now();
            let mut table =
                Table::new(["CELL", "NAME", "DRIVER", "IMAGE", "MB", "ENDED", "REMOVED IN"]);
            for volume in listed.volumes {
                table.row([
                    volume.cell.to_string(),
                    or_dash(volume.alias),
                    volume.driver,
                    volume.image,
                    or_dash(volume.disk_bytes.map(|bytes| bytes.div_ceil(1 << 20))),
                    short(volume.kept_at.until(now)),
                    or_dash(volume.expires_at.map(|at| short(now.until(at)))),
                ]);
            }
            if all_tenants {
                table = table.with_column("TENANT", tenants);
            }
            print(table.to_string())?;
        }
        VolumeAction::Restore { cell, json } => {
            let cell = session.ask(VolumeRestore { cell }).await?;
            if json {
                print_json(&cell)?;
            } else {
                print(format!("{}\n", cell.id))?;
            }
        }
        VolumeAction::Rm { cells } => {
            let mut code = 0;
            for cell in cells {
                match session.ask(VolumeRemove { cell }).await {
                    Ok(removed) => print(format!("{}\n", removed.cell))?,
                    // One that cannot be removed does not save the others.
                    Err(error) => {
                        let failure = Failure::Refused(error);
                        failure.tell(&mut io::stderr());
                        if code == 0 {
                            code = failure.exit_code(Codes::Own);
                        }
                    }
                }
            }
            return Ok(code);
        }
    }
    Ok(0)
}
