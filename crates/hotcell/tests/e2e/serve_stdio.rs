//! `hotcell serve` on standard input and output: whatever a client sends, it is answered rightly,
//! and the server goes on.

use std::io::Write;

use serde_json::{Value, json};

use crate::world::{Chance, Era, McpClient, World, eventually, hello, peak_kib};

in_worlds! { [root, rootless]
    both_eras_are_served_by_one_connection,
    messages_that_are_none_are_refused_and_the_next_is_answered,
    a_message_that_is_too_long_is_refused_and_not_kept,
    wrong_parameters_are_named,
    unknown_methods_are_told_from_wrong_parameters,
    an_id_that_is_under_way_is_refused,
    what_comes_before_the_first_request_is_harmless,
    every_older_revision_shakes_hands,
    a_client_that_reads_late_gets_every_answer,
    a_client_that_never_reads_does_not_hold_the_server,
    output_is_protocol_and_nothing_else,
    mistakes_of_a_client_are_not_logged,
    mutated_messages_leave_the_server_serving,
}

const INVALID_REQUEST: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const PARSE_ERROR: i64 = -32700;

/// That the server still answers.
#[track_caller]
fn still_serves(client: &mut McpClient) {
    let answer = client.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().map(Vec::len);
    assert!(tools.is_some_and(|count| count >= 10), "{answer}");
}

fn both_eras_are_served_by_one_connection(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let found = client.request("server/discover", json!({}));
    let versions = found["result"]["supportedVersions"].as_array().unwrap().clone();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    still_serves(&mut client);
    client.send(
        &json!({ "jsonrpc": "2.0", "id": "old", "method": "initialize", "params": hello("2025-06-18") }),
    );
    assert_eq!(client.answer("old")["result"]["protocolVersion"], "2025-06-18");
    let (finished, _) = client.leave();
    finished.succeeded();
}

