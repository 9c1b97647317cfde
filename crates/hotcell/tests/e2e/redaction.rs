//! What has the form of a secret: agents see a marker wherever it would be shown, the operator sees
//! what was printed, and no marker takes the place of a secret in a file.

use serde_json::{Value, json};

use crate::world::{Era, HttpServer, McpClient, Sent, World, eventually};

in_worlds! { [root, rootless]
    an_agent_sees_no_secret_over_stdio,
}

in_worlds! { [root]
    an_agent_sees_no_secret_over_http,
    switched_off_it_is_seen,
    a_marker_takes_no_secrets_place,
    values_of_granted_secrets_are_masked_in_files,
    the_operator_sees_every_byte,
}

const LETTERS: &str = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0fG3iJ6lM9oP2rS5uV8";

/// Put together here, so that it stands in no file.
fn token() -> String {
    format!("gh{}_{}", "p", &LETTERS[..36])
}

fn key_line() -> String {
    format!("{}{}", &LETTERS[5..], &LETTERS[..21])
}

/// What must not be seen.
fn secrets() -> [String; 4] {
    [token(), key_line(), "hunter2hunter".to_owned(), LETTERS[..24].to_owned()]
}

/// A file with secrets of several forms among what is none.
fn text() -> String {
    let (dashes, line) = ("-".repeat(5), key_line());
    format!(
        "first line\nGITHUB={}\n{dashes}BEGIN PRIVATE KEY{dashes}\n{line}\n{line}\n{line}\n\
         {dashes}END PRIVATE KEY{dashes}\npostgres://app:hunter2hunter@db/app\nmiddle line\n\
         curl -H 'Authorization: Bearer {}' x\nlast line\n",
        token(),
        &LETTERS[..24]
    )
}

/// How an agent calls tools, and what it gets to see of the answer.
type Calls<'a> = Box<dyn FnMut(&str, Value) -> String + 'a>;

fn over_stdio(client: &mut McpClient) -> Calls<'_> {
    Box::new(|tool, arguments| {
        let id = client.ask_tool(tool, arguments);
        client.answer(id).to_string()
    })
}

fn over_http(server: &HttpServer) -> Calls<'_> {
    Box::new(|tool, arguments| server.ask(&Sent::tool(tool, arguments)).is(200).body)
}

/// The operator puts the file into a cell and shows it once.
fn prepare(world: &World) -> String {
    world
        .hotcell(["run", "-i", "--cell", "safe", "cat > secrets.txt"])
        .input(text())
        .run()
        .succeeded();
    let exec = world.detach("safe", &format!("cat secrets.txt; : {}", token()));
    world.ended(&exec);
    exec
}

/// Everything that an agent can see of that by tools, each with how it asked.
fn seen_by_tools(calls: &mut Calls<'_>, exec: &str) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let mut note = |tool: &str, arguments: Value, calls: &mut Calls<'_>| -> String {
        let answer = calls(tool, arguments.clone());
        seen.push((format!("{tool} {arguments}"), answer.clone()));
        answer
    };
    let slowly = "while IFS= read -r -n 5 part || [ -n \"$part\" ]; do printf %s \"$part\"; done < secrets.txt";
    for command in [
        "cat secrets.txt",
        "cat secrets.txt >&2",
        slowly,
        "cat secrets.txt; seq 200000; cat secrets.txt",
    ] {
        note("exec_run", json!({ "cell": "safe", "command": command }), calls);
    }
    let pty = json!({ "cell": "safe", "command": "cat secrets.txt", "pty": true });
    note("exec_run", pty, calls);
    for max_bytes in [1, 64, 100_000] {
        for after_seq in 0..3 {
            let asked = json!({ "exec_id": exec, "after_seq": after_seq, "max_bytes": max_bytes });
            note("exec_poll", asked, calls);
        }
    }
    for filter in [
        json!({ "tail_lines": 3 }),
        json!({ "tail_lines": 9 }),
        json!({ "grep": "." }),
        json!({ "grep": "GITHUB|app" }),
        json!({ "grep": "Bearer", "tail_lines": 1 }),
    ] {
        let mut asked = json!({ "exec_id": exec });
        asked.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
        note("exec_poll", asked, calls);
    }
    note("exec_list", json!({}), calls);
    note("cell_info", json!({ "cell": "safe" }), calls);
    let path = json!({ "cell": "safe", "path": "secrets.txt" });
    note("fs_read", path.clone(), calls);
    note("fs_read", json!({ "cell": "safe", "path": "secrets.txt", "encoding": "base64" }), calls);
    for offset in (0..400).step_by(9) {
        let asked = json!({ "cell": "safe", "path": "secrets.txt", "offset": offset, "limit": 60 });
        note("fs_read", asked, calls);
    }
    for line in 1..=9 {
        let asked = json!({ "cell": "safe", "path": "secrets.txt", "lines": line.to_string() });
        note("fs_read", asked, calls);
    }
    for pattern in ["GITHUB", "hunter", "line", &key_line()[..30], "Bearer"] {
        let asked = json!({ "cell": "safe", "path": ".", "pattern": pattern, "context_lines": 2 });
        note("fs_search", asked, calls);
    }
    let edit = json!([{ "old": "middle line", "new": "changed line" }]);
    let edit = json!({ "cell": "safe", "path": "secrets.txt", "edits": edit, "dry_run": true });
    note("fs_edit", edit, calls);
    let read = json!({ "op": "read", "path": "secrets.txt" });
    note("fs_batch", json!({ "cell": "safe", "operations": [read] }), calls);
    seen
}

