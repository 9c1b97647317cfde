//! The help texts, and what is said about command lines that are wrong.

use clap::FromArgMatches;
use hotcell_model::{CellRef, RequestedLimits, Signal};

use crate::args::{Command, CommandLine, command_line};
use crate::commands::usage_code;

fn parse(line: &[&str]) -> Result<CommandLine, clap::Error> {
    let words = ["hotcell"].iter().chain(line);
    let matches = command_line().term_width(100).try_get_matches_from(words)?;
    CommandLine::from_arg_matches(&matches)
}

fn refusal(line: &[&str]) -> String {
    parse(line).unwrap_err().to_string()
}

#[test]
fn the_definition_is_sound() {
    command_line().debug_assert();
}

#[test]
fn help_of_everything() {
    let mut command = command_line().term_width(100);
    insta::assert_snapshot!("help", command.render_long_help().to_string());
    command.build();
    for subcommand in command.get_subcommands_mut() {
        let name = subcommand.get_name().to_owned();
        if name != "help" {
            let help = subcommand.clone().term_width(100).render_long_help().to_string();
            insta::assert_snapshot!(format!("help_{name}"), help);
        }
    }
}

#[test]
fn wrong_command_lines() {
    let lines: &[&[&str]] = &[
        &["run"],
        &["run", "--memory", "lots", "true"],
        &["run", "--timeout", "0", "true"],
        &["run", "--env", "NOVALUE", "true"],
        &["run", "--net", "host", "true"],
        &["run", "--json", "-t", "true"],
        &["run", "--cell", "no/slash", "true"],
        &["logs", "c_4k7m2x9qpa"],
        &["cancel", "e_4k7m2x9qpa", "--signal", "BOOM"],
        &["spawn", "--ttl", "1.5"],
        &["ps", "--limit", "0"],
        &["kill"],
        &["fly"],
        &["cells", "--al"],
    ];
    let said: Vec<String> = lines
        .iter()
        .map(|line| format!("$ hotcell {}\n{}", line.join(" "), refusal(line)))
        .collect();
    insta::assert_snapshot!("wrong_command_lines", said.join("\n"));
}

#[test]
fn everything_after_the_command_is_the_commands() {
    let line = parse(&["run", "--cell", "work", "ls", "-la", "--json", "--"]).unwrap();
    let Command::Run(run) = line.command else { panic!("not a run") };
    assert_eq!(run.command, ["ls", "-la", "--json", "--"]);
    assert!(!run.json);
    assert!(matches!(run.cell, Some(CellRef::Alias(_))));
}

#[test]
fn flags_come_before_a_double_dash() {
    let line = parse(&["run", "-it", "--memory", "1G", "--cpus", "0.5", "--", "-x"]).unwrap();
    let Command::Run(run) = line.command else { panic!("not a run") };
    assert_eq!(run.command, ["-x"]);
    assert!(run.interactive && run.tty && !run.detach);
    let limits = RequestedLimits { memory_mb: Some(1024), cpus: Some(0.5), ..Default::default() };
    assert_eq!(run.shape.limits(), limits);
}

#[test]
fn signals_have_names_or_numbers() {
    for (word, signal) in [("TERM", Signal::TERM), ("sigkill", Signal::KILL), ("2", Signal::INT)] {
        let line = parse(&["cancel", "e_4k7m2x9qpa", "-s", word]).unwrap();
        let Command::Cancel(cancel) = line.command else { panic!("not a cancel") };
        assert_eq!(cancel.signal, signal);
    }
}

#[test]
fn global_flags_may_stand_after_the_command() {
    let line = parse(&["cells", "--state-dir", "/x", "--log", "debug"]).unwrap();
    let overrides = crate::config::Overrides::from(line.global);
    assert_eq!(overrides.state_dir, Some("/x".into()));
    assert_eq!(overrides.log.as_deref(), Some("debug"));
}

#[test]
fn a_wrong_run_is_not_taken_for_its_command() {
    for command in command_line().get_subcommands() {
        let expected = match command.get_name() {
            "run" | "attach" | "wait" => 125,
            _ => 2,
        };
        assert_eq!(usage_code(command.get_name()), expected);
    }
}
