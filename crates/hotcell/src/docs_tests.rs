//! The reference page says what the program does.

use std::path::Path;

use clap::ValueEnum;

use crate::args::{EXIT_CODES, command_line};
use crate::config_keys::KEYS;
use crate::environment::Environment;
use crate::setup::{Client, Scope, Surroundings};

const PAGE: &str = include_str!("../../../docs/cli.md");
const CLIENTS_PAGE: &str = include_str!("../../../docs/clients.md");

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
    for key in KEYS {
        let row =
            format!("| `{}` | `{}` | `{}` | {} |", key.name, key.variable, key.default, key.about);
        assert!(PAGE.contains(&row), "the page lacks the row\n{row}");
    }
}

#[test]
fn every_client_is_on_its_page_with_its_file_and_its_cell() {
    let environment = Environment { home: Some("~".into()), ..Environment::default() };
    let around =
        Surroundings { environment: &environment, directory: Path::new(""), directory_cell: None };
    for client in Client::value_variants() {
        let name = client.name();
        assert!(CLIENTS_PAGE.contains(&format!("\n    hotcell setup {name}\n")), "{name}");
        let row = CLIENTS_PAGE.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("there is no row for {name}"));
        for scope in [Scope::User, Scope::Project] {
            let Ok(file) = client.file(scope, &around) else { continue };
            assert!(row.contains(&format!("`{}`", file.display())), "{row} lacks {file:?}");
            if let Some(cell) = client.cell(scope, &around) {
                assert!(row.contains(&format!("| `{cell}`")), "{row} lacks the cell {cell}");
            }
        }
    }
}

#[test]
fn every_test_that_the_page_on_isolation_names_is_there() {
    let here = env!("CARGO_MANIFEST_DIR");
    let read =
        |path: String| std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let page = read(format!("{here}/../../docs/isolation.md"));
    let quoted = page.split('`').skip(1).step_by(2);
    let named: Vec<(&str, &str)> = quoted.filter_map(|word| word.split_once("::")).collect();
    assert!(named.len() > 20, "{named:?}");
    for (module, test) in named {
        let source = read(format!("{here}/tests/e2e/{module}.rs"));
        assert!(source.contains(&format!("\nfn {test}(")), "{module}::{test} is not there");
    }
}
