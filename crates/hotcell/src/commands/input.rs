//! `hotcell input`: text, end of file or a signal for a running exec.

use hotcell_model::{Error, ExecGet, ExecId, ExecInput};

use crate::args::Input;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::print_json;
use crate::stdin;

/// Sends input.
pub(super) async fn input(session: &Session, args: Input) -> Result<u8, Failure> {
    let mut last = ExecInput {
        eof: args.eof,
        signal: args.signal,
        keys: args.keys,
        ..ExecInput::to(args.exec)
    };
    match args.text.as_deref() {
        Some("-") => send_stdin(session, &last.exec).await?,
        Some(text) => {
            last.data = text.as_bytes().to_vec();
            if !args.no_newline {
                last.data.extend(newline(session, &last.exec).await?);
            }
        }
        None if args.eof || args.signal.is_some() || !last.keys.is_empty() => {}
        None => {
            return Err(Error::invalid("there is nothing to send")
                .hint("give a TEXT, `-` for standard input, --key, --eof or --signal")
                .into());
        }
    }
    // What came from standard input is sent already; only an end or a signal may be left.
    if !last.data.is_empty() || !last.keys.is_empty() || last.eof || last.signal.is_some() {
        session.ask(last.clone()).await?;
    }
    if args.json {
        print_json(&serde_json::json!({ "exec": last.exec }))?;
    }
    Ok(0)
}

/// The key that ends a line: a terminal expects what its enter key sends.
async fn newline(session: &Session, exec: &ExecId) -> Result<&'static [u8], Failure> {
    match session.ask(ExecGet { exec: exec.clone() }).await?.pty {
        true => Ok(b"\r"),
        false => Ok(b"\n"),
    }
}

async fn send_stdin(session: &Session, exec: &ExecId) -> Result<(), Failure> {
    let mut pieces = stdin::pieces().map_err(Failure::Terminal)?;
    while let Some(data) = pieces.recv().await {
        session.ask(ExecInput { data, ..ExecInput::to(exec.clone()) }).await?;
    }
    Ok(())
}
