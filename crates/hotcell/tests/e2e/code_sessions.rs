//! Sessions of code: variables live on between runs, and nothing else does.

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World, eventually};

in_worlds! { [root, rootless, without_cgroups]
    variables_live_on,
    sessions_share_nothing,
    a_session_begins_anew_when_told_to,
    a_loop_ends_with_its_session_and_keeps_its_output,
    what_a_run_leaves_behind_is_gone_after_it,
    what_forks_on_and_on_is_gone_too,
    cpu_time_is_each_runs_own,
    a_session_that_is_killed_is_begun_anew,
    nothing_that_a_session_says_is_believed_of_another_run,
    runs_of_a_session_go_one_after_another,
    a_run_waits_for_its_session_no_longer_than_it_may_run,
    cancelling_a_run_ends_its_session,
    a_session_that_nobody_uses_ends,
    a_session_that_holds_too_much_memory_ends,
    of_too_many_sessions_the_idle_one_ends,
    nothing_goes_on_between_runs,
}

in_worlds! { [root, rootless]
    a_checkpoint_keeps_sessions_and_a_restore_ends_them,
}

in_worlds! { [root]
    sleep_ends_sessions,
    the_session_of_another_tenant_is_out_of_reach,
    a_session_that_waits_cannot_be_looked_into,
    a_run_that_waits_for_a_person_keeps_no_other_waiting,
}

in_worlds! { [without_namespaces]
    sessions_work_where_no_namespace_can_be_made,
}

fn asked(session: &str, code: &str) -> Value {
    json!({ "code": code, "session": session, "timeout_s": 60, "wait_s": 50 })
}

fn run(client: &mut McpClient, session: &str, code: &str) -> Value {
    let mut asked = asked(session, code);
    asked["details"] = json!(true);
    client.call("code_run", asked)
}

/// The result of code that has to succeed, and whether its session was new.
#[track_caller]
fn turn(client: &mut McpClient, session: &str, code: &str) -> (Value, bool) {
    let ran = run(client, session, code);
    assert_eq!(ran["status"], "ok", "{code}: {ran}");
    assert_eq!(
        (&ran["session"]["name"], &ran["session"]["is_kept"]),
        (&json!(session), &json!(true)),
        "{ran}"
    );
    (ran["result"].clone(), ran["session"]["is_new"].as_bool().unwrap())
}

fn sessions(client: &mut McpClient, cell: &str) -> Vec<Value> {
    let info = client.call("cell_info", json!({ "cell": cell }));
    info["stats"]["sessions"].as_array().cloned().unwrap_or_default()
}

/// What a command in the default cell prints.
#[track_caller]
fn shell(client: &mut McpClient, command: &str) -> String {
    let ran = client.call("exec_run", json!({ "command": command }));
    assert_eq!(ran["status"], "ended", "{ran}");
    ran["stdout"].as_str().unwrap().trim().to_owned()
}

const PID: &str = "import os\nos.getpid()";

