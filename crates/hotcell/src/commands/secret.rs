//! `hotcell secret`: the operator's secrets.

use std::io::{self, IsTerminal, Read};

use hotcell_model::{Result, SecretRemove, SecretSet, SecretSource, SecretValue, SecretsList};
use hotcell_secrets::leave_no_image;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::task::spawn_blocking;

use crate::errors::Failure;
use crate::secret_args::SecretAction;
use crate::session::Session;
use crate::show::{Table, note, print, print_json};
use crate::signals::{LocalSignal, LocalSignals};

/// Sets, lists or removes.
pub(super) async fn secret(session: &Session, action: SecretAction) -> Result<u8, Failure> {
    match action {
        SecretAction::Set { name } => {
            leave_no_image();
            let value = match read_value(name.as_str()).await.map_err(Failure::Terminal)? {
                Ok(value) => value,
                Err(signal) => return Ok(signal.exit_code()),
            };
            session.ask(SecretSet { name, value: SecretValue::new(value)? }).await?;
        }
        SecretAction::List { json } => {
            let listed = session.ask(SecretsList).await?;
            if json {
                print_json(&listed)?;
                return Ok(0);
            }
            let mut table = Table::new(["NAME", "SOURCE"]);
            for secret in listed.secrets {
                let source = match secret.source {
                    SecretSource::Stored => "stored",
                    SecretSource::Env => "env",
                    SecretSource::File => "file",
                };
                table.row([secret.name.to_string(), source.to_owned()]);
            }
            print(table.to_string())?;
        }
        SecretAction::Rm { name } => {
            session.ask(SecretRemove { name }).await?;
        }
    }
    Ok(0)
}

/// The value: what stands on standard input, or what a person types, which is not shown; nothing
/// when a signal came first. The end of a line at its end is not part of it.
async fn read_value(name: &str) -> io::Result<Result<Vec<u8>, LocalSignal>> {
    let input = io::stdin();
    let mut value = if input.is_terminal() {
        let mut signals = LocalSignals::listen()?;
        note(&format!("type the value of {name}, which is not shown, and Enter"));
        let hidden = Hidden::begin(&input)?;
        let typed = signals.unless_told_to_leave(spawn_blocking(read_line)).await;
        drop(hidden);
        match typed {
            Ok(line) => line.map_err(io::Error::other)??,
            Err(signal) => return Ok(Err(signal)),
        }
    } else {
        let mut value = Vec::new();
        input.lock().take(SecretValue::MAX_BYTES as u64 + 3).read_to_end(&mut value)?;
        value
    };
    if value.pop_if(|last| *last == b'\n').is_some() {
        value.pop_if(|last| *last == b'\r');
    }
    Ok(Ok(value))
}

fn read_line() -> io::Result<Vec<u8>> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.into_bytes())
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Hidden<'a> {
    input: &'a io::Stdin,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn begin(input: &'a io::Stdin) -> io::Result<Self> {
        let before = tcgetattr(input)?;
        let mut hidden = before.clone();
        hidden.local_modes -= LocalModes::ECHO;
        tcsetattr(input, OptionalActions::Flush, &hidden)?;
        Ok(Self { input, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing either.
        let _ = tcsetattr(self.input, OptionalActions::Flush, &self.before);
    }
}
