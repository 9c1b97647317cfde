//! A server on pipes, and the client that started it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Server, Talk, is_good};
use crate::load::{Load, Worker};

/// As much as a pipe holds.
const ANSWER_BYTES: usize = 64 * 1024;

/// A server that is spoken to over its standard input and output.
#[derive(Debug)]
pub(crate) struct StdioTalk {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    call: Value,
    next_id: u64,
    first_answer: Duration,
}

impl Talk for StdioTalk {
    const NAME: &'static str = "MCP stdio";
    const PROMISE: &'static str = "p50 ≤ 1.0 × floor";

    fn start(server: Server<'_>) -> Result<Self> {
        let mut command = server.program()?;
        if matches!(server, Server::Echo) {
            command.arg("--echo");
        }
        Self::over(command, server.call())
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn first_answer(&self) -> Duration {
        self.first_answer
    }

    fn ask_only(&mut self, call: &Value, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| self.ask("tools/call", call).map(drop))
    }

    fn stop(self) -> Result<()> {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        child.wait().context("wait for the server")?;
        Ok(())
    }
}

impl Worker for StdioTalk {
    fn work(&mut self, load: Load) -> Result<Vec<Duration>> {
        let call = self.call.clone();
        let mut asked = HashMap::with_capacity(load.at_once);
        for _ in 0..load.at_once.min(load.calls) {
            let now = Instant::now();
            asked.insert(self.ask("tools/call", &call)?, now);
        }
        let mut took = Vec::with_capacity(load.calls);
        while took.len() < load.calls {
            let id = self.answer()?;
            let began = asked.remove(&id).context("an answer to nothing")?;
            took.push(began.elapsed());
            if took.len() + asked.len() < load.calls {
                let now = Instant::now();
                asked.insert(self.ask("tools/call", &call)?, now);
            }
        }
        Ok(took)
    }
}

impl StdioTalk {
    /// Talks to whatever a command starts, in the revision that every server knows.
    pub(crate) fn over(mut command: Command, call: Value) -> Result<Self> {
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the server")?;
        let requests = child.stdin.take().context("the server's input")?;
        let answers = child.stdout.take().context("the server's output")?;
        let mut talk = Self {
            child,
            requests,
            answers: BufReader::with_capacity(ANSWER_BYTES, answers),
            call,
            next_id: 0,
            first_answer: Duration::ZERO,
        };
        let client = json!({ "name": "bench", "version": "1" });
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client
        });
        talk.ask("initialize", &params)?;
        talk.answer()?;
        talk.first_answer = began.elapsed();
        talk.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(talk)
    }

    /// Calls a tool once; how long it took from the first byte of the request to the last of the
    /// answer, and the answer. What a client does with either is not counted.
    pub(crate) fn call_once(&mut self, call: &Value) -> Result<(Duration, String)> {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call });
        let request = line(&request)?;
        let mut answer = Vec::new();
        let began = Instant::now();
        self.requests.write_all(&request).context("ask the server")?;
        self.answers.read_until(b'\n', &mut answer).context("read from the server")?;
        let took = began.elapsed();
        let answer = String::from_utf8(answer).context("an answer that is no text")?;
        is_good(&answer)?;
        Ok((took, answer))
    }

    /// Sends a request; its id.
    fn ask(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        Ok(id)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.requests.write_all(&line(message)?).context("ask the server")
    }

    /// The id of the next answer, which has to be a good one.
    fn answer(&mut self) -> Result<u64> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("read from the server")?;
        is_good(&line)?;
        id_in(&line).with_context(|| format!("no id in {line:?}"))
    }
}

fn line(message: &Value) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The id of a message, without reading all of it: that would be time of the server's.
fn id_in(message: &str) -> Option<u64> {
    let (_, after) = message.split_once("\"id\":")?;
    after[..after.find(|letter: char| !letter.is_ascii_digit())?].parse().ok()
}
