//! Code in a cell with all guards on: until its result is there, what a call of a tool costs, and many
//! runs at once.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use hotcell_engine::Engine;
use hotcell_model::{
    CellId, Code, CodeLanguage, CodeValue, Command, ExecRun, ServerStanding, ServerTools,
    ToolAnswer, ToolCall, ToolListings, ToolServers,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::oneshot;
use crate::parts::{Bench, PARALLEL};
use crate::samples::{Samples, Shot, Turns, take_turns};
use crate::site::{Guards, Site};
use crate::table::{Row, time};

/// Between two calls a model thinks for longer than this.
const BETWEEN_CALLS: Duration = Duration::from_millis(50);
const TABLE: &str = "import pandas as pd\n\
    t = pd.DataFrame({'a': range(1000), 'b': range(1000)})\n\
    int(t.groupby(t.a % 10).b.sum().max())";
const MANY_CALLS: u32 = 1000;
const CALLS: &str = "from tools.echo import echo";
/// The least that a call can be: two processes of the cell, one socket, no rules, nothing written down.
const BARE: &str = "import json, os, socket\n\
    ours, theirs = socket.socketpair()\n\
    if os.fork() == 0:\n\
    \x20   ours.close()\n\
    \x20   while data := theirs.recv(65536): theirs.sendall(json.dumps(json.loads(data)).encode())\n\
    \x20   os._exit(0)\n\
    theirs.close()\n\
    def echo(n):\n\
    \x20   ours.sendall(json.dumps({'n': n}).encode())\n\
    \x20   return json.loads(ours.recv(65536))";

/// A process that has imported pandas and forks for every line it reads: nothing guards what it does.
struct BareForks {
    process: Child,
    ended: BufReader<ChildStdout>,
}

impl BareForks {
    fn start() -> Result<Self> {
        let serve = format!(
            "import gc, os, sys, pandas\n\
             gc.collect(); gc.freeze()\n\
             for line in sys.stdin:\n\
             \x20   child = os.fork()\n\
             \x20   if child == 0:\n\
             \x20       exec({TABLE:?}, {{}})\n\
             \x20       os._exit(0)\n\
             \x20   print(os.waitpid(child, 0)[1], flush=True)"
        );
        let mut python = oneshot::program(oneshot::PYTHON);
        let python = python.args(["-I", "-c", &serve]).stdin(Stdio::piped());
        let mut process = python.stdout(Stdio::piped()).spawn()?;
        let ended = BufReader::new(process.stdout.take().context("there is no output")?);
        let mut forks = Self { process, ended };
        forks.run()?;
        Ok(forks)
    }

    /// One fork, after a while as in [`Site::run_code_later`].
    fn run(&mut self) -> Result<Duration> {
        std::thread::sleep(BETWEEN_CALLS);
        let began = Instant::now();
        writeln!(self.process.stdin.as_mut().context("there is no input")?)?;
        let mut code = String::new();
        self.ended.read_line(&mut code)?;
        ensure!(code == "0\n", "a fork ended with {code:?}");
        Ok(began.elapsed())
    }
}

impl Drop for BareForks {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Code that tells how long a call takes.
fn many_times(made_by: &str, call: &str) -> String {
    format!(
        "{made_by}\n\
         import time\n\
         n = 0\n\
         {call}\n\
         began = time.perf_counter()\n\
         for n in range({MANY_CALLS}): assert {call} == {{'n': n}}\n\
         (time.perf_counter() - began) / {MANY_CALLS}"
    )
}

/// A server in this process that answers at once: what is left is the way there and back.
#[derive(Debug)]
struct Echo(Arc<ToolListings>);

impl Echo {
    fn new() -> Self {
        let tool = json!({
            "name": "echo",
            "inputSchema": {
                "type": "object",
                "properties": { "n": { "type": "integer" } },
                "required": ["n"],
            },
            "annotations": { "readOnlyHint": true },
        });
        let echo = ServerTools {
            name: "echo".to_owned(),
            about: None,
            tools: Arc::new([tool]),
            trusted: true,
            allowed: false,
            fault: None,
        };
        Self(Arc::new(ToolListings { version: 1, servers: vec![echo] }))
    }
}

#[async_trait]
impl ToolServers for Echo {
    async fn listings(&self, _within: Duration) -> Arc<ToolListings> {
        Arc::clone(&self.0)
    }

    async fn known_listings(&self) -> Arc<ToolListings> {
        self.listings(Duration::ZERO).await
    }

    async fn call(&self, call: ToolCall) -> hotcell_model::Result<ToolAnswer> {
        let structured = Some(Value::Object(call.arguments));
        Ok(ToolAnswer { structured, content: Vec::new(), is_error: false, bytes: 8 })
    }

    async fn changed(&self, _since: u64) -> u64 {
        std::future::pending().await
    }

    fn standing(&self) -> Vec<ServerStanding> {
        Vec::new()
    }
}

/// Lets code of this engine call that server.
pub(crate) fn put_into(engine: &mut Engine) -> Result<()> {
    Ok(engine.call_tools_of(Arc::new(Echo::new()), 0)?)
}

impl Site {
    fn code(&self, cell: &CellId, text: &str) -> ExecRun {
        let code = Code { language: CodeLanguage::Python, text: text.to_owned(), session: None };
        ExecRun { wait_s: 50.0, ..ExecRun::new(cell.clone(), Command::Code(code)) }
    }

    /// What code gives back, and how long that took.
    fn run_code(&self, cell: &CellId, text: &str) -> Result<(Value, Duration)> {
        let request = self.code(cell, text);
        let began = Instant::now();
        let result = self.runtime.block_on(self.engine.ask(self.caller(), request))?;
        let took = began.elapsed();
        let report = result.code.and_then(|code| code.report).context("code gave no report")?;
        match report.result {
            Some(CodeValue::Json(value)) => Ok((value, took)),
            other => anyhow::bail!("code gave {other:?} back, and {:?}", report.error),
        }
    }

    /// The same after a while, as a model calls.
    fn run_code_later(&self, cell: &CellId, text: &str, expected: &Value) -> Result<Duration> {
        self.pause(BETWEEN_CALLS);
        let (value, took) = self.run_code(cell, text)?;
        ensure!(value == *expected, "code gave {value} back");
        Ok(took)
    }

    fn parallel_code(&self, cell: &CellId, count: u32) -> Result<(Duration, u32)> {
        self.runtime.block_on(async {
            let began = Instant::now();
            let mut tasks = JoinSet::new();
            for number in 0..count {
                let (engine, caller) = (Arc::clone(&self.engine), self.caller().clone());
                let request = self.code(cell, &format!("sum(range({number}))"));
                tasks.spawn(async move {
                    let code = engine.ask(&caller, request).await?.code;
                    let expected = json!(number * number.saturating_sub(1) / 2);
                    let result = code.and_then(|code| code.report?.result);
                    anyhow::Ok(u32::from(result == Some(CodeValue::Json(expected))))
                });
            }
            let mut right = 0;
            while let Some(ended) = tasks.join_next().await {
                right += ended??;
            }
            Ok((began.elapsed(), right))
        })
    }
}

impl Bench<'_> {
    pub(crate) fn code(&mut self) -> Result<()> {
        let state = self.files.join("code");
        std::fs::create_dir(&state)?;
        let site = Site::open(&state, self.hotcell, self.cgroups, Guards::All)?;
        let (cell, _) = site.spawn(None)?;
        self.first_result(&site, &cell)?;
        self.tool_calls(&site, &cell)?;
        self.many_runs(&site, &cell)?;
        site.kill(&cell)
    }

    fn first_result(&mut self, site: &Site, cell: &CellId) -> Result<()> {
        site.run_code(cell, "1 + 1")?;
        let turns = Turns { rounds: self.rounds(200), in_a_row: 1 };
        let shots: [Shot<'_>; 2] =
            [Box::new(oneshot::python), Box::new(|| site.run_code_later(cell, "1 + 1", &json!(2)))];
        let [plain, code] = take_turns(turns, shots)?;
        let ratio = |samples: &Samples| format!("{:.2} × plain", samples.ratio_to(&plain));
        self.add("plain `python3 -I -c 'print(1 + 1)'`", &plain, String::new(), "");
        let promise = "p50 ≤ 5 ms, p99 ≤ 20 ms";
        self.add(
            "code `1 + 1`, all layers and guards, until its result",
            &code,
            ratio(&code),
            promise,
        );
        if site.run_code(cell, TABLE).is_err() {
            self.rows
                .push(Row::new("code that groups a table of pandas", "skipped: no pandas here"));
            return Ok(());
        }
        let mut bare = BareForks::start()?;
        let shots: [Shot<'_>; 2] = [
            Box::new(|| bare.run()),
            Box::new(|| site.run_code_later(cell, TABLE, &json!(50_400))),
        ];
        let [bare, table] = take_turns(turns, shots)?;
        self.add("bare: the same in a fork of a `python3` with pandas", &bare, String::new(), "");
        let ratio = format!("{:.2} × bare", table.ratio_to(&bare));
        self.add("code that groups a table of pandas", &table, ratio, promise);
        Ok(())
    }

    fn tool_calls(&mut self, site: &Site, cell: &CellId) -> Result<()> {
        let timed = |text: &str| {
            let (seconds, _) = site.run_code(cell, text)?;
            Ok(Duration::from_secs_f64(seconds.as_f64().context("no time came back")?))
        };
        let (bare, calls) = (many_times(BARE, "echo(n)"), many_times(CALLS, "echo(n=n)"));
        let turns = Turns { rounds: self.rounds(10).max(3), in_a_row: 1 };
        let [bare, call] =
            take_turns(turns, [Box::new(|| timed(&bare)), Box::new(|| timed(&calls))])?;
        let what = "bare: from one `python3` of the cell to another and back, as JSON";
        self.add(what, &bare, String::new(), "");
        let what = "a call of a tool by code, there and back, with policy and ledger";
        self.add(what, &call, format!("{:.2} × bare", call.ratio_to(&bare)), "≤ 50 µs");
        Ok(())
    }

    fn many_runs(&mut self, site: &Site, cell: &CellId) -> Result<()> {
        let rounds = self.rounds(10).max(3);
        let (mut took, mut right) = (Vec::new(), 0);
        for _ in 0..rounds {
            let (all, were_right) = site.parallel_code(cell, PARALLEL)?;
            took.push(all);
            right += were_right;
        }
        let asked = u32::try_from(rounds)? * PARALLEL;
        let samples = Samples::from_all(took);
        let correct = format!("{right} of {asked} right, {} each", time(samples.p50() / PARALLEL));
        self.add("100 runs of code at once, until all ended", &samples, correct, "all right");
        Ok(())
    }
}