fn variables_live_on(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    assert_eq!(turn(&mut client, "a", "x = [1]\ndef f(): return len(x)"), (Value::Null, true));
    assert_eq!(turn(&mut client, "a", "x.append(2)\nf()"), (json!(2), false));
    assert_eq!(
        turn(&mut client, "a", "import asyncio\nawait asyncio.sleep(0, x)"),
        (json!([1, 2]), false)
    );
    for (code, kind) in [("x = 5\n1 / 0", "ZeroDivisionError"), ("x = 6\nx = (", "SyntaxError")] {
        let ran = run(&mut client, "a", code);
        assert_eq!((&ran["status"], &ran["error"]["type"]), (&json!("error"), &json!(kind)));
        assert_eq!(ran["session"], json!({ "name": "a", "is_new": false, "is_kept": true }));
    }
    let ran = run(&mut client, "a", "print('out')\nraise SystemExit(3)");
    assert_eq!((&ran["stdout"], &ran["session"]["is_kept"]), (&json!("out\n"), &json!(true)));
    assert_eq!(turn(&mut client, "a", "x"), (json!(5), false));
    let listed = sessions(&mut client, "default");
    assert_eq!((&listed[0]["name"], &listed[0]["runs"]), (&json!("a"), &json!(7)), "{listed:?}");
    assert!(listed[0]["memory_bytes"].as_u64().unwrap() > 1 << 20, "{listed:?}");
    // The end of the process is the end of the session.
    let ran = run(&mut client, "a", "import os\nos._exit(4)");
    assert!(ran["error"]["message"].as_str().unwrap().contains("code 4"), "{ran}");
    assert_eq!(ran["session"], json!({ "name": "a", "is_new": false, "is_kept": false }));
    assert_eq!(turn(&mut client, "a", "'x' in globals()"), (json!(false), true));
    // Without a session each run is fresh, and says nothing of one.
    for _ in 0..2 {
        let ran = client.call("code_run", json!({ "code": "y = globals().get('y', 0) + 1\ny" }));
        assert_eq!((&ran["result"], ran.get("session")), (&json!(1), None), "{ran}");
    }
    for wrong in [
        json!({ "code": "1", "session": "a b" }),
        json!({ "code": "1", "session": "x".repeat(33) }),
        json!({ "code": "1", "reset": true }),
    ] {
        let id = client.ask_tool("code_run", wrong.clone());
        let refused = client.answer(id);
        assert_eq!(refused["result"]["isError"], true, "{wrong}: {refused}");
    }
}

fn sessions_share_nothing(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let leave = "import json, os, builtins\nkept = builtins.kept = json.kept = 1\n\
                 os.environ['KEPT'] = 'x'\nos.getpid()";
    let look = "import json, os, builtins\n[os.getpid(), 'kept' in globals(), \
                hasattr(builtins, 'kept'), hasattr(json, 'kept'), 'KEPT' in os.environ]";
    let (mine, _) = turn(&mut client, "a", leave);
    // The control: the same look in the same session.
    let (seen, is_new) = turn(&mut client, "a", look);
    assert_eq!((seen, is_new), (json!([mine, true, true, true, false]), false));
    let (seen, is_new) = turn(&mut client, "b", look);
    assert_ne!(seen[0], mine);
    assert_eq!(
        (&seen.as_array().unwrap()[1..], is_new),
        (&[false, false, false, false].map(Value::from)[..], true)
    );
    // The same name in another cell is another session.
    let other = client.call("cell_spawn", json!({}));
    let other = other["cell"]["id"].as_str().or(other["id"].as_str()).unwrap().to_owned();
    let ask = json!({ "code": "'kept' in globals()", "session": "a", "cell": other, "wait_s": 50 });
    let ran = client.call("code_run", ask.clone());
    assert_eq!((&ran["result"], &ran["session"]["is_new"]), (&json!(false), &json!(true)), "{ran}");
    let ran = client.call("code_run", ask);
    assert_eq!(ran["session"]["is_new"], false, "{ran}");
    assert_eq!(sessions(&mut client, &other).len(), 1);
    assert_eq!(sessions(&mut client, "default").len(), 2);
}

fn a_session_begins_anew_when_told_to(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let (first, _) = turn(&mut client, "a", "x = 1\nimport os\nos.getpid()");
    let ran = client.call("code_run", {
        let mut asked = asked("a", "import os\n['x' in globals(), os.getpid()]");
        asked["reset"] = true.into();
        asked
    });
    assert_eq!((&ran["result"][0], &ran["session"]["is_new"]), (&json!(false), &json!(true)));
    assert_ne!(ran["result"][1], first);
    assert_eq!(turn(&mut client, "a", "1"), (json!(1), false));
    eventually("the process that was dropped is gone", || {
        shell(&mut client, &format!("kill -0 {first} 2>/dev/null && echo there")).is_empty()
    });
}

