//! Ends an exec and all its descendants.

use hotcell_link::{Ask, LinkError, Tell};
use hotcell_model::{CancelStatus, Error, ErrorCode, ExecCancel, ExecCancelled, ExecState, Result};

use crate::exec_input::find_link_to;
use crate::site::Site;
use crate::{check, links};

/// How often a question is asked again whose connection broke; a second one does no harm.
const ATTEMPTS: u32 = 5;

/// Asks an exec to end; the supervisor kills it with all its descendants after the grace.
pub(crate) async fn exec_cancel(site: &Site, request: ExecCancel) -> Result<ExecCancelled> {
    let grace = check::grace(request.grace_s)?;
    let exec = request.exec;
    let cell = match site.get_cell_of(&exec).await {
        Ok(cell) => cell,
        Err(error) if error.code == ErrorCode::NotFound => {
            return Ok(ExecCancelled { exec, status: CancelStatus::NotFound });
        }
        Err(error) => return Err(error),
    };
    let ask = Ask::Cancel {
        exec: exec.clone(),
        signal: request.signal,
        grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
    };
    for _ in 0..ATTEMPTS {
        if let Some(link) = find_link_to(site, &cell).await? {
            match links::ask(&link, &cell, &ask).await {
                Ok(Tell::Cancelled(status)) => return Ok(ExecCancelled { exec, status }),
                Ok(
                    Tell::Done
                    | Tell::Started(_)
                    | Tell::InputState(_)
                    | Tell::Stats(_)
                    | Tell::File(_)
                    | Tell::Failed(_),
                ) => {
                    return Err(LinkError::Confused.into());
                }
                // One that an earlier supervisor had is in the journal.
                Err(LinkError::Failed(error)) if error.code == ErrorCode::NotFound => {}
                Err(LinkError::Lost) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if site.get_exec_in(&cell, &exec).await?.state == ExecState::Ended {
            return Ok(ExecCancelled { exec, status: CancelStatus::AlreadyEnded });
        }
    }
    Err(Error::unavailable(format!("exec {exec} could not be reached to end it"))
        .hint("try again, or end its cell with `hotcell kill --force`"))
}
