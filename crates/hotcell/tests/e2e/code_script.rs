//! TypeScript and JavaScript in a cell: what they give back, what ends them, the tools that they call.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::code_tools::{calls_of, declare};
use crate::world::{Era, McpClient, World, tool_servers};

in_worlds! { [root, rootless, without_cgroups]
    the_last_expression_is_the_result,
    types_are_gone_when_it_runs,
    what_goes_wrong_is_told_where_it_went_wrong,
    what_nobody_can_read_is_an_error_and_no_more,
    a_loop_is_ended_in_time_with_what_it_printed,
    what_is_too_long_is_cut_and_can_be_read,
    scripts_call_tools,
}

in_worlds! { [root]
    without_node_it_is_said_what_to_do,
    sessions_are_for_python,
    the_policy_knows_that_it_does_not_read_scripts,
    the_bounds_of_a_run_hold,
}

in_worlds! { [root, rootless]
    the_program_that_reads_scripts_cannot_be_changed,
}

fn run(client: &mut McpClient, language: &str, code: &str) -> Value {
    let asked = json!({ "code": code, "language": language, "timeout_s": 120, "wait_s": 50 });
    client.call("code_run", asked)
}

#[track_caller]
fn result_of(client: &mut McpClient, language: &str, code: &str) -> Value {
    let ran = run(client, language, code);
    assert_eq!(ran["status"], "ok", "{code}: {ran}");
    ran["result"].clone()
}

fn the_last_expression_is_the_result(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for language in ["javascript", "typescript"] {
        for (code, result) in [
            ("1 + 1", json!(2)),
            ("const x = { a: [1, null, 'é'] }\nx", json!({ "a": [1, null, "é"] })),
            (
                "const wait = (ms) => new Promise((go) => setTimeout(go, ms, 7))\nawait wait(5)",
                json!(7),
            ),
            ("async function main() { return 'awaited' }\nmain()", json!("awaited")),
            ("import { readFileSync } from 'node:fs'\ntypeof readFileSync", json!("function")),
            ("require('path').join('a', 'b')", json!("a/b")),
            ("new Map([['k', new Set([1, 2])]])", json!({ "k": [1, 2] })),
            ("process.cwd()", json!("/workspace")),
            ("let y = 5", Value::Null),
        ] {
            assert_eq!(result_of(&mut client, language, code), result, "{language}: {code}");
        }
    }
    let ran = run(&mut client, "javascript", "console.log('out')\nconsole.error('err')\n'done'");
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("out\n"), &json!("err\n")), "{ran}");
    assert_eq!(ran["result"], "done");
    let exec = ran["exec_id"].as_str().unwrap().to_owned();
    let listed = client.call("exec_list", json!({})).to_string();
    assert!(listed.contains(&exec), "a run is an exec: {listed}");
}

fn types_are_gone_when_it_runs(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let code = "interface Point { x: number; y?: number }\n\
                enum Colour { Red = 1, Blue }\n\
                type Pair<T> = [T, T]\n\
                class Box<T> { constructor(private readonly value: T) {} get(): T { return this.value } }\n\
                function twice<T>(value: T): Pair<T> { return [value, value] }\n\
                const point: Point = { x: 1 }\n\
                const boxed = new Box<Point>(point).get() as Point\n\
                ;({ point: boxed!, pair: twice<Colour>(Colour.Blue), name: Colour[2] } satisfies object)";
    let made = result_of(&mut client, "typescript", code);
    assert_eq!(made, json!({ "point": { "x": 1 }, "pair": [2, 2], "name": "Blue" }));
    // The control: as JavaScript it is none.
    let ran = run(&mut client, "javascript", code);
    assert_eq!(ran["error"]["type"], "SyntaxError", "{ran}");
}