fn a_loop_ends_with_its_session_and_keeps_its_output(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let code = "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                subprocess.Popen(['setsid', 'sleep', '2345'])\nprint('begun')\nwhile True: pass";
    for first in ["x = 1", "x = 2"] {
        assert!(turn(&mut client, "a", first).1, "what was ended is begun anew");
        let asked =
            json!({ "code": code, "session": "a", "timeout_s": 1, "wait_s": 50, "details": true });
        let ran = client.call("code_run", asked);
        assert_eq!((&ran["status"], &ran["stdout"]), (&json!("timed_out"), &json!("begun\n")));
        assert_eq!(ran["session"], json!({ "name": "a", "is_new": false, "is_kept": false }));
        // It ignores the request to end; a command would have been given five seconds.
        assert!(ran["usage"]["wall_ms"].as_u64().unwrap() < 6_000, "{ran}");
        assert_eq!(shell(&mut client, "pgrep -f 'sleep 234[5]' | wc -l"), "0");
    }
}

fn what_a_run_leaves_behind_is_gone_after_it(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let code = "import os, subprocess\n\
                def begin():\n    subprocess.Popen(['setsid', 'sh', '-c', 'sleep 3456 & sleep 3456'])\n\
                begin()\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\n    \
                import time\n    time.sleep(3456)\nx = 1\nos.getpid()";
    let (pid, _) = turn(&mut client, "a", code);
    assert_eq!(shell(&mut client, "pgrep -f 'sleep 345[6]' | wc -l"), "0");
    let left = format!(
        "for p in /proc/[0-9]*; do grep -q '^PPid:.{pid}$' $p/status && grep State $p/status; done 2>/dev/null | grep -vc zombie"
    );
    assert_eq!(shell(&mut client, &left), "0");
    // The control: it lives on and can begin others, which are counted as they are killed.
    let ran = run(&mut client, "a", "begin()\nx + 1");
    assert_eq!((&ran["result"], &ran["session"]["is_new"]), (&json!(2), &json!(false)), "{ran}");
    let end = &world.exec(ran["exec_id"].as_str().unwrap())["end"];
    assert!(end["killed_descendants"].as_u64().unwrap() >= 1, "{end}");
    assert_eq!(shell(&mut client, "pgrep -f 'sleep 345[6]' | wc -l"), "0");
}

fn what_forks_on_and_on_is_gone_too(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    // One that is never the same process for long, and one that has ever more children.
    let code = "import os, time\nx = 1\nif os.fork() == 0:\n    os.setsid()\n    \
                while True:\n        if os.fork(): os._exit(0)\n\
                if os.fork() == 0:\n    os.setsid()\n    \
                while True:\n        try:\n            if os.fork() == 0: time.sleep(1000)\n        \
                except OSError: time.sleep(0.001)\ntime.sleep(0.2)\nos.getpid()";
    let (pid, _) = turn(&mut client, "a", code);
    let others = format!(
        "pgrep -f 'X ut[f]8' | grep -vx {pid} | xargs -r -n1 sh -c 'grep -q zombie /proc/$0/status || echo $0' 2>/dev/null | wc -l"
    );
    // What is warm is not of the session.
    let others = others.replace(
        "-vx",
        "-vxE -e \"$(pgrep -f ' zygot[e]$' | paste -sd'|' | sed 's/^$/none/')\" -e",
    );
    assert_eq!(shell(&mut client, &others), "0");
    assert_eq!(turn(&mut client, "a", "x"), (json!(1), false));
}

fn cpu_time_is_each_runs_own(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let spin =
        "import time\nuntil = time.process_time() + 0.6\nwhile time.process_time() < until: pass";
    turn(&mut client, "a", "1");
    let busy = run(&mut client, "a", spin);
    assert!(busy["usage"]["cpu_ms"].as_u64().unwrap() >= 500, "{busy}");
    let idle = run(&mut client, "a", "1");
    assert!(idle["usage"]["cpu_ms"].as_u64().unwrap() < 300, "{idle}");
}

