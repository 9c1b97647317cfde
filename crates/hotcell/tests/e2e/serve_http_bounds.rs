//! What the server over HTTP refuses: each with the same request without the fault, which passes.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use crate::world::{Connection, HttpServer, Sent, World, eventually, fd_count, initialize};

in_worlds! {
    [root]
    what_is_no_message_is_answered_and_the_server_goes_on,
    a_token_is_asked_for,
    the_id_of_a_task_proves_nothing,
    other_machines_need_a_token,
    only_known_names_and_pages_are_let_in,
    connections_and_sessions_are_bounded,
    what_watches_over_the_server_is_told,
    every_refusal_is_counted_once,
}

const TOKEN: &str = "0123456789abcdef-a-test";

fn list_tools() -> Sent {
    Sent::modern(1, "tools/list", None, json!({}))
}

/// A body with something put in the place of its parameters' end.
fn nested(depth: usize) -> String {
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{open}{close}}}}}"#)
}

fn what_is_no_message_is_answered_and_the_server_goes_on(world: &World) {
    let server = HttpServer::start(world);
    let huge = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","x":"{}"}}"#, "x".repeat(17 << 20));
    let table: [(Vec<u8>, u16, i64); 12] = [
        (b"{".to_vec(), 400, -32700),
        (b"".to_vec(), 400, -32700),
        (b"nonsense".to_vec(), 400, -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}".to_vec(), 400, -32700),
        (nested(200).into_bytes(), 400, -32700),
        (nested(100_000).into_bytes(), 400, -32700),
        (b"[]".to_vec(), 400, -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec(), 400, -32600),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_vec(), 400, -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_vec(), 400, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":5}"#.to_vec(), 400, -32600),
        (huge.into_bytes(), 413, -32600),
    ];
    for (body, status, code) in table {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let answer = server.ask(&Sent::post_bytes("/mcp", body));
        assert_eq!(answer.status, status, "{shown}: {answer:?}");
        let answer = answer.json();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert_eq!(answer["jsonrpc"], "2.0", "{shown}: {answer}");
        server.ask(&list_tools()).is(200);
    }

    let unknown = server.ask(&Sent::modern(1, "no/such", None, json!({}))).is(404);
    assert_eq!(unknown.json()["error"]["code"], -32601);
    let wrong = Sent::modern(1, "tools/call", Some("exec_run"), json!({ "name": 5 }));
    let wrong = server.ask(&wrong);
    assert!([400, 200].contains(&wrong.status), "{wrong:?}");
    assert!(wrong.json()["error"]["code"].is_i64(), "{wrong:?}");
    let extra = server.ask(&Sent::tool("exec_run", json!({ "command": "true", "colour": 1 })));
    let told = extra.json()["result"]["content"][0]["text"].clone();
    assert!(told.as_str().unwrap().contains("colour"), "{extra:?}");
    server.ask(&Sent::tool("exec_run", json!({ "command": "true" }))).is(200);
    assert_eq!(server.terminate().code(), 0);
}

fn a_token_is_asked_for(world: &World) {
    let path = world.home().join("token");
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    world.own(&path);
    let file = path.to_str().unwrap();
    let other = "another-token-altogether";
    for (variables, token) in [
        (vec![("HOTCELL_HTTP_TOKEN_FILE", file)], TOKEN),
        (vec![("HOTCELL_HTTP_TOKEN", TOKEN)], TOKEN),
        (vec![("HOTCELL_HTTP_TOKEN_FILE", file), ("HOTCELL_HTTP_TOKEN", other)], other),
    ] {
        let server = HttpServer::start_with(world, &[], &variables);
        let requests = [list_tools(), Sent::get("/v1/cells"), Sent::get("/metrics")];
        for request in requests {
            let proved = request.clone().with("authorization", &format!("Bearer {token}"));
            server.ask(&proved).is(200);
            let without = server.ask(&request).is(401);
            assert_eq!(without.header("www-authenticate"), Some(r#"Bearer realm="hotcell""#));
            let wrong = proved.with("authorization", "Bearer 0123456789abcdef-a-tesT");
            let wrong = server.ask(&wrong).is(401);
            assert!(wrong.header("www-authenticate").unwrap().contains("invalid_token"));
        }
        for open in ["/health", "/ready"] {
            server.ask(&Sent::get(open)).is(200);
        }
        assert!(!server.terminate().stderr().contains(token));
    }
    let shown = world.hotcell(["config"]).env("HOTCELL_HTTP_TOKEN", TOKEN).run().succeeded();
    assert!(!shown.stdout().contains(TOKEN));
    let short = world.hotcell(["serve", "--http", "0"]).env("HOTCELL_HTTP_TOKEN", "short").run();
    assert_eq!(short.code(), 2);
}

fn the_id_of_a_task_proves_nothing(world: &World) {
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_HTTP_TOKEN", TOKEN)]);
    let bearer = format!("Bearer {TOKEN}");
    let run = Sent::tool("exec_run", json!({ "command": "sleep 1000", "wait_s": 0 }));
    let ran = server.ask(&run.with("authorization", &bearer)).tool_result();
    let exec = ran["exec_id"].as_str().unwrap();
    let mut answers = BTreeMap::<String, HashSet<String>>::new();
    for task in [exec, "e_0000000000", "made up"] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({ "taskId": task, "inputResponses": {} });
            let request = Sent::modern(1, method, Some(task), params);
            let wrong = request.clone().with("authorization", "Bearer another-token-altogether");
            for (kind, request) in [("none", request), ("wrong", wrong)] {
                answers
                    .entry(kind.to_owned())
                    .or_default()
                    .insert(server.ask(&request).is(401).body);
            }
        }
    }
    // Nobody learns whether there is such a task.
    assert!(answers.values().all(|answers| answers.len() == 1), "{answers:?}");
    assert_eq!(world.exec(exec)["state"], "running");

    let get = Sent::modern(1, "tasks/get", Some(exec), json!({ "taskId": exec }));
    let known = server.ask(&get.with("authorization", &bearer)).is(200);
    assert_eq!(known.json()["result"]["status"], "working");
}

