//! `hotcell-tool`: shells and programs of a cell call the tools of real servers of others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::code_tools::{ALLOW, agent, declare};
use crate::world::{Era, McpClient, World, eventually_some, is_alive, tool_servers};

in_worlds! { [root, without_cgroups, rootless, single_id, docker, remote]
    a_shell_calls_tools,
}

in_worlds! { [root, without_cgroups, rootless, single_id]
    no_exec_calls_in_the_name_of_another,
    a_command_whose_server_is_gone_is_told_so,
}

in_worlds! { [root]
    a_call_under_way_ends_with_its_server,
    programs_of_code_call_tools_too,
    what_is_wrong_is_told_by_status_and_words,
    a_call_that_is_asked_about_waits_for_a_person,
    a_command_in_the_background_goes_on_calling,
    what_the_operator_lets_run_is_judged_too,
    what_one_command_floods_leaves_room_for_others,
    a_call_that_is_too_long_is_refused,
    what_a_session_kept_open_is_closed_with_its_run,
    hotcells_own_tools_are_called_so_many_deep,
}

fn sh(client: &mut McpClient, command: &str) -> Value {
    client.call("exec_run", json!({ "command": command, "wait_s": 50 }))
}

#[track_caller]
fn succeeds(client: &mut McpClient, command: &str) -> String {
    let ran = sh(client, command);
    assert_eq!(ran["exit_code"], 0, "{command}: {ran}");
    ran["stdout"].as_str().unwrap().to_owned()
}

/// A server whose tools are listed before anybody waits.
fn start(world: &World, place: &Path, rules: &str) -> McpClient {
    let mut client = agent(world, place, rules);
    client.call("tool_search", json!({ "query": "echo" }));
    client
}

fn a_shell_calls_tools(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, ALLOW);
    let servers = succeeds(&mut client, "hotcell-tool");
    assert!(servers.starts_with("everything\nfiles\n"), "{servers}");
    let listed = succeeds(&mut client, "hotcell-tool everything");
    assert!(listed.lines().any(|line| line == "get_sum"), "{listed}");
    let found = succeeds(&mut client, "hotcell-tool --search add numbers");
    assert!(found.contains("get_sum"), "{found}");

    let echoed = succeeds(&mut client, "hotcell-tool everything echo --message 'hello there'");
    let echoed: Value = serde_json::from_str(&echoed).unwrap();
    assert_eq!(echoed, "Echo: hello there");
    let raw = succeeds(&mut client, "hotcell-tool --raw everything echo --message 'a b'");
    assert_eq!(raw, "Echo: a b\n");
    // A number where one is wanted, a text where one is.
    let sum = succeeds(&mut client, "hotcell-tool everything get_sum --a 40 --b=2");
    assert!(sum.contains("42"), "{sum}");
    let echoed = succeeds(&mut client, "hotcell-tool everything echo --message 42");
    assert!(echoed.contains("42"), "{echoed}");
    let piped = "echo '{\"a\": 1, \"b\": 2}' | hotcell-tool everything get_sum --json -";
    assert!(succeeds(&mut client, piped).contains('3'));
    // From what a command starts, and starts again.
    let nested =
        "sh -c 'env -i PATH=$PATH sh -c \"hotcell-tool everything echo --message deep\" | cat'";
    assert!(succeeds(&mut client, nested).contains("deep"));
    // Many at once.
    let many = "for n in $(seq 60); do hotcell-tool everything get_sum --a $n --b 0 > out.$n & done; \
                wait; cat out.* | grep -c sum";
    assert_eq!(succeeds(&mut client, many).trim(), "60");
    let entries = world.text(["audit", "--json"]);
    assert!(entries.contains("everything.get_sum") && entries.contains("tool_run"), "{entries}");
}

