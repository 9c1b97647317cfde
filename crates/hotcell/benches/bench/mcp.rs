//! MCP over pipes: a server of ours, and the least that its SDK can do.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};

use crate::oneshot::program;

/// A server that was started by this process, as a client would.
#[derive(Debug)]
pub(crate) struct McpServer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    next_id: u64,
    /// From its start to its first answer.
    pub(crate) first_answer: Duration,
}

/// What is called again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    /// `exec_run` of `sh -c true` in the default cell.
    Exec,
    /// A tool that does nothing.
    Echo,
}

impl Call {
    fn params(self) -> Value {
        match self {
            Self::Exec => {
                json!({ "name": "exec_run", "arguments": { "argv": ["sh", "-c", "true"] } })
            }
            Self::Echo => json!({ "name": "echo", "arguments": {} }),
        }
    }
}

impl McpServer {
    /// `hotcell serve` on a state directory.
    pub(crate) fn hotcell(hotcell: &Path, state: &Path) -> Result<Self> {
        let mut command = program(hotcell);
        command.arg("--state-dir").arg(state).arg("serve");
        Self::start(command)
    }

    /// This program as the plain server of [`echo`].
    pub(crate) fn echo() -> Result<Self> {
        let mut command = program(std::env::current_exe()?);
        command.arg("--echo");
        Self::start(command)
    }

    fn start(mut command: std::process::Command) -> Result<Self> {
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the server")?;
        let requests = child.stdin.take().context("the server's input")?;
        let answers = child.stdout.take().context("the server's output")?;
        let mut server = Self {
            child,
            requests,
            answers: BufReader::new(answers),
            next_id: 0,
            first_answer: Duration::ZERO,
        };
        let client = json!({ "name": "bench", "version": "1" });
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client
        });
        server.ask("initialize", &params)?;
        server.answer()?;
        server.first_answer = began.elapsed();
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Calls as often as `calls` says, with `at_once` under way.
    pub(crate) fn run(&mut self, call: Call, calls: usize, at_once: usize) -> Result<()> {
        let params = call.params();
        for _ in 0..at_once.min(calls) {
            self.ask("tools/call", &params)?;
        }
        for answered in 0..calls {
            self.answer()?;
            if answered + at_once < calls {
                self.ask("tools/call", &params)?;
            }
        }
        Ok(())
    }

    /// Starts execs that wait for their input, and tells when all of them run.
    pub(crate) fn start_jobs(&mut self, count: usize) -> Result<()> {
        let arguments = json!({ "argv": ["cat"], "stdin_open": true, "wait_s": 0 });
        let params = json!({ "name": "exec_run", "arguments": arguments });
        for _ in 0..count {
            self.ask("tools/call", &params)?;
        }
        (0..count).try_for_each(|_| self.answer())
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<()> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.requests.write_all(&line).context("ask the server")
    }

    fn answer(&mut self) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("read from the server")?;
        let good = line.contains("\"result\"") && !line.contains("\"isError\":true");
        ensure!(good, "the server answered {line:?}");
        Ok(())
    }

    /// Ends the server by the end of its input.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        child.wait().context("wait for the server")?;
        Ok(())
    }
}

/// The least that a server on the same SDK can do.
#[derive(Debug)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("echo")]).into())
    }
}

/// Serves [`Echo`] on the SDK's own transport.
pub(crate) fn echo() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        Echo.serve(rmcp::transport::stdio_pipes()).await?.waiting().await?;
        Ok(())
    })
}
