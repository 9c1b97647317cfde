//! What comes of code besides its words: pictures, what it called, what it spared, and its limits.

use std::fs;

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World, eventually, python_packages, tool_servers};

in_worlds! { [root, rootless, without_cgroups]
    pictures_come_with_the_result,
    what_is_no_picture_is_not_shown,
    what_is_shown_and_kept_out_is_told,
}

in_worlds! { [root]
    calls_are_counted_where_they_are_answered,
    stats_survive_servers_and_sum_all_of_them,
    a_run_makes_only_so_many_calls,
    a_call_has_only_so_many_bytes,
    only_so_many_calls_are_under_way,
    what_is_shown_is_what_the_operator_says,
    what_is_imported_ahead_is_what_the_operator_says,
    figures_and_tables_of_real_packages,
    cpu_time_counts_for_all_processes_of_a_run,
}

in_worlds! { [root, without_cgroups]
    cpu_time_is_bounded,
    memory_is_bounded,
}

fn served(world: &World, settings: &[(&str, &str)]) -> McpClient {
    let mut serve = world.hotcell(["serve"]);
    for (name, value) in settings {
        serve = serve.env(name, value);
    }
    McpClient::start_with(serve, Era::Modern)
}

fn run(client: &mut McpClient, code: &str) -> Value {
    client
        .call("code_run", json!({ "code": code, "timeout_s": 120, "wait_s": 50, "details": true }))
}

/// All of an answer, pictures included.
fn whole(client: &mut McpClient, tool: &str, arguments: Value) -> Value {
    let asked = client.ask_tool(tool, arguments);
    client.answer(asked)["result"].clone()
}

