//! The suites of dialects, which drive a server through the official client: every check of each, in
//! parts that run side by side.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::{Kind, World, clients, is_root, program};

const PARTS: usize = 4;

/// Makes a test for each part of a suite over each transport.
macro_rules! in_parts {
    ($suite:ident, $dialect:literal) => {
        mod $suite {
            use super::{Suite, passes};

            const SUITE: Suite = Suite { file: stringify!($suite), dialect: $dialect };

            in_parts!(@ stdio, "stdio");
            in_parts!(@ http, "http");
        }
    };
    (@ $module:ident, $transport:literal) => {
        mod $module {
            use super::{SUITE, passes};

            #[test]
            fn first() {
                passes(SUITE, $transport, 0);
            }

            #[test]
            fn second() {
                passes(SUITE, $transport, 1);
            }

            #[test]
            fn third() {
                passes(SUITE, $transport, 2);
            }

            #[test]
            fn fourth() {
                passes(SUITE, $transport, 3);
            }
        }
    };
}

in_parts!(background_job, "background-job");
in_parts!(vibesbox, "vibesbox");
in_parts!(devbench, "devbench");

#[derive(Clone, Copy)]
struct Suite {
    file: &'static str,
    dialect: &'static str,
}

impl Suite {
    fn script(self) -> PathBuf {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialects");
        directory.join(self.file).with_extension("py")
    }

    fn command(self, transport: &str) -> String {
        let served = format!("{} serve --dialect {}", program().display(), self.dialect);
        match transport {
            "http" => format!("{served} --http 127.0.0.1:{{port}}"),
            _ => served,
        }
    }
}

/// The page was made from the checks that there are.
#[test]
fn the_comparison_is_that_of_the_suite() {
    let Some(installed) = clients() else { return };
    let kind = if is_root() { Kind::Root } else { Kind::Rootless };
    let Some(world) = World::enter(kind) else { return };
    let suite = Suite { file: "background_job", dialect: "background-job" };
    let (python, script) = (installed.join("venv/bin/python"), suite.script());
    let list = ["-B", script.to_str().unwrap(), "--list"];
    let listed = world.other(python.to_str().unwrap(), list).run().succeeded().stdout();
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/dialects/background-job-compared.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let checks: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), checks.len());
    for check in checks {
        let (name, about) = (check["name"].as_str().unwrap(), check["about"].as_str().unwrap());
        let row = format!("| `{name}` | {} |", about.replace('|', "\\|"));
        assert!(rows.iter().any(|shown| shown.starts_with(&row)), "the page lacks {row}");
    }
}

fn passes(suite: Suite, transport: &str, part: usize) {
    let Some(installed) = clients() else { return };
    let kind = if is_root() { Kind::Root } else { Kind::Rootless };
    let Some(world) = World::enter(kind) else { return };
    let (python, script) = (installed.join("venv/bin/python"), suite.script());
    let run = |args: &[&str]| {
        let own = ["-B", script.to_str().unwrap()];
        let asked = world.other(python.to_str().unwrap(), own).args(args.iter().copied());
        asked.env("HOME", world.home()).run()
    };
    let results = |output: &str| -> Vec<Value> {
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let checks = results(&run(&["--list"]).succeeded().stdout());
    assert!(checks.len() >= PARTS, "{} has no checks", suite.file);
    let names =
        checks.iter().skip(part).step_by(PARTS).map(|check| check["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    let command = suite.command(transport);
    let scratch = world.home().join("s");
    let mut args = vec!["--target", "hotcell", "--command", &command, "--transport", transport];
    args.extend(["--scratch", scratch.to_str().unwrap()]);
    let ran = run(&[&args[..], &names[..]].concat());
    let ran = results(&ran.stdout());
    let failed: Vec<&Value> = ran.iter().filter(|result| result["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(ran.len(), names.len(), "not every check was run: {ran:?}");
}
