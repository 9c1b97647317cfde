//! `hotcell wait`: the end of an exec, awaited.

use hotcell_model::{ExecFollow, ExecGet, ExecState, Pace};

use super::attach::last_lines;
use super::tell_end;
use crate::args::Wait;
use crate::conversation::wait_for_end;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::print_json;

/// Waits for the end of an exec.
pub(super) async fn wait(session: &Session, args: Wait) -> Result<u8, Failure> {
    let exec = session.ask(ExecGet { exec: args.exec }).await?;
    let ended = match exec.state {
        ExecState::Ended => exec,
        ExecState::Queued | ExecState::Running => {
            // What was printed before is of no interest here.
            let after_seq = last_lines(session, &exec, 1).await?.next_seq;
            let follow = ExecFollow { exec: exec.id, after_seq, pace: Pace::Free };
            wait_for_end(session.follow(follow).await?).await?
        }
    };
    if args.json {
        print_json(&ended)?;
    }
    Ok(tell_end(&ended))
}
