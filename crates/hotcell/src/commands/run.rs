//! `hotcell run`: a command in a cell, seen to its end.

use std::io;

use hotcell_model::{
    Cell, CellInfo, Command, ErrorCode, Exec, ExecCancel, ExecId, ExecRun, Pace, Signal, Stdin,
};
use serde::Serialize;

use super::place::{Place, Stay};
use super::tell_end;
use crate::args::Run;
use crate::conversation::{Conversation, Input, Leaving, Outcome, Role};
use crate::environment::Environment;
use crate::errors::{Failure, NOT_FOUND};
use crate::records::Format;
use crate::session::Session;
use crate::show::{note, print, print_json};
use crate::signals::LocalSignals;
use crate::terminal::{self, RawTerminal};

/// What `run -d --json` prints.
#[derive(Debug, Serialize)]
struct Started<'a> {
    exec: &'a Exec,
    cell: &'a Cell,
}

/// Runs a command.
pub(super) async fn run(
    session: &Session,
    args: Run,
    environment: &Environment,
) -> Result<u8, Failure> {
    // From the first moment on: a cell that is made for this command is not to outlive it.
    let mut signals = LocalSignals::listen().map_err(Failure::Terminal)?;
    let place = match signals.unless_told_to_leave(Place::find(session, &args)).await {
        Ok(place) => place?,
        Err(signal) => return Ok(signal.exit_code()),
    };
    let code = Box::pin(run_in(session, &args, environment, &place, signals)).await;
    place.leave(session).await;
    code
}

async fn run_in(
    session: &Session,
    args: &Run,
    environment: &Environment,
    place: &Place,
    mut signals: LocalSignals,
) -> Result<u8, Failure> {
    let started = session.ask(request(args, environment, &place.cell));
    let started = match signals.unless_told_to_leave(started).await {
        Ok(started) => started,
        Err(signal) => return Ok(signal.exit_code()),
    };
    let exec = match started {
        Ok(result) => result.exec,
        Err(error) if error.code == ErrorCode::NotFound => {
            // A cell that was killed just now is not a command that was not found.
            session.ask(CellInfo { cell: place.cell.id.clone().into() }).await?;
            Failure::Refused(error).tell(&mut io::stderr());
            return Ok(NOT_FOUND);
        }
        Err(error) => return Err(error.into()),
    };
    if args.detach {
        match args.json {
            true => print_json(&Started { exec: &exec, cell: &place.cell })?,
            false => print(format!("{}\n", exec.id))?,
        }
        return Ok(0);
    }
    let conversation = conversation(session, args, exec.clone(), place.stay, signals)?;
    match Box::pin(conversation.hold()).await {
        Ok(Outcome::Ended(exec)) => Ok(tell_end(&exec)),
        Ok(Outcome::Left(Leaving::Keys)) => Ok(0),
        Ok(Outcome::Left(Leaving::Signal(signal))) => {
            if place.stay == Stay::Stays {
                note(&format!("{0} runs on; join it with `hotcell attach {0}`", exec.id));
            }
            Ok(signal.exit_code())
        }
        Ok(Outcome::Left(Leaving::Unprinted(signal))) => Ok(signal.exit_code()),
        Err(Failure::Output(error)) => {
            end_unheard(session, &exec.id).await;
            Err(Failure::Output(error))
        }
        Err(failure @ (Failure::Refused(_) | Failure::Terminal(_) | Failure::ToldToLeave(_))) => {
            Err(failure)
        }
    }
}

/// Ends an exec whose reader went away, as a pipe would.
async fn end_unheard(session: &Session, exec: &ExecId) {
    let signal = Signal::from_number(13).unwrap_or(Signal::TERM);
    let cancel = ExecCancel { exec: exec.clone(), signal, grace_s: 5.0 };
    if let Err(error) = session.ask(cancel).await {
        tracing::warn!(%exec, %error, "an exec whose output nobody reads could not be ended");
    }
}

fn request(args: &Run, environment: &Environment, cell: &Cell) -> ExecRun {
    let command = match args.command.as_slice() {
        [text] => Command::Shell(text.clone()),
        words => Command::Argv(words.to_vec()),
    };
    let mut run = ExecRun::new(cell.id.clone(), command);
    run.cwd.clone_from(&args.cwd);
    run.env = args.env.iter().cloned().collect();
    run.timeout_s = args.timeout.map(|timeout| timeout.as_secs_f64());
    run.as_root = args.as_root;
    run.idempotency_key.clone_from(&args.idempotency_key);
    if !args.detach {
        run.pace = Pace::Follower;
    }
    if args.interactive || args.tty {
        run.stdin = Stdin::Open;
    }
    if args.tty {
        run.pty = Some(terminal::size().unwrap_or_default());
        if let Some(term) = environment.term.as_ref().filter(|_| terminal::is_ours()) {
            run.env.entry("TERM".to_owned()).or_insert_with(|| term.clone());
        }
    }
    run
}

fn conversation<'a>(
    session: &'a Session,
    args: &Run,
    exec: Exec,
    stay: Stay,
    signals: LocalSignals,
) -> Result<Conversation<'a>, Failure> {
    let typed = args.tty && terminal::is_ours();
    let terminal = typed.then(RawTerminal::enter).transpose().map_err(Failure::Terminal)?;
    Ok(Conversation {
        session,
        exec,
        after_seq: 0,
        input: match args.interactive || typed {
            true => Input::Passed,
            false => Input::Unread,
        },
        role: match stay {
            Stay::Goes => Role::Owner,
            Stay::Stays => Role::Tenant,
        },
        format: match (args.json, typed) {
            (true, _) => Format::Json,
            (false, true) => Format::RawTerminal,
            (false, false) => Format::Raw,
        },
        terminal,
        signals,
    })
}
