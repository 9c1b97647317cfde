//! Servers that are reached by HTTP.
#![expect(clippy::disallowed_methods, reason = "servers that are reached are started by the test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hotcell_downstream::{HttpLaunch, Launch, ServerSpec, SpecText};
use hotcell_model::{ErrorCode, ServerState, ToolServers};
use serde_json::json;

use crate::world::{PATIENCE, SECRET, call, names, serve, text, tool_servers, until};

/// A server that a test started, ended with it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn at(url: String) -> ServerSpec {
    let bearer = Some(SpecText::Secret("token".parse().unwrap()));
    let headers = BTreeMap::from([
        ("X-Plain".to_owned(), SpecText::Plain("plain".to_owned())),
        ("X-Secret".to_owned(), SpecText::Secret("token".parse().unwrap())),
    ]);
    let mut spec = ServerSpec::new(Launch::Http(HttpLaunch { url, headers, bearer }));
    spec.timeout = Duration::from_secs(20);
    spec
}

fn misbehaving() -> (Started, u16) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/downstream/misbehaving_http.py");
    let mut child =
        Command::new("python3").args([script, SECRET]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Started(child), line.trim().parse().unwrap())
}

#[tokio::test]
async fn everything_is_called_by_http() {
    let Some(place) = tool_servers() else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = place.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let child = Command::new("node")
        .arg(script)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _started = Started(child);
    until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    let servers = serve(at(format!("http://127.0.0.1:{port}/mcp")));
    let listed = names(&servers).await;
    assert!(listed.len() > 8 && listed.iter().any(|name| name == "echo"), "{listed:?}");
    let echoed = call(&servers, "echo", json!({ "message": "hello" })).await.unwrap();
    assert!(text(&echoed).contains("hello"), "{echoed:?}");
    let typed =
        call(&servers, "get-structured-content", json!({ "location": "Chicago" })).await.unwrap();
    assert!(typed.structured.as_ref().is_some_and(|found| found["temperature"].is_number()));
}

#[tokio::test]
async fn a_token_and_headers_are_sent_and_do_not_come_back() {
    let (_started, port) = misbehaving();
    let servers = serve(at(format!("http://localhost:{port}/mcp")));
    let answer = call(&servers, "headers", json!({})).await.unwrap();
    let sent = answer.structured.unwrap();
    assert_eq!(sent["x-plain"], "plain", "{sent}");
    assert!(sent["x-secret"].as_str().is_some_and(|value| !value.is_empty()), "{sent}");
    assert!(sent["authorization"].as_str().unwrap().starts_with("Bearer "), "{sent}");
    assert!(!format!("{sent} {servers:?}").contains(SECRET), "{sent}");
    assert_eq!(text(&call(&servers, "event", json!({})).await.unwrap()), "by an event");
    assert_eq!(servers.standing()[0].state, ServerState::Ready);
}

#[tokio::test]
async fn refusals_are_told() {
    let (_started, port) = misbehaving();
    let mut without = at(format!("http://localhost:{port}/mcp"));
    if let Launch::Http(http) = &mut without.launch {
        http.bearer = None;
    }
    let refused = call(&serve(without), "headers", json!({})).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable, "{refused:?}");
    let elsewhere = serve(at(format!("http://localhost:{port}/elsewhere")));
    let led = call(&elsewhere, "headers", json!({})).await.unwrap_err();
    assert!(led.message.contains("leads elsewhere"), "{led:?}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let servers = serve(at(format!("http://localhost:{nobody}/mcp")));
    let fault = servers.listings(PATIENCE).await.servers[0].fault.clone().unwrap();
    assert_eq!(fault.code, ErrorCode::Unavailable, "{fault:?}");
}

#[tokio::test]
async fn answers_that_are_too_long_are_not_read_to_their_end() {
    let (_started, port) = misbehaving();
    let mut spec = at(format!("http://127.0.0.1:{port}/mcp"));
    spec.most_bytes = 1_000_000;
    let servers = serve(spec);
    for tool in ["big", "big_event"] {
        let answer = call(&servers, tool, json!({ "bytes": 900_000 })).await.unwrap();
        assert_eq!(text(&answer).len(), 900_000);
        let refused = call(&servers, tool, json!({ "bytes": 50_000_000 })).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::LimitExceeded, "{tool}: {refused:?}");
    }
    let refused = call(&servers, "endless_event", json!({})).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::LimitExceeded, "{refused:?}");
    call(&servers, "event", json!({})).await.unwrap();
}
