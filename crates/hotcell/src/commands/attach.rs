//! `hotcell attach`: joins an exec that runs.

use hotcell_model::{
    Error, Exec, ExecGet, ExecPage, ExecPoll, ExecState, OutputFilter, OutputView,
};

use super::tell_end;
use crate::args::Attach;
use crate::conversation::{Conversation, Input, Outcome, Role, send_size};
use crate::errors::Failure;
use crate::records::Format;
use crate::session::Session;
use crate::show::{note, print};
use crate::signals::LocalSignals;
use crate::terminal::{self, RawTerminal};

/// The most that is shown of what was on the terminal before.
const SCREEN_BYTES: u64 = 64 << 10;

/// Joins an exec.
pub(super) async fn attach(session: &Session, args: Attach) -> Result<u8, Failure> {
    let exec = session.ask(ExecGet { exec: args.exec }).await?;
    match exec.state {
        ExecState::Queued | ExecState::Running => {}
        ExecState::Ended => {
            return Err(Error::conflict(format!("{} has ended", exec.id))
                .hint(format!("see its output with `hotcell logs {}`", exec.id))
                .into());
        }
    }
    let typed = exec.pty && terminal::is_ours();
    let (way_out, input, format) = match typed {
        true => ("ctrl-p ctrl-q", Input::Typed, Format::RawTerminal),
        false if terminal::is_ours() => ("Ctrl-C", Input::Passed, Format::Raw),
        false => ("Ctrl-C", Input::PassedWithoutEnd, Format::Raw),
    };
    // Before the way out is told: from then on it has to work.
    let signals = LocalSignals::listen().map_err(Failure::Terminal)?;
    note(&format!("joined {}; leave with {way_out}, the exec runs on", exec.id));
    let terminal = typed.then(RawTerminal::enter).transpose().map_err(Failure::Terminal)?;
    let after_seq = catch_up(session, &exec).await?;
    if typed && let Err(error) = send_size(session, &exec.id).await {
        tracing::debug!(%error, "the size of the terminal was not taken");
    }
    let id = exec.id.clone();
    let role = Role::Visitor;
    let conversation =
        Conversation { session, exec, after_seq, input, role, format, terminal, signals };
    match Box::pin(conversation.hold()).await? {
        Outcome::Ended(exec) => Ok(tell_end(&exec)),
        Outcome::Left(_) => {
            if typed {
                // The cursor stands where the exec left it.
                print("\n")?;
            }
            note(&format!("left {id}; it runs on"));
            Ok(0)
        }
    }
}

/// Shows the last screenful of a terminal; the seq after which output is new.
async fn catch_up(session: &Session, exec: &Exec) -> Result<u64, Failure> {
    let lines = terminal::size().unwrap_or_default().rows;
    let page = last_lines(session, exec, lines.into()).await?;
    if exec.pty {
        let screen: Vec<u8> = page.records.into_iter().flat_map(|record| record.bytes).collect();
        print(screen)?;
    }
    Ok(page.next_seq)
}

/// The last lines that an exec has printed, and where its output stands.
pub(super) async fn last_lines(
    session: &Session,
    exec: &Exec,
    lines: u64,
) -> Result<ExecPage, Error> {
    let poll = ExecPoll {
        exec: exec.id.clone(),
        after_seq: 0,
        wait_s: 0.0,
        filter: OutputFilter { tail_lines: Some(lines), ..OutputFilter::default() },
        max_bytes: SCREEN_BYTES,
        view: OutputView::first_output(),
    };
    session.ask(poll).await
}