fn pictures(answer: &Value) -> Vec<(String, String)> {
    let blocks = answer["content"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let images = blocks.filter(|block| block["type"] == "image");
    images.map(|block| (text(&block["mimeType"]), text(&block["data"]))).collect()
}

/// Makes pictures of one dot in a file each.
const DOTS: &str = "import os, struct, zlib, base64\n\
    def chunk(kind, data):\n    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n\
    def png(extra=b''):\n    head = struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0)\n    \
    return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(b'\\0\\xff\\0\\0')) + chunk(b'teXt', extra) + chunk(b'IEND', b'')\n\
    place = os.environ['HOTCELL_RESULTS']\nos.makedirs(place, exist_ok=True)\n\
    def put(name, content):\n    open(place + '/' + name, 'wb').write(content)\n";

fn pictures_come_with_the_result(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let code = format!("{DOTS}put('a.png', png())\nbase64.b64encode(png()).decode()");
    let answer = whole(&mut client, "code_run", json!({ "code": code }));
    let made = answer["structuredContent"]["result"].as_str().unwrap().to_owned();
    assert_eq!(pictures(&answer), [("image/png".to_owned(), made)], "{answer}");
    let artifacts = &answer["structuredContent"]["artifacts"];
    assert!(artifacts[0]["path"].as_str().unwrap().ends_with("/a.png"), "{answer}");
    // Those past the bound stay files.
    let code = format!("{DOTS}for n in range(6): put(f'{{n}}.png', png())");
    let answer = whole(&mut client, "code_run", json!({ "code": code }));
    assert_eq!(pictures(&answer).len(), 4, "{answer}");
    assert_eq!(answer["structuredContent"]["artifacts"].as_array().unwrap().len(), 6);
    // Whoever polls gets them as well.
    let code = format!("{DOTS}import time\ntime.sleep(1)\nput('late.png', png())");
    let ran = client.call("code_run", json!({ "code": code, "wait_s": 0 }));
    let asked = json!({ "exec_id": ran["exec_id"], "wait_s": 20 });
    eventually("it is complete", || {
        let page = whole(&mut client, "exec_poll", asked.clone());
        page["structuredContent"]["complete"] == true && pictures(&page).len() == 1
    });
}

/// Reports what it likes, in place of the runner.
const LIE: &str = "import json\n\
    def lie(*paths):\n    \
    report = next(int(fd) for fd in os.listdir('/proc/self/fd') if 'report' in os.path.realpath('/proc/self/fd/' + fd))\n    \
    told = [{'path': p, 'mime': 'image/png', 'bytes': 9} for p in paths]\n    \
    os.ftruncate(report, 0)\n    os.pwrite(report, json.dumps({'status': 'ok', 'artifacts': told}).encode(), 0)\n    os._exit(0)\n";

fn what_is_no_picture_is_not_shown(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for (what, body) in [
        ("text", "put('a.png', b'no picture at all')"),
        ("another kind", "put('a.jpg', png())"),
        ("text that begins like one", "put('a.gif', b'GIF89a password=hunter2hunter2')"),
        ("a large one", "put('a.png', png(os.urandom(2 << 20)))"),
        (
            "large, though it says otherwise",
            "put('a.png', png(os.urandom(2 << 20)))\nlie(place + '/a.png')",
        ),
        ("a device", "os.symlink('/dev/zero', place + '/z.png')\nlie(place + '/z.png')"),
        ("a pipe", "os.mkfifo(place + '/p.png')\nlie(place + '/p.png')"),
        (
            "a file elsewhere",
            "open('/workspace/b.png', 'wb').write(png())\nlie('/workspace/b.png')",
        ),
        ("a file of the host", "lie(place + '/../../../etc/shadow', '/etc/shadow')"),
        ("nothing", "lie(place + '/absent.png')"),
    ] {
        let code = format!("{DOTS}{LIE}{body}");
        let answer = whole(&mut client, "code_run", json!({ "code": code }));
        assert_eq!(answer["structuredContent"]["status"], "ok", "{what}: {answer}");
        assert_eq!(pictures(&answer).len(), 0, "{what}");
    }
    // The control: what is said of a picture that is one is believed.
    let code = format!("{DOTS}{LIE}put('a.png', png())\nlie(place + '/a.png')");
    let answer = whole(&mut client, "code_run", json!({ "code": code }));
    assert_eq!(pictures(&answer).len(), 1, "{answer}");
}

fn what_is_shown_and_kept_out_is_told(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let ran = run(&mut client, "print('one two three')");
    let tokens = &ran["usage"]["tokens"];
    assert_eq!(tokens["kept_out"], 0, "{ran}");
    assert!((2..20).contains(&tokens["shown"].as_u64().unwrap()), "{ran}");
    let ran = run(&mut client, "print('one two three four\\n' * 100_000)");
    let tokens = &ran["usage"]["tokens"];
    assert!(tokens["shown"].as_u64().unwrap() <= 2000, "{ran}");
    let kept_out = tokens["kept_out"].as_u64().unwrap();
    assert!((300_000..900_000).contains(&kept_out), "{ran}");
}

/// A server that is asked in place of people, whose tools are allowed.
fn with_tools(world: &World, settings: &[(&str, &str)]) -> Option<McpClient> {
    let place = tool_servers()?;
    let script = place.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let config = world.home().join("hotcell.toml");
    let declared =
        format!("[toolbox.everything]\ncommand = \"node\"\nargs = [{script:?}, \"stdio\"]\n");
    fs::write(&config, declared).unwrap();
    let rules = world.home().join("policy.toml");
    fs::write(&rules, "[[rule]]\nid = \"t\"\nverdict = \"allow\"\ntool = [\"everything.*\"]\n")
        .unwrap();
    let config = config.display().to_string();
    let mut serve =
        world.hotcell(["serve", "--config", &config]).env("HOTCELL_POLICY_FILE", &rules);
    for (name, value) in settings {
        serve = serve.env(name, value);
    }
    let mut client = McpClient::start_with(serve, Era::Modern);
    // Its server lists it before anybody waits.
    client.call("tool_search", json!({ "query": "echo" }));
    Some(client)
}

fn calls_are_counted_where_they_are_answered(world: &World) {
    let Some(mut client) = with_tools(world, &[]) else { return };
    let code = format!(
        "{DOTS}{LIE}from tools import ToolError\nfrom tools.everything import echo, get_sum\n\
         for n in range(3): echo(message='x' * 1000)\n\
         try: get_sum(a='no', b='number')\nexcept ToolError: pass\nlie()"
    );
    let ran = run(&mut client, &code);
    let used = |ran: &Value, tool: &str, what: &str| {
        let tools = ran["tools_called"].as_array().unwrap();
        let found = tools.iter().find(|it| it["tool"] == tool);
        found.unwrap_or_else(|| panic!("{ran}"))[what].as_u64().unwrap()
    };
    assert_eq!((used(&ran, "echo", "calls"), used(&ran, "echo", "errors")), (3, 0), "{ran}");
    assert_eq!((used(&ran, "get_sum", "calls"), used(&ran, "get_sum", "errors")), (1, 1), "{ran}");
    assert!(used(&ran, "echo", "bytes_in") >= 3000, "{ran}");
    assert!(used(&ran, "echo", "bytes_out") >= 3000, "{ran}");
    assert!(ran["usage"]["tokens"]["kept_out"].as_u64().unwrap() > 100, "{ran}");
    // Another process has the same from the ledger.
    client.kill();
    let mut other = McpClient::start(world, Era::Modern);
    let page = other.call("exec_poll", json!({ "exec_id": ran["exec_id"], "details": true }));
    assert_eq!(page["code"]["tools_called"], ran["tools_called"], "{page}");
    assert_eq!(page["code"]["tokens"], ran["usage"]["tokens"], "{page}");
    // The control: what calls nothing has called nothing, whatever was called before.
    let ran = run(&mut other, "1");
    assert_eq!(ran.get("tools_called"), None, "{ran}");
}

fn stats_survive_servers_and_sum_all_of_them(world: &World) {
    let none = world.json(["stats", "--json"]);
    assert_eq!((&none["runs"], none.get("success_rate")), (&json!(0), None), "{none}");
    let Some(mut client) = with_tools(world, &[]) else { return };
    for code in [
        "from tools.everything import echo\n[echo(message='word ' * 2000) for _ in range(5)][0][:5]",
        "1 / 0",
        "import time\ntime.sleep(0.3)",
    ] {
        run(&mut client, code);
    }
    client.leave();
    let mut other = McpClient::start(world, Era::Modern);
    run(&mut other, "print('x\\n' * 50_000)");
    other.leave();
    let stats = world.json(["stats", "--json"]);
    assert_eq!((&stats["runs"], &stats["succeeded"]), (&json!(4), &json!(3)), "{stats}");
    assert_eq!(stats["success_rate"], 0.75, "{stats}");
    assert!(stats["p95_ms"].as_u64().unwrap() >= 300, "{stats}");
    assert!(stats["p50_ms"].as_u64() <= stats["p95_ms"].as_u64(), "{stats}");
    assert_eq!(stats["tools"][0]["tool"], "everything.echo", "{stats}");
    assert_eq!((&stats["tools"][0]["calls"], &stats["cut"]), (&json!(5), &json!(1)), "{stats}");
    assert!(stats["tokens"]["kept_out"].as_u64().unwrap() > 9_000, "{stats}");
    let text = world.text(["stats"]);
    assert!(text.contains("4 runs, 3 succeeded (75.0 %)"), "{text}");
    // A command is no run of code, and nothing is counted twice.
    world.text(["run", "true"]);
    assert_eq!(world.json(["stats", "--json"])["runs"], 4);
    let later = world.json(["stats", "--json", "--since", "0s"]);
    assert_eq!(later["runs"], 0, "{later}");
    let elsewhere = world.json(["stats", "--json", "--tenant", "nobody"]);
    assert_eq!(elsewhere["runs"], 0, "{elsewhere}");
}

const TOLD: &str = "from tools import ToolError\nfrom tools.everything import echo\n\
    def told(call):\n    try:\n        call()\n        return 'done'\n    \
    except ToolError as error:\n        return [error.code, error.message]\n";

fn a_run_makes_only_so_many_calls(world: &World) {
    // Naming the server is a call as well.
    let Some(mut client) = with_tools(world, &[("HOTCELL_CODE_CALLS", "5")]) else { return };
    let code = format!("{TOLD}[told(lambda: echo(message='x')) for _ in range(6)]");
    for _ in 0..2 {
        let ran = run(&mut client, &code);
        let told = ran["result"].as_array().unwrap();
        let done = told.iter().take_while(|it| **it == "done").count();
        assert!((3..=5).contains(&done), "each run has its own: {ran}");
        assert_eq!(told[5][0], "limit_exceeded", "{ran}");
        assert!(told[5][1].as_str().unwrap().contains("5 calls"), "{ran}");
    }
    client.leave();
    // The control.
    let Some(mut client) = with_tools(world, &[]) else { return };
    let ran = run(&mut client, &code);
    assert_eq!(ran["result"], json!(["done", "done", "done", "done", "done", "done"]), "{ran}");
}

fn a_call_has_only_so_many_bytes(world: &World) {
    let Some(mut client) = with_tools(world, &[("HOTCELL_CODE_CALL_MB", "1")]) else { return };
    let code = format!(
        "{TOLD}[told(lambda: echo(message='x' * n)) for n in (2 << 20, 10, 1_500_000, 10)]"
    );
    let ran = run(&mut client, &code);
    let told = ran["result"].as_array().unwrap();
    assert_eq!((&told[1], &told[3]), (&json!("done"), &json!("done")), "it goes on: {ran}");
    for at in [0, 2] {
        assert_eq!(told[at][0], "limit_exceeded", "{ran}");
        assert!(told[at][1].as_str().unwrap().contains("bytes"), "{ran}");
    }
    client.leave();
    let Some(mut client) = with_tools(world, &[]) else { return };
    let ran = run(&mut client, &code);
    assert_eq!(ran["result"][0], "done", "the control: {ran}");
}

fn only_so_many_calls_are_under_way(world: &World) {
    let code = "from tools.everything import echo, trigger_long_running_operation as long\n\
                slow = long.start(duration=5, steps=1)\necho(message='x')\nslow._done";
    for (parallel, is_over) in [("1", true), ("64", false)] {
        let settings = [("HOTCELL_CODE_PARALLEL_CALLS", parallel)];
        let Some(mut client) = with_tools(world, &settings) else { return };
        let ran = run(&mut client, code);
        assert_eq!(ran["result"], is_over, "the second waits for the first: {ran}");
        client.leave();
    }
}

fn what_is_shown_is_what_the_operator_says(world: &World) {
    let code = "print('one two three four\\n' * 1000)";
    let shown = |budget: &str| {
        let mut client = served(world, &[("HOTCELL_CODE_TOKENS", budget)]);
        let ran = run(&mut client, code);
        ran["usage"]["tokens"]["shown"].as_u64().unwrap()
    };
    let (little, much) = (shown("300"), shown("5000"));
    assert!(little <= 300 && much > 1000, "{little} {much}");
    let refused = world.hotcell(["config"]).env("HOTCELL_CODE_TOKENS", "3").run().stderr();
    assert!(refused.contains("code.tokens") && refused.contains("256"), "{refused}");
}

fn what_is_imported_ahead_is_what_the_operator_says(world: &World) {
    let born = "open('/proc/self/cmdline').read().split(chr(0))[-2]";
    let code = format!("import sys\n[{born}, 'wave' in sys.modules, 'csv' in sys.modules]");
    for (imports, wave, csv) in
        [("wave,no_such_module", true, false), ("none", false, false), ("", false, true)]
    {
        let mut client = served(world, &[("HOTCELL_CODE_IMPORTS", imports)]);
        eventually("a run is warm and has them", || {
            run(&mut client, &code)["result"] == json!(["zygote", wave, csv])
        });
        client.leave();
    }
}

fn cpu_time_is_bounded(world: &World) {
    let mut client = served(world, &[("HOTCELL_CODE_CPU_S", "1")]);
    let ignore = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n";
    // Cold and warm, and whatever it does about it.
    for before in ["", "", ignore] {
        let ran = run(&mut client, &format!("{before}print('begun')\nwhile True: pass"));
        let ended = (&ran["status"], &ran["stdout"]);
        assert_eq!(ended, (&json!("timed_out"), &json!("begun\n")), "{ran}");
        let told = ran["error"]["message"].as_str().unwrap();
        assert!(told.contains("1 s of CPU time") && told.contains("code.cpu_s"), "{ran}");
    }
    // The control: time in which nothing is done is not counted.
    let ran = run(&mut client, "import time\ntime.sleep(2)\n'slept'");
    assert_eq!(ran["result"], "slept", "{ran}");
    let mut free = served(world, &[]);
    let ran = run(&mut free, "import time\nwhile time.process_time() < 2: pass\n'done'");
    assert_eq!(ran["result"], "done", "{ran}");
}

fn cpu_time_counts_for_all_processes_of_a_run(world: &World) {
    // None of them comes to the bound by itself.
    let code = "import subprocess, sys\nburn = 'import time\\nwhile time.process_time() < 0.7: pass'\n\
                for _ in range(6): subprocess.run([sys.executable, '-c', burn])\n'done'";
    let mut client = served(world, &[("HOTCELL_CODE_CPU_S", "2")]);
    for _ in 0..2 {
        let ran = run(&mut client, code);
        assert_eq!(ran["status"], "timed_out", "{ran}");
        assert!(ran["error"]["message"].as_str().unwrap().contains("code.cpu_s"), "{ran}");
    }
    client.leave();
    let mut client = served(world, &[("HOTCELL_CODE_CPU_S", "60")]);
    assert_eq!(run(&mut client, code)["result"], "done", "the control");
}

fn memory_is_bounded(world: &World) {
    let code = "data = bytearray(300 << 20)\nlen(data)";
    let mut client = served(world, &[("HOTCELL_CODE_MEMORY_MB", "200")]);
    // Cold and warm alike; and it cannot be raised.
    for raise in [
        "",
        "import resource\ntry: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))\nexcept ValueError: pass\n",
    ] {
        for _ in 0..3 {
            let ran = run(&mut client, &format!("{raise}{code}"));
            assert_eq!(
                (&ran["status"], &ran["error"]["type"]),
                (&json!("error"), &json!("MemoryError")),
                "{ran}"
            );
            assert!(ran["error"]["message"].as_str().unwrap().contains("code.memory_mb"), "{ran}");
        }
    }
    let ran = run(&mut client, "len(bytearray(20 << 20))");
    assert_eq!(ran["result"], 20 << 20, "less goes on: {ran}");
    let mut free = served(world, &[]);
    assert_eq!(run(&mut free, code)["result"], 300 << 20, "the control");
}

fn figures_and_tables_of_real_packages(world: &World) {
    let Some(packages) = python_packages() else { return };
    let packages = packages.display().to_string();
    let serve = world.hotcell(["serve", "--workspace", &packages]);
    let mut client = McpClient::start_with(serve, Era::Modern);
    let code = "import pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']})";
    let asked = json!({ "code": code, "timeout_s": 120, "wait_s": 50 });
    let answer = whole(&mut client, "code_run", asked);
    let table = answer["structuredContent"]["result"].to_string();
    assert!(table.contains("\"a\"") && table.contains("\"y\""), "{answer}");
    let code = "import matplotlib.pyplot as plot\nplot.plot([1, 3, 2])\nplot.show()\n'drawn'";
    let asked = json!({ "code": code, "timeout_s": 120, "wait_s": 50 });
    let answer = whole(&mut client, "code_run", asked);
    assert_eq!(answer["structuredContent"]["result"], "drawn", "{answer}");
    let shown = pictures(&answer);
    assert_eq!((shown.len(), shown[0].0.as_str()), (1, "image/png"), "{answer}");
    assert!(shown[0].1.len() > 5_000, "a picture of something");
}
