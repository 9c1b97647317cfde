//! The suites of dialects, which drive a server through the official client: every check of each, in
//! parts that run side by side.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::world::{Kind, World, clients, docker, is_root, program};

const PARTS: usize = 4;
/// A part has many checks, each with servers of its own.
const DEADLINE: Duration = Duration::from_secs(540);

/// Makes a test for each part of a suite in each kind of world, over the transport that is named with it.
macro_rules! in_parts {
    ($suite:ident, $dialect:literal, [$($kind:ident over $transport:ident),+]) => {
        mod $suite {
            use super::{Suite, Way, passes};

            const SUITE: Suite = Suite { file: stringify!($suite), dialect: $dialect };

            $(
                mod $kind {
                    use super::{SUITE, Way, passes};

                    const WAY: Way =
                        Way { world: stringify!($kind), transport: stringify!($transport) };

                    #[test]
                    fn first() {
                        passes(SUITE, WAY, 0);
                    }

                    #[test]
                    fn second() {
                        passes(SUITE, WAY, 1);
                    }

                    #[test]
                    fn third() {
                        passes(SUITE, WAY, 2);
                    }

                    #[test]
                    fn fourth() {
                        passes(SUITE, WAY, 3);
                    }
                }
            )+
        }
    };
}

in_parts!(background_job, "background-job", [root over stdio, rootless over http]);
in_parts!(vibesbox, "vibesbox", [root over stdio, rootless over http]);
// Of native cells one kind is enough for its tools: the suites take long.
in_parts!(devbench, "devbench", [root over stdio, docker over http]);

#[derive(Clone, Copy)]
struct Suite {
    file: &'static str,
    dialect: &'static str,
}

/// Who starts the servers, and how they are reached.
#[derive(Clone, Copy)]
struct Way {
    world: &'static str,
    transport: &'static str,
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

fn passes(suite: Suite, way: Way, part: usize) {
    let Some(installed) = clients() else { return };
    let kind = Kind::named(way.world);
    let Some(user) = kind.find_user() else { return };
    // The client is whoever runs the tests; only the servers are another's.
    let as_other = is_root() && user.uid != 0;
    let Some(world) = World::enter(if as_other { Kind::Root } else { kind }) else { return };
    let (python, script) = (installed.join("venv/bin/python"), suite.script());
    let run = |args: &[&str]| {
        let own = ["-B", script.to_str().unwrap()];
        let asked = world.other(python.to_str().unwrap(), own).args(args.iter().copied());
        let asked = asked.env("HOME", world.home());
        match docker().filter(|_| kind.has_containers()) {
            Some((_, image)) => asked.env("DEVBENCH_IMAGE", image),
            None => asked,
        }
        .start()
        .finish_within(DEADLINE)
    };
    let results = |output: &str| -> Vec<Value> {
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let checks = results(&run(&["--list"]).succeeded().stdout());
    assert!(checks.len() >= PARTS, "{} has no checks", suite.file);
    let names =
        checks.iter().skip(part).step_by(PARTS).map(|check| check["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    let command = suite.command(way.transport);
    let scratch = world.home().join("s");
    let mut args = vec!["--target", "hotcell", "--command", &command];
    args.extend(["--transport", way.transport, "--scratch", scratch.to_str().unwrap()]);
    if as_other {
        args.extend(["--user", &user.name]);
    }
    let ran = run(&[&args[..], &names[..]].concat());
    let ran = results(&ran.stdout());
    let failed: Vec<&Value> = ran.iter().filter(|result| result["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(ran.len(), names.len(), "not every check was run: {ran:?}");
}
