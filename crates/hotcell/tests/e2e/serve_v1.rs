//! The JSON API: the life of cells and execs, and output as it comes.

use std::path::Path;

use serde_json::{Value, json};

use crate::world::{Connection, HttpServer, Sent, World};

in_worlds! {
    [root, rootless]
    cells_and_execs_are_made_shown_and_ended,
    a_stream_is_taken_up_again,
    checkpoints_are_kept_compared_and_gone_back_to,
}

in_worlds! {
    [root]
    errors_have_a_status_a_code_and_a_hint,
    the_description_is_served,
}

fn cells_and_execs_are_made_shown_and_ended(world: &World) {
    let server = HttpServer::start(world);
    let spawn = json!({ "alias": "api", "persistent": true, "env": { "COLOUR": "blue" } });
    let cell = server.ask(&Sent::post("/v1/cells", &spawn)).is(201).json();
    assert_eq!((&cell["alias"], &cell["state"]), (&json!("api"), &json!("ready")));
    let cells = server.ask(&Sent::get("/v1/cells")).is(200).json();
    assert_eq!(cells["cells"][0]["id"], cell["id"]);

    let run = json!({ "cell": "api", "command": "echo $COLOUR; echo no >&2; exit 4" });
    let ran = server.ask(&Sent::post("/v1/execs", &run)).is(201).json();
    assert_eq!(ran["exec"]["end"]["exit_code"], 4);
    let text = |shown: &Value, stream: &str| -> String {
        let messages = shown["messages"].as_array().unwrap().iter();
        let of_stream = messages.filter(|message| message["stream"] == stream);
        of_stream.map(|message| message["data"].as_str().unwrap()).collect()
    };
    assert_eq!((text(&ran, "stdout"), text(&ran, "stderr")), ("blue\n".into(), "no\n".into()));
    let ended = format!("/v1/execs/{}", ran["exec"]["id"].as_str().unwrap());
    assert_eq!(server.ask(&Sent::get(&ended)).is(200).json(), ran["exec"]);

    let run = json!({ "cell": "api", "argv": ["cat"], "stdin_open": true, "wait_s": 0 });
    let begun = server.ask(&Sent::post("/v1/execs", &run)).is(201).json();
    let path = format!("/v1/execs/{}", begun["exec"]["id"].as_str().unwrap());
    let input = json!({ "text": "one\ntwo\n", "wait_s": 20 });
    let sent = server.ask(&Sent::post(&format!("{path}/input"), &input)).is(200).json();
    assert_eq!(sent["exec"], begun["exec"]["id"]);
    let output =
        |query: &str| server.ask(&Sent::get(&format!("{path}/output?{query}"))).is(200).json();
    assert_eq!(text(&output("wait_s=20"), "stdout"), "one\ntwo\n");
    assert_eq!(text(&output("tail_lines=1"), "stdout"), "two\n");
    assert_eq!(text(&output("grep=on&stream=stdout&max_bytes=1000"), "stdout"), "one\n");
    let page = output("");
    assert_eq!(output(&format!("after_seq={}", page["next_seq"]))["messages"], json!([]));

    let live = server.ask(&Sent::get("/v1/execs?cell=api&status=live&limit=5")).is(200).json();
    assert_eq!(live["execs"].as_array().unwrap().len(), 1);
    let all = server.ask(&Sent::get("/v1/execs?limit=1")).is(200).json();
    let cursor = all["next_cursor"].as_str().unwrap();
    let next = server.ask(&Sent::get(&format!("/v1/execs?limit=1&cursor={cursor}"))).is(200).json();
    assert_eq!(next["execs"][0]["id"], ran["exec"]["id"]);

    server.ask(&Sent::delete("/v1/cells/api")).is(409);
    let cancelled = server.ask(&Sent::post(&format!("{path}/cancel"), &json!({}))).is(200).json();
    assert_eq!(cancelled["status"], "cancelled");
    let rest = format!("wait_s=20&after_seq={}", page["next_seq"]);
    assert_eq!(output(&rest)["exec"]["end"]["cause"], "cancelled");
    let again = server.ask(&Sent::post_bytes(&format!("{path}/cancel"), "")).is(200).json();
    assert_eq!(again["status"], "already_ended");
    server.ask(&Sent::delete("/v1/cells/api?force=true")).is(200);
    server.ask(&Sent::get("/v1/cells/api")).is(404);
    // Its execs are remembered for a while.
    assert_eq!(server.ask(&Sent::get(&ended)).is(200).json(), ran["exec"]);
    assert_eq!(server.terminate().code(), 0);
}