fn what_goes_wrong_is_told_where_it_went_wrong(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for (code, kind, line) in [
        (
            "type T = {\n  a: number\n}\n\nfunction f(): T {\n  throw new RangeError('no')\n}\nf()",
            "RangeError",
            json!(6),
        ),
        ("interface A {\n}\nconst x: any = null\nx.y", "TypeError", json!(4)),
        ("const a = 1\nconst b = (\n", "SyntaxError", json!(3)),
        ("const a = 1\nconst a = 2", "SyntaxError", json!(2)),
        ("class Own extends Error {}\n\nthrow new Own('mine')", "Own", json!(3)),
        ("let x = 1\nawait Promise.reject(new URIError('late'))", "URIError", json!(2)),
        ("import 'no-such-package'", "Error", json!(1)),
    ] {
        let ran = run(&mut client, "typescript", code);
        let told = (&ran["status"], &ran["error"]["type"], &ran["error"]["line"]);
        assert_eq!(told, (&json!("error"), &json!(kind), &line), "{code}: {ran}");
        let shown = ran["error"]["traceback"].as_str().unwrap();
        assert!(!shown.contains("node:") && !shown.contains("hotcell"), "{ran}");
    }
    for (code, message) in [
        ("setTimeout(() => { throw new Error('from a timer') }, 1)", "from a timer"),
        ("Promise.reject(new Error('nobody waits'))\n1", "nobody waits"),
        ("throw 'a text'", "a text"),
        ("console.log('before')\nprocess.exit(3)", "exit code 3"),
        ("await new Promise(() => {})", "nothing can settle"),
    ] {
        let ran = run(&mut client, "javascript", code);
        assert_eq!(ran["status"], "error", "{code}: {ran}");
        assert!(ran["error"]["message"].as_str().unwrap().contains(message), "{code}: {ran}");
    }
    let ran = run(&mut client, "javascript", "console.log('before')\nprocess.exit(0)");
    assert_eq!((&ran["status"], &ran["stdout"]), (&json!("ok"), &json!("before\n")), "{ran}");
}

fn what_nobody_can_read_is_an_error_and_no_more(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let nested = |open: &str, close: &str, count: usize| {
        format!("{}1{}", open.repeat(count), close.repeat(count))
    };
    for (language, code) in [
        ("typescript", nested("(", ")", 100_000)),
        ("javascript", nested("[", "]", 100_000)),
        ("typescript", nested("!", "", 400_000)),
        ("typescript", format!("let x: {}", nested("Array<", ">", 100_000))),
    ] {
        let ran = run(&mut client, language, &code);
        assert_eq!(ran["status"], "error", "{ran}");
        let (kind, told) = (&ran["error"]["type"], ran["error"]["message"].as_str().unwrap());
        let by_reader = kind == "SyntaxError" && told.contains("nested too deeply");
        // What is read on so large a stack may still be too much for node.
        let by_node = kind == "RangeError" && told.contains("call stack");
        assert!(by_reader || by_node, "{ran}");
        assert!(ran.to_string().len() < 20_000);
    }
    // The server and the cell are none the worse for it.
    assert_eq!(result_of(&mut client, "typescript", "40 + 2"), 42);
}

fn a_loop_is_ended_in_time_with_what_it_printed(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let code = "import { spawn } from 'node:child_process'\nprocess.on('SIGTERM', () => {})\n\
                spawn('setsid', ['sleep', '1234'], { detached: true })\n\
                console.log('begun')\nfor (;;) {}";
    let asked = json!({ "code": code, "language": "typescript", "timeout_s": 3 });
    let ran = client.call("code_run", asked);
    assert_eq!((&ran["status"], &ran["stdout"]), (&json!("timed_out"), &json!("begun\n")), "{ran}");
    let left = client.call("exec_run", json!({ "command": "pgrep -f 'sleep 123[4]' | wc -l" }));
    assert_eq!(left["stdout"].as_str().unwrap().trim(), "0", "{left}");
}

fn what_is_too_long_is_cut_and_can_be_read(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for code in [
        "for (let n = 0; n < 100000; n++) console.log(`line ${n} of many`)",
        "Array.from({ length: 1000000 }, (_, n) => n)",
        "throw new Error('x'.repeat(1000000))",
        "Buffer.alloc(1000000, 'z')",
        "let deep: unknown = []\nfor (let n = 0; n < 900; n++) deep = [deep]\ndeep",
        "class Long { ['x'.repeat(1000)] = 'y'.repeat(1000000) }\nnew Long()",
    ] {
        let ran = run(&mut client, "typescript", code);
        let length = ran.to_string().len();
        assert!(length < 20_000, "{code}: {length} bytes");
        assert_ne!(ran["status"], "running");
    }
    let rows = "Array.from({ length: 200000 }, (_, n) => `row ${n}`)";
    let ran = run(&mut client, "javascript", rows);
    let file = ran["result_file"].as_str().unwrap_or_else(|| panic!("no way to read more: {ran}"));
    let count = format!("import json\nlen(json.load(open({file:?})))");
    assert_eq!(result_of(&mut client, "python", &count), 200_000);
}