fn messages_that_are_none_are_refused_and_the_next_is_answered(world: &World) {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"exec_list","arguments":{}1{}}}}}"#,
        r#"{"a":"#.repeat(5000),
        "}".repeat(5000)
    );
    let cases: &[(&[u8], i64)] = &[
        (b"{not json", PARSE_ERROR),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,", PARSE_ERROR),
        (b"\0\0\0", PARSE_ERROR),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"\xff\xfe\"}}",
            PARSE_ERROR,
        ),
        (br#"{"jsonrpc":"2.0","method":"ping","params":{"a":"\ud800"},"id":1}"#, PARSE_ERROR),
        (deep.as_bytes(), PARSE_ERROR),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, INVALID_REQUEST),
        (b"[]", INVALID_REQUEST),
        (b"5", INVALID_REQUEST),
        (b"\"ping\"", INVALID_REQUEST),
        (b"null", INVALID_REQUEST),
        (br#"{"id":null,"jsonrpc":"2.0","method":"ping"}"#, INVALID_REQUEST),
        (br#"{"id":1.5,"jsonrpc":"2.0","method":"ping"}"#, INVALID_REQUEST),
    ];
    for era in [Era::Modern, Era::Legacy] {
        let mut client = McpClient::start(world, era);
        still_serves(&mut client);
        for (number, (line, code)) in cases.iter().enumerate() {
            client.send_bytes(&[line, b"\n".as_slice()].concat());
            client.find_many(number + 1, |message| message["error"]["code"].is_i64());
            let last = client.received().pop().unwrap();
            let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
            assert_eq!(last["error"]["code"], *code, "{shown}: {last}");
            // A request whose id can be read is answered under it, so that its caller does not wait.
            let is_request =
                shown.starts_with(r#"{"jsonrpc":"2.0""#) && shown.contains(r#""method""#);
            let id = last.get("id").filter(|id| !id.is_null());
            assert_eq!(id, is_request.then_some(&json!(1)), "{shown}: {last}");
            still_serves(&mut client);
        }
        client.send_bytes(b"{\"id\":\"old-json\",\"jsonrpc\":\"1.0\",\"method\":\"ping\"}\n");
        assert_eq!(client.answer("old-json")["error"]["code"], INVALID_REQUEST);
        client.send_bytes(b"\n  \n\r\n");
        still_serves(&mut client);
        client.leave().0.succeeded();
    }
}

fn a_message_that_is_too_long_is_refused_and_not_kept(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    still_serves(&mut client);
    let before = peak_kib(client.pid());
    let long = vec![b'a'; 17 << 20];
    for round in 1..=3 {
        client.send_bytes(
            b"{\"jsonrpc\":\"2.0\",\"id\":\"long\",\"method\":\"ping\",\"params\":{\"x\":\"",
        );
        client.send_bytes(&long);
        client.send_bytes(b"\"}}\n");
        client.find_many(round, |message| message["error"]["code"] == INVALID_REQUEST);
        still_serves(&mut client);
    }
    let refused = client.find("the refusal", |message| message["error"].is_object());
    assert!(refused["error"]["message"].as_str().unwrap().contains("16777216"), "{refused}");
    assert_eq!(refused["id"], "long");
    let grown = peak_kib(client.pid()).saturating_sub(before);
    assert!(grown < 64 * 1024, "three messages of 17 MiB cost {grown} KiB");
    client.leave().0.succeeded();
}

fn wrong_parameters_are_named(world: &World) {
    for era in [Era::Modern, Era::Legacy] {
        let mut client = McpClient::start(world, era);
        for (method, params, named) in [
            ("tools/call", json!({ "name": 5 }), "name"),
            ("tools/call", json!({}), "name"),
            ("tools/call", json!({ "name": "exec_list", "arguments": "x" }), "arguments"),
            ("tools/call", json!({ "name": "exec_list", "arguments": [1] }), "arguments"),
            ("tools/call", json!({ "name": "no_such_tool" }), "no_such_tool"),
            ("resources/read", json!({ "uri": {} }), "uri"),
            ("resources/read", json!({}), "uri"),
            ("completion/complete", json!({ "ref": 5 }), "ref"),
        ] {
            let shown = format!("{method} {params}");
            let answer = client.request(method, params);
            assert_eq!(answer["error"]["code"], INVALID_PARAMS, "{shown}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains(named), "{shown}: {answer}");
        }
        // Wrong arguments of a tool that is there are for the model to mend.
        for (arguments, named) in [
            (json!({ "colour": 1 }), "colour"),
            (json!({ "limit": "many" }), "many"),
            (json!({ "limit": -1 }), "-1"),
            (json!({ "status": "dead" }), "dead"),
        ] {
            let id = client.ask_tool("exec_list", arguments);
            let answer = client.answer(id);
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{answer}");
            assert_eq!(result["_meta"]["hotcell/error"]["code"], "invalid", "{answer}");
            assert!(result["structuredContent"].is_null(), "it would not be what the schema says");
            assert!(result["content"][0]["text"].as_str().unwrap().contains(named), "{answer}");
        }
        still_serves(&mut client);
        client.leave().0.succeeded();
    }
}

fn unknown_methods_are_told_from_wrong_parameters(world: &World) {
    for era in [Era::Modern, Era::Legacy] {
        let mut client = McpClient::start(world, era);
        for method in ["no/such", "prompts/list", "tasks/result", "tasks/list", ""] {
            let answer = client.request(method, json!({}));
            assert_eq!(answer["error"]["code"], UNKNOWN_METHOD, "{method}: {answer}");
        }
        let ping = client.request("ping", json!({}));
        match era {
            Era::Modern => assert_eq!(ping["error"]["code"], UNKNOWN_METHOD, "{ping}"),
            Era::Legacy => assert!(ping["result"].is_object(), "{ping}"),
        }
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/no-such" }));
        client.send(&json!({ "jsonrpc": "2.0", "id": "to nothing", "result": {} }));
        still_serves(&mut client);
        client.leave().0.succeeded();
    }
}

fn an_id_that_is_under_way_is_refused(world: &World) {
    let mut client = McpClient::start(world, Era::Legacy);
    let call = |text: &str| {
        let arguments = json!({ "command": format!("read x; echo {text}"), "stdin_open": true });
        json!({
            "jsonrpc": "2.0", "id": "twin", "method": "tools/call",
            "params": { "name": "exec_run", "arguments": arguments },
        })
    };
    client.send(&call("first"));
    let exec = eventually_running(&mut client);
    client.send(&call("second"));
    let refused = client.find("a refusal", |message| message["error"].is_object());
    assert_eq!(refused["error"]["code"], INVALID_REQUEST, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("twin"), "{refused}");
    assert!(refused.get("id").is_none_or(Value::is_null), "the first is not over: {refused}");
    client.call("exec_input", json!({ "exec_id": exec, "text": "go\n" }));
    assert_eq!(client.answer("twin")["result"]["structuredContent"]["stdout"], "first\n");
    // Answered, the id may come again.
    client.send(&json!({ "jsonrpc": "2.0", "id": "twin", "method": "ping" }));
    client.find_many(2, |message| message["id"] == "twin");
    client.leave().0.succeeded();
}

/// The only exec, once it runs.
fn eventually_running(client: &mut McpClient) -> String {
    let mut found = String::new();
    eventually("an exec runs", || {
        let listed = client.call("exec_list", json!({ "status": "live" }));
        let Some(exec) = listed["execs"].get(0) else { return false };
        found = exec["exec_id"].as_str().unwrap().to_owned();
        exec["status"] == "running"
    });
    found
}

fn what_comes_before_the_first_request_is_harmless(world: &World) {
    for era in [Era::Modern, Era::Legacy] {
        let mut client = McpClient::start_silent(world.hotcell(["serve"]), era);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let cancelled = json!({ "requestId": 1, "reason": "none" });
        client.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
        );
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
        // A request that begins nothing changes nothing about it.
        client.send(&json!({ "jsonrpc": "2.0", "id": "vague", "method": "tools/list" }));
        assert_eq!(client.answer("vague")["error"]["code"], INVALID_PARAMS);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client.send_bytes(b"nonsense\n");
        client.find("a parse error", |message| message["error"]["code"] == PARSE_ERROR);
        if era == Era::Legacy {
            let answer = client.request("initialize", hello("2025-11-25"));
            assert!(answer["result"].is_object(), "{answer}");
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        still_serves(&mut client);
        client.leave().0.succeeded();
    }
    // One that leaves without a word is no failure either.
    McpClient::start_silent(world.hotcell(["serve"]), Era::Modern).leave().0.succeeded();
}

fn every_older_revision_shakes_hands(world: &World) {
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut client = McpClient::start_silent(world.hotcell(["serve"]), Era::Legacy);
        let answer = client.request("initialize", hello(asked));
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{answer}");
        still_serves(&mut client);
        client.leave().0.succeeded();
    }
}

fn a_client_that_reads_late_gets_every_answer(world: &World) {
    // Far more than a pipe and the server's queue hold.
    const REQUESTS: usize = 2000;
    let mut client = McpClient::start_deaf(world.hotcell(["serve"]), Era::Modern);
    let flood = client.list_requests(REQUESTS);
    let mut stdin = client.take_input();
    let writer = std::thread::spawn(move || {
        stdin.write_all(&flood).unwrap();
        stdin
    });
    eventually("the server says what it can", || client.unread_bytes() > 32 * 1024);
    let full = peak_kib(client.pid());
    client.listen();
    client.find_many(REQUESTS, |message| message["result"]["tools"].is_array());
    client.give_input(writer.join().unwrap());
    assert!(full < 200 * 1024, "unread answers cost {full} KiB");
    still_serves(&mut client);
    client.leave().0.succeeded();
}

fn a_client_that_never_reads_does_not_hold_the_server(world: &World) {
    let mut client = McpClient::start_deaf(world.hotcell(["serve"]), Era::Modern);
    let flood = client.list_requests(100);
    client.send_bytes(&flood);
    eventually("the pipe is full", || client.unread_bytes() > 32 * 1024);
    // Its input ends; its output stays open and unread.
    client.leave().0.succeeded();
}

fn output_is_protocol_and_nothing_else(world: &World) {
    for era in [Era::Modern, Era::Legacy] {
        let serve = world.hotcell(["serve"]).env("HOTCELL_LOG", "trace");
        let mut client = McpClient::start_with(serve, era);
        let env = json!({ "TOKEN": "nobody-is-to-read-this" });
        let asked = json!({ "command": "echo out; echo err >&2", "env": env });
        let ran = client.call("exec_run", asked);
        assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("out\n"), &json!("err\n")));
        client.call("cell_list", json!({}));
        client.request("no/such", json!({}));
        client.send_bytes(b"nonsense\n");
        still_serves(&mut client);
        let (finished, lines) = client.leave();
        let finished = finished.succeeded();
        assert!(!finished.stderr.is_empty(), "a trace was asked for");
        assert!(!finished.stderr().contains("nobody-is-to-read-this"), "{finished:?}");
        assert!(lines.len() >= 5, "{lines:?}");
        for line in lines {
            assert_eq!(line["jsonrpc"], "2.0", "{line}");
        }
    }
}

