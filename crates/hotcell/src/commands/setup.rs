//! `hotcell setup`: tells a client about the server.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use hotcell_model::{Error, ErrorCode, Result, Timestamp};
use serde_json::json;

use crate::args::Setup;
use crate::config::Overrides;
use crate::default_cell::of_directory;
use crate::environment::Environment;
use crate::errors::Failure;
use crate::setup::{
    Client, Entry, Server, SettingsFile, Surroundings, Unfit, own_program, unified_diff,
};
use crate::show::{note, print, print_json};
use crate::terminal;

/// Writes the settings of a client, or prints what belongs there.
pub(super) fn setup(
    args: &Setup,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<u8, Failure> {
    let directory = std::env::current_dir().map_err(|error| {
        Error::invalid(format!("this directory cannot be read: {error}"))
            .hint("change to another directory")
    })?;
    let directory_cell = of_directory(&directory);
    let around = Surroundings {
        environment,
        directory: &directory,
        directory_cell: directory_cell.as_ref(),
    };
    let server = server(args, overrides, &around)?;
    let entry = args.client.entry(args.scope, &server)?;
    let file = args.client.file(args.scope, &around);
    let plan = Plan { args, server: &server, entry: &entry };
    match (args.print, file) {
        (false, file) => plan.write(&file?),
        (true, Ok(file)) => plan.print(Some(&file)),
        (true, Err(error)) if error.code == ErrorCode::Unsupported => Err(error.into()),
        (true, Err(_)) => plan.print(None),
    }
}

/// The server that the client is told of.
fn server(args: &Setup, overrides: &Overrides, around: &Surroundings<'_>) -> Result<Server> {
    if let Some(url) = &args.http {
        return Ok(Server::Http { url: url.clone(), token_variable: args.token_env.clone() });
    }
    let started_as = std::env::args_os().next();
    let search = around.environment.path.as_deref();
    let mut words = vec!["serve".to_owned()];
    if let Some(cell) = args.client.cell(args.scope, around) {
        words.extend(["--cell".to_owned(), cell]);
    }
    // Who gives a flag to `setup` wants the server to have it.
    for (flag, path) in [("--config", &overrides.file), ("--state-dir", &overrides.state_dir)] {
        if let Some(path) = path {
            words.extend([flag.to_owned(), absolute_text(flag, around.directory, path)?]);
        }
    }
    if let Some(filter) = &overrides.log {
        words.extend(["--log".to_owned(), filter.clone()]);
    }
    if let Some(tenant) = &overrides.tenant {
        words.extend(["--tenant".to_owned(), tenant.clone()]);
    }
    Ok(Server::Stdio { program: own_program(started_as.as_deref(), search)?, args: words })
}

fn absolute_text(flag: &str, directory: &Path, path: &Path) -> Result<String> {
    let path = directory.join(path);
    path.into_os_string()
        .into_string()
        .map_err(|path| Error::invalid(format!("{flag} is {path:?}, which is not UTF-8")))
}

/// What is to be done.
#[derive(Debug)]
struct Plan<'a> {
    args: &'a Setup,
    server: &'a Server,
    entry: &'a Entry,
}