fn a_session_that_is_killed_is_begun_anew(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for _ in 0..3 {
        let (pid, is_new) = turn(&mut client, "a", PID);
        assert!(is_new);
        assert_eq!(turn(&mut client, "a", PID), (pid.clone(), false));
        shell(&mut client, &format!("kill -9 {pid}"));
        eventually("it is not listed any more", || sessions(&mut client, "default").is_empty());
    }
    // While it runs, its run tells.
    let ran = run(&mut client, "a", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)");
    assert_eq!((&ran["status"], &ran["session"]["is_kept"]), (&json!("error"), &json!(false)));
}

fn nothing_that_a_session_says_is_believed_of_another_run(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let (other, _) = turn(&mut client, "other", "kept = 1\nimport os\nos.getpid()");
    // Finds the socket on which it hears of its next run.
    let find = "import os, socket, stat\ndef control():\n    for fd in range(3, 64):\n        \
                try:\n            if not stat.S_ISSOCK(os.fstat(fd).st_mode): continue\n            \
                end = socket.socket(fileno=os.dup(fd))\n        except OSError: continue\n        \
                if end.type == socket.SOCK_SEQPACKET: return end\nx = 1\ncontrol() is not None";
    assert_eq!(turn(&mut client, "a", find), (json!(true), true));
    // Garbage of its own.
    let garbage = "end = control()\nfor word in (b'run', b'ready', b'failed: x', b'done', b'done e_0000000000 0', \
                   b'\\xff' * 4000): end.send(word)\nend.close()\n'honest'";
    assert_eq!(turn(&mut client, "a", garbage), (json!("honest"), false));
    // A child that speaks for it: the run goes on to its own end.
    let child = "import time\npid = os.fork()\nif pid == 0:\n    run = os.environ['HOTCELL_RESULTS'].rsplit('/')[-1]\n    \
                 control().send(b'done %s 0' % run.encode())\n    os._exit(0)\n\
                 os.waitpid(pid, 0)\ntime.sleep(0.3)\n'own end'";
    assert_eq!(turn(&mut client, "a", child), (json!("own end"), false));
    // A child that waits for the next run in its stead is gone before that comes.
    let thief = "pid = os.fork()\nif pid == 0:\n    os.setsid()\n    end = control()\n    \
                 word = end.recv(100)\n    open('stolen', 'wb').write(word)\n    os._exit(0)\nx = 7";
    turn(&mut client, "a", thief);
    assert_eq!(turn(&mut client, "a", "x, os.path.exists('stolen')"), (json!([7, false]), false));
    // It says that it is done while it is not: that ends its own run, and what it did is stopped.
    let early = "import threading\nn = 0\ndef count():\n    global n\n    while True: n += 1; time.sleep(0.001)\n\
                 threading.Thread(target=count, daemon=True).start()\n\
                 run = os.environ['HOTCELL_RESULTS'].rsplit('/')[-1]\n\
                 control().send(b'done %s 0' % run.encode())\ntime.sleep(5)";
    let ran = run(&mut client, "a", early);
    assert!(ran["usage"]["wall_ms"].as_u64().unwrap() < 5_000, "{ran}");
    // Nobody else noticed.
    assert_eq!(
        turn(&mut client, "other", "import os\n[kept, os.getpid()]"),
        (json!([1, other]), false)
    );
}

