//! A server at a port, and a client with a kept connection for each call under way.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::echo::LISTENING;
use super::{Server, Talk, is_good};
use crate::load::{Load, Worker};

const REVISION: &str = "2026-07-28";
const ANSWER_BYTES: usize = 16 * 1024;

/// A server that is spoken to over HTTP, in the revision without sessions.
#[derive(Debug)]
pub(crate) struct HttpTalk {
    child: Child,
    address: SocketAddr,
    connections: Vec<Connection>,
    /// Tells which of them have something to read.
    readable: OwnedFd,
    call: Vec<u8>,
    first_answer: Duration,
}

impl Talk for HttpTalk {
    const NAME: &'static str = "MCP HTTP";
    const PROMISE: &'static str = "";

    fn start(server: Server<'_>) -> Result<Self> {
        let mut command = server.program()?;
        match server {
            Server::Hotcell { .. } => command.args(["--http", "127.0.0.1:0"]),
            Server::Echo => command.arg("--echo-http"),
        };
        let began = Instant::now();
        let mut child = command.stderr(Stdio::piped()).spawn().context("start the server")?;
        let said = child.stderr.take().context("the server's words")?;
        let mut talk = Self {
            child,
            address: address(said)?,
            connections: Vec::new(),
            readable: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            call: request("tools/call", &server.call()),
            first_answer: Duration::ZERO,
        };
        talk.connect(1)?;
        let first = &mut talk.connections[0];
        first.ask(&request("server/discover", &json!({})))?;
        while !first.is_answered()? {}
        talk.first_answer = began.elapsed();
        Ok(talk)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn first_answer(&self) -> Duration {
        self.first_answer
    }

    fn ask_only(&mut self, call: &Value, count: usize) -> Result<()> {
        self.connect(count)?;
        let request = request("tools/call", call);
        self.connections[..count].iter_mut().try_for_each(|connection| connection.ask(&request))
    }

    fn stop(self) -> Result<()> {
        let Self { mut child, connections, .. } = self;
        drop(connections);
        kill_process(Pid::from_child(&child), Signal::TERM).context("end the server")?;
        child.wait().context("wait for the server")?;
        Ok(())
    }
}

impl Worker for HttpTalk {
    fn work(&mut self, load: Load) -> Result<Vec<Duration>> {
        self.connect(load.at_once)?;
        let mut asked = load.at_once.min(load.calls);
        for connection in &mut self.connections[..asked] {
            connection.ask(&self.call)?;
        }
        let mut took = Vec::with_capacity(load.calls);
        let mut events = Vec::with_capacity(load.at_once);
        while took.len() < load.calls {
            events.clear();
            epoll::wait(&self.readable, spare_capacity(&mut events), None)?;
            for event in &events {
                let connection = &mut self.connections[usize::try_from(event.data.u64())?];
                if !connection.is_answered()? {
                    continue;
                }
                took.push(connection.asked.elapsed());
                if asked < load.calls {
                    connection.ask(&self.call)?;
                    asked += 1;
                }
            }
        }
        Ok(took)
    }
}

impl HttpTalk {
    /// Opens connections until there are `count`.
    fn connect(&mut self, count: usize) -> Result<()> {
        for place in self.connections.len()..count {
            let stream = TcpStream::connect(self.address).context("connect to the server")?;
            stream.set_nodelay(true)?;
            let data = epoll::EventData::new_u64(place as u64);
            epoll::add(&self.readable, &stream, data, epoll::EventFlags::IN)?;
            self.connections.push(Connection { stream, answer: Vec::new(), asked: Instant::now() });
        }
        Ok(())
    }
}

/// A connection with at most one request under way.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// What has come of the answer.
    answer: Vec<u8>,
    asked: Instant,
}

impl Connection {
    fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.answer.clear();
        self.asked = Instant::now();
        self.stream.write_all(request).context("ask the server")
    }

    /// Reads once; whether all of the answer is there, which has to be a good one.
    fn is_answered(&mut self) -> Result<bool> {
        let before = self.answer.len();
        self.answer.resize(before + ANSWER_BYTES, 0);
        let read = self.stream.read(&mut self.answer[before..]).context("read an answer")?;
        self.answer.truncate(before + read);
        ensure!(read > 0, "the server closed a connection");
        let text = std::str::from_utf8(&self.answer)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(false) };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.with_context(|| format!("no length in {text:?}"))?.parse()?;
        if body.len() < length {
            return Ok(false);
        }
        ensure!(head.starts_with("HTTP/1.1 200 "), "the server answered {text:?}");
        is_good(body)?;
        Ok(true)
    }
}

/// A request that says all a server has to know.
fn request(method: &str, params: &Value) -> Vec<u8> {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().map(|name| format!("mcp-name: {name}\r\n"));
    let name = name.unwrap_or_default();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {REVISION}\r\n\
         mcp-method: {method}\r\n{name}content-length: {length}\r\n\r\n{body}"
    );
    request.into_bytes()
}

/// Where a server listens, as it says itself; whatever it says later is passed on.
fn address(said: ChildStderr) -> Result<SocketAddr> {
    let mut said = BufReader::new(said);
    let mut line = String::new();
    let address = loop {
        line.clear();
        let read = said.read_line(&mut line).context("read where the server listens")?;
        ensure!(read > 0, "the server ended before it listened");
        match line.split_once(LISTENING) {
            Some((_, address)) => break address.trim_end().parse().context("the address")?,
            None => io::stderr().write_all(line.as_bytes())?,
        }
    };
    std::thread::spawn(move || io::copy(&mut said, &mut io::stderr()));
    Ok(address)
}