fn other_machines_need_a_token(world: &World) {
    let refused = world.hotcell(["serve", "--http", "0.0.0.0:0"]).run();
    assert_eq!(refused.code(), 5, "{refused:?}");
    assert!(refused.stderr().contains("hint: ") && refused.stderr().contains("http.token_file"));
    let args = ["--http", "0.0.0.0:0"];
    let server = HttpServer::start_with(world, &args, &[("HOTCELL_HTTP_TOKEN", TOKEN)]);
    let request = list_tools().with("authorization", &format!("Bearer {TOKEN}"));
    let here = HttpServer { address: ([127, 0, 0, 1], server.address.port()).into(), ..server };
    here.ask(&request).is(200);
    here.ask(&list_tools()).is(401);
}

fn only_known_names_and_pages_are_let_in(world: &World) {
    let server = HttpServer::start_with(
        world,
        &[],
        &[
            ("HOTCELL_HTTP_ALLOWED_HOSTS", "cells.example.org"),
            ("HOTCELL_HTTP_ALLOWED_ORIGINS", "https://app.example.org"),
        ],
    );
    let port = server.address.port();
    for path in ["/mcp", "/v1/cells"] {
        let request = if path == "/mcp" { list_tools() } else { Sent::get(path) };
        for good in ["localhost", "cells.example.org", &format!("127.0.0.1:{port}")] {
            server.ask(&request.clone().with("host", good)).is(200);
        }
        server.ask(&request.clone().with("host", "evil.example.org")).is(403);
        server.ask(&request.clone().without("host")).is(400);
        let request = request.with("host", &format!("127.0.0.1:{port}"));
        for good in ["https://app.example.org", &format!("http://127.0.0.1:{port}")] {
            server.ask(&request.clone().with("origin", good)).is(200);
        }
        for bad in ["http://evil.example.org", "null", "http://127.0.0.1:1", "http://localhost"] {
            let refused = server.ask(&request.clone().with("origin", bad)).is(403);
            assert_eq!(refused.header("access-control-allow-origin"), None);
        }
    }
    let allowed = |origin: &str| {
        let asked = Sent::options("/v1/cells")
            .with("origin", origin)
            .with("access-control-request-method", "POST");
        server.ask(&asked).header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(allowed("https://app.example.org").as_deref(), Some("https://app.example.org"));
    assert_eq!(allowed("http://localhost:3000"), None);
    assert_eq!(allowed("http://evil.example.org"), None);
}

fn connections_and_sessions_are_bounded(world: &World) {
    const CONNECTIONS: usize = 20;
    let variables = [("HOTCELL_HTTP_MAX_CONNECTIONS", "20"), ("HOTCELL_HTTP_MAX_SESSIONS", "5")];
    let server = HttpServer::start_with(world, &[], &variables);
    let quiet = fd_count(server.live.pid());
    let mut held: Vec<Connection> = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(Connection::open(server.address));
    }
    // These are told at once that there is no room; the ones before are asked nothing.
    for _ in 0..200 {
        let refused = Connection::open(server.address).answer().unwrap();
        assert_eq!((refused.status, refused.json()["code"].clone()), (503, json!("unavailable")));
    }
    eventually("nothing is kept of those", || fd_count(server.live.pid()) <= quiet + CONNECTIONS);
    drop(held);
    eventually("there is room again", || {
        let metrics = server.ask(&Sent::get("/metrics"));
        metrics.body.contains("\nhotcell_http_connections 1\n")
    });

    let sessions: Vec<String> = (0..5).map(|_| server.open_session()).collect();
    let refused = server.ask(&initialize("2025-11-25")).is(429);
    let data: Value = refused.json()["error"]["data"].clone();
    assert_eq!(data["code"], "limit_exceeded");
    server.ask(&Sent::delete("/mcp").with("mcp-session-id", &sessions[0])).is(204);
    eventually("there is room for a session", || {
        server.ask(&initialize("2025-11-25")).status == 200
    });
    assert_eq!(server.terminate().code(), 0);
}