fn runs_of_a_session_go_one_after_another(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    turn(&mut client, "a", "n, inside = 0, 0");
    let code = "inside += 1\nassert inside == 1\nimport time\ntime.sleep(0.005)\nn += 1\ninside -= 1\nprint(n)\nn";
    let ids: Vec<u64> = (0..50).map(|_| client.ask_tool("code_run", asked("a", code))).collect();
    // Others do not wait for them.
    assert_eq!(turn(&mut client, "b", "1"), (json!(1), true));
    let mut seen = Vec::new();
    for id in ids {
        let ran = client.answer(id)["result"]["structuredContent"].clone();
        assert_eq!(
            (&ran["status"], &ran["session"]["is_new"]),
            (&json!("ok"), &json!(false)),
            "{ran}"
        );
        assert_eq!(ran["stdout"], format!("{}\n", ran["result"]), "{ran}");
        let exec = world.exec(ran["exec_id"].as_str().unwrap());
        seen.push((ran["result"].as_u64().unwrap(), exec["queued_at"].clone()));
    }
    seen.sort_by_key(|(n, _)| *n);
    let numbers: Vec<u64> = seen.iter().map(|(n, _)| *n).collect();
    assert_eq!(numbers, (1..=50).collect::<Vec<_>>());
    let times: Vec<String> = seen.iter().map(|(_, at)| at.to_string()).collect();
    assert!(times.is_sorted(), "they come in the order in which they were asked for: {seen:?}");
}

fn a_run_waits_for_its_session_no_longer_than_it_may_run(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    turn(&mut client, "a", "x = 1");
    let long = json!({ "code": "import time\ntime.sleep(4)\nx", "session": "a", "timeout_s": 60, "wait_s": 0 });
    let long = client.call("code_run", long);
    let short = json!({ "code": "x", "session": "a", "timeout_s": 1, "wait_s": 50 });
    let ran = client.call("code_run", short);
    assert_eq!(ran["status"], "timed_out", "{ran}");
    assert!(ran["stderr"].as_str().unwrap().contains("session a was busy"), "{ran}");
    assert_eq!(ran.get("session"), None, "it never began: {ran}");
    // What it waited for is none the worse for it.
    let polled = json!({ "exec_id": long["exec_id"], "wait_s": 20 });
    eventually("the long one ends", || {
        let page = client.call("exec_poll", polled.clone());
        page["complete"] == true && page["code"]["result"] == 1
    });
    assert_eq!(turn(&mut client, "a", "x"), (json!(1), false));
}

fn cancelling_a_run_ends_its_session(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    turn(&mut client, "a", "x = 1");
    let wait = |code: &str| json!({ "code": code, "session": "a", "timeout_s": 60, "wait_s": 0 });
    let running = client.call("code_run", wait("import time\nprint('begun')\ntime.sleep(50)"));
    let queued = client.call("code_run", wait("x = 2"));
    // One that waits has no part in it yet.
    client.call("exec_cancel", json!({ "exec_id": queued["exec_id"] }));
    let page = client.call("exec_poll", json!({ "exec_id": running["exec_id"] }));
    assert_eq!(page["complete"], false, "{page}");
    client.call("exec_cancel", json!({ "exec_id": running["exec_id"] }));
    eventually("it has ended", || {
        let page = client.call("exec_poll", json!({ "exec_id": running["exec_id"], "wait_s": 5 }));
        page["complete"] == true && page["code"]["session"]["is_kept"] == false
    });
    assert_eq!(turn(&mut client, "a", "'x' in globals()"), (json!(false), true));
}

fn a_session_that_nobody_uses_ends(world: &World) {
    let serve = world.hotcell(["serve"]).env("HOTCELL_CODE_SESSION_TTL_S", "2");
    let mut client = McpClient::start_with(serve, Era::Modern);
    let (pid, _) = turn(&mut client, "a", PID);
    assert_eq!(sessions(&mut client, "default").len(), 1, "it is there for a while");
    eventually("it has ended", || sessions(&mut client, "default").is_empty());
    eventually("its process too", || {
        shell(&mut client, &format!("kill -0 {pid} 2>/dev/null && echo there")).is_empty()
    });
    assert!(turn(&mut client, "a", "1").1);
}

