//! Secrets by reference: kept sealed, granted by name, and shown nowhere.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use crate::terminals::in_terminal;
use crate::world::{Finished, HttpServer, Sent, World, eventually};

in_worlds! { [root, single_id]
    a_granted_secret_is_a_variable_and_its_value_is_masked,
    a_key_of_many_lines_is_masked_in_a_terminal_and_in_base64,
    a_value_that_is_typed_is_not_shown_and_leaves_the_terminal_as_it_was,
}

in_worlds! { [rootless]
    who_has_a_secret_is_looked_into_by_nobody,
}

in_worlds! { [root]
    secrets_are_set_listed_and_removed,
    the_value_is_found_nowhere_on_the_host,
    agents_have_what_the_operator_allows,
    secrets_come_from_variables_and_files_too,
    a_cell_that_wakes_has_its_secret_again,
}

const VALUE: &str = "hunter2/hunter2+hunter2";

#[track_caller]
fn set(world: &World, name: &str, value: &str) -> Finished {
    world.hotcell(["secret", "set", name]).input(value).run().succeeded()
}

fn secrets_are_set_listed_and_removed(world: &World) {
    assert_eq!(world.json(["secret", "list", "--json"]), json!({ "secrets": [] }));
    let said = set(world, "api-key", &format!("{VALUE}\n"));
    assert_eq!((said.stdout(), said.stderr()), (String::new(), String::new()));
    let listed = world.text(["secret", "list"]);
    assert!(listed.contains("api-key") && listed.contains("stored") && !listed.contains(VALUE));
    for bad in ["", "a\0b", &"x".repeat(70_000)] {
        world.hotcell(["secret", "set", "bad"]).input(bad).run().exited(2);
    }
    set(world, "of-windows", "a value\r\n");
    let length = ["run", "--secret", "of-windows", "printf %s \"$OF_WINDOWS\" | wc -c"];
    assert_eq!(world.text(length).trim(), "7");
    world.hotcell(["secret", "set", "7up"]).input(VALUE).run().exited(2);
    world.text(["run", "--cell", "safe", "--secret", "api-key", "test -n \"$API_KEY\""]);
    let info = world.text(["info", "safe"]);
    assert!(info.lines().any(|line| line == "secrets    api-key"), "{info}");
    world.hotcell(["secret", "rm", "api-key"]).run().succeeded();
    world.hotcell(["secret", "rm", "api-key"]).run().exited(3);
    // The next exec of the cell that has it says what is missing.
    let refused = world.hotcell(["run", "--cell", "safe", "true"]).run().exited(125);
    assert!(refused.stderr().contains("there is no secret api-key"), "{refused:?}");
    world.hotcell(["spawn", "--secret", "api-key"]).run().exited(3);
    set(world, "api-key", "another value");
    assert_eq!(world.text(["run", "--cell", "safe", "printf %.7s \"$API_KEY\""]), "another");
    // Another key opens nothing, and writes over nothing.
    let key = world.state_dir().join("secrets/key");
    fs::write(&key, "11".repeat(32)).unwrap();
    let refused = world.hotcell(["secret", "list"]).run().exited(10);
    assert!(refused.stderr().contains("another key"), "{refused:?}");
    world.hotcell(["secret", "set", "second"]).input(VALUE).run().exited(10);
}