fn has_secret(answer: &str) -> Option<String> {
    // Also in a part that would do, and as base64 of it.
    let is_seen = |secret: &String| answer.contains(&secret[..secret.len() * 2 / 3]);
    secrets().into_iter().find(is_seen)
}

#[track_caller]
fn assert_unseen(seen: &[(String, String)]) {
    assert!(seen.len() > 70, "{}", seen.len());
    for (asked, answer) in seen {
        assert!(!answer.contains("\"isError\":true"), "{asked}: {answer}");
        assert_eq!(has_secret(answer), None, "{asked}: {answer}");
    }
    let marked = seen.iter().filter(|(_, answer)| answer.contains("[REDACTED:")).count();
    assert!(marked > 40, "{marked}");
    // What is no secret is there.
    for tool in ["exec_run", "fs_read"] {
        let (_, answer) = seen.iter().find(|(asked, _)| asked.starts_with(tool)).unwrap();
        for part in [
            "first line",
            "GITHUB=[REDACTED:github-token]",
            "postgres://app:[REDACTED:password]@db/app",
            "last line",
        ] {
            assert!(answer.contains(part), "{tool}: {part}: {answer}");
        }
    }
}

fn an_agent_sees_no_secret_over_stdio(world: &World) {
    let exec = prepare(world);
    let serve = world.hotcell(["serve"]).env("HOTCELL_LOG", "debug");
    let mut client = McpClient::start_with(serve, Era::Modern);
    assert_unseen(&seen_by_tools(&mut over_stdio(&mut client), &exec));
    // As it comes, and as a resource.
    let slow = "while read -r line; do echo \"$line\"; sleep 0.05; done < secrets.txt; sleep 0.5";
    let run = json!({ "name": "exec_run", "arguments": { "cell": "safe", "command": slow }, "_meta": { "progressToken": 7 } });
    let ran = client.request("tools/call", run);
    assert!(ran["result"]["isError"] != true, "{ran}");
    let search = json!({ "cell": "safe", "path": ".", "pattern": "GITHUB|hunter" });
    client.request(
        "tools/call",
        json!({ "name": "fs_search", "arguments": search, "_meta": { "progressToken": 8 } }),
    );
    client.request("resources/read", json!({ "uri": format!("exec://{exec}/stdout") }));
    client.request("resources/list", json!({}));
    // An error that quotes what was asked for.
    let wrong = json!({ "cell": "safe", "argv": [format!("/bin/{}", token())] });
    client.ask_tool("exec_run", wrong);
    let wrong = client.request("tools/call", json!({ "name": "fs_read", "arguments": { "cell": "safe", "path": format!("no/{}", token()) } }));
    assert!(wrong["result"]["isError"] == true, "{wrong}");
    let (secret, path) = (token(), format!("workspace:safe/{}", token()));
    for (method, params) in [
        ("tools/call", json!({ "name": "fs_read", "arguments": { &secret: 1 } })),
        ("tools/call", json!({ "name": "exec_poll", "arguments": { "exec_id": &secret } })),
        ("tools/call", json!({ "name": &secret, "arguments": {} })),
        ("resources/read", json!({ "uri": path })),
        (&secret, json!({})),
    ] {
        let wrong = client.request(method, params).to_string();
        assert!(wrong.contains("[REDACTED:github-token]"), "{wrong}");
    }
    let received = client.received();
    assert!(received.iter().any(|message| message["method"] == "notifications/progress"));
    let (finished, lines) = client.leave();
    for message in received.iter().chain(&lines) {
        assert_eq!(has_secret(&message.to_string()), None, "{message}");
    }
    // Nor in the server's log, though all of it was asked for.
    let log = finished.stderr();
    assert!(log.contains("refused") && has_secret(&log).is_none(), "{log}");
}