/// Two servers with other rules and one without tools start commands in one cell, all at once.
fn no_exec_calls_in_the_name_of_another(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut allowed = start(world, &place, ALLOW);
    let config = world.home().join("hotcell.toml");
    let deny = world.home().join("deny.toml");
    let rule = "[[rule]]\nid = \"none\"\nverdict = \"deny\"\ntool = [\"everything.*\"]\n";
    fs::write(&deny, rule).unwrap();
    let serve = world.hotcell(["serve", "--config", config.to_str().unwrap()]);
    let mut denied = McpClient::start_with(serve.env("HOTCELL_POLICY_FILE", &deny), Era::Modern);
    denied.call("tool_search", json!({ "query": "echo" }));
    let cell = allowed.call("cell_spawn", json!({ "alias": "shared", "persistent": true }));
    let cell = cell["id"].as_str().unwrap().to_owned();

    let command = "touch here.$NAME; until test -e here.yes && test -e here.no; do sleep 0.05; done; \
                   hotcell-tool everything echo --message $NAME; echo status $?; \
                   touch done.$NAME; until test -e done.yes && test -e done.no; do sleep 0.05; done";
    let asked = |name: &str| json!({ "cell": cell, "command": command, "env": { "NAME": name }, "wait_s": 50 });
    let first = allowed.ask_tool("exec_run", asked("yes"));
    let second = denied.ask_tool("exec_run", asked("no"));
    let first = allowed.answer(first)["result"]["structuredContent"].clone();
    let second = denied.answer(second)["result"]["structuredContent"].clone();
    assert!(first["stdout"].as_str().unwrap().contains("status 0"), "{first}");
    assert!(second["stdout"].as_str().unwrap().contains("status 5"), "{second}");
    let entries = world.text(["audit", "--json"]);
    for ran in [&first, &second] {
        let exec = ran["exec_id"].as_str().unwrap();
        let named = |line: &&str| line.contains("tool_run") && line.contains(exec);
        assert!(entries.lines().any(|line| named(&line)), "{exec}: {entries}");
    }

    // One that was started by a process which lends no tools has none, whoever else is there.
    let bare = world.home().join("bare.toml");
    fs::write(&bare, "").unwrap();
    let line = ["run", "--config", bare.to_str().unwrap(), "--cell", &cell, "--"];
    let told = world.hotcell(line).args(["hotcell-tool", "everything"]).run();
    assert_ne!(told.code(), 0, "{told:?}");
    let asked = json!({ "cell": cell, "command": "hotcell-tool everything", "wait_s": 50 });
    let control = allowed.call("exec_run", asked);
    assert_eq!(control["exit_code"], 0, "{control}");
}

fn a_command_whose_server_is_gone_is_told_so(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, ALLOW);
    client.call("cell_spawn", json!({ "alias": "lasting", "persistent": true }));
    let command = "hotcell-tool everything echo --message early; echo status $?; \
                   until test -e go; do sleep 0.05; done; \
                   hotcell-tool everything echo --message late; echo status $?";
    let asked = json!({ "cell": "lasting", "command": command, "wait_s": 0 });
    let exec = client.call("exec_run", asked)["exec_id"].as_str().unwrap().to_owned();
    eventually_some("its first call is answered", || {
        let page = client.call("exec_poll", json!({ "exec_id": exec, "wait_s": 1 }));
        page.to_string().contains("status 0").then_some(())
    });
    let pid = client.pid();
    client.kill();
    assert!(!is_alive(pid));
    world.text(["run", "--cell", "lasting", "--", "touch", "go"]);
    let told = world.text(["logs", "--follow", &exec]);
    assert!(told.contains("status 10"), "{told}");
}

fn a_call_under_way_ends_with_its_server(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, "");
    client.call("cell_spawn", json!({ "alias": "lasting", "persistent": true }));
    let command = "hotcell-tool everything echo --message held; echo status $?";
    let asked = json!({ "cell": "lasting", "command": command, "wait_s": 0 });
    let exec = client.call("exec_run", asked)["exec_id"].as_str().unwrap().to_owned();
    eventually_some("the call waits", || {
        world.json(["approvals", "--json"]).as_array()?.first().map(drop)
    });
    client.kill();
    let told = world.text(["logs", "--follow", &exec]);
    assert!(told.contains("status 10"), "{told}");
}

fn programs_of_code_call_tools_too(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, ALLOW);
    let code = "import subprocess\nfrom tools.everything import echo\n\
                own = echo(message='by code')\n\
                line = ['hotcell-tool', 'everything', 'echo', '--message', 'by its program']\n\
                [own, subprocess.run(line, capture_output=True, text=True).stdout]";
    let ran = client.call("code_run", json!({ "code": code, "wait_s": 50, "timeout_s": 100 }));
    assert!(ran["result"][0].to_string().contains("by code"), "{ran}");
    assert!(ran["result"][1].to_string().contains("by its program"), "{ran}");
    // Both are counted.
    assert_eq!(ran["tools_called"][0]["calls"], 2, "{ran}");
}