/// Events of a stream, one at a time.
struct Events {
    connection: Connection,
    unread: String,
}

/// One of them.
#[derive(Debug)]
struct Event {
    kind: String,
    id: Option<String>,
    data: Value,
}

impl Events {
    fn open(server: &HttpServer, request: &Sent) -> Self {
        let mut connection = server.send(request);
        let head = connection.head().unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        Self { connection, unread: String::new() }
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
                };
                let found = field("data: ").map(|data| Event {
                    kind: field("event: ").unwrap(),
                    id: field("id: "),
                    data: serde_json::from_str(&data).unwrap(),
                });
                self.unread = rest.to_owned();
                match found {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            self.unread += &String::from_utf8(self.connection.chunk()?).unwrap();
        }
    }
}

fn a_stream_is_taken_up_again(world: &World) {
    // Characters of three bytes, each in a write of its own.
    const SCRIPT: &str = r"for i in 1 2 3 4 5 6 7 8 9; do
        printf '\342'; sleep 0.02; printf '\202'; sleep 0.02; printf '\254%s\n' $i; sleep 0.02
    done";
    let server = HttpServer::start(world);
    let run = json!({ "command": SCRIPT, "wait_s": 0 });
    let begun = server.ask(&Sent::post("/v1/execs", &run)).is(201).json();
    let path = format!("/v1/execs/{}/stream", begun["exec"]["id"].as_str().unwrap());
    let mut output = String::new();
    let mut last: Option<String> = None;
    let mut resumed = 0;
    let ended = 'all: loop {
        let request = match &last {
            Some(id) => Sent::get(&path).with("last-event-id", id),
            None => Sent::get(&path),
        };
        let mut events = Events::open(&server, &request);
        // A few at a time, and then from anew.
        for _ in 0..2 {
            let event = events.next().unwrap();
            match event.kind.as_str() {
                "output" => {
                    output += event.data["data"].as_str().unwrap();
                    assert_eq!(event.data["seq"].to_string(), event.id.clone().unwrap());
                    last = event.id;
                }
                "end" => break 'all event.data,
                other => panic!("an event {other}: {event:?}"),
            }
        }
        resumed += 1;
        assert!(resumed < 100, "it begins anew each time: {output}");
    };
    assert!(resumed > 2);
    let expected: String = (1..=9).map(|number| format!("€{number}\n")).collect();
    assert_eq!(output, expected);
    assert_eq!(ended["end"]["exit_code"], 0);

    let mut whole = Events::open(&server, &Sent::get(&format!("{path}?after_seq=0")));
    let mut kinds = Vec::new();
    while let Some(event) = whole.next() {
        kinds.push(event.kind);
    }
    assert_eq!(kinds.last().map(String::as_str), Some("end"));
    assert!(kinds.len() > resumed, "{kinds:?}");
}

fn errors_have_a_status_a_code_and_a_hint(world: &World) {
    let server = HttpServer::start(world);
    let good = json!({ "command": "true" });
    server.ask(&Sent::post("/v1/execs", &good)).is(201);
    let post = |body: Value| Sent::post("/v1/execs", &body);
    for (request, status, code, said) in [
        (post(json!({ "command": "true", "colour": 1 })), 400, "invalid", "colour"),
        (post(json!({ "command": "true", "argv": ["true"] })), 400, "invalid", "argv"),
        (post(json!({ "command": 5 })), 400, "invalid", "body"),
        (post(json!({ "command": "true", "cell": "absent" })), 404, "not_found", "absent"),
        (Sent::post_bytes("/v1/execs", "{"), 400, "invalid", "body"),
        (Sent::post("/v1/execs", &good).with("content-type", "text/plain"), 415, "invalid", "text"),
        (Sent::get("/v1/execs?colour=1"), 400, "invalid", "colour"),
        (Sent::get("/v1/execs?limit=many"), 400, "invalid", "limit"),
        (Sent::get("/v1/execs/e_0000000000"), 404, "not_found", "e_0000000000"),
        (Sent::get("/v1/execs/nonsense"), 400, "invalid", "nonsense"),
        (Sent::get("/v1/execs/e_0000000000/stream"), 404, "not_found", "e_0000000000"),
        (Sent::post("/v1/execs/e_0000000000/cancel", &json!({})), 404, "not_found", "e_0000000000"),
        (Sent::get("/v1/nowhere"), 404, "not_found", "nowhere"),
        (Sent::delete("/v1/execs"), 405, "invalid", "DELETE"),
    ] {
        let answer = server.ask(&request);
        assert_eq!(answer.status, status, "{request:?}: {answer:?}");
        let error = answer.json();
        assert_eq!(error["code"], code, "{request:?}: {answer:?}");
        let words = error["message"].as_str().unwrap();
        assert!(words.contains(said), "{request:?}: {answer:?}");
    }
}