fn an_agent_sees_no_secret_over_http(world: &World) {
    let exec = prepare(world);
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_LOG", "info")]);
    assert_unseen(&seen_by_tools(&mut over_http(&server), &exec));
    let run = json!({ "cell": "safe", "command": "cat secrets.txt" });
    let mut seen = vec![server.ask(&Sent::post("/v1/execs", &run)).is(201).body];
    for path in [
        "output",
        "output?max_bytes=1",
        "output?grep=.",
        "output?tail_lines=5",
        "stream",
        "stream?after_seq=1",
    ] {
        seen.push(server.ask(&Sent::get(&format!("/v1/execs/{exec}/{path}"))).is(200).body);
    }
    seen.push(server.ask(&Sent::get(&format!("/v1/execs/{exec}"))).is(200).body);
    seen.push(server.ask(&Sent::get("/v1/execs")).is(200).body);
    let search = json!({ "path": ".", "pattern": "GITHUB" });
    seen.push(server.ask(&Sent::post("/v1/cells/safe/search", &search)).is(200).body);
    // Errors that quote what was asked for.
    let wrong = Sent::post("/v1/execs", &json!({ token(): 1 }));
    let nowhere = Sent::get(&format!("/v1/{}", token()));
    for (sent, status) in [(wrong, 400), (nowhere, 404)] {
        let body = server.ask(&sent).is(status).body;
        assert!(body.contains("[REDACTED:github-token]"), "{body}");
        seen.push(body);
    }
    for body in &seen {
        assert_eq!(has_secret(body), None, "{body}");
    }
    // A path that is no text is refused as everything is.
    let refused = server.ask(&Sent::get("/v1/cells/%ff")).is(400);
    assert_eq!(refused.json()["code"], "invalid", "{}", refused.body);
    // To see it as it is takes more than asking.
    for path in ["output?raw=true", "stream?raw=true"] {
        let refused = server.ask(&Sent::get(&format!("/v1/execs/{exec}/{path}"))).is(403);
        assert_eq!(refused.json()["code"], "denied", "{}", refused.body);
    }
    // Content that is fetched is data.
    let content = server.ask(&Sent::get("/v1/cells/safe/files/secrets.txt")).is(200).body;
    assert_eq!(content, text());
    // Names that a client chooses are in the log, and none of them shows a secret.
    let answer = server.ask(&Sent::get("/v1/cells").with("x-request-id", &token())).is(200);
    assert_eq!(answer.header("x-request-id"), Some(token().as_str()));
    let log = server.terminate().stderr();
    assert!(log.contains("request_id=[REDACTED:github-token]"), "{log}");
    assert!(log.contains("path=\"/v1/[REDACTED:github-token]\""), "{log}");
    assert_eq!(has_secret(&log), None, "{log}");
}

fn switched_off_it_is_seen(world: &World) {
    let exec = prepare(world);
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_REDACTION_SHAPES", "off")]);
    let seen = seen_by_tools(&mut over_http(&server), &exec);
    let with = seen.iter().filter(|(_, answer)| has_secret(answer).is_some()).count();
    assert!(with > 30, "{with} of {}", seen.len());
    for tool in
        ["exec_run", "exec_poll", "exec_list", "fs_read", "fs_search", "fs_edit", "fs_batch"]
    {
        let shows = |(asked, answer): &(String, String)| {
            asked.starts_with(tool) && has_secret(answer).is_some()
        };
        assert!(seen.iter().any(shows), "{tool}");
    }
}