fn what_is_wrong_is_told_by_status_and_words(world: &World) {
    let Some(place) = tool_servers() else { return };
    let deny = "[[rule]]\nid = \"no-sums\"\nverdict = \"deny\"\ntool = [\"everything.get_sum\"]\n";
    let mut client = start(world, &place, &format!("{deny}{ALLOW}"));
    for (line, status, words) in [
        ("everything echo", 2, "message"),
        ("everything echo --message m --other x", 2, "echo("),
        ("everything echo word", 2, "no --NAME"),
        ("everything echo --json nonsense", 2, "--json"),
        ("everything no_such_tool", 3, "not_found"),
        ("nobody", 3, "not_found"),
        ("nobody --help", 3, "not_found"),
        ("../etc/passwd --help", 3, "not_found"),
        ("everything get_sum --a 1 --b 2", 5, "denied"),
        ("files read_text_file --path /etc/passwd", 1, "tool_failed"),
    ] {
        let ran = sh(&mut client, &format!("hotcell-tool {line}"));
        assert_eq!(ran["exit_code"], status, "{line}: {ran}");
        assert!(ran["stderr"].as_str().unwrap().contains(words), "{line}: {ran}");
        assert_eq!(ran["stdout"], "", "{line}: {ran}");
    }
    let help = succeeds(&mut client, "hotcell-tool everything get_sum --help");
    assert!(help.contains("from tools.everything import get_sum"), "{help}");
    assert!(help.contains("policy: deny (rule no-sums)"), "{help}");
    let help = succeeds(&mut client, "hotcell-tool everything --help");
    assert!(help.contains("def echo("), "{help}");
    let help = succeeds(&mut client, "hotcell-tool --help");
    assert!(help.contains("Exit status"), "{help}");
    // The program is there to be run, and for nothing else.
    for change in ["echo x >> $(command -v hotcell-tool)", "cat $(command -v hotcell-tool)"] {
        let changed = sh(&mut client, change);
        assert_ne!(changed["exit_code"], 0, "{changed}");
    }
    let as_root = json!({
        "command": "rm /dev/tools/socket || hotcell-tool everything echo --message root",
        "as_root": true, "wait_s": 50,
    });
    let ran = client.call("exec_run", as_root);
    assert!(ran["stdout"].as_str().unwrap().contains("root"), "{ran}");
}

fn a_call_that_is_asked_about_waits_for_a_person(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, "");
    for (answer, status) in [("approve", 0), ("refuse", 5)] {
        let line = "hotcell-tool everything echo --message approved";
        let asked = client.ask_tool("exec_run", json!({ "command": line, "wait_s": 50 }));
        let held = eventually_some("the call waits", || {
            let listed = world.json(["approvals", "--json"]);
            listed.as_array()?.first().map(|first| first["id"].as_str().unwrap().to_owned())
        });
        assert!(world.text(["approvals", &held]).contains("everything.echo"));
        match answer {
            "approve" => world.text(["approve", &held]),
            _ => world.text(["approve", "--refuse", &held]),
        };
        let ran = client.answer(asked)["result"]["structuredContent"].clone();
        assert_eq!(ran["status"], "awaiting_approval", "{ran}");
        let page = eventually_some("the command has ended", || {
            let asked = json!({ "exec_id": ran["exec_id"], "wait_s": 20 });
            Some(client.call("exec_poll", asked)).filter(|page| page["complete"] == true)
        });
        assert_eq!(page["exit_code"], status, "{page}");
    }
}

fn a_command_in_the_background_goes_on_calling(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, ALLOW);
    let command =
        "until test -e go; do sleep 0.05; done; hotcell-tool everything echo --message late";
    let ran = client.call("exec_run", json!({ "command": command, "wait_s": 0 }));
    let exec = ran["exec_id"].as_str().unwrap().to_owned();
    for _ in 0..20 {
        succeeds(&mut client, "true");
    }
    succeeds(&mut client, "touch go");
    let (out, err) = client.read_by_cursor(&exec, 0);
    assert!(out.contains("late"), "{out} {err}");
}

/// The operator is not judged, but what the operator lets run in a cell is.
fn what_the_operator_lets_run_is_judged_too(world: &World) {
    let Some(place) = tool_servers() else { return };
    let config = declare(world, &place);
    let rules = world.home().join("policy.toml");
    let run = |rule: &str| {
        fs::write(&rules, rule).unwrap();
        let line = ["run", "--config", &config, "--"];
        let words = ["hotcell-tool", "everything", "echo", "--message", "from the terminal"];
        world.hotcell(line).env("HOTCELL_POLICY_FILE", &rules).args(words).run()
    };
    let told = run(ALLOW);
    assert!(told.stdout().contains("from the terminal"), "{told:?}");
    let told = run(&ALLOW.replace("allow", "deny"));
    assert_eq!((told.code(), told.stdout().as_str()), (5, ""), "{told:?}");
}