fn mistakes_of_a_client_are_not_logged(world: &World) {
    let mut client = McpClient::start(world, Era::Legacy);
    client.send_bytes(b"nonsense\n");
    client.request("no/such", json!({}));
    client.request("tools/call", json!({ "name": 5 }));
    client.request("resources/read", json!({ "uri": "exec://nothing" }));
    let (finished, _) = client.leave();
    assert_eq!(finished.succeeded().stderr(), "");
}

/// Good messages, to be spoilt.
fn good_messages() -> Vec<Vec<u8>> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 7,
    });
    let call = |tool: &str, arguments: Value| {
        ("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }))
    };
    let exec = "e_00000000000000000000000000";
    let requests = [
        ("initialize", hello("2025-11-25")),
        ("ping", json!({})),
        ("server/discover", json!({ "_meta": meta })),
        ("tools/list", json!({ "_meta": meta, "cursor": "x" })),
        ("resources/list", json!({ "_meta": meta })),
        ("resources/read", json!({ "_meta": meta, "uri": format!("exec://{exec}/stdout") })),
        ("tasks/get", json!({ "_meta": meta, "taskId": exec })),
        call("exec_list", json!({ "limit": 5, "status": "live" })),
        call("exec_poll", json!({ "exec_id": exec, "after_seq": 3, "wait_s": 0, "grep": "a+" })),
        call("exec_cancel", json!({ "exec_id": exec, "signal": "TERM", "grace_s": 1 })),
        call("cell_info", json!({ "cell": "nobody" })),
        call("exec_run", json!({ "cell": "nobody", "argv": ["true"], "wait_s": 1.5 })),
    ];
    let mut all: Vec<Vec<u8>> = requests
        .into_iter()
        .enumerate()
        .map(|(id, (method, params))| {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            request.to_string().into_bytes()
        })
        .collect();
    for (method, params) in [
        ("notifications/initialized", json!({})),
        ("notifications/cancelled", json!({ "requestId": 3, "reason": "no more" })),
        ("notifications/progress", json!({ "progressToken": 7, "progress": 1 })),
    ] {
        let notification = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        all.push(notification.to_string().into_bytes());
    }
    all
}

