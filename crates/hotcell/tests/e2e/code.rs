//! Code in a cell: what it gives back, what ends it, and that no run sees anything of another.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World, eventually};

in_worlds! { [root, rootless, without_cgroups]
    the_last_expression_is_the_result,
    what_goes_wrong_is_told_where_it_went_wrong,
    no_run_sees_anything_of_another,
    a_loop_is_ended_in_time_with_all_it_started,
    a_hundred_runs_at_once_are_all_right,
    what_is_too_long_is_cut_and_can_be_read,
    what_outlives_the_wait_still_gives_its_result,
}

in_worlds! { [root]
    runs_are_taken_on_by_what_is_warm,
    whatever_is_warm_may_be_killed,
    files_go_back_under_what_is_warm,
    the_policy_reads_code,
    secrets_are_masked_in_what_code_reports,
}

fn run(client: &mut McpClient, code: &str) -> Value {
    client.call("code_run", json!({ "code": code }))
}

#[track_caller]
fn result_of(client: &mut McpClient, code: &str) -> Value {
    let ran = run(client, code);
    assert_eq!(ran["status"], "ok", "{code}: {ran}");
    ran["result"].clone()
}

/// How the process that runs code was started.
const BORN: &str = "open('/proc/self/cmdline').read().split(chr(0))[-2]";

/// Runs code until a child of the zygote takes it on.
fn warm_up(client: &mut McpClient) {
    eventually("a run is warm", || result_of(client, BORN) == "zygote");
}

fn the_last_expression_is_the_result(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for (code, result) in [
        ("1 + 1", json!(2)),
        ("x = {'a': [1, None, 'é']}\nx", json!({ "a": [1, null, "é"] })),
        ("import asyncio\nawait asyncio.sleep(0, 7)", json!(7)),
        ("x = 5", Value::Null),
        ("print('hello')", Value::Null),
    ] {
        assert_eq!(result_of(&mut client, code), result, "{code}");
    }
    let ran = run(&mut client, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n'done'");
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("out\n"), &json!("err\n")), "{ran}");
    assert_eq!(ran["result"], "done");
    let exec = ran["exec_id"].as_str().unwrap().to_owned();
    let listed = client.call("exec_list", json!({})).to_string();
    assert!(listed.contains(&exec), "a run is an exec: {listed}");
}

fn what_goes_wrong_is_told_where_it_went_wrong(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for (code, kind, line) in [
        ("x = 1\n\nx / 0", "ZeroDivisionError", json!(3)),
        ("def f():\n    raise ValueError('no')\nf()", "ValueError", json!(2)),
        ("x = (", "SyntaxError", json!(1)),
        ("import no_such_module", "ModuleNotFoundError", json!(1)),
    ] {
        let ran = run(&mut client, code);
        assert_eq!(
            (&ran["status"], &ran["error"]["type"]),
            (&json!("error"), &json!(kind)),
            "{ran}"
        );
        assert_eq!(ran["error"]["line"], line, "{ran}");
        assert!(!ran["error"]["traceback"].as_str().unwrap().contains("hotcell"), "{ran}");
    }
    let ran = run(&mut client, "import os\nprint('before', flush=True)\nos._exit(3)");
    assert_eq!((&ran["status"], &ran["stdout"]), (&json!("error"), &json!("before\n")), "{ran}");
    assert!(ran["error"]["message"].as_str().unwrap().contains("code 3"), "{ran}");
    // The next run is none the worse for it.
    assert_eq!(result_of(&mut client, "40 + 2"), 42);
    let asked = client.ask_tool("code_run", json!({ "code": "  " }));
    let refused = client.answer(asked);
    assert!(refused.to_string().contains("empty"), "{refused}");
}

fn no_run_sees_anything_of_another(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let leave = "import os, random, builtins\nkept = builtins.kept = os.environ['KEPT'] = 'x'\n\
                 os.chdir('/tmp')\n[random.random(), os.getpid()]";
    let look = "import os, random, builtins\n['kept' in globals(), hasattr(builtins, 'kept'), \
                'KEPT' in os.environ, os.getcwd()]";
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(result_of(&mut client, leave).to_string());
        let found = result_of(&mut client, look);
        assert_eq!(found, json!([false, false, false, "/workspace"]));
        std::thread::sleep(Duration::from_millis(200));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "chance is not the same twice: {seen:?}");
}

