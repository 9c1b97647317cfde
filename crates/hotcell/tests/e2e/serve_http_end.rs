//! The end of a server: what waits is answered, what runs goes on.

use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{Connection, HttpServer, Sent, World, eventually, is_alive, send};

in_worlds! {
    [root, rootless]
    a_server_that_is_to_end_answers_what_waits,
    open_streams_end_with_the_server,
}

in_worlds! {
    [root]
    a_second_signal_ends_the_server_at_once,
    what_takes_too_long_is_cut,
    a_server_on_pipes_ends_at_once,
}

#[track_caller]
fn await_no_listener(server: &HttpServer) {
    eventually("the server takes no connection", || TcpStream::connect(server.address).is_err());
}

fn a_server_that_is_to_end_answers_what_waits(world: &World) {
    // Less than what is waited for below: a wait that goes on is cut and gets no answer.
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_HTTP_DRAIN_S", "20")]);
    let begun = Sent::tool("exec_run", json!({ "command": "echo hi; sleep 1000", "wait_s": 0 }));
    let exec = server.ask(&begun).tool_result()["exec_id"].as_str().unwrap().to_owned();
    let first = json!({ "exec_id": exec, "wait_s": 20 });
    let after = server.ask(&Sent::tool("exec_poll", first)).tool_result()["next_seq"].clone();

    let run = Sent::tool("exec_run", json!({ "command": "echo run; sleep 1001", "wait_s": 50 }));
    let poll = json!({ "exec_id": exec, "after_seq": after, "wait_s": 50 });
    let poll = Sent::tool("exec_poll", poll);
    let api = Sent::post("/v1/execs", &json!({ "command": "sleep 1002", "wait_s": 50 }));
    let session = server.open_session();
    let listening =
        Sent::get("/mcp").with("mcp-session-id", &session).with("accept", "text/event-stream");
    let mut waiting = [&run, &poll, &api].map(|request| server.send(request));
    let mut streams = [&Sent::get(&format!("/v1/execs/{exec}/stream")), &listening]
        .map(|request| server.send(request));
    for stream in &mut streams {
        assert_eq!(stream.head().unwrap().status, 200);
    }
    eventually("all three execs run and everything waits", || {
        let running = world.json(["ps", "--json"])["execs"].as_array().unwrap().len();
        let metrics = server.ask(&Sent::get("/metrics")).body;
        running == 3 && metrics.contains("\nhotcell_calls_active 4\n")
    });

    send(server.live.pid(), Signal::TERM);
    let [run, poll, api] = [0, 1, 2].map(|at| waiting[at].answer().unwrap().done());
    assert_eq!(run.tool_result()["status"], "running");
    assert_eq!(run.tool_result()["stdout"], "run\n");
    assert_eq!(poll.tool_result()["status"], "running");
    assert_eq!(poll.tool_result()["messages"], json!([]));
    assert_eq!(api.json()["exec"]["state"], "running");
    for stream in &mut streams {
        while stream.chunk().is_some() {}
    }
    assert_eq!(server.live.finish().code(), 0);
    let execs = [&exec, run.tool_result()["exec_id"].as_str().unwrap()].map(str::to_owned);
    for exec in execs {
        assert_eq!(world.exec(&exec)["state"], "running");
    }
}

fn open_streams_end_with_the_server(world: &World) {
    let server = HttpServer::start(world);
    // A stream about nothing that there is ends at once.
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    let about_nothing = server.ask(&Sent::modern(1, "subscriptions/listen", None, listen)).is(200);
    assert!(about_nothing.body.contains("acknowledged"), "{about_nothing:?}");
    assert!(!about_nothing.body.contains("toolsListChanged"), "{about_nothing:?}");
    assert_eq!(about_nothing.json()["result"]["resultType"], "complete");

    let begun = Sent::tool("exec_run", json!({ "command": "echo hi; sleep 1000", "wait_s": 0 }));
    let exec = server.ask(&begun).tool_result()["exec_id"].as_str().unwrap().to_owned();
    let session = server.open_session();
    let of_session =
        Sent::get("/mcp").with("mcp-session-id", &session).with("accept", "text/event-stream");
    let of_exec = Sent::get(&format!("/v1/execs/{exec}/stream"));
    // A call that is watched is answered by a stream too.
    let watched = json!({
        "name": "exec_run", "arguments": { "command": "echo ho; sleep 1001", "wait_s": 50 },
        "_meta": { "progressToken": "p" },
    });
    let watched = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": watched });
    let watched = Sent::message(&watched).with("mcp-session-id", &session);
    let mut streams = [&of_session, &of_exec, &watched].map(|request| server.send(request));
    for stream in &mut streams {
        let head = stream.head().unwrap().is(200);
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
    }
    eventually("both execs run", || {
        world.json(["ps", "--json"])["execs"].as_array().unwrap().len() == 2
    });

    send(server.live.pid(), Signal::TERM);
    let [_, of_exec, watched] = streams.map(|mut stream| stream.rest().unwrap());
    assert!(of_exec.contains("event: output"), "{of_exec}");
    let last = watched.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["id"], 9);
    assert_eq!(last["result"]["structuredContent"]["status"], "running");
    let finished = server.live.finish();
    assert_eq!(finished.code(), 0);
    // Nothing had to be cut.
    assert!(!finished.stderr().contains("in time"), "{finished:?}");
    assert_eq!(world.exec(&exec)["state"], "running");
}

/// A request whose body never comes.
fn unfinished(server: &HttpServer) -> Connection {
    let mut connection = Connection::open(server.address);
    connection.write(
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          content-length: 100\r\nexpect: 100-continue\r\n\r\n",
    );
    // The server asks for the body: the request is under way.
    assert_eq!(connection.head().unwrap().status, 100);
    connection
}

fn a_second_signal_ends_the_server_at_once(world: &World) {
    let server = HttpServer::start(world);
    let exec = world.detach("work", "sleep 1000");
    let _unfinished = unfinished(&server);
    send(server.live.pid(), Signal::TERM);
    await_no_listener(&server);
    // One signal is not enough while something is under way.
    assert!(is_alive(server.live.pid()));
    send(server.live.pid(), Signal::TERM);
    assert_eq!(server.live.finish().code(), 0);
    assert_eq!(world.exec(&exec)["state"], "running");
}

fn what_takes_too_long_is_cut(world: &World) {
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_HTTP_DRAIN_S", "0")]);
    let mut cut = unfinished(&server);
    let finished = server.terminate();
    assert_eq!(finished.code(), 0);
    assert!(finished.stderr().contains("in time"), "{finished:?}");
    assert!(cut.answer().is_none());
}

fn a_server_on_pipes_ends_at_once(world: &World) {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = world.hotcell(["serve"]).start_with_input();
        server.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
        server.await_stdout("\"id\":1");
        send(server.pid(), signal);
        eventually("the server ends with its input open", || !is_alive(server.pid()));
        assert_eq!(server.finish().code(), 0);
    }
}