/// One small change at a place of chance.
fn spoil(message: &mut Vec<u8>, chance: &mut Chance) {
    const PIECES: &[&[u8]] = &[
        b"null",
        b"-1",
        b"1e999",
        b"18446744073709551616",
        b"{}",
        b"[]",
        b"\"",
        b"{",
        b"}",
        b":",
        b",",
        b"\\u0000",
        b"\\ud800",
        b"\xff",
        b"\xf0\x9f",
        b"\n",
        b"\0",
        b"true",
        b"[[[[[[[[",
    ];
    let at = |chance: &mut Chance, length: usize| {
        usize::try_from(chance.below(length as u64 + 1)).unwrap()
    };
    let from = at(chance, message.len());
    let to = (from + at(chance, 12)).min(message.len());
    match chance.below(5) {
        0 => {
            message.drain(from..to);
        }
        1 => {
            let piece = *chance.among(PIECES);
            message.splice(from..to, piece.iter().copied());
        }
        2 => {
            let again = message[from..to].to_vec();
            message.splice(from..from, again);
        }
        3 => message.truncate(from),
        _ => {
            if let Some(byte) = message.get_mut(from) {
                *byte ^= 1 << chance.below(8);
            }
        }
    }
}

fn mutated_messages_leave_the_server_serving(world: &World) {
    const ROUNDS: u64 = 60;
    const MESSAGES: u64 = 100;
    let mut chance = Chance::new();
    let good = good_messages();
    for round in 0..ROUNDS {
        let (era, state) = (*chance.among(&[Era::Modern, Era::Legacy]), chance.state());
        let mut client = McpClient::start(world, era);
        let mut sent = Vec::new();
        for _ in 0..MESSAGES {
            let mut message = chance.among(&good).clone();
            for _ in 0..=chance.below(3) {
                spoil(&mut message, &mut chance);
            }
            message.push(b'\n');
            client.send_bytes(&message);
            sent.push(message);
        }
        let id = format!("after round {round}");
        let list = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        } } });
        client.send(&list);
        let told = || String::from_utf8_lossy(&sent.concat()).into_owned();
        let Some(answer) = client.find_answer(id) else {
            panic!("{state}: {era:?}: no answer after {}", told())
        };
        assert!(answer["result"]["tools"].is_array(), "{state}: {answer} after {}", told());
        let (finished, lines) = client.leave();
        assert_eq!(finished.code(), 0, "{state}: {finished:?} after {}", told());
        for line in lines {
            assert_eq!(line["jsonrpc"], "2.0", "{state}: {line} after {}", told());
        }
    }
}