fn a_granted_secret_is_a_variable_and_its_value_is_masked(world: &World) {
    set(world, "token", VALUE);
    let grant = ["run", "--cell", "safe", "--secret", "token=MY_TOKEN"];
    let same = world.hotcell(grant).arg(&format!("test \"$MY_TOKEN\" = {VALUE}")).run();
    same.succeeded();
    // Where it is printed its name is shown: on both streams, in pieces, and in base64.
    let script = "echo \"<$MY_TOKEN>\"; echo \"<$MY_TOKEN>\" >&2; printf %s \"user:$MY_TOKEN\" | base64 -w0; echo; \
        printf %s \"$MY_TOKEN\" | head -c 9; sleep 0.01; printf %s \"$MY_TOKEN\" | tail -c +10; echo; printf hunter";
    let said = world.hotcell(["run", "--cell", "safe", script]).run().succeeded();
    let (out, errors) = (said.stdout(), said.stderr());
    assert!(
        out.starts_with("<[REDACTED:token]>\n") && errors.contains("<[REDACTED:token]>"),
        "{said:?}"
    );
    assert_eq!(out.matches("[REDACTED:token]").count(), 3, "{out}");
    // What only begins like it is printed as it is.
    assert!(out.ends_with("\nhunter") && !out.contains("hunter2"), "{out}");
    // A terminal, the log, a poll and the API show what was written down, which is masked.
    let exec = world.detach("safe", "echo \"$MY_TOKEN\"; echo done; sleep 1000");
    eventually("it has printed", || world.text(["logs", &exec]).contains("done"));
    assert_eq!(world.text(["logs", &exec]), "[REDACTED:token]\ndone\n");
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_SERVE_SECRETS", "token")]);
    let page = server.ask(&Sent::get(&format!("/v1/execs/{exec}/output"))).is(200).body;
    assert!(page.contains("[REDACTED:token]") && !page.contains(VALUE), "{page}");
    let run = json!({ "cell": "safe", "command": "echo \"$MY_TOKEN\"", "pty": true });
    let ran = server.ask(&Sent::tool("exec_run", run)).is(200).body;
    assert!(ran.contains("[REDACTED:token]") && !ran.contains(VALUE), "{ran}");
    let shown = world.text(["info", "--json", "safe"]);
    assert!(shown.contains("\"token\"") && !shown.contains(VALUE), "{shown}");
    // What is put on the command line is no secret, but in the cell that has it.
    assert_eq!(
        world.text(["run", "--cell", "other", &format!("echo {VALUE}")]),
        format!("{VALUE}\n")
    );
    let refused = world.hotcell(["run", "--cell", "other", "--secret", "token", "true"]).run();
    assert!(refused.exited(125).stderr().contains("was made without --secret token"));
}

/// Every file below a directory that holds a text.
fn a_value_that_is_typed_is_not_shown_and_leaves_the_terminal_as_it_was(world: &World) {
    let begin = || {
        let terminal = in_terminal(world, ["secret", "set", "typed"]);
        terminal.await_text("which is not shown");
        eventually("nothing is echoed", || !terminal.is_cooked());
        terminal
    };
    let mut terminal = begin();
    terminal.keys("half of it\x03");
    eventually("the terminal is as it was", || terminal.is_cooked());
    assert!(!terminal.screen().contains("half"), "{}", terminal.screen());
    terminal.finish().exited(130);
    world.hotcell(["secret", "rm", "typed"]).run().exited(3);
    let mut terminal = begin();
    terminal.keys(&format!("{VALUE}\r"));
    eventually("the terminal is as it was", || terminal.is_cooked());
    assert!(!terminal.screen().contains(VALUE), "{}", terminal.screen());
    terminal.finish().succeeded();
    let same = format!("test \"$TYPED\" = {VALUE}");
    world.text(["run", "--secret", "typed", &same]);
}

fn who_has_a_secret_is_looked_into_by_nobody(world: &World) {
    let live = world.hotcell(["secret", "set", "api-key"]).start_with_input();
    // What belongs to root is not for the user whose process it is.
    let environment = format!("/proc/{}/environ", live.pid());
    eventually("its memory is root's", || {
        fs::metadata(&environment).is_ok_and(|found| found.uid() == 0)
    });
    live.kill();
}

fn a_key_of_many_lines_is_masked_in_a_terminal_and_in_base64(world: &World) {
    let lines: Vec<String> =
        (0..20).map(|n| format!("line-{n}-{}", "k3y".repeat(15 + n))).collect();
    set(world, "key", &format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", lines.join("\n")));
    let grant = ["run", "--cell", "safe", "--secret", "key", "true"];
    world.text(grant);
    let script = "echo \"$KEY\"; echo \"$KEY\" | base64; echo \"$KEY\" | tail -n 3";
    for pty in [false, true] {
        let run = world.hotcell(["run", "--cell", "safe"]);
        let run = if pty { run.arg("-t") } else { run };
        let shown = run.arg(script).run().succeeded().stdout();
        assert!(!shown.contains("k3y") && !shown.contains("azN5"), "{shown}");
        assert!(shown.contains("[REDACTED:key]"), "{shown}");
    }
}

pub(crate) fn files_with(directory: &Path, text: &str) -> Vec<String> {
    files_with_besides(directory, text, &mut HashSet::new())
}

/// One of many names is enough: each cell has a name for the whole program.
fn files_with_besides(directory: &Path, text: &str, seen: &mut HashSet<(u64, u64)>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with_besides(&path, text, seen));
        } else if kind.is_file()
            && entry.metadata().is_ok_and(|it| seen.insert((it.dev(), it.ino())))
        {
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn the_value_is_found_nowhere_on_the_host(world: &World) {
    set(world, "token", VALUE);
    let server =
        HttpServer::start_with(world, &["--log", "trace"], &[("HOTCELL_SERVE_SECRETS", "token")]);
    let spawn = json!({ "alias": "safe", "persistent": true, "secrets": ["token"] });
    server.ask(&Sent::post("/v1/cells", &spawn)).is(201);
    let run = json!({ "cell": "safe", "command": "echo $TOKEN; env; cat /proc/self/environ" });
    server.ask(&Sent::post("/v1/execs", &run)).is(201);
    let exec = world.detach("safe", "echo $TOKEN; sleep 1000");
    eventually("it has printed", || world.text(["logs", &exec]).contains("[REDACTED:token]"));
    let own = [world.keeper("safe"), world.supervisor("safe"), server.live.pid()];
    for pid in own {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"), "{file} of {pid}");
        }
    }
    // The control: what is searched for can be found.
    fs::write(world.state_dir().join("control"), VALUE).unwrap();
    let found = files_with(&world.state_dir(), VALUE);
    assert_eq!(found.len(), 1, "{found:?}");
    fs::remove_file(world.state_dir().join("control")).unwrap();
    assert!(!server.live.said().contains(VALUE), "the log holds it");
    assert_eq!(server.terminate().code(), 0);
}