/// Connects as often as it can and says nothing.
const FLOOD: &str = "
import os, socket, threading, time
opened = []
for _ in range(300):
    one = socket.socket(socket.AF_UNIX)
    one.connect('/dev/tools/socket')
    one.settimeout(0.5)
    opened.append(one)
turned_away = 0
for one in opened:
    one.setblocking(False)
time.sleep(1)
for one in opened:
    try:
        turned_away += one.recv(1) == b''
    except BlockingIOError:
        pass
print('turned away', turned_away, flush=True)
open('/workspace/flooded', 'w').close()
def again():
    while not os.path.exists('/workspace/over'):
        try:
            one = socket.socket(socket.AF_UNIX)
            one.connect('/dev/tools/socket')
            one.close()
        except OSError:
            pass
threads = [threading.Thread(target=again) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
";

fn what_one_command_floods_leaves_room_for_others(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, ALLOW);
    let argv = json!({ "argv": ["python3", "-c", FLOOD], "wait_s": 0 });
    let flood = client.call("exec_run", argv)["exec_id"].as_str().unwrap().to_owned();
    succeeds(&mut client, "until test -e flooded; do sleep 0.05; done");
    for n in 0..5 {
        let said = succeeds(&mut client, &format!("hotcell-tool everything echo --message {n}"));
        assert!(said.contains(&n.to_string()), "{said}");
    }
    succeeds(&mut client, "touch over");
    let (out, err) = client.read_by_cursor(&flood, 0);
    let turned_away = out.trim().strip_prefix("turned away ").and_then(|n| n.parse::<u32>().ok());
    assert!(turned_away.is_some_and(|n| n > 50), "the flood was one: {out} {err}");
}

fn a_call_that_is_too_long_is_refused(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, ALLOW);
    let call = |bytes: usize| {
        format!(
            "python3 -c 'import json; print(json.dumps(dict(message=\"x\" * {bytes})))' \
             | hotcell-tool everything echo --json - | wc -c; echo ${{PIPESTATUS[1]}}"
        )
    };
    let ran = sh(&mut client, &call(1 << 20));
    assert!(ran["stdout"].as_str().unwrap().ends_with("\n0\n"), "{ran}");
    let ran = sh(&mut client, &call(17 << 20));
    assert!(ran["stdout"].as_str().unwrap().ends_with("\n6\n"), "{ran}");
    assert!(ran["stderr"].as_str().unwrap().contains("limit_exceeded"), "{ran}");
}

fn what_a_session_kept_open_is_closed_with_its_run(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = start(world, &place, ALLOW);
    let mut run =
        |code: &str| client.call("code_run", json!({ "code": code, "session": "a", "wait_s": 50 }));
    let open = "import json, socket, struct\n\
                def connect():\n    one = socket.socket(socket.AF_UNIX)\n    \
                one.connect('/dev/tools/socket')\n    return one\n\
                def call(one):\n    said = json.dumps(dict(id=1, op='list', server=None)).encode()\n    \
                try:\n        one.sendall(struct.pack('>I', len(said)) + said)\n        \
                return len(one.recv(1000))\n    except OSError:\n        return 0\n\
                kept, used = connect(), connect()\ncall(used) > 0";
    let ran = run(open);
    assert_eq!(ran["result"], true, "{ran}");
    let ran = run("[call(kept), call(connect()) > 0]");
    assert_eq!(ran["result"], json!([0, true]), "{ran}");
}

fn hotcells_own_tools_are_called_so_many_deep(world: &World) {
    let Some(place) = tool_servers() else { return };
    let own = "[[rule]]\nid = \"own\"\nverdict = \"allow\"\ntool = [\"hotcell.*\"]\n";
    let mut client = start(world, &place, &format!("{ALLOW}{own}"));
    // Each starts the next, until one may not.
    let script = "#!/bin/sh\necho level $1 >> /workspace/levels\n\
                  hotcell-tool hotcell exec_run --command \"sh /workspace/deeper $(($1 + 1))\" \
                  2>> /workspace/errors\n";
    client.call("fs_write", json!({ "path": "deeper", "content": script }));
    sh(&mut client, "sh /workspace/deeper 0");
    let levels = succeeds(&mut client, "cat levels");
    assert_eq!(levels, "level 0\nlevel 1\nlevel 2\nlevel 3\n");
    assert!(succeeds(&mut client, "cat errors").contains("limit_exceeded"));
}