fn a_session_that_holds_too_much_memory_ends(world: &World) {
    let serve = world.hotcell(["serve"]).env("HOTCELL_CODE_SESSION_MEMORY_MB", "150");
    let mut client = McpClient::start_with(serve, Era::Modern);
    // The control: what is given back, and what is little, is no reason to end.
    turn(&mut client, "a", "large = b'x' * (200 << 20)\nsmall = b'x' * (2 << 20)\ndel large");
    let ran = run(&mut client, "a", "large = b'x' * (200 << 20)\nlen(large)");
    assert_eq!((&ran["status"], &ran["result"]), (&json!("ok"), &json!(200 << 20)), "{ran}");
    assert_eq!(ran["session"], json!({ "name": "a", "is_new": false, "is_kept": false }), "{ran}");
    assert!(ran["stderr"].as_str().unwrap().contains("may hold 150 MiB"), "{ran}");
    assert!(turn(&mut client, "a", "1").1);
}

fn of_too_many_sessions_the_idle_one_ends(world: &World) {
    let serve = world.hotcell(["serve"]).env("HOTCELL_CODE_MOST_SESSIONS", "2");
    let mut client = McpClient::start_with(serve, Era::Modern);
    for name in ["a", "b", "a", "c"] {
        run(&mut client, name, "1");
    }
    let names: Vec<Value> =
        sessions(&mut client, "default").iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(!turn(&mut client, "c", "1").1);
    assert!(turn(&mut client, "b", "1").1);
}

fn nothing_goes_on_between_runs(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let code = "import os, threading, time\nn = 0\ndef count():\n    global n\n    \
                while True:\n        n += 1\n        os.pwrite(seen.fileno(), b'%09d' % n, 0)\n        time.sleep(0.005)\n\
                seen = open('n', 'w')\nthreading.Thread(target=count).start()\ntime.sleep(0.2)\nos.getpid()";
    let (pid, _) = turn(&mut client, "a", code);
    let read = "sleep 0.2; cat n; echo; sleep 0.5; cat n";
    let seen = shell(&mut client, read);
    let (before, after) = seen.split_once('\n').unwrap();
    assert_eq!(before, after, "a thread went on while no run was there");
    assert_eq!(
        shell(&mut client, &format!("grep State /proc/{pid}/status | cut -f2 | cut -c1")),
        "T"
    );
    // It goes on in the next run.
    let more = "m = n\ntime.sleep(0.3)\nn > m";
    assert_eq!(turn(&mut client, "a", more), (json!(true), false));
}

fn a_checkpoint_keeps_sessions_and_a_restore_ends_them(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let (pid, _) =
        turn(&mut client, "a", "open('kept', 'w').write('before')\nx = 1\nimport os\nos.getpid()");
    let made = client.call("cell_checkpoint", json!({ "cell": "default", "action": "create" }));
    let id = made["checkpoints"][0]["id"].clone();
    let id = if id.is_null() { made["checkpoint"]["id"].clone() } else { id };
    assert!(id.is_string(), "{made}");
    let after = "open('kept', 'w').write('after')\nimport os\n[x, os.getpid()]";
    assert_eq!(turn(&mut client, "a", after), (json!([1, pid]), false));
    let restore = json!({ "cell": "default", "action": "restore", "checkpoint": id });
    let restored = client.call("cell_checkpoint", restore);
    assert!(restored["isError"] != true, "{restored}");
    assert_eq!(turn(&mut client, "a", "open('kept').read()"), (json!("before"), true));
    // One that runs is held still for a checkpoint as any command is.
    let slow = json!({ "code": "import time\nfor n in range(20): time.sleep(0.1)\nx = n", "session": "a", "wait_s": 0 });
    let slow = client.call("code_run", slow);
    let made = client.call("cell_checkpoint", json!({ "cell": "default", "action": "create" }));
    assert!(made["isError"] != true, "{made}");
    eventually("it ends", || {
        let page = client.call("exec_poll", json!({ "exec_id": slow["exec_id"], "wait_s": 5 }));
        page["complete"] == true
    });
    assert_eq!(turn(&mut client, "a", "x"), (json!(19), false));
}

