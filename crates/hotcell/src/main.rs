//! The `hotcell` program: finds out what it is started as, and hands over.

mod args;
mod audit_args;
mod auth_config;
mod cell_path;
mod code_keys;
mod commands;
mod config;
mod config_keys;
mod config_tenants;
mod config_toolbox;
mod confirm;
mod conversation;
mod default_cell;
mod dialects;
mod driver_keys;
mod engine_keys;
mod environment;
mod errors;
mod file_args;
mod global_args;
mod image_args;
mod image_keys;
mod ledger_keys;
mod net_args;
mod own_file;
mod pieces;
mod policy_args;
mod policy_file;
#[cfg(test)]
mod policy_file_tests;
mod printer;
mod pull_bar;
mod records;
mod secret_args;
mod serve_keys;
mod session;
mod setup;
mod setup_args;
mod show;
mod signals;
mod state;
mod stdin;
mod terminal;
mod token_args;
mod tool_call;
mod upkeep_args;
mod upkeep_keys;
mod values;

#[cfg(test)]
mod args_tests;
#[cfg(test)]
mod cell_path_tests;
#[cfg(test)]
mod config_tests;
#[cfg(test)]
mod default_cell_tests;
#[cfg(test)]
mod docs_tests;
#[cfg(test)]
mod errors_tests;
#[cfg(test)]
mod own_file_tests;
#[cfg(test)]
mod package_tests;
#[cfg(test)]
mod printer_tests;
#[cfg(test)]
mod records_tests;
#[cfg(test)]
mod show_tests;
#[cfg(test)]
mod signals_tests;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod stdin_tests;
#[cfg(test)]
mod tool_call_tests;
#[cfg(test)]
mod values_tests;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::{Command, CommandLine};
use crate::commands::Given;
use crate::config::{Config, Overrides};
use crate::environment::Environment;
use crate::errors::{Codes, Failure};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // A keeper, and pid 1 of a cell, which is a fork of it, stay small and have one thread: they
    // branch off before anything else is set up. Hotcell itself starts them, never a person.
    if args.first().is_some_and(|name| tool_call::is_named(name)) {
        return tool_call::run(args);
    }
    match args.get(1).and_then(|name| name.to_str()) {
        // In a cell, in place of the node that it then becomes.
        Some("script") => hotcell_script::start(args.get(2..).unwrap_or_default()),
        Some("keep") => hotcell_native::keep(hotcell_supervisor::supervise),
        Some("keep-container") => hotcell_docker::keep(),
        Some("relay") => hotcell_docker::relay(),
        // Beside a cell at an engine of another machine.
        Some("outpost") => hotcell_docker::outpost(args.get(2..).unwrap_or_default()),
        Some("connect") => hotcell_docker::connect(),
        Some("supervise") => match hotcell_supervisor::supervise_container() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Some(_) | None => client(args),
    }
}

/// The command of a person or a script.
fn client(args: Vec<OsString>) -> ExitCode {
    let parsed = args::command_line()
        .try_get_matches_from(&args)
        .and_then(|matches| CommandLine::from_arg_matches(&matches));
    let line = match parsed {
        Ok(line) => line,
        Err(error) => return usage(&error, &args),
    };
    let codes = commands::codes(&line.command);
    match perform(line) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.tell(&mut io::stderr());
            ExitCode::from(failure.exit_code(codes))
        }
    }
}

fn perform(line: CommandLine) -> Result<u8, Failure> {
    let environment = Environment::read()?;
    let mut overrides = Overrides::from(line.global);
    if let Command::Serve(args) = &line.command {
        overrides.dialect = args.dialect;
    }
    let config = || Config::load(&environment, &overrides);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Terminal)?;
    let given = Given { config, overrides: &overrides, environment: &environment };
    let code = runtime.block_on(Box::pin(commands::perform(line.command, given)));
    // A thread that still reads our input would keep the process alive otherwise.
    runtime.shutdown_background();
    code
}

/// Shows help, or what is wrong with the command line.
fn usage(error: &clap::Error, args: &[OsString]) -> ExitCode {
    if let Err(failed) = error.print() {
        return ExitCode::from(Failure::Output(failed).exit_code(Codes::Own));
    }
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let command = args::command_line().ignore_errors(true).try_get_matches_from(args).ok();
    match command.as_ref().and_then(|matches| matches.subcommand_name()) {
        Some(name) => ExitCode::from(commands::usage_code(name)),
        None => ExitCode::from(2),
    }
}