fn a_loop_is_ended_in_time_with_all_it_started(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let code = "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                subprocess.Popen(['setsid', 'sleep', '1234'])\nprint('begun')\nwhile True: pass";
    for _ in 0..2 {
        let asked = json!({ "code": code, "timeout_s": 1, "details": true });
        let ran = client.call("code_run", asked);
        assert_eq!(
            (&ran["status"], &ran["stdout"]),
            (&json!("timed_out"), &json!("begun\n")),
            "{ran}"
        );
        // It ignores the request to end; a command would have been given five seconds.
        assert!(ran["usage"]["wall_ms"].as_u64().unwrap() < 6_000, "{ran}");
        let left = client.call("exec_run", json!({ "command": "pgrep -f 'sleep 123[4]' | wc -l" }));
        assert_eq!(left["stdout"].as_str().unwrap().trim(), "0", "{left}");
    }
}

fn a_hundred_runs_at_once_are_all_right(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    result_of(&mut client, "0");
    let asked: Vec<(u64, i64)> = (0..100)
        .map(|number: i64| {
            let code = format!("import os\n[{number} * {number}, os.getpid()]");
            let code = json!({ "code": code, "timeout_s": 120, "wait_s": 50 });
            (client.ask_tool("code_run", code), number)
        })
        .collect();
    for (id, number) in asked {
        let answer = client.answer(id);
        let ran = &answer["result"]["structuredContent"];
        assert_eq!(ran["result"][0], number * number, "{answer}");
    }
}

fn what_is_too_long_is_cut_and_can_be_read(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for code in [
        "print('\\n'.join(f'line {n} of many' for n in range(100_000)))",
        "list(range(1_000_000))",
        "raise ValueError('x' * 1_000_000)",
        "class Long:\n    def __repr__(self): return 'y' * 1_000_000\nLong()",
        "b'z' * 1_000_000",
        "deep = []\nfor _ in range(900): deep = [deep]\ndeep",
    ] {
        let ran = run(&mut client, code);
        let length = ran.to_string().len();
        assert!(length < 20_000, "{code}: {length} bytes");
        assert_ne!(ran["status"], "running");
    }
    let ran = run(&mut client, "[f'row {n}' for n in range(200_000)]");
    let file = ran["result_file"].as_str().unwrap_or_else(|| panic!("no way to read more: {ran}"));
    let whole = result_of(&mut client, &format!("import json\nlen(json.load(open({file:?})))"));
    assert_eq!(whole, 200_000);
}

fn what_outlives_the_wait_still_gives_its_result(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for (code, part, wanted) in [
        ("import time\ntime.sleep(1)\n{'sum': 42}", "result", json!({ "sum": 42 })),
        ("import time\ntime.sleep(1)\n1 / 0", "error", json!("ZeroDivisionError")),
    ] {
        let ran = client.call("code_run", json!({ "code": code, "wait_s": 0 }));
        assert_eq!(ran["status"], "running", "{ran}");
        assert_eq!(ran.get("result"), None, "{ran}");
        let mut page = json!({});
        eventually("it is complete", || {
            let asked = json!({ "exec_id": ran["exec_id"], "wait_s": 20 });
            page = client.call("exec_poll", asked);
            page["complete"] == true
        });
        let told = &page["code"][part];
        let told = if part == "error" { &told["type"] } else { told };
        assert_eq!(*told, wanted, "{page}");
    }
    // A command has nothing of the kind.
    let ran = client.call("exec_run", json!({ "command": "true" }));
    let page = client.call("exec_poll", json!({ "exec_id": ran["exec_id"] }));
    assert_eq!(page.get("code"), None, "{page}");
}