fn sleep_ends_sessions(world: &World) {
    let serve = world.hotcell(["serve"]).env("HOTCELL_SLEEP_AFTER_S", "1");
    let mut client = McpClient::start_with(serve, Era::Modern);
    turn(&mut client, "a", "x = 1");
    eventually("the cell is asleep: a session is no activity", || {
        let info = client.call("cell_info", json!({ "cell": "default" }));
        info["cell"]["state"] == "asleep"
    });
    assert_eq!(turn(&mut client, "a", "'x' in globals()"), (json!(false), true));
}

fn the_session_of_another_tenant_is_out_of_reach(world: &World) {
    let mut parties = ["one", "two"].map(|tenant| {
        McpClient::start_with(world.hotcell(["serve", "--tenant", tenant]), Era::Modern)
    });
    let ran = run(&mut parties[0], "a", "x = 'hidden value'");
    let cell = ran["cell"].clone();
    for cell in [cell.clone(), json!("default")] {
        let mut asked = asked("a", "globals().get('x')");
        asked["cell"] = cell.clone();
        let id = parties[1].ask_tool("code_run", asked);
        let answer = parties[1].answer(id);
        assert!(!answer.to_string().contains("hidden value"), "{cell}: {answer}");
    }
    assert!(
        !parties[1].call("cell_info", json!({ "cell": "default" })).to_string().contains("hidden")
    );
    // The control: whose it is reaches it by the same words.
    let mut asked = asked("a", "globals().get('x')");
    asked["cell"] = cell;
    assert_eq!(parties[0].call("code_run", asked)["result"], "hidden value");
}

fn a_session_that_waits_cannot_be_looked_into(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for session in ["cold", "warm"] {
        let (pid, _) = turn(&mut client, session, PID);
        let look =
            format!("cat /proc/{pid}/environ /proc/{pid}/mem 2>&1; ls -l /proc/{pid}/fd 2>&1");
        let told = shell(&mut client, &look);
        assert!(told.contains("denied") && !told.contains("PATH="), "{told}");
        eventually("something is warm", || {
            let born = "open('/proc/self/cmdline').read().split(chr(0))[-2]";
            client.call("code_run", json!({ "code": born }))["result"] == "zygote"
        });
    }
    // The control: another process of the same user can be.
    let own = shell(&mut client, "sleep 5 & sleep 0.5; tr '\\0' ' ' </proc/$!/environ; kill $!");
    assert!(own.contains("PATH="), "{own}");
}

fn a_run_that_waits_for_a_person_keeps_no_other_waiting(world: &World) {
    let serve = world.hotcell(["serve"]).env("HOTCELL_POLICY_PROFILE", "careful");
    let mut client = McpClient::start_with(serve, Era::Modern);
    turn(&mut client, "a", "x = 1");
    let held = json!({ "code": "import shutil\nshutil.rmtree('/workspace/x')", "session": "a", "wait_s": 0 });
    let held = client.call("code_run", held);
    assert!(held.to_string().contains("awaiting_approval"), "{held}");
    assert_eq!(turn(&mut client, "a", "x"), (json!(1), false));
}

fn sessions_work_where_no_namespace_can_be_made(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let (pid, _) = turn(
        &mut client,
        "a",
        "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '4567'])\nx = 1\nimport os\nos.getpid()",
    );
    assert_eq!(turn(&mut client, "a", "x"), (json!(1), false));
    assert!(crate::world::is_alive(i32::try_from(pid.as_i64().unwrap()).unwrap()));
    let cell = run(&mut client, "a", "1")["cell"].as_str().unwrap().to_owned();
    client.call("cell_kill", json!({ "cell": cell, "force": true, "volumes": true }));
    eventually("nothing of it is left on the host", || {
        !crate::world::is_alive(i32::try_from(pid.as_i64().unwrap()).unwrap())
    });
}
