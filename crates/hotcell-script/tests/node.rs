//! Runs the runner for JavaScript with the node of this machine, on scripts as they are read.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "the runner is run by a real node, and what is missing is said loudly"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;

use hotcell_runner::{Limits, ScriptOrder, script_arguments, script_source};
use hotcell_script::{Language, Script, read};
use rustix::io::FdFlags;
use serde_json::{Value, json};

/// What a run left.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    out: String,
    err: String,
    report: Value,
    asked: Vec<Value>,
    directory: tempfile::TempDir,
}

/// Answers the calls of a run.
type Host = fn(&Value) -> Option<Value>;

fn nobody(_: &Value) -> Option<Value> {
    None
}

fn serve(mut ours: UnixStream, host: Host) -> Vec<Value> {
    let mut asked = Vec::new();
    loop {
        let mut head = [0; 4];
        if ours.read_exact(&mut head).is_err() {
            return asked;
        }
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        ours.read_exact(&mut body).unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        asked.push(message.clone());
        match host(&message) {
            Some(mut answer) => {
                answer["id"] = message["id"].clone();
                let answer = answer.to_string();
                ours.write_all(&(answer.len() as u32).to_be_bytes()).unwrap();
                ours.write_all(answer.as_bytes()).unwrap();
            }
            None => {
                ours.shutdown(Shutdown::Both).unwrap();
                return asked;
            }
        }
    }
}

/// Runs a script as a cell does, within these bytes of a report. `None` without node.
fn run_within(language: Language, source: &str, host: Host, report_bytes: u32) -> Option<Outcome> {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let Script { code, map, inserted } = read(source, language).unwrap();
    let order = ScriptOrder {
        source: source.to_owned(),
        code,
        map,
        inserted,
        results: at("results").display().to_string(),
        limits: Limits { report_bytes, ..Limits::default() },
    };
    fs::write(at("order"), serde_json::to_vec(&order).unwrap()).unwrap();
    fs::write(at("source"), script_source()).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
    let serving = thread::spawn({
        let ours = ours.try_clone().unwrap();
        move || serve(ours, host)
    });
    let node = std::env::var("HOTCELL_TEST_NODE").unwrap_or_else(|_| "node".to_owned());
    // The descriptors as a cell gives them.
    let text = format!(
        "exec \"$@\" 8 3<&{} 4>report 5</dev/null 6<source 7</dev/null 8<order",
        theirs.as_raw_fd()
    );
    let ended = Command::new("bash")
        .args(["-c", &text, "bash", &node])
        .args(script_arguments())
        .current_dir(directory.path())
        .output()
        .unwrap();
    drop(theirs);
    let _ = ours.shutdown(Shutdown::Both);
    let asked = serving.join().unwrap();
    if ended.status.code() == Some(127) {
        skip("there is no node");
        return None;
    }
    let report = fs::read(at("report")).unwrap();
    assert!(report.len() <= report_bytes as usize, "{} bytes", report.len());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some(Outcome {
        code: ended.status.code(),
        out: text(ended.stdout),
        err: text(ended.stderr),
        report: serde_json::from_slice(&report).unwrap_or_default(),
        asked,
        directory,
    })
}

fn run(source: &str) -> Option<Outcome> {
    run_within(Language::TypeScript, source, nobody, 262_144)
}

/// Says loudly that something is missing, or fails where it is required.
fn skip(why: &str) {
    let required = std::env::var("HOTCELL_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == "runner"), "runner is required: {why}");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED {test}: {why}");
    if let Some(list) = std::env::var_os("HOTCELL_TEST_SKIPS") {
        let mut list = fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{test}: {why}").unwrap();
    }
}

#[test]
fn values_are_json_where_nothing_is_lost() {
    for (source, result) in [
        (
            "[1, 'a', null, true, 1.5, { b: undefined, c: [undefined] }]",
            json!({"json": [1, "a", null, true, 1.5, {"c": [null]}]}),
        ),
        ("new Date(0)", json!({"json": "1970-01-01T00:00:00.000Z"})),
        ("new Set(['x'])", json!({"json": ["x"]})),
        ("null", json!({"json": null})),
        ("undefined", Value::Null),
        ("({ ['__proto__']: 1 })", json!({"json": {"__proto__": 1}})),
        ("10n", json!({"repr": "10n"})),
        ("NaN", json!({"repr": "NaN"})),
        ("[1, Symbol('s')]", json!({"repr": "[ 1, Symbol(s) ]"})),
        ("class P { x = 1 }\nnew P()", json!({"repr": "P { x: 1 }"})),
        ("const a: any = {}\na.a = a\na", json!({"repr": "<ref *1> { a: [Circular *1] }"})),
        ("'half \\ud83d of \\\\ud83d'", json!({"json": "half \u{fffd} of \\ud83d"})),
        ("({ get x(): number { throw new Error('no') } })", json!({"repr": "{ x: [Getter] }"})),
        ("Promise.resolve(5)", json!({"json": 5})),
        ("export default 7", json!({"json": 7})),
        ("'use strict'", json!({"json": "use strict"})),
    ] {
        let Some(outcome) = run(source) else { return };
        assert_eq!(outcome.report["result"], result, "{source}: {outcome:?}");
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{source}: {outcome:?}");
    }
}