const ALLOW: &str = "[[rule]]\nid = \"tools\"\nverdict = \"allow\"\ntool = [\"everything.*\"]\n";

fn agent(world: &World, place: &Path, more: &[(&str, &str)]) -> McpClient {
    let config = declare(world, place);
    let file = world.home().join("policy.toml");
    fs::write(&file, ALLOW).unwrap();
    let mut serve = world.hotcell(["serve", "--config", &config]).env("HOTCELL_POLICY_FILE", &file);
    for (name, value) in more {
        serve = serve.env(name, value);
    }
    McpClient::start_with(serve, Era::Modern)
}

fn scripts_call_tools(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = agent(world, &place, &[]);
    client.call("tool_search", json!({ "query": "echo a message back" }));
    let code = "import { echo, get_sum } from \"tools/everything\"\n\
                import * as everything from \"tools/everything\"\n\
                import { ToolError, search } from \"tools\"\n\
                const one: string = await echo({ message: 'hello' })\n\
                const many = await Promise.all(Array.from({ length: 20 }, (_, n) => get_sum({ a: n, b: n })))\n\
                const told = await everything.get_sum({ a: 'x', b: 1 } as any).catch((error: ToolError) =>\n\
                  [error instanceof ToolError, error.code, error.hint])\n\
                const found: string = await search('echo a message', { limit: 1 })\n\
                ;[one, many.length, many[3], told, found]";
    let ran = run(&mut client, "typescript", code);
    assert_eq!(ran["status"], "ok", "{ran}");
    let result = &ran["result"];
    assert!(result[0].as_str().unwrap().contains("hello"), "{ran}");
    assert_eq!(result[1], 20, "{ran}");
    assert!(result[2].as_str().unwrap().contains('6'), "{ran}");
    assert_eq!((&result[3][0], &result[3][1]), (&json!(true), &json!("invalid")), "{ran}");
    assert!(result[3][2].as_str().unwrap().contains("get_sum("), "the stub: {ran}");
    assert!(result[4].as_str().unwrap().contains("echo"), "{ran}");
    assert_eq!(calls_of(&ran), 22, "{ran}");
    for (code, kind, line, named) in [
        ("import { echo } from 'tools/everything'\n\nawait echo({})", "ToolError", 3, "invalid"),
        (
            "import { no_such_tool } from 'tools/everything'\nno_such_tool()",
            "SyntaxError",
            1,
            "no_such_tool",
        ),
        ("let x = 1\nimport * as it from 'tools/nobody'\nit", "Error", 2, "nobody"),
        ("import { echo } from 'tools/everything'\necho('hello')", "TypeError", 2, "echo.d.ts"),
    ] {
        let ran = run(&mut client, "javascript", code);
        let told = (&ran["error"]["type"], &ran["error"]["line"]);
        assert_eq!(told, (&json!(kind), &json!(line)), "{code}: {ran}");
        assert!(ran["error"].to_string().contains(named), "{code}: {ran}");
    }
    let entries = world.text(["audit", "--json"]);
    assert!(entries.contains("everything.get_sum") && entries.contains("tool_run"), "{entries}");
}

fn the_bounds_of_a_run_hold(world: &World) {
    let Some(place) = tool_servers() else { return };
    let bounds = [
        ("HOTCELL_CODE_CALLS", "5"),
        ("HOTCELL_CODE_CPU_S", "2"),
        ("HOTCELL_CODE_MEMORY_MB", "512"),
    ];
    let mut client = agent(world, &place, &bounds);
    client.call("tool_search", json!({ "query": "echo" }));
    let code = "import { echo } from 'tools/everything'\nlet done = 0\n\
                try { for (;;) { await echo({ message: 'x' }); done++ } } catch (error) { [done, error.code] }\n\
                let told = await echo({ message: 'x' }).catch((error) => error.code)\n;[done, told]";
    let ran = run(&mut client, "javascript", code);
    assert_eq!(ran["result"][1], "limit_exceeded", "{ran}");
    assert!(ran["result"][0].as_u64().unwrap() <= 5, "{ran}");
    let ran = run(&mut client, "javascript", "console.log('begun')\nfor (;;) {}");
    assert_eq!((&ran["status"], &ran["stdout"]), (&json!("timed_out"), &json!("begun\n")), "{ran}");
    let ran = run(
        &mut client,
        "javascript",
        "const all = []\nfor (;;) all.push(Buffer.alloc(1 << 22, 1))",
    );
    assert_eq!(ran["status"], "error", "{ran}");
    // The control: what stays within them runs.
    assert_eq!(result_of(&mut client, "javascript", "Buffer.alloc(1 << 22, 1).length"), 1 << 22);
}

