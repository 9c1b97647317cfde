//! `hotcell setup`: tells a client about the server.

use std::path::{Path, PathBuf};

use hotcell_model::{Error, ErrorCode, Result, Timestamp};
use serde_json::{Value, json};

use super::setup_server::{ServerGets, StateOfServer};
use crate::config::{Config, Overrides};
use crate::confirm::{self, Answer};
use crate::default_cell::of_directory;
use crate::environment::Environment;
use crate::errors::Failure;
use crate::setup::{
    Client, Entry, Server, SettingsFile, Surroundings, Unfit, own_program, unified_diff,
};
use crate::setup_args::Setup;
use crate::show::{note, print, print_json};

/// Writes the settings of a client, or prints what belongs there.
pub(super) fn setup(
    args: &Setup,
    overrides: &Overrides,
    environment: &Environment,
    config: Result<Config>,
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
    let project = match args.no_project {
        true => Vec::new(),
        false => args.client.project_args(args.scope, &around),
    };
    let state = StateOfServer::find(overrides, environment, &directory, config)?;
    let server = server(args, overrides, &around, &project, &state)?;
    let mut entry = args.client.entry(args.scope, &server)?;
    if args.approve_tools {
        entry.fields.push(approval_of_tools(args.client)?);
    }
    let file = args.client.file(args.scope, &around);
    let gets = ServerGets::new(args, &around, &project, &state);
    let plan = Plan { args, server: &server, entry: &entry, gets: &gets };
    match (args.print, file) {
        (false, file) => plan.write(&file?),
        (true, Ok(file)) => plan.print(Some(&file)),
        (true, Err(error)) if error.code == ErrorCode::Unsupported => Err(error.into()),
        (true, Err(_)) => plan.print(None),
    }
}

/// The server that the client is told of.
fn server(
    args: &Setup,
    overrides: &Overrides,
    around: &Surroundings<'_>,
    project: &[String],
    state: &StateOfServer,
) -> Result<Server> {
    if let Some(url) = &args.http {
        return Ok(Server::Http { url: url.clone(), token_variable: args.token_env.clone() });
    }
    let started_as = std::env::args_os().next();
    let search = around.environment.path.as_deref();
    let mut words = vec!["serve".to_owned()];
    words.extend(project.iter().cloned());
    if let Some(cell) = args.client.cell(args.scope, around).filter(|_| project.is_empty()) {
        words.extend(["--cell".to_owned(), cell]);
    }
    // What is in effect here has to be in effect for the server.
    for (flag, path) in [("--config", &state.config_arg), ("--state-dir", &state.state_arg)] {
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
    gets: &'a ServerGets,
}

impl Plan<'_> {
    /// Prints what belongs into the settings.
    fn print(&self, file: Option<&Path>) -> Result<u8, Failure> {
        let Setup { client, scope, name, .. } = self.args;
        let snippet = client.snippet(name, self.entry)?;
        let command = client.own_command(*scope, name, self.server, self.entry);
        // The client's own command has no such flag.
        let command = command.filter(|_| !self.args.approve_tools);
        let command = command.map(|words| shell_line(&words));
        if self.args.json {
            print_json(&json!({
                "client": client.name(),
                "name": name,
                "file": file,
                "snippet": snippet,
                "command": command,
                "state_dir": self.gets.state_dir,
                "default_cell": self.gets.default_cell,
                "project": self.gets.project,
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
        self.gets.tell();
        self.remark();
        Ok(0)
    }

    /// Shows the change, asks, and writes.
    fn write(&self, path: &Path) -> Result<u8, Failure> {
        let client = self.args.client;
        let file = SettingsFile::read(path)?;
        let after = self.edited(client, &file)?;
        if !self.args.json {
            self.gets.tell();
        }
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
        if !confirm::is_possible() {
            let path = path.display();
            return Err(Error::invalid(format!(
                "there is no terminal to ask whether {path} may be written"
            ))
            .hint("--yes writes it, --print only shows what belongs there")
            .into());
        }
        let shown = if self.args.json { diff } else { "" };
        let question = format!("{shown}Write this to {}? [y/N] ", path.display());
        match confirm::ask(&question).map_err(Failure::Terminal)? {
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
                "state_dir": self.gets.state_dir,
                "default_cell": self.gets.default_cell,
                "project": self.gets.project,
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

/// The setting that lets a client call tools without asking about each call.
fn approval_of_tools(client: Client) -> Result<(&'static str, Value)> {
    match client {
        Client::Codex => Ok(("default_tools_approval_mode", json!("approve"))),
        Client::ClaudeCode
        | Client::ClaudeDesktop
        | Client::Cursor
        | Client::Vscode
        | Client::Gemini
        | Client::Opencode
        | Client::Qwen => {
            Err(Error::unsupported(format!("--approve-tools is not for {}", client.name()))
                .hint("leave it out; it is a setting of codex"))
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

/// A command as a shell reads it.
fn shell_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let quoted = words.iter().map(|word| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}