fn a_marker_takes_no_secrets_place(world: &World) {
    prepare(world);
    let server = HttpServer::start(world);
    let mut calls = over_http(&server);
    let marked = "GITHUB=[REDACTED:github-token]\n";
    let write = json!({ "cell": "safe", "path": "secrets.txt", "content": marked });
    let edit = json!([{ "old": "middle line", "new": marked }]);
    let edit = json!({ "cell": "safe", "path": "secrets.txt", "edits": edit });
    let part = json!({ "op": "write", "path": "secrets.txt", "content": marked });
    let batch = json!({ "cell": "safe", "operations": [part] });
    for (tool, arguments) in [("fs_write", write), ("fs_edit", edit), ("fs_batch", batch)] {
        let refused = calls(tool, arguments);
        assert!(
            refused.contains("\"code\":\"conflict\"") && refused.contains("hint"),
            "{tool}: {refused}"
        );
    }
    let path = "/v1/cells/safe/files/secrets.txt";
    let refused = server.ask(&Sent::put(path, format!("{}{marked}", "x".repeat(300_000)))).is(409);
    assert_eq!(refused.json()["code"], "conflict");
    server.ask(&Sent::put(&format!("{path}?raw=true"), marked)).is(403);
    assert_eq!(world.text(["run", "--cell", "safe", "cat secrets.txt"]), text());
    // What is around a secret can be changed: edits match what is there.
    let edit = json!([{ "old": "middle line", "new": "another line" }]);
    let done = calls("fs_edit", json!({ "cell": "safe", "path": "secrets.txt", "edits": edit }));
    assert!(done.contains("\"replaced\":1") && has_secret(&done).is_none(), "{done}");
    let replaced = json!([{ "old": format!("GITHUB={}", token()), "new": "GITHUB=gone" }]);
    calls("fs_edit", json!({ "cell": "safe", "path": "secrets.txt", "edits": replaced }));
    assert!(world.text(["run", "--cell", "safe", "cat secrets.txt"]).contains("GITHUB=gone\n"));
    // A file that has such a text keeps it, and may be written again.
    world
        .hotcell(["run", "-i", "--cell", "safe", "cat > about.md"])
        .input(marked)
        .run()
        .succeeded();
    let write = json!({ "cell": "safe", "path": "about.md", "content": format!("more\n{marked}") });
    assert!(calls("fs_write", write).contains("\"size\""));
    server.ask(&Sent::put("/v1/cells/safe/files/about.md", marked)).is(200);
    let twice =
        json!({ "cell": "safe", "path": "about.md", "content": format!("{marked}{marked}") });
    assert!(calls("fs_write", twice).contains("\"code\":\"conflict\""));
}

fn values_of_granted_secrets_are_masked_in_files(world: &World) {
    const VALUE: &str = "plainly-a-secret";
    world.hotcell(["secret", "set", "word"]).input(VALUE).run().succeeded();
    let put = "printf 'before %s after\\n' \"$WORD\" > value.txt; printf %s \"$WORD\" | base64 > encoded.txt";
    world.text(["run", "--cell", "safe", "--secret", "word", put]);
    let shapes = [("HOTCELL_REDACTION_SHAPES", "off"), ("HOTCELL_SERVE_SECRETS", "word")];
    let server = HttpServer::start_with(world, &[], &shapes);
    let mut calls = over_http(&server);
    let read = calls("fs_read", json!({ "cell": "safe", "path": "value.txt" }));
    assert!(read.contains("before [REDACTED:word] after"), "{read}");
    let found = calls("fs_search", json!({ "cell": "safe", "path": ".", "pattern": "before" }));
    assert!(found.contains("before [REDACTED:word] after"), "{found}");
    for offset in 0..20 {
        let asked = json!({ "cell": "safe", "path": "value.txt", "offset": offset, "limit": 12 });
        let read = calls("fs_read", asked);
        assert!(!read.contains("ainly") && !read.contains("secret"), "{offset}: {read}");
    }
    let encoded = calls("fs_read", json!({ "cell": "safe", "path": "encoded.txt" }));
    assert!(encoded.contains("[REDACTED:word]"), "{encoded}");
}

fn the_operator_sees_every_byte(world: &World) {
    let exec = prepare(world);
    assert_eq!(world.text(["logs", &exec]), text());
    assert_eq!(world.text(["run", "--cell", "safe", "cat secrets.txt"]), text());
    let listed = world.text(["ps", "--all", "--json"]);
    assert!(listed.contains(&token()), "{listed}");
    // What an agent ran is the operator's to see.
    let server = HttpServer::start(world);
    let run = json!({ "cell": "safe", "command": "cat secrets.txt; sleep 1000", "wait_s": 0 });
    let begun = server.ask(&Sent::post("/v1/execs", &run)).is(201).json();
    let exec = begun["exec"]["id"].as_str().unwrap();
    eventually("it has printed", || world.text(["logs", exec]) == text());
}