#[test]
fn what_does_not_fit_lies_in_a_file() {
    for source in [
        "'x'.repeat(100000)",
        "Array.from({ length: 100000 }, (_, n) => n)",
        "Object.fromEntries(Array.from({ length: 30000 }, (_, n) => ['k' + n, n]))",
        "new (class Long { text = 'y'.repeat(100000) })()",
        "Buffer.alloc(100000)",
        "throw new Error('z'.repeat(100000))",
        "throw Object.assign(new Error('a'), { cause: new Error('b'.repeat(100000)) })",
    ] {
        for most in [4096, 400] {
            let Some(outcome) = run_within(Language::TypeScript, source, nobody, most) else {
                return;
            };
            let results = outcome.directory.path().join("results");
            let kept = fs::read_dir(results).unwrap().next().unwrap().unwrap().path();
            assert!(fs::metadata(&kept).unwrap().len() >= 100_000, "{source}: {outcome:?}");
            if let Some(file) = outcome.report["result_file"].as_str() {
                assert_eq!(Path::new(file), kept);
            }
        }
    }
}

#[test]
fn frames_are_those_of_what_was_written() {
    let source = "interface A {\n  a: string\n}\n\nasync function inner(a: A) {\n  await null\n  throw \
                  new TypeError(a.a)\n}\nasync function outer() {\n  await inner({ a: 'told' })\n}\nawait outer()";
    let Some(outcome) = run(source) else { return };
    let error = &outcome.report["error"];
    assert_eq!((&error["type"], &error["line"]), (&json!("TypeError"), &json!(7)), "{outcome:?}");
    let frames = "TypeError: told\n    at inner (<code>:7:9)\n    at async outer (<code>:10:3)\n    at async <code>:12:1";
    assert_eq!(error["traceback"], frames, "{outcome:?}");
    let Some(outcome) = run_within(Language::JavaScript, "let a\n  a.b", nobody, 262_144) else {
        return;
    };
    assert!(
        outcome.report["error"]["traceback"].as_str().unwrap().contains("<code>:2:5"),
        "{outcome:?}"
    );
}

#[test]
fn runs_end_as_node_ends() {
    for (source, code, message) in [
        ("process.exit(4)", 4, "exit code 4"),
        ("process.exitCode = 5", 5, "exit code 5"),
        ("setTimeout(() => { throw new Error('late') }, 5)", 1, "late"),
        ("Promise.reject(new Error('alone'))", 1, "alone"),
        ("await new Promise(() => {})", 13, "nothing can settle"),
        ("throw { a: 1 }", 1, "{ a: 1 }"),
        ("throw undefined", 1, "undefined"),
        ("throw new AggregateError([new Error('one')], 'several')", 1, "several"),
        ("const f = (): number => f() + 1\nf()", 1, "call stack"),
        ("throw new Proxy({}, { get() { throw 1 } })", 1, ""),
    ] {
        let Some(outcome) = run(source) else { return };
        assert_eq!(
            (outcome.code, &outcome.report["status"]),
            (Some(code), &json!("error")),
            "{source}: {outcome:?}"
        );
        let told = outcome.report["error"]["message"].as_str().unwrap();
        assert!(told.contains(message), "{source}: {outcome:?}");
    }
    for source in [
        "process.on('uncaughtException', () => {})\nsetTimeout(() => { throw 1 }, 1)\n'fine'",
        "setTimeout(() => console.log('later'), 5)\n'fine'",
    ] {
        let Some(outcome) = run(source) else { return };
        assert_eq!(
            (outcome.code, &outcome.report["result"]["json"]),
            (Some(0), &json!("fine")),
            "{outcome:?}"
        );
    }
    let Some(outcome) = run("console.log('a')\nconsole.error('b')") else { return };
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("a\n", "b\n"));
}