fn agents_have_what_the_operator_allows(world: &World) {
    set(world, "allowed", VALUE);
    set(world, "other", VALUE);
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_SERVE_SECRETS", "allowed,absent")]);
    let spawn = |name: &str| Sent::post("/v1/cells", &json!({ "secrets": [name] }));
    server.ask(&spawn("allowed")).is(201);
    let refused = server.ask(&spawn("other")).is(403).json();
    assert!(refused["hint"].as_str().unwrap().contains("allowed"), "{refused}");
    // Whether there is one is told of those alone that are allowed.
    server.ask(&spawn("unknown")).is(403);
    server.ask(&spawn("absent")).is(404);
    let by_tool = server.ask(&Sent::tool("cell_spawn", json!({ "secrets": ["other"] }))).is(200);
    assert!(by_tool.body.contains("denied"), "{by_tool:?}");
    // Nor has an agent it in a cell that a person made.
    world.text(["run", "--cell", "mine", "--secret", "other", "true"]);
    server.ask(&Sent::post("/v1/execs", &json!({ "cell": "mine", "command": "env" }))).is(403);
    let exec = world.detach("mine", "sleep 1000");
    let typed = json!({ "text": "env\n" });
    server.ask(&Sent::post(&format!("/v1/execs/{exec}/input"), &typed)).is(403);
    server.ask(&Sent::get("/v1/cells/mine/files/workspace")).is(403);
    assert_eq!(server.terminate().code(), 0);
}

fn secrets_come_from_variables_and_files_too(world: &World) {
    let file = world.home().join("value");
    fs::write(&file, "value-of-a-file\n").unwrap();
    let settings = world.home().join("hotcell.toml");
    let text = format!(
        "[secrets.of-env]\nenv = \"FOR_TESTS\"\n[secrets.of-file]\nfile = {:?}\n",
        file.display().to_string()
    );
    fs::write(&settings, text).unwrap();
    for path in [&file, &settings] {
        world.own(path);
    }
    let settings = settings.display().to_string();
    let hotcell = |args: &[&str]| {
        let invocation = world.hotcell(["--config", &settings]).args(args.iter().copied());
        invocation.env("FOR_TESTS", "value-of-a-variable")
    };
    let listed = hotcell(&["secret", "list"]).run().succeeded().stdout();
    assert!(listed.contains("of-env") && listed.contains("of-file"), "{listed}");
    let run = [
        "run",
        "--secret",
        "of-env",
        "--secret",
        "of-file=F",
        "test $OF_ENV$F = value-of-a-variablevalue-of-a-file; echo $? $F",
    ];
    assert_eq!(hotcell(&run).run().succeeded().stdout(), "0 [REDACTED:of-file]\n");
    hotcell(&["secret", "set", "of-env"]).input("x").run().exited(4);
    let unset = world.hotcell(["--config", &settings, "run", "--secret", "of-env", "true"]).run();
    assert!(unset.exited(125).stderr().contains("FOR_TESTS"));
}

fn a_cell_that_wakes_has_its_secret_again(world: &World) {
    set(world, "token", VALUE);
    world.text(["run", "--cell", "safe", "--secret", "token", "true"]);
    crate::world::kill_9(world.supervisor("safe"));
    let shown = world.text(["run", "--cell", "safe", "echo $TOKEN; echo ${#TOKEN}"]);
    assert_eq!(shown, format!("[REDACTED:token]\n{}\n", VALUE.len()));
}
