//! The part that measures dialects, beside the server whose place one takes where that is installed.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use hotcell_native::CgroupUse;
use serde_json::{Value, json};

use crate::mcp::{StdioTalk, Talk};
use crate::memory;
use crate::oneshot::program;
use crate::parts::Bench;
use crate::samples::{Samples, Shot, Turns, take_all_turns};
use crate::table::{Row, megabytes, times};

/// Does something with a server; how long it took.
type Use = fn(&mut StdioTalk) -> Result<Duration>;

/// A dialect, and what is done with it.
struct Dialect {
    name: &'static str,
    what: &'static str,
    used: Use,
    /// The program whose place it takes, where that can be installed.
    original: Option<&'static str>,
    /// What asks it for stdio, if it would serve HTTP.
    env: &'static [(&'static str, &'static str)],
}

const DIALECTS: &[Dialect] = &[
    Dialect {
        name: "background-job",
        what: "a job of `true` until it is known to be completed",
        used: job,
        original: Some("bin/mcp-background-job"),
        env: &[],
    },
    Dialect {
        name: "vibesbox",
        what: "`execute_command` of `true`",
        used: execute,
        original: None,
        env: &[],
    },
    Dialect {
        name: "devbench",
        what: "a container, `true` in it until it is known to be complete, and no container any more",
        used: container,
        original: None,
        env: &[("MCP_TRANSPORT_MODE", "stdio"), ("HOTCELL_DRIVER", "native")],
    },
];

fn called(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

/// Calls a tool; what its result has under this name.
fn told(talk: &mut StdioTalk, call: &Value, name: &str) -> Result<Value> {
    let (_, answer) = talk.call_once(call)?;
    let mut answer: Value = serde_json::from_str(&answer)?;
    let told = answer["result"]["structuredContent"][name].take();
    anyhow::ensure!(!told.is_null(), "{call} was answered by {answer}, without a {name}");
    Ok(told)
}

fn job(talk: &mut StdioTalk) -> Result<Duration> {
    let began = Instant::now();
    let id = told(talk, &called("execute_command", json!({ "command": "true" })), "job_id")?;
    let status = called("get_job_status", json!({ "job_id": id }));
    while !talk.call_once(&status)?.1.contains("completed") {}
    Ok(began.elapsed())
}

fn execute(talk: &mut StdioTalk) -> Result<Duration> {
    Ok(talk.call_once(&called("execute_command", json!({ "command": "true" })))?.0)
}

fn container(talk: &mut StdioTalk) -> Result<Duration> {
    let of = |tool: &str, input: Value| called(tool, json!({ "input_data": input }));
    let began = Instant::now();
    let container = told(talk, &of("spawn", json!({ "image": "host" })), "container_id")?;
    let start = of("exec_start", json!({ "container_id": container, "cmd": ["true"] }));
    let exec = told(talk, &start, "exec_id")?;
    let poll = of("exec_poll", json!({ "exec_id": exec }));
    while told(talk, &poll, "complete")? != true {}
    told(talk, &of("kill", json!({ "container_id": container, "force": true })), "status")?;
    Ok(began.elapsed())
}

/// What is called only to start the server: nothing.
fn talk(command: Command) -> Result<StdioTalk> {
    StdioTalk::over(command, Value::Null)
}

impl Bench<'_> {
    pub(crate) fn dialects(&mut self) -> Result<()> {
        DIALECTS.iter().try_for_each(|dialect| self.dialect(dialect))
    }

    /// The original, if it is here, and then what takes its place.
    fn servers(&self, dialect: &Dialect) -> Vec<(String, Command)> {
        let original = self.original.zip(dialect.original).map(|(place, path)| {
            let mut command = program(place.join(path));
            command.stderr(Stdio::null());
            (format!("the original of {}", dialect.name), command)
        });
        let mut command = program(self.hotcell);
        command.arg("--state-dir").arg(self.state).args(["serve", "--dialect", dialect.name]);
        command.current_dir("/").envs(dialect.env.iter().copied()).stderr(Stdio::null());
        if self.cgroups == CgroupUse::Off {
            command.env("HOTCELL_NATIVE_CGROUPS", "off");
        }
        let ours = (format!("`serve --dialect {}`", dialect.name), command);
        original.into_iter().chain([ours]).collect()
    }

    fn dialect(&mut self, dialect: &Dialect) -> Result<()> {
        let names: Vec<String> = self.servers(dialect).into_iter().map(|(name, _)| name).collect();
        let this = &*self;
        let starts = (0..names.len()).map(|number| {
            let start = move || {
                let (_, command) = this.servers(dialect).swap_remove(number);
                let talk = talk(command)?;
                let took = talk.first_answer();
                talk.stop()?;
                Ok(took)
            };
            Box::new(start) as Shot<'_>
        });
        let turns = Turns { rounds: self.rounds(20), in_a_row: 1 };
        let starts = take_all_turns(turns, starts.collect())?;

        let commands = self.servers(dialect).into_iter();
        let mut talks =
            commands.map(|(_, command)| talk(command)).collect::<Result<Vec<StdioTalk>>>()?;
        let memories = talks.iter().map(|talk| memory::of(talk.pid()));
        let memories = memories.collect::<Result<Vec<_>>>()?;
        let uses = talks.iter_mut().map(|talk| Box::new(|| (dialect.used)(talk)) as Shot<'_>);
        let turns = Turns { rounds: self.rounds(100), in_a_row: 1 };
        let uses = take_all_turns(turns, uses.collect())?;
        talks.into_iter().try_for_each(StdioTalk::stop)?;

        self.beside_original(&names, "start to first answer", &starts);
        let first = memories.first().map_or(1, |memory| memory.bytes);
        for (number, (name, memory)) in names.iter().zip(memories).enumerate() {
            let ratio = match number {
                0 => memory.counted.to_owned(),
                _ => times(memory.bytes as f64 / first as f64, "original"),
            };
            let row = Row::new(format!("{name}: memory when idle"), megabytes(memory.bytes));
            self.rows.push(row.ratio(ratio));
        }
        self.beside_original(&names, dialect.what, &uses);
        Ok(())
    }

    fn beside_original(&mut self, names: &[String], what: &str, all: &[Samples]) {
        for (number, (name, samples)) in names.iter().zip(all).enumerate() {
            let ratio = match all.first().filter(|_| number > 0) {
                Some(original) => times(samples.ratio_to(original), "original"),
                None => String::new(),
            };
            self.add(&format!("{name}: {what}"), samples, ratio, "");
        }
    }
}
