//! MCP: a server of ours and the least that its SDK can do, over either transport.

pub(crate) mod echo;
mod http_client;
mod stdio_client;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use hotcell_native::CgroupUse;
use serde_json::{Value, json};

pub(crate) use self::http_client::HttpTalk;
pub(crate) use self::stdio_client::StdioTalk;
use crate::load::Worker;
use crate::oneshot::program;

/// The cell in which servers run what they are asked for.
pub(crate) const CELL: &str = "bench-server";

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server<'a> {
    /// `hotcell serve`, asked for `exec_run` of `sh -c true`.
    Hotcell { program: &'a Path, state: &'a Path, cgroups: CgroupUse },
    /// This program as a plain server, asked for a tool that does nothing.
    Echo,
}

impl Server<'_> {
    /// The program, except for what its transport needs.
    pub(crate) fn program(self) -> Result<Command> {
        let Self::Hotcell { program: hotcell, state, cgroups } = self else {
            return Ok(program(std::env::current_exe()?));
        };
        let mut command = program(hotcell);
        command.arg("--state-dir").arg(state).args(["serve", "--cell", CELL]);
        if cgroups == CgroupUse::Off {
            command.env("HOTCELL_NATIVE_CGROUPS", "off");
        }
        Ok(command)
    }

    /// What is called again and again.
    fn call(self) -> Value {
        match self {
            Self::Hotcell { .. } => {
                json!({ "name": "exec_run", "arguments": { "argv": ["sh", "-c", "true"] } })
            }
            Self::Echo => json!({ "name": echo::TOOL, "arguments": {} }),
        }
    }
}

/// A server that this process started, and the talk with it.
pub(crate) trait Talk: Worker + Sized {
    /// How it is talked to.
    const NAME: &'static str;

    /// What is promised for one call at a time.
    const PROMISE: &'static str;

    /// Starts a server and waits for its first answer.
    fn start(server: Server<'_>) -> Result<Self>;

    fn pid(&self) -> u32;

    /// How long it took from the start to the first answer.
    fn first_answer(&self) -> Duration;

    /// Sends calls whose answers nobody reads: nothing else can be asked afterwards.
    fn ask_only(&mut self, call: &Value, count: usize) -> Result<()>;

    /// Ends the server.
    fn stop(self) -> Result<()>;
}

/// Checks that an answer is one, and no error.
fn is_good(answer: &str) -> Result<()> {
    let good = answer.contains("\"result\"") && !answer.contains("\"isError\":true");
    ensure!(good, "the server answered {answer:?}");
    Ok(())
}