impl Plan<'_> {
    /// Prints what belongs into the settings.
    fn print(&self, file: Option<&Path>) -> Result<u8, Failure> {
        let Setup { client, scope, name, .. } = self.args;
        let snippet = client.snippet(name, self.entry)?;
        let command = client.own_command(*scope, name, self.server, self.entry);
        let command = command.map(|words| shell_line(&words));
        if self.args.json {
            print_json(&json!({
                "client": client.name(),
                "name": name,
                "file": file,
                "snippet": snippet,
                "command": command,
            }))?;
            return Ok(0);
        }
        print(snippet)?;
        if let Some(file) = file {
            note(&format!("it belongs into {}", file.display()));
        }
        if let Some(command) = command {
            note(&format!("or run: {command}"));
        }
        self.remark();
        Ok(0)
    }

    /// Shows the change, asks, and writes.
    fn write(&self, path: &Path) -> Result<u8, Failure> {
        let client = self.args.client;
        let file = SettingsFile::read(path)?;
        let after = self.edited(client, &file)?;
        if after == file.text() {
            self.tell(&file, Outcome::AlreadySetUp, None, "")?;
            return Ok(0);
        }
        let shown = |text: &str| {
            let shown = client.language().conceal(text, self.entry);
            shown.map_err(|unfit| cannot_be_edited(path, &unfit))
        };
        let diff = unified_diff(path, &shown(file.text())?, &shown(&after)?);
        self.agree(path, &diff)?;
        let kept = file.replace(&after, self.args.scope, Timestamp::now())?;
        self.tell(&file, Outcome::Written, kept, &diff)?;
        self.remark();
        Ok(0)
    }

    fn edited(&self, client: Client, file: &SettingsFile) -> Result<String> {
        let text = file.text();
        let edited = client.language().edit(text, client.section(), &self.args.name, self.entry);
        edited.map_err(|unfit| cannot_be_edited(file.path(), &unfit))
    }

    /// Returns when the change may be made.
    fn agree(&self, path: &Path, diff: &str) -> Result<(), Failure> {
        if !self.args.json {
            print(diff)?;
        }
        if self.args.yes {
            return Ok(());
        }
        if !terminal::is_ours() || !io::stderr().is_terminal() {
            let path = path.display();
            return Err(Error::invalid(format!(
                "there is no terminal to ask whether {path} may be written"
            ))
            .hint("--yes writes it, --print only shows what belongs there")
            .into());
        }
        let shown = if self.args.json { diff } else { "" };
        let question = format!("{shown}Write this to {}? [y/N] ", path.display());
        match ask(&question).map_err(Failure::Terminal)? {
            Answer::Yes => Ok(()),
            Answer::No => Err(Error::cancelled("nothing was changed").into()),
        }
    }

    fn tell(
        &self,
        file: &SettingsFile,
        outcome: Outcome,
        kept: Option<PathBuf>,
        diff: &str,
    ) -> Result<(), Failure> {
        let Setup { client, name, .. } = self.args;
        let path = file.path();
        let (status, is) = match outcome {
            Outcome::Written => ("written", "now"),
            Outcome::AlreadySetUp => ("already_set_up", "already"),
        };
        if self.args.json {
            return print_json(&json!({
                "client": client.name(),
                "name": name,
                "file": path,
                "status": status,
                "backup": kept,
                "diff": diff,
            }));
        }
        note(&format!("{name} is {is} set up in {}", path.display()));
        if let Some(kept) = kept {
            note(&format!("what was there before is in {}", kept.display()));
        }
        Ok(())
    }

    /// What a person should know about a server elsewhere.
    fn remark(&self) {
        let Server::Http { url, token_variable } = self.server else { return };
        match (self.server.is_elsewhere(), token_variable) {
            (true, None) => note("a server on another machine asks for a token: see --token-env"),
            (true, Some(_)) if url.starts_with("http:") => {
                note("the token is sent unprotected: use https between machines");
            }
            (true | false, _) => {}
        }
    }
}

fn cannot_be_edited(path: &Path, unfit: &Unfit) -> Error {
    let path = path.display();
    let place = unfit.line.map_or_else(String::new, |line| format!(" at line {line}"));
    Error::invalid(format!("{path} cannot be edited{place}: {}", unfit.problem))
        .hint("mend the file and run it again, or use --print; nothing was changed")
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written,
    AlreadySetUp,
}

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
}

fn ask(question: &str) -> io::Result<Answer> {
    let mut screen = io::stderr();
    screen.write_all(question.as_bytes())?;
    screen.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if !line.ends_with('\n') {
        screen.write_all(b"\n")?;
    }
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(Answer::Yes),
        _ => Ok(Answer::No),
    }
}

/// A command as a shell reads it.
fn shell_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let quoted = words.iter().map(|word| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}