#[test]
fn other_modules_are_found_from_the_working_directory() {
    let source = "import { writeFileSync } from 'fs'\n\
                  writeFileSync('own.mjs', 'export const own = 5; export default 6')\n\
                  writeFileSync('data.json', '{\"a\": 7}')\n\
                  const { own, default: six } = await import('./own.mjs')\n\
                  const all = [own, six, require('./data.json').a, import.meta.dirname === process.cwd()]\n\
                  writeFileSync(process.env.HOTCELL_RESULTS + '.txt', '')\nall";
    let Some(outcome) = run(source) else { return };
    assert_eq!(outcome.report["result"]["json"], json!([5, 6, 7, true]), "{outcome:?}");
}

fn host(message: &Value) -> Option<Value> {
    Some(
        match (
            message["op"].as_str().unwrap(),
            message["server"].as_str(),
            message["tool"].as_str(),
        ) {
            ("list", Some("box"), _) => json!({ "ok": ["echo", "fail", "hang_up"] }),
            ("list", None, _) => json!({ "ok": ["box"] }),
            ("list", _, _) => {
                json!({ "error": { "code": "not_found", "message": "no server", "hint": null } })
            }
            ("search", _, _) => json!({ "ok": format!("found {}", message["query"]) }),
            (_, _, Some("echo")) => json!({ "ok": message["arguments"] }),
            (_, _, Some("fail")) => {
                json!({ "error": { "code": "denied", "message": "not you", "hint": "ask" } })
            }
            (_, _, _) => return None,
        },
    )
}

#[test]
fn tools_are_functions_that_return_promises() {
    for (source, result) in [
        (
            "import { echo } from 'tools/box'\necho({ a: 'é😀', big: 'x'.repeat(100000) }).then((it: any) => [it.a, it.big.length])",
            json!(["é😀", 100_000]),
        ),
        (
            "import * as box from 'tools/box'\n(await Promise.all([1, 2, 3].map((n) => box.echo({ n })))).map((it: any) => it.n)",
            json!([1, 2, 3]),
        ),
        ("import box from 'tools/box'\nObject.keys(box)", json!(["echo", "fail", "hang_up"])),
        ("const { echo } = await import('tools/box');\n(await echo()) as object", json!({})),
        ("import { search } from 'tools'\nsearch('words')", json!("found \"words\"")),
        (
            "import { fail } from 'tools/box'\nimport { ToolError } from 'tools'\n\
             try { await fail({}) } catch (error) { if (!(error instanceof ToolError)) throw 1\n\
             globalThis.told = [error.name, error.code, error.message, error.hint] }\n(globalThis as any).told",
            json!(["ToolError", "denied", "not you", "ask"]),
        ),
        (
            "import { hang_up, echo } from 'tools/box'\n[await hang_up().catch((e: any) => e.code), await echo().catch((e: any) => e.code)]",
            json!(["unavailable", "unavailable"]),
        ),
        (
            "import { echo } from 'tools/box'\necho({ a: 1n }).catch((error: any) => error.code)",
            json!("invalid_argument"),
        ),
    ] {
        let Some(outcome) = run_within(Language::TypeScript, source, host, 262_144) else { return };
        assert_eq!(outcome.report["result"]["json"], result, "{source}: {outcome:?}");
    }
    for (source, kind, line, named) in [
        (
            "import { fail } from 'tools/box'\n\nawait fail()",
            "ToolError",
            3,
            "not you (denied)\nhint: ask",
        ),
        ("import { echo } from 'tools/box'\necho('a')", "TypeError", 2, "/tools/box/echo.d.ts"),
        ("\nimport { other } from 'tools/box'\nother()", "SyntaxError", 2, "other"),
        ("\nimport { x } from 'tools/none'\nx()", "Error", 2, "there are: box"),
    ] {
        let Some(outcome) = run_within(Language::TypeScript, source, host, 262_144) else { return };
        let error = &outcome.report["error"];
        assert_eq!(
            (&error["type"], &error["line"]),
            (&json!(kind), &json!(line)),
            "{source}: {outcome:?}"
        );
        assert!(error["traceback"].as_str().unwrap().contains(named), "{source}: {outcome:?}");
    }
    let Some(outcome) = run_within(Language::JavaScript, "1", host, 262_144) else { return };
    assert_eq!(outcome.asked, Vec::<Value>::new(), "nothing is asked for without need");
}
