//! `setup`: what becomes of a client's settings, with and without somebody to ask.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{Finished, Invocation, Terminal, World, is_root, program};

in_worlds! { [root, rootless]
    without_a_terminal_nothing_is_written_unless_told,
    a_second_time_there_is_nothing_to_do,
    others_and_comments_stay_and_a_copy_is_kept,
    what_is_not_ours_is_not_shown,
    every_client_has_its_file,
    what_cannot_be_edited_is_left_alone,
    printing_touches_nothing,
    a_project_gets_its_own_file,
    only_yes_is_yes,
    the_server_gets_the_state_directory_in_effect,
    tools_of_codex_are_approved_only_when_asked_for,
}

in_worlds! { [root]
    what_a_client_is_told_to_start_is_a_server,
    a_broken_configuration_of_ours_does_not_matter,
}

fn setup<'a>(world: &World, args: impl IntoIterator<Item = &'a str>) -> Invocation {
    world.hotcell(["setup"]).args(args).env("HOME", world.home())
}

/// `setup` in a terminal of its own.
fn asked<const N: usize>(world: &World, args: [&str; N]) -> Terminal {
    let words = ["--ctty", "--wait", "env", "--default-signal=HUP,INT,QUIT"];
    let setsid = world.other("setsid", words).arg(program().to_str().unwrap()).arg("setup");
    Terminal::run(setsid.args(args).env("HOME", world.home()), 40, 200)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A file of the world's user.
fn file(world: &World, path: &str, text: &str) -> PathBuf {
    let path = world.home().join(path);
    let directory = path.parent().unwrap();
    if !directory.exists() {
        fs::create_dir(directory).unwrap();
        world.own(directory);
    }
    fs::write(&path, text).unwrap();
    world.own(&path);
    path
}

/// Everything in the home directory but the state.
fn files(world: &World) -> Vec<String> {
    let found = world.other("find", []).arg(world.home().to_str().unwrap());
    let found = found.args(["-path", "*/state", "-prune", "-o", "!", "-type", "d", "-print"]);
    let mut files: Vec<String> =
        found.run().succeeded().stdout().lines().map(str::to_owned).collect();
    files.sort();
    files
}

fn backups(world: &World) -> Vec<String> {
    files(world).into_iter().filter(|name| name.contains(".before-hotcell-")).collect()
}

fn no_complaint(finished: &Finished) {
    assert!(!finished.stderr().contains("error:"), "{finished:?}");
}

fn without_a_terminal_nothing_is_written_unless_told(world: &World) {
    let refused = setup(world, ["claude-code"]).input("y\n").run().exited(2);
    assert!(refused.stdout().contains("+    \"hotcell\": {"), "{refused:?}");
    assert!(refused.stderr().contains("no terminal"), "{refused:?}");
    assert!(refused.stderr().contains("hint: --yes"), "{refused:?}");
    assert_eq!(files(world), Vec::<String>::new());

    let written = setup(world, ["claude-code", "--yes"]).run().succeeded();
    assert!(written.stderr().contains("hotcell is now set up in"), "{written:?}");
    let path = world.home().join(".claude.json");
    let entry = &read_json(&path)["mcpServers"]["hotcell"];
    assert_eq!(entry["command"], program().to_str().unwrap());
    let state_dir = world.state_dir();
    let state_dir = state_dir.to_str().unwrap();
    assert_eq!(entry["args"], json!(["serve", "--project", "--state-dir", state_dir]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(files(world), [path.to_str().unwrap()]);
}

fn a_second_time_there_is_nothing_to_do(world: &World) {
    setup(world, ["codex", "--yes"]).run().succeeded();
    let path = world.home().join(".codex/config.toml");
    let before = fs::metadata(&path).unwrap();
    let again = setup(world, ["codex"]).run().succeeded();
    assert_eq!(again.stdout(), "");
    assert!(again.stderr().contains("already set up"), "{again:?}");
    let shown = setup(world, ["codex", "--json"]).run().succeeded().stdout();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["status"], "already_set_up");
    assert_eq!(shown["backup"], Value::Null);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before.modified().unwrap());
    assert_eq!(backups(world), Vec::<String>::new());
}

fn what_is_not_ours_is_not_shown(world: &World) {
    // On one line too, where the line of another server has to be changed.
    let other = r#""other":{"command":"x","env":{"API_KEY":"s3cret-1"}}"#;
    let json = format!("{{\"mcpServers\":{{{other}}}}}");
    let toml = "# s3cret-2\n[mcp_servers.other.env]\nAPI_KEY = \"s3cret-3\"\n\
                [mcp_servers.hotcell]\nurl = \"http://x/\"\nbearer = \"s3cret-4\"\n";
    for (client, name, text) in
        [("cursor", ".cursor/mcp.json", json.as_str()), ("codex", ".codex/config.toml", toml)]
    {
        let path = file(world, name, text);
        let plain = setup(world, [client]).run().exited(2);
        let written = setup(world, [client, "--yes", "--json"]).run().succeeded();
        for shown in [plain.stdout(), plain.stderr(), written.stdout(), written.stderr()] {
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        assert!(
            plain.stdout().contains("serve") && plain.stdout().contains("API_KEY"),
            "{plain:?}"
        );
        let after = fs::read_to_string(&path).unwrap();
        assert!(after.contains("s3cret") && !after.contains('…'), "{after}");
    }
}

fn others_and_comments_stay_and_a_copy_is_kept(world: &World) {
    let text = "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // theirs\n  },\n}\n";
    let real = file(world, "dotfiles/settings.json", text);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let path = file(world, ".gemini/settings.json", "");
    fs::remove_file(&path).unwrap();
    symlink(&real, &path).unwrap();

    let written = setup(world, ["gemini", "--yes", "--json"]).run().succeeded().stdout();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["status"], "written");
    assert_eq!(written["file"], path.to_str().unwrap());
    assert!(written["diff"].as_str().unwrap().contains("\n+    \"hotcell\": {\n"), "{written}");
    assert_eq!(backups(world), [written["backup"].as_str().unwrap()]);
    assert_eq!(fs::read_to_string(written["backup"].as_str().unwrap()).unwrap(), text);

    let after = fs::read_to_string(&real).unwrap();
    assert!(
        after.starts_with(
            "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // theirs\n"
        ),
        "{after}"
    );
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(files(world).len(), 3, "{:?}", files(world));
}

fn every_client_has_its_file(world: &World) {
    let clients = [
        ("claude-code", ".claude.json", true),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", false),
        ("cursor", ".cursor/mcp.json", true),
        ("vscode", ".config/Code/User/mcp.json", true),
        ("codex", ".codex/config.toml", true),
        ("gemini", ".gemini/settings.json", true),
        ("opencode", ".config/opencode/opencode.json", true),
        ("qwen", ".qwen/settings.json", true),
    ];
    for (client, path, takes_http) in clients {
        setup(world, [client, "--yes"]).run().succeeded();
        let path = world.home().join(path);
        assert!(fs::read_to_string(&path).unwrap().contains("\"serve\""), "{client}");
        let args = [client, "--yes", "--http", "http://127.0.0.1:9/x", "--token-env", "CELL_TOKEN"];
        let over_http = setup(world, args).env("CELL_TOKEN", "geheim").run();
        let text = fs::read_to_string(&path).unwrap();
        match takes_http {
            true => {
                no_complaint(&over_http);
                assert!(text.contains("http://127.0.0.1:9/x") && text.contains("CELL_TOKEN"));
                assert!(!text.contains("geheim") && !text.contains("\"serve\""), "{text}");
            }
            false => {
                let refused = over_http.exited(9);
                assert!(refused.stderr().contains("hint: "), "{refused:?}");
                assert!(text.contains("\"serve\""), "{text}");
            }
        }
    }
}

fn what_cannot_be_edited_is_left_alone(world: &World) {
    let path = file(world, ".cursor/mcp.json", "{\n  \"mcpServers\": {\n");
    let refused = setup(world, ["cursor", "--yes"]).run().exited(2);
    let said = refused.stderr();
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    assert!(said.contains("at line ") && said.contains("hint: mend the file"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"mcpServers\": {\n");

    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    let refused = setup(world, ["cursor", "--yes"]).run().exited(5);
    assert!(refused.stderr().contains("read-only"), "{refused:?}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    if !is_root() || world.user().uid != 0 {
        let directory = path.parent().unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o500)).unwrap();
        let refused = setup(world, ["cursor", "--yes"]).run().exited(5);
        assert!(refused.stderr().contains("hint: --print"), "{refused:?}");
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    assert_eq!(files(world), [path.to_str().unwrap()]);
}

fn printing_touches_nothing(world: &World) {
    let printed = setup(world, ["claude-code", "--print", "--name", "cells"]).run().succeeded();
    let snippet: Value = serde_json::from_str(&printed.stdout()).unwrap();
    assert!(snippet["mcpServers"]["cells"].is_object());
    assert!(printed.stderr().contains("or run: claude mcp add --scope user cells -- /"));
    let nowhere = world.hotcell(["setup", "cursor", "--print"]).run().succeeded();
    assert!(nowhere.stdout().contains("mcpServers"), "{nowhere:?}");
    world.hotcell(["setup", "cursor", "--yes"]).run().exited(2);
    setup(world, ["claude-desktop", "--print", "--scope", "project"]).run().exited(9);
    setup(world, ["cursor", "--print", "--yes"]).run().exited(2);
    setup(world, ["cursor", "--print", "--token-env", "A"]).run().exited(2);
    assert_eq!(files(world), Vec::<String>::new());
}

fn a_project_gets_its_own_file(world: &World) {
    let project = world.home().join("app");
    fs::create_dir(&project).unwrap();
    world.own(&project);
    let flag = format!("--chdir={}", project.display());
    let here = |args: &[&str]| {
        let env = world.other("env", []).arg(&flag).arg(program().to_str().unwrap());
        env.args(args.iter().copied()).env("HOME", world.home()).run().succeeded()
    };
    here(&["setup", "vscode", "--scope", "project", "--yes", "--state-dir", "st"]);
    let entry = &read_json(&project.join(".vscode/mcp.json"))["servers"]["hotcell"];
    assert_eq!(entry["cwd"], "${workspaceFolder}");
    let state_dir = project.join("st");
    let state_dir = state_dir.to_str().unwrap();
    assert_eq!(entry["args"], json!(["serve", "--project", "--state-dir", state_dir]));

    here(&["setup", "cursor", "--scope", "project", "--yes"]);
    let entry = &read_json(&project.join(".cursor/mcp.json"))["mcpServers"]["hotcell"];
    assert_eq!(entry["args"][2], project.to_str().unwrap());
    here(&["setup", "cursor", "--scope", "project", "--yes", "--no-project"]);
    let entry = &read_json(&project.join(".cursor/mcp.json"))["mcpServers"]["hotcell"];
    assert_eq!(entry["args"][1], "--cell");
    let cell = entry["args"][2].as_str().unwrap();
    here(&["run", "--cell", "default", "true"]);
    assert_eq!(world.json(["info", "--json", cell])["cell"]["alias"], cell);
}

fn only_yes_is_yes(world: &World) {
    let path = world.home().join(".cursor/mcp.json");
    for answer in ["n\r", "\r", "\x04", "yess\r"] {
        let mut terminal = asked(world, ["cursor"]);
        terminal.await_text("? [y/N] ");
        assert!(terminal.screen().contains("+    \"hotcell\": {"), "{}", terminal.screen());
        terminal.keys(answer);
        terminal.await_text("nothing was changed");
        terminal.finish().exited(8);
        assert_eq!(files(world), Vec::<String>::new(), "after {answer:?}");
    }
    let mut terminal = asked(world, ["cursor"]);
    terminal.await_text("? [y/N] ");
    terminal.keys("y\r");
    terminal.await_text("is now set up in");
    terminal.finish().succeeded();
    assert!(read_json(&path)["mcpServers"]["hotcell"].is_object());

    let mut terminal = asked(world, ["cursor", "--http", "http://127.0.0.1:9/"]);
    terminal.await_text("? [y/N] ");
    fs::write(&path, "{}").unwrap();
    terminal.keys("y\r");
    terminal.await_text("has changed meanwhile");
    terminal.finish().exited(4);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
}

fn what_a_client_is_told_to_start_is_a_server(world: &World) {
    setup(world, ["claude-desktop", "--yes"]).run().succeeded();
    let path = world.home().join(".config/Claude/claude_desktop_config.json");
    let entry = &read_json(&path)["mcpServers"]["hotcell"];
    let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let mut server =
        world.other(entry["command"].as_str().unwrap(), []).args(args).start_with_input();
    server.write(format!("{hello}\n").as_bytes());
    server.await_stdout("\"serverInfo\"");
    server.finish().succeeded();
}

fn a_broken_configuration_of_ours_does_not_matter(world: &World) {
    setup(world, ["codex", "--yes"]).env("HOTCELL_MAX_RUNNING", "none").run().succeeded();
}

/// The arguments that a server for Claude Code would be started with, and the whole report.
fn printed(setup: Invocation) -> (Value, Value) {
    let report = setup.args(["claude-code", "--print", "--json"]).run().succeeded().stdout();
    let report: Value = serde_json::from_str(&report).unwrap();
    let snippet: Value = serde_json::from_str(report["snippet"].as_str().unwrap()).unwrap();
    (snippet["mcpServers"]["hotcell"]["args"].clone(), report)
}

fn the_server_gets_the_state_directory_in_effect(world: &World) {
    let own = || setup(world, []);
    let state_dir = world.state_dir();
    let (args, report) = printed(own());
    assert_eq!(args, json!(["serve", "--project", "--state-dir", state_dir.to_str().unwrap()]));
    assert_eq!(report["state_dir"], state_dir.to_str().unwrap());
    assert_eq!((&report["project"], &report["default_cell"]), (&json!(true), &Value::Null));

    let usual = world.home().join(".local/state/hotcell");
    let (args, report) = printed(own().env("HOTCELL_STATE_DIR", &usual));
    assert_eq!(args, json!(["serve", "--project"]), "it is the default");
    assert_eq!(report["state_dir"], usual.to_str().unwrap());
    // Clients do not pass variables of the base directories on.
    let moved = world.home().join("moved");
    let there = own().env("HOTCELL_STATE_DIR", "").env("XDG_STATE_HOME", &moved);
    let (args, _) = printed(there);
    assert_eq!(args[3], moved.join("hotcell").to_str().unwrap(), "{args}");
    // The file that names another directory is found, or named.
    let config = file(world, ".config/hotcell.toml", "state_dir = \"/var/tmp/cells\"\n");
    let (args, report) =
        printed(setup(world, ["--config", config.to_str().unwrap()]).env("HOTCELL_STATE_DIR", ""));
    assert_eq!(args, json!(["serve", "--project", "--config", config.to_str().unwrap()]));
    assert_eq!(report["state_dir"], "/var/tmp/cells");

    let (args, report) = printed(setup(world, ["--no-project"]));
    assert_eq!(args[1], "--state-dir");
    assert_eq!(report["project"], false);
    let said = setup(world, ["claude-desktop", "--print"]).env("HOTCELL_MAX_RUNNING", "3").run();
    let said = said.succeeded().stderr();
    assert!(said.contains("default cell: claude-desktop"), "{said}");
    assert!(said.contains("not written: HOTCELL_MAX_RUNNING"), "{said}");
}

fn tools_of_codex_are_approved_only_when_asked_for(world: &World) {
    let path = world.home().join(".codex/config.toml");
    setup(world, ["codex", "--yes"]).run().succeeded();
    assert!(!fs::read_to_string(&path).unwrap().contains("approval"));
    setup(world, ["codex", "--yes", "--approve-tools"]).run().succeeded();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("default_tools_approval_mode = \"approve\""), "{text}");
    let refused = setup(world, ["gemini", "--yes", "--approve-tools"]).run().exited(9);
    assert!(refused.stderr().contains("hint: "), "{refused:?}");
    assert!(!world.home().join(".gemini").exists());
}