fn without_node_it_is_said_what_to_do(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let made = client.call("cell_spawn", json!({ "env": { "PATH": "/workspace" } }));
    let cell = made["cell"]["id"].as_str().or(made["id"].as_str()).unwrap().to_owned();
    let asked = json!({ "cell": cell, "code": "1", "language": "typescript" });
    let asked = client.ask_tool("code_run", asked);
    let refused = client.answer(asked).to_string();
    assert!(refused.contains("no node") && refused.contains("install"), "{refused}");
}

fn sessions_are_for_python(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    for language in ["typescript", "javascript"] {
        let asked = json!({ "code": "1", "language": language, "session": "a" });
        let asked = client.ask_tool("code_run", asked);
        let refused = client.answer(asked).to_string();
        assert!(refused.contains("sessions are for Python"), "{refused}");
    }
    let asked = client.ask_tool("code_run", json!({ "code": "1", "language": "cobol" }));
    let refused = client.answer(asked).to_string();
    assert!(refused.contains("cobol") && refused.contains("typescript"), "{refused}");
}

fn the_policy_knows_that_it_does_not_read_scripts(world: &World) {
    let rules = "[[rule]]\nid = \"no-sockets\"\nverdict = \"deny\"\nimports = [\"socket\"]\n";
    let file = world.home().join("policy.toml");
    fs::write(&file, rules).unwrap();
    for (variable, value, told) in [
        ("HOTCELL_POLICY_PROFILE", "careful", "awaiting_approval"),
        ("HOTCELL_POLICY_PROFILE", "allowlist", "denied"),
        ("HOTCELL_POLICY_FILE", file.to_str().unwrap(), "no-sockets"),
    ] {
        let serve = world.hotcell(["serve"]).env(variable, value);
        let mut client = McpClient::start_with(serve, Era::Modern);
        let asked = json!({ "code": "1 + 1", "language": "javascript", "wait_s": 0 });
        let asked = client.ask_tool("code_run", asked);
        let refused = client.answer(asked).to_string();
        assert!(refused.contains(told), "{value}: {refused}");
        // The control: Python that does nothing of the kind is read, and runs.
        if value != "allowlist" {
            assert_eq!(result_of(&mut client, "python", "1 + 1"), 2);
        }
    }
}

fn the_program_that_reads_scripts_cannot_be_changed(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    // Whoever has it open can try once nobody runs it any more.
    let change = "chmod 777 /proc/self/fd/9; (echo x >>/proc/self/fd/9) && echo CHANGED; exit";
    let watch = format!(
        "for n in $(seq 4000); do for exe in /proc/[0-9]*/exe; do case $(readlink $exe) in \
         *memfd:hotcell*) exec 9<$exe; echo seen; sleep 2; {change};; esac; done; done"
    );
    let asked = json!({ "command": watch, "wait_s": 50 });
    let watching = client.ask_tool("exec_run", asked);
    let large = format!("let x = [{}]\n1", "{ a: 1 } as any, ".repeat(40_000));
    assert_eq!(result_of(&mut client, "typescript", &large), 1);
    let seen = client.answer(watching)["result"]["structuredContent"].clone();
    assert_eq!(seen["stdout"], "seen\n", "{seen}");
    assert_eq!(result_of(&mut client, "typescript", "2 as number"), 2);
    // The control: a file of one's own can be changed like that.
    let own = format!("cp /bin/true own; exec 9<own; {change}");
    let own = client.call("exec_run", json!({ "command": own }));
    assert_eq!(own["stdout"], "CHANGED\n", "{own}");
}