/// The value of a metric; none is as good as nothing.
#[track_caller]
fn count(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

fn what_watches_over_the_server_is_told(world: &World) {
    let server = HttpServer::start(world);
    assert_eq!(server.ask(&Sent::get("/health")).is(200).json()["status"], "ok");
    assert_eq!(server.ask(&Sent::get("/ready")).is(200).json()["ready"], true);
    let metrics = || server.ask(&Sent::get("/metrics")).is(200).body;
    let before = metrics();
    assert!(before.ends_with("# EOF\n"));

    // Whoever runs it, on this state directory it counts.
    server.ask(&Sent::tool("exec_run", json!({ "command": "echo 12345" }))).is(200);
    world.text(["run", "--cell", "work", "echo 123 >&2"]);
    let exec = world.detach("work", "sleep 1000");
    server.ask(&Sent::tool("exec_poll", json!({ "exec_id": "e_0000000000" }))).is(200);
    server.ask(&Sent::get("/nowhere")).is(404);
    let during = metrics();
    for (name, grown) in [
        ("hotcell_execs_ended_total{cause=\"exited\"}", 2),
        ("hotcell_exec_duration_seconds_count", 2),
        ("hotcell_exec_output_bytes_total{stream=\"stdout\"}", 6),
        ("hotcell_exec_output_bytes_total{stream=\"stderr\"}", 4),
        ("hotcell_execs_running", 1),
        ("hotcell_operations_total{operation=\"exec_run\",outcome=\"ok\"}", 1),
        ("hotcell_operations_total{operation=\"exec_poll\",outcome=\"error\"}", 1),
        ("hotcell_operations_total{operation=\"exec_list\",outcome=\"ok\"}", 0),
        ("hotcell_cells{driver=\"native\",state=\"ready\"}", 2),
        ("hotcell_calls_rejected_total{code=\"not_found\"}", 1),
        ("hotcell_http_requests_total{method=\"GET\",status=\"4xx\"}", 1),
        ("hotcell_http_requests_total{method=\"POST\",status=\"2xx\"}", 2),
    ] {
        assert_eq!(count(&during, name) - count(&before, name), grown, "{name}\n{during}");
    }
    world.text(["cancel", &exec]);
    world.ended(&exec);
    let after = metrics();
    assert_eq!(count(&after, "hotcell_execs_ended_total{cause=\"cancelled\"}"), 1, "{after}");
    assert_eq!(count(&after, "hotcell_execs_running"), 0, "{after}");
    assert_eq!(count(&metrics(), "hotcell_execs_ended_total{cause=\"cancelled\"}"), 1);
}

fn every_refusal_is_counted_once(world: &World) {
    let server = HttpServer::start(world);
    let call = json!({ "name": "exec_run", "arguments": 5 });
    let cases = [
        ("not_found", Sent::tool("from_outside", json!({}))),
        ("invalid", Sent::tool("exec_run", json!({ "command": "true", "from_outside": 1 }))),
        ("invalid", Sent::modern(1, "tools/call", Some("exec_run"), call)),
        ("unsupported", Sent::modern(1, "from/outside", None, json!({}))),
        ("invalid", Sent::post("/v1/execs", &json!({ "from_outside": 1 }))),
        ("invalid", Sent::post("/v1/execs", &json!({}))),
        ("invalid", Sent::get("/v1/execs/from_outside")),
        ("not_found", Sent::get("/v1/cells/from_outside")),
        ("not_found", Sent::get("/v1/execs/e_0000000000/stream")),
        ("not_found", Sent::post("/v1/execs/e_0000000000/cancel", &json!({}))),
    ];
    let mut expected = BTreeMap::<&str, u64>::new();
    for (code, sent) in cases {
        server.ask(&sent);
        *expected.entry(code).or_default() += 1;
        let metrics = server.ask(&Sent::get("/metrics")).is(200).body;
        for (code, refused) in &expected {
            let name = format!("hotcell_calls_rejected_total{{code=\"{code}\"}}");
            assert_eq!(count(&metrics, &name), *refused, "{sent:?}\n{metrics}");
        }
        let rows = metrics.lines().filter(|line| line.starts_with("hotcell_calls_rejected"));
        assert_eq!(rows.count(), expected.len(), "{metrics}");
        assert!(!metrics.contains("from"), "{metrics}");
    }
}