fn the_description_is_served(world: &World) {
    let server = HttpServer::start(world);
    let served = server.ask(&Sent::get("/v1/openapi.json")).is(200).json();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let kept: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!(served, kept);
}

fn checkpoints_are_kept_compared_and_gone_back_to(world: &World) {
    let server = HttpServer::start(world);
    let run = |cell: &str, command: &str| {
        let asked = json!({ "cell": cell, "command": command });
        let ran = server.ask(&Sent::post("/v1/execs", &asked)).is(201).json();
        assert_eq!(ran["exec"]["end"]["exit_code"], 0, "{ran}");
        let messages = ran["messages"].as_array().unwrap().iter();
        messages.map(|message| message["data"].as_str().unwrap()).collect::<String>()
    };
    let spawn = json!({ "alias": "kept", "persistent": true });
    let cell = server.ask(&Sent::post("/v1/cells", &spawn)).is(201).json();
    run("kept", "echo 1 > f; mkdir d");
    let all = "/v1/cells/kept/checkpoints";
    let made = server.ask(&Sent::post(all, &json!({}))).is(201).json();
    assert_eq!((&made["means"], &made["cell"]), (&json!("stacked"), &cell["id"]));
    let listed = server.ask(&Sent::get(all)).is(200).json();
    assert_eq!(listed["checkpoints"][0]["id"], made["id"]);

    run("kept", "echo 2 > f; rm -r d; touch g");
    let one = format!("{all}/{}", made["id"].as_str().unwrap());
    let diff = server.ask(&Sent::get(&format!("{one}/diff"))).is(200).json();
    let changes = diff["changes"].as_array().unwrap().iter();
    let told: Vec<_> = changes.map(|change| (&change["path"], &change["change"])).collect();
    let expected = [("d", "removed"), ("f", "changed"), ("g", "added")];
    let expected = expected.map(|(name, what)| (json!(format!("/workspace/{name}")), json!(what)));
    assert!(told.iter().copied().eq(expected.iter().map(|(path, what)| (path, what))), "{diff}");
    let few = server.ask(&Sent::get(&format!("{one}/diff?limit=1"))).is(200).json();
    assert_eq!((few["changes"].as_array().unwrap().len(), &few["truncated"]), (1, &json!(true)));

    let restore = format!("{one}/restore");
    let long = json!({ "cell": "kept", "argv": ["sleep", "1000"], "wait_s": 0 });
    server.ask(&Sent::post("/v1/execs", &long)).is(201);
    let refused = server.ask(&Sent::post(&restore, &json!({}))).is(409).json();
    assert_eq!(refused["code"], "conflict");
    server.ask(&Sent::post(&restore, &json!({ "force": true }))).is(200);
    assert_eq!(run("kept", "cat f; ls"), "1\nd\nf\n");

    run("kept", "echo now > f");
    let forks = "/v1/cells/kept/forks";
    let then = json!({ "checkpoint": made["id"], "alias": "then", "count": 2 });
    let forked = server.ask(&Sent::post(forks, &then)).is(201).json();
    assert_eq!(forked["cells"][1]["alias"], "then-2", "{forked}");
    assert_eq!(run("then-2", "cat f"), "1\n");
    let now = server.ask(&Sent::post(forks, &json!({ "alias": "now" }))).is(201).json();
    assert_eq!(now["cells"].as_array().unwrap().len(), 1, "{now}");
    assert_eq!(run("now", "cat f"), "now\n");

    server.ask(&Sent::delete(&one)).is(200);
    assert_eq!(server.ask(&Sent::delete(&one)).is(404).json()["code"], "not_found");
    for (path, body, status) in [
        (restore.as_str(), json!({}), 404),
        (restore.as_str(), json!({ "forc": true }), 400),
        ("/v1/cells/kept/checkpoints/c_1/restore", json!({}), 400),
        ("/v1/cells/nobody/checkpoints", json!({}), 404),
        (forks, json!({ "count": 0 }), 400),
        (forks, json!({ "alias": "now" }), 409),
    ] {
        server.ask(&Sent::post(path, &body)).is(status);
    }
    server.terminate().succeeded();
}
