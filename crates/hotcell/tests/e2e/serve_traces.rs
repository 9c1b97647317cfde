//! Traces of calls: they reach a collector, and one that is away is no trouble.

use serde_json::json;

use crate::world::{
    Era, HttpServer, McpClient, Sent, TraceCollector, World, eventually_some, initialize, said,
};

in_worlds! {
    [root, rootless]
    calls_reach_a_collector,
    a_collector_that_is_away_is_no_trouble,
}

in_worlds! {
    [root]
    calls_over_pipes_are_sent_before_the_end,
    a_collector_that_cannot_be_reached_this_way_is_refused,
}

const SETTING: &str = "HOTCELL_SERVE_OTLP";

fn calls_reach_a_collector(world: &World) {
    let collector = TraceCollector::start();
    let address = format!("http://{}", collector.address);
    // Nothing is logged, and yet it is traced.
    let server = HttpServer::start_with(world, &["--log", "off"], &[(SETTING, &address)]);
    let call = Sent::tool("exec_run", json!({ "command": "true" })).with("x-request-id", "run-1");
    let ran = server.ask(&call).tool_result();
    let span = eventually_some("the call comes", || collector.find("call", "request_id", "run-1"));
    assert_eq!(said(&span, "tool").as_deref(), Some("exec_run"));
    assert_eq!(said(&span, "cell").as_deref(), ran["cell"].as_str());
    assert_eq!(said(&span, "exec_id").as_deref(), ran["exec_id"].as_str());
    assert_eq!(said(&span, "principal"), Some(format!("local:{}", world.user().uid)));
    assert_eq!(said(&span, "status").as_deref(), Some("ok"));
    let request =
        eventually_some("the request comes", || collector.find("request", "request_id", "run-1"));
    assert_eq!(request.span_id, span.parent_span_id);
    assert_eq!(said(&request, "status").as_deref(), Some("200"));

    let wrong = json!({ "exec_id": "e_0000000000" });
    server.ask(&Sent::tool("exec_poll", wrong).with("x-request-id", "poll-1"));
    let span = eventually_some("the call comes", || collector.find("call", "request_id", "poll-1"));
    assert_eq!(said(&span, "status").as_deref(), Some("not_found"));
    assert_eq!(span.status.unwrap().message, "not_found");

    let api = Sent::post("/v1/execs", &json!({ "command": "true" })).with("x-request-id", "api-1");
    let ran = server.ask(&api).is(201).json();
    let span = eventually_some("it comes", || collector.find("request", "request_id", "api-1"));
    assert_eq!(said(&span, "exec_id").as_deref(), ran["exec"]["id"].as_str());

    // A request ends with its answer, and not with the session that it opened.
    server.ask(&initialize("2025-11-25").with("x-request-id", "open-1")).is(200);
    eventually_some("it comes", || collector.find("request", "request_id", "open-1"));
    assert_eq!(server.terminate().code(), 0);
}

fn a_collector_that_is_away_is_no_trouble(world: &World) {
    // Nobody listens there.
    let server = HttpServer::start_with(world, &[], &[(SETTING, "http://127.0.0.1:1")]);
    for _ in 0..3 {
        let ran = server.ask(&Sent::tool("exec_run", json!({ "command": "echo hi" })));
        assert_eq!(ran.tool_result()["stdout"], "hi\n");
        server.live.await_stderr("traces cannot be sent");
    }
    let finished = server.terminate();
    assert_eq!(finished.code(), 0);
    let said = finished.stderr();
    assert_eq!(said.matches("traces cannot be sent").count(), 1, "{said}");
    assert_eq!(said.matches("were not taken by the collector").count(), 1, "{said}");
}

fn calls_over_pipes_are_sent_before_the_end(world: &World) {
    let collector = TraceCollector::start();
    let serve = world.hotcell(["serve"]).env(SETTING, format!("http://{}", collector.address));
    let mut client = McpClient::start_with(serve, Era::Modern);
    client.request("tools/call", json!({ "name": "cell_list", "arguments": {} }));
    let (finished, _) = client.leave();
    finished.succeeded();
    let span = eventually_some("the call comes", || collector.find("call", "tool", "cell_list"));
    assert_eq!(said(&span, "status").as_deref(), Some("ok"));
}

fn a_collector_that_cannot_be_reached_this_way_is_refused(world: &World) {
    for (address, why) in [("https://127.0.0.1:4318", "https"), ("http://a.name:4318", "address")] {
        let refused = world.hotcell(["serve"]).env(SETTING, address).run().exited(2);
        let said = refused.stderr();
        assert!(said.contains(SETTING) && said.contains(why), "{said}");
    }
}
