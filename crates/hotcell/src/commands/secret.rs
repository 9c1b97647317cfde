//! `hotcell secret`: the operator's secrets.

use std::io::{self, IsTerminal, Read};

use hotcell_model::{Result, SecretRemove, SecretSet, SecretSource, SecretValue, SecretsList};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::args::SecretAction;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{Table, note, print, print_json};

/// Sets, lists or removes.
pub(super) async fn secret(session: &Session, action: SecretAction) -> Result<u8, Failure> {
    match action {
        SecretAction::Set { name } => {
            let value = read_value(name.as_str()).map_err(Failure::Terminal)?;
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

/// The value: what stands on standard input, or what a person types, which is not shown. A newline
/// at its end is not part of it.
fn read_value(name: &str) -> io::Result<Vec<u8>> {
    let input = io::stdin();
    let mut value = Vec::new();
    let most = SecretValue::MAX_BYTES as u64 + 2;
    if input.is_terminal() {
        note(&format!("type the value of {name}, which is not shown, and Enter"));
        let _hidden = Hidden::begin(&input)?;
        let mut line = String::new();
        input.read_line(&mut line)?;
        value = line.into_bytes();
    } else {
        input.lock().take(most).read_to_end(&mut value)?;
    }
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    Ok(value)
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
