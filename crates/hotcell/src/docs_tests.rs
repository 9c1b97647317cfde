//! The reference page says what the program does.

use crate::args::{EXIT_CODES, command_line};
use crate::config::KEYS;

const PAGE: &str = include_str!("../../../docs/cli.md");

#[test]
fn every_command_and_flag_is_on_the_page() {
    for command in command_line().get_subcommands() {
        let head = format!("\n### hotcell {}", command.get_name());
        let (_, after) =
            PAGE.split_once(&head).unwrap_or_else(|| panic!("no {head:?} in the page"));
        let section = after.split("\n##").next().unwrap();
        for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(section.contains(&format!("--{flag}")), "{head} does not tell of --{flag}");
        }
    }
    for flag in command_line().get_arguments().filter_map(clap::Arg::get_long) {
        assert!(PAGE.contains(&format!("`--{flag}")), "the page does not tell of --{flag}");
    }
}

#[test]
fn every_exit_code_is_on_the_page() {
    for line in EXIT_CODES.lines() {
        assert!(PAGE.contains(line), "the page lacks the line {line:?}");
    }
}

#[test]
fn every_key_is_on_the_page() {
    for key in &KEYS {
        let row =
            format!("| `{}` | `{}` | `{}` | {} |", key.name, key.variable, key.default, key.about);
        assert!(PAGE.contains(&row), "the page lacks the row\n{row}");
    }
}
