//! What is asked for wrongly is refused with a reason and a hint, and changes nothing.

use std::fmt::Write;

use crate::world::{Finished, World};

in_worlds! { [root]
    wrong_requests_are_refused_by_name,
    wrong_limits_are_refused_with_what_is_possible,
    what_is_not_there_is_named,
}

in_every_world! {
    a_refused_run_leaves_no_cell,
}

/// What a person sees, without what differs from run to run.
fn shown(args: &[&str], finished: &Finished) -> String {
    let mut text = format!("$ hotcell {}\n", args.join(" "));
    for line in finished.stdout().lines().chain(finished.stderr().lines()) {
        let known = line.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let line: String = known.map(without_id).collect();
        writeln!(text, "{line}").unwrap();
    }
    writeln!(text, "exit {}\n", finished.code()).unwrap();
    text
}

fn without_id(word: &str) -> String {
    match word.get(..2) {
        Some(kind @ ("c_" | "e_")) if word.len() >= 12 => format!("{kind}ID{}", &word[12..]),
        _ => word.to_owned(),
    }
}

/// Compares what a person sees of each request with what was agreed on.
fn assert_shown(world: &World, name: &str, requests: &[&[&str]]) {
    let run = |args: &&[&str]| shown(args, &world.hotcell([]).args(args.iter().copied()).run());
    let all: String = requests.iter().map(run).collect();
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, all) });
}

fn wrong_requests_are_refused_by_name(world: &World) {
    world.text(["run", "--cell", "there", "true"]);
    assert_shown(
        world,
        "wrong_requests",
        &[
            &["run", "--cell", "there", ""],
            &["run", "--cell", "there", "   "],
            &["run", "--cell", "there", "--", "", "x"],
            &["run", "--cell", "there", "--cwd", "/no/such", "true"],
            &["run", "--cell", "there", "--cwd", "/etc/passwd", "true"],
            &["run", "--cell", "there", "--cwd", "../..", "true"],
            &["run", "--cell", "there", "--cwd", "", "true"],
            &["run", "--cell", "there", "-e", "=x", "true"],
            &["run", "--cell", "there", "-e", "NOVALUE", "true"],
            &["run", "--cell", "there", "--timeout", "0", "true"],
            &["run", "--cell", "there", "--timeout", "-1", "true"],
            &["run", "--cell", "there", "--timeout", "400d", "true"],
            &["run", "--cell", "there", "--timeout", "soon", "true"],
            &["run", "--cell", "there", "--idempotency-key", "", "true"],
            &["run", "--cell", "Not A Name", "true"],
            &["run", "--image", "no-such-image", "true"],
            &["run", "--net", "everything", "true"],
            &["run", "-t", "--json", "true"],
            &["spawn", "there"],
            &["spawn", "--ttl", "0"],
            &["logs", "--grep", "(", "e_0000000000"],
            &["input", "e_0000000000"],
            &["cancel", "--signal", "NOPE", "e_0000000000"],
            &["nonsense"],
        ],
    );
}

fn wrong_limits_are_refused_with_what_is_possible(world: &World) {
    let refused = |args: [&str; 2]| {
        let finished = world.hotcell(["spawn"]).args(args).run();
        assert_eq!(finished.code(), 2, "{args:?}: {finished:?}");
        let text = finished.stderr();
        let says_what_is_possible = text.contains("must be between") || text.contains("hint: ");
        assert!(text.contains(args[1]) || says_what_is_possible, "{args:?}: {text}");
    };
    for limit in ["--memory", "--disk"] {
        for value in ["0", "1", "-1", "900T", "lots", "1X", "NaN"] {
            refused([limit, value]);
        }
    }
    for value in ["0", "-1", "999999999", "1.5", "many"] {
        refused(["--pids", value]);
    }
    for value in ["0", "-1", "100000", "NaN", "inf", "few"] {
        refused(["--cpus", value]);
    }
    assert!(world.text(["cells", "--all"]).lines().count() == 1, "nothing was made");
}

fn what_is_not_there_is_named(world: &World) {
    assert_shown(
        world,
        "not_there",
        &[
            &["info", "nobody"],
            &["info", "c_0000000000"],
            &["kill", "nobody"],
            &["run", "--cell", "c_0000000000", "true"],
            &["ps", "--cell", "nobody"],
            &["logs", "e_0000000000"],
            &["wait", "e_0000000000"],
            &["attach", "e_0000000000"],
            &["input", "e_0000000000", "x"],
            &["cancel", "e_0000000000"],
            &["logs", "not-an-id"],
        ],
    );
}

fn a_refused_run_leaves_no_cell(world: &World) {
    for args in [
        ["run", "--cwd=/no/such", "true"],
        ["run", "--pids=50", "  "],
        ["run", "--disk=64M", "no-such-command-here"],
    ] {
        assert_ne!(world.hotcell(args).run().code(), 0);
    }
    let cells = world.json(["cells", "--all", "--json"]);
    assert_eq!(cells["cells"].as_array().unwrap().len(), 0, "{cells}");
    // A NUL byte cannot be said on a command line; a name with `=` ends at it.
    let text = world.text(["run", "-e", "A=B=C", "echo $A"]);
    assert_eq!(text, "B=C\n");
}
