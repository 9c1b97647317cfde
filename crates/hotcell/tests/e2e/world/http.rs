//! A server over HTTP and the plainest client for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::{Value, json};

use super::polling::DEADLINE;
use super::{Finished, Live, World, eventually_some};

/// A server that listens.
#[derive(Debug)]
pub(crate) struct HttpServer {
    pub(crate) live: Live,
    pub(crate) address: SocketAddr,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Sent {
    fn new(method: &'static str, path: &str) -> Self {
        let headers = vec![("host".to_owned(), "localhost".to_owned())];
        Self { method, path: path.to_owned(), headers, body: Vec::new() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn delete(path: &str) -> Self {
        Self::new("DELETE", path)
    }

    pub(crate) fn head(path: &str) -> Self {
        Self::new("HEAD", path)
    }

    /// With content.
    pub(crate) fn put(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::new("PUT", path) }
    }

    pub(crate) fn options(path: &str) -> Self {
        Self::new("OPTIONS", path)
    }

    /// With a body of JSON.
    pub(crate) fn post(path: &str, body: &Value) -> Self {
        Self::post_bytes(path, body.to_string())
    }

    /// With a body that claims to be JSON.
    pub(crate) fn post_bytes(path: &str, body: impl Into<Vec<u8>>) -> Self {
        let sent = Self { body: body.into(), ..Self::new("POST", path) };
        sent.with("content-type", "application/json")
            .with("accept", "application/json, text/event-stream")
    }

    /// A message of MCP.
    pub(crate) fn message(message: &Value) -> Self {
        Self::post("/mcp", message)
    }

    /// A request of the revision without sessions.
    pub(crate) fn modern(id: u64, method: &str, name: Option<&str>, mut params: Value) -> Self {
        // Tasks are for clients that declare them.
        let declared = match method.starts_with("tasks/") {
            true => json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }),
            false => json!({}),
        };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": declared,
        });
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let sent = Self::message(&message)
            .with("mcp-protocol-version", "2026-07-28")
            .with("mcp-method", method);
        match name {
            Some(name) => sent.with("mcp-name", name),
            None => sent,
        }
    }

    /// A call of a tool in the revision without sessions.
    pub(crate) fn tool(tool: &str, arguments: Value) -> Self {
        let params = json!({ "name": tool, "arguments": arguments });
        Self::modern(1, "tools/call", Some(tool), params)
    }

    /// With a header, instead of the one of that name if there was one.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    fn encode(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\nconnection: close\r\n\r\n", self.body.len());
        [head.into_bytes(), self.body.clone()].concat()
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    /// What is no text in it is shown as `�`.
    pub(crate) body: String,
    pub(crate) bytes: Vec<u8>,
}

impl HttpAnswer {
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; of a stream of events the last message.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let data = self.body.lines().rev().find_map(|line| line.strip_prefix("data: "));
        let text = data.unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// What a tool answered.
    #[track_caller]
    pub(crate) fn tool_result(&self) -> Value {
        let answer = self.json();
        let result = &answer["result"]["structuredContent"];
        assert!(result.is_object(), "{self:?}");
        result.clone()
    }

    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert!((200..300).contains(&self.status), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// A connection on which a request was sent.
#[derive(Debug)]
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // A server that refuses need not read to the end.
        let _ = self.reader.get_mut().write_all(bytes);
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    /// The head of the answer; none when the connection ends without one.
    pub(crate) fn head(&mut self) -> Option<HttpAnswer> {
        let status = self.line()?.split_whitespace().nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Some(HttpAnswer { status, headers, body: String::new(), bytes: Vec::new() })
    }

    /// The next piece of a chunked body.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line()?, 16).ok().filter(|length| *length > 0)?;
        let mut piece = vec![0; length + 2];
        self.reader.read_exact(&mut piece).ok()?;
        piece.truncate(length);
        Some(piece)
    }

    /// What comes next of a body that is not chunked, as far as there is room for it.
    pub(crate) fn read_some(&mut self, buffer: &mut [u8]) -> usize {
        self.reader.read(buffer).unwrap()
    }

    /// So many bytes of what comes.
    #[track_caller]
    pub(crate) fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// All that comes until the connection ends or breaks.
    pub(crate) fn read_rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // One that is reset has given what it had.
        let _ = self.reader.read_to_end(&mut bytes);
        bytes
    }

    /// Writes all of it; whether the server took it.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    /// The rest of a chunked body; none when it breaks off instead of ending.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16).ok()?;
            let mut piece = vec![0; length + 2];
            self.reader.read_exact(&mut piece).ok()?;
            if length == 0 {
                return String::from_utf8(body).ok();
            }
            body.extend_from_slice(&piece[..length]);
        }
    }

    /// The whole answer; none when the connection ends without one.
    pub(crate) fn answer(&mut self) -> Option<HttpAnswer> {
        let mut answer = self.head()?;
        let mut body = Vec::new();
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(piece) = self.chunk() {
                body.extend(piece);
            }
        } else {
            // A connection that is reset has given what it had.
            let _ = self.reader.read_to_end(&mut body);
        }
        answer.body = String::from_utf8_lossy(&body).into_owned();
        answer.bytes = body;
        Some(answer)
    }

    pub(crate) fn close(self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Both);
    }
}

impl HttpServer {
    /// A server at a free port.
    #[track_caller]
    pub(crate) fn start(world: &World) -> Self {
        Self::start_with(world, &[], &[])
    }

    /// The same with more arguments and variables.
    #[track_caller]
    pub(crate) fn start_with(world: &World, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut invocation = world.hotcell(["serve"]).args(args.iter().copied());
        if !args.contains(&"--http") {
            invocation = invocation.args(["--http", "127.0.0.1:0"]);
        }
        for (name, value) in variables {
            invocation = invocation.env(name, value);
        }
        let live = invocation.start();
        let address = eventually_some("the server listens", || {
            let said = live.said();
            let (_, after) = said.split_once("listening on http://")?;
            after.split_once('\n')?.0.parse().ok()
        });
        Self { live, address }
    }

    /// Sends a request and leaves the answer for later.
    #[track_caller]
    pub(crate) fn send(&self, sent: &Sent) -> Connection {
        let mut connection = Connection::open(self.address);
        connection.write(&sent.encode());
        connection
    }

    /// Sends a request and waits for all of the answer.
    #[track_caller]
    pub(crate) fn ask(&self, sent: &Sent) -> HttpAnswer {
        let answer = self.send(sent).answer();
        answer.unwrap_or_else(|| panic!("no answer to {sent:?}: {}", self.live.said()))
    }

    /// Opens a session in an older revision; its id.
    #[track_caller]
    pub(crate) fn open_session(&self) -> String {
        let opened = self.ask(&initialize("2025-11-25")).is(200);
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.ask(&Sent::message(&told).with("mcp-session-id", &session)).is(202);
        session
    }

    /// The same for whoever bears a token.
    #[track_caller]
    pub(crate) fn open_session_with(&self, token: &str) -> String {
        let bearing = |sent: Sent| sent.with("authorization", &format!("Bearer {token}"));
        let opened = self.ask(&bearing(initialize("2025-11-25"))).is(200);
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.ask(&bearing(Sent::message(&told)).with("mcp-session-id", &session)).is(202);
        session
    }

    /// Ends it by a signal, and waits.
    #[track_caller]
    pub(crate) fn terminate(self) -> Finished {
        super::send(self.live.pid(), rustix::process::Signal::TERM);
        self.live.finish()
    }
}

/// The opening of a session.
pub(crate) fn initialize(revision: &str) -> Sent {
    Sent::message(&json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": revision, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    }))
}