fn runs_are_taken_on_by_what_is_warm(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    assert_eq!(result_of(&mut client, BORN), "run", "the first run finds nothing warm");
    warm_up(&mut client);
    let whose = "import os\n[os.getppid(), os.getpid() == os.getsid(0), sorted(os.listdir('/proc/self/fd'))[:3]]";
    assert_eq!(result_of(&mut client, whose), json!([1, true, ["0", "1", "2"]]));
    // Each is in a group of its own, so that ending one ends nothing else.
    let group = "open('/proc/self/cgroup').read()";
    let ids: Vec<u64> = (0..2)
        .map(|_| {
            client.ask_tool(
                "code_run",
                json!({ "code": format!("import time\ntime.sleep(1)\n{group}") }),
            )
        })
        .collect();
    let groups: Vec<Value> = ids
        .into_iter()
        .map(|id| client.answer(id)["result"]["structuredContent"]["result"].clone())
        .collect();
    assert_ne!(groups[0], groups[1]);
    // A zygote holds nothing of the cell's, and cannot be looked into.
    let look = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | grep -q 'zygot[e]' && cat $p/environ; done 2>&1";
    let looked = client.call("exec_run", json!({ "command": look }));
    let told = looked["stdout"].as_str().unwrap().to_owned();
    assert!(told.contains("denied"), "{looked}");
    assert!(!told.contains("PATH="), "{looked}");
    // The control: another process of the same user can be.
    let own = client.call(
        "exec_run",
        json!({ "command": "sleep 5 & sleep 0.5; tr '\\0' ' ' </proc/$!/environ; kill $!" }),
    );
    assert!(own["stdout"].as_str().unwrap().contains("PATH="), "{own}");
}

fn whatever_is_warm_may_be_killed(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    warm_up(&mut client);
    let kill = "pkill -KILL -f 'zygot[e]'; sleep 0.2; pgrep -f 'zygot[e]' | wc -l";
    let killed = client.call("exec_run", json!({ "command": kill }));
    assert_eq!(killed["stdout"].as_str().unwrap().trim(), "0", "{killed}");
    for number in 0..5 {
        assert_eq!(result_of(&mut client, &format!("{number} + 1")), number + 1);
    }
}

fn files_go_back_under_what_is_warm(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    warm_up(&mut client);
    result_of(&mut client, "open('kept', 'w').write('before')");
    let made = client.call("cell_checkpoint", json!({ "cell": "default", "action": "create" }));
    let checkpoint = made["checkpoints"][0]["id"].clone();
    let checkpoint =
        if checkpoint.is_null() { made["checkpoint"]["id"].clone() } else { checkpoint };
    result_of(&mut client, "open('kept', 'w').write('after')");
    let asked = json!({ "cell": "default", "action": "restore", "checkpoint": checkpoint });
    let restored = client.call("cell_checkpoint", asked);
    assert!(restored["isError"] != true, "{made} {restored}");
    assert_eq!(result_of(&mut client, "open('kept').read()"), "before");
    warm_up(&mut client);
}

fn the_policy_reads_code(world: &World) {
    let serve = world.hotcell(["serve"]).env("HOTCELL_POLICY_PROFILE", "careful");
    let mut client = McpClient::start_with(serve, Era::Modern);
    let asked = json!({ "code": "import shutil\nshutil.rmtree('/workspace/x')", "wait_s": 0 });
    let held = client.call("code_run", asked);
    let told = held.to_string();
    assert!(told.contains("awaiting_approval"), "{held}");
    assert_ne!(held["status"], "ok", "{held}");
    // The control: what destroys nothing runs.
    assert_eq!(result_of(&mut client, "'shutil.rmtree'"), "shutil.rmtree");
}

fn secrets_are_masked_in_what_code_reports(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let halves = format!("'{}' + '{}'", &secret[..10], &secret[10..]);
    for code in [
        halves.clone(),
        format!("{{'token': {halves}}}"),
        format!("raise ValueError({halves})"),
        "{'password': 'hunter2' + 'hunter2'}".to_owned(),
    ] {
        let ran = run(&mut client, &code);
        let told = ran.to_string();
        assert!(!told.contains(secret) && !told.contains("hunter2hunter2"), "{code}: {ran}");
        assert!(told.contains("[REDACTED:"), "{code}: {ran}");
    }
}
