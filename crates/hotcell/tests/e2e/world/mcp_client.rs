//! An MCP client that starts the server itself and says exactly what a test tells it to.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::{Value, json};

use super::polling::DEADLINE;
use super::{Finished, Invocation, Live, World};

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2026-07-28: every request says what it needs.
    Modern,
    /// 2025-11-25: a handshake first.
    Legacy,
}

/// A client and the server that it started.
#[derive(Debug)]
pub(crate) struct McpClient {
    live: Live,
    era: Era,
    received: Arc<Received>,
    reader: Option<JoinHandle<()>>,
    last_id: u64,
}

/// Lines that came from a server.
#[derive(Debug, Default)]
struct Received {
    lines: Mutex<Vec<Value>>,
    arrived: Condvar,
}

impl Received {
    fn read_all(&self, stdout: ChildStdout) {
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { return };
            // What is no JSON is kept as it is, to be found by whoever looks.
            let message = serde_json::from_slice(&line)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&line).into_owned()));
            self.lines.lock().unwrap().push(message);
            self.arrived.notify_all();
        }
    }

    /// Waits for something among the lines; `None` when it does not come.
    fn find<T>(&self, find: impl Fn(&[Value]) -> Option<T>) -> Option<T> {
        let until = Instant::now() + DEADLINE;
        let mut lines = self.lines.lock().unwrap();
        loop {
            if let Some(found) = find(&lines) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            lines = self.arrived.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// The same where it has to come.
    #[track_caller]
    fn get<T>(&self, what: &str, find: impl Fn(&[Value]) -> Option<T>) -> T {
        self.find(find).unwrap_or_else(|| {
            let lines = self.lines.lock().unwrap();
            let last: Vec<String> = lines.iter().rev().take(5).map(Value::to_string).collect();
            panic!("it never came: {what}; the last lines are {last:?}")
        })
    }
}

impl McpClient {
    /// Starts a server, and shakes hands where the era wants it.
    #[track_caller]
    pub(crate) fn start(world: &World, era: Era) -> Self {
        Self::start_with(world.hotcell(["serve"]), era)
    }

    /// The same with a server that is told more.
    #[track_caller]
    pub(crate) fn start_with(serve: Invocation, era: Era) -> Self {
        let mut client = Self::start_silent(serve, era);
        if era == Era::Legacy {
            let answer = client.request("initialize", hello("2025-11-25"));
            assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        client
    }

    /// Starts a server and says nothing yet.
    #[track_caller]
    pub(crate) fn start_silent(serve: Invocation, era: Era) -> Self {
        let mut client = Self::start_deaf(serve, era);
        client.listen();
        client
    }

    /// Starts a server and reads nothing of what it says.
    #[track_caller]
    pub(crate) fn start_deaf(serve: Invocation, era: Era) -> Self {
        let live = serve.start_unread_with_input();
        Self { live, era, received: Arc::default(), reader: None, last_id: 0 }
    }

    /// Begins to read.
    pub(crate) fn listen(&mut self) {
        let (received, stdout) = (Arc::clone(&self.received), self.live.take_stdout());
        self.reader = Some(std::thread::spawn(move || received.read_all(stdout)));
    }

    pub(crate) fn pid(&self) -> i32 {
        self.live.pid()
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.live.stdin.as_mut().unwrap();
        stdin.write_all(bytes).and_then(|()| stdin.flush()).unwrap();
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Its end of the server's input, for a thread that may have to wait for the server.
    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.live.stdin.take().unwrap()
    }

    pub(crate) fn give_input(&mut self, stdin: ChildStdin) {
        self.live.stdin = Some(stdin);
    }

    /// What the server has said to a deaf client, as far as a pipe holds it.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.live.unread_bytes()
    }

    /// As many requests for the list of tools as are wanted.
    pub(crate) fn list_requests(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|_| format!("{}\n", self.compose("tools/list", json!({}))).into_bytes())
            .collect()
    }

    /// Sends a request; its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        let request = self.compose(method, params);
        self.send(&request);
        self.last_id
    }

    /// The next request.
    fn compose(&mut self, method: &str, mut params: Value) -> Value {
        self.last_id += 1;
        if self.era == Era::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            let capabilities = "io.modelcontextprotocol/clientCapabilities";
            if params["_meta"][capabilities].is_null() {
                params["_meta"][capabilities] = json!({});
            }
        }
        json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params })
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn answer(&self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.find(&format!("an answer to {id}"), |message| message["id"] == id)
    }

    /// The same where it may not come.
    pub(crate) fn find_answer(&self, id: impl Into<Value>) -> Option<Value> {
        let id = id.into();
        self.received.find(|lines| lines.iter().find(|line| line["id"] == id).cloned())
    }

    /// Waits for the first message of which something is true.
    #[track_caller]
    pub(crate) fn find(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.received.get(what, |lines| lines.iter().find(|line| wanted(line)).cloned())
    }

    /// Waits until this many messages are such.
    #[track_caller]
    pub(crate) fn find_many(&self, count: usize, wanted: impl Fn(&Value) -> bool) {
        self.received.get(&format!("{count} messages"), |lines| {
            (lines.iter().filter(|line| wanted(line)).count() >= count).then_some(())
        });
    }

    /// Everything that came so far.
    pub(crate) fn received(&self) -> Vec<Value> {
        self.received.lines.lock().unwrap().clone()
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Sends a call of a tool, with a progress token as nearly every real client does; the request's
    /// id.
    pub(crate) fn ask_tool(&mut self, tool: &str, arguments: Value) -> u64 {
        let meta = json!({ "progressToken": self.last_id + 1 });
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }))
    }

    /// The same without one.
    pub(crate) fn ask_tool_silently(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls a tool; what a program reads of its result, which is to be a good one.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.ask_tool(tool, arguments);
        let answer = self.answer(id);
        let result = &answer["result"];
        assert!(result["isError"] != true && result.is_object(), "{tool}: {answer}");
        result["structuredContent"].clone()
    }

    /// Reads all output of an exec by cursor, until it is complete: each stream's text. No seq may
    /// be left out or come twice.
    #[track_caller]
    pub(crate) fn read_by_cursor(&mut self, exec: &str, from: u64) -> (String, String) {
        let (mut after, mut out, mut err) = (from, String::new(), String::new());
        loop {
            // One message for each record.
            let asked =
                json!({ "exec_id": exec, "after_seq": after, "wait_s": 20, "details": true });
            let page = self.call("exec_poll", asked);
            for message in page["messages"].as_array().unwrap() {
                after += 1;
                assert_eq!(message["seq"], after, "{page}");
                let sink = if message["stream"] == "stdout" { &mut out } else { &mut err };
                sink.push_str(message["data"].as_str().unwrap());
            }
            assert_eq!(page["next_seq"], after, "{page}");
            if page["complete"] == true {
                return (out, err);
            }
        }
    }

    /// Closes the server's input and waits for its end.
    #[track_caller]
    pub(crate) fn leave(mut self) -> (Finished, Vec<Value>) {
        drop(self.live.stdin.take());
        let finished = self.live.finish();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let lines = std::mem::take(&mut *self.received.lines.lock().unwrap());
        (finished, lines)
    }

    /// Kills the server.
    pub(crate) fn kill(self) {
        self.live.kill();
    }
}

/// The parameters of a handshake.
pub(crate) fn hello(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "e2e", "version": "1" },
    })
}
