//! What checkpoints and forks cost, in time and on disk.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::disk::used;
use crate::mcp::{CELL, StdioTalk, Talk};
use crate::parts::Bench;
use crate::samples::Samples;
use crate::site::Site;
use crate::table::{Row, kilobytes, megabytes};

/// Writes 10,000 files.
const CHANGE: &str = "mkdir -p changed && cd changed && i=0 && \
     while [ $i -lt 10000 ]; do echo content $i > file_$i; i=$((i + 1)); done";
/// Writes 1 GB, a megabyte to a file.
const FILL: &str = "head -c 1073741824 /dev/zero | split -b 1048576 -a 4 - part_";
const REWRITE: &str = "head -c 1048576 /dev/urandom > part_aaaa";
const FORKS: usize = 10;

impl Bench<'_> {
    pub(super) fn layers(&mut self, site: &Site) -> Result<()> {
        let mut talk = StdioTalk::over(self.server().program()?, json!({}))?;
        self.changed(&mut talk, site)?;
        self.shared(&mut talk, site)?;
        talk.stop()
    }

    /// A checkpoint and a fork of a cell with many changed files.
    fn changed(&mut self, talk: &mut StdioTalk, site: &Site) -> Result<()> {
        let (mut checkpoints, mut forks) = (Vec::new(), Vec::new());
        let (mut by_checkpoint, mut by_fork) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds(20).max(5) {
            run(talk, None, CHANGE)?;
            let before = used(self.state)?;
            let (took, answer) = call(talk, "cell_checkpoint", json!({ "action": "create" }))?;
            ensure!(answer.contains("stacked"), "it was no stacked one: {answer}");
            checkpoints.push(took);
            let between = used(self.state)?;
            let (took, answer) = call(talk, "cell_fork", json!({}))?;
            forks.push(took);
            by_checkpoint.push(between.saturating_sub(before));
            by_fork.push(used(self.state)?.saturating_sub(between));
            for cell in cells(&answer)? {
                kill(talk, &cell)?;
            }
            site.kill_named(CELL)?;
        }
        let what = "checkpoint of 10,000 changed files";
        self.add_layers(what, checkpoints, &mut by_checkpoint);
        self.add_layers("fork of a cell with 10,000 changed files", forks, &mut by_fork);
        Ok(())
    }

    fn add_layers(&mut self, what: &str, took: Vec<Duration>, grown: &mut [u64]) {
        grown.sort_unstable();
        let grown = grown.get(grown.len() / 2).copied().unwrap_or_default();
        let disk = format!("disk +{}", kilobytes(grown));
        self.add(what, &Samples::from_all(took), disk, "≤ 10 ms");
    }

    /// Forks of a cell with a large layer.
    fn shared(&mut self, talk: &mut StdioTalk, site: &Site) -> Result<()> {
        run(talk, None, FILL)?;
        let before = used(self.state)?;
        let (took, answer) = call(talk, "cell_fork", json!({ "count": FORKS }))?;
        let forks = cells(&answer)?;
        ensure!(forks.len() == FORKS, "{} forks were made", forks.len());
        let shared = used(self.state)?;
        let first = forks.first().context("no forks")?;
        run(talk, Some(first), REWRITE)?;
        let changed = used(self.state)?;
        for cell in &forks {
            kill(talk, cell)?;
        }
        site.kill_named(CELL)?;
        let what = "10 forks of a cell with 1 GB";
        self.add(what, &Samples::from_all(vec![took]), String::new(), "");
        let row = |what: &str, bytes: u64| Row::new(format!("{what}: disk"), megabytes(bytes));
        self.rows.push(row("a cell with 1 GB, and all else there is", before));
        let grown = row("its 10 forks", shared.saturating_sub(before));
        self.rows.push(grown.promise("what changes only"));
        let grown = row("one fork rewrites 1 MB", changed.saturating_sub(shared));
        self.rows.push(grown.promise("what changes only"));
        Ok(())
    }
}

fn call(talk: &mut StdioTalk, tool: &str, arguments: Value) -> Result<(Duration, String)> {
    talk.call_once(&json!({ "name": tool, "arguments": arguments }))
}

/// Runs a script in a cell, or in the default one, which is made where it is missing.
fn run(talk: &mut StdioTalk, cell: Option<&str>, script: &str) -> Result<()> {
    let arguments = json!({ "cell": cell, "argv": ["sh", "-c", script], "wait_s": 50 });
    let (_, answer) = call(talk, "exec_run", arguments)?;
    ensure!(answer.contains("\"exit_code\":0"), "{script:?} ended otherwise: {answer}");
    Ok(())
}

fn kill(talk: &mut StdioTalk, cell: &str) -> Result<()> {
    call(talk, "cell_kill", json!({ "cell": cell, "force": true })).map(drop)
}

/// The cells that an answer tells of.
fn cells(answer: &str) -> Result<Vec<String>> {
    let answer: Value = serde_json::from_str(answer)?;
    let cells = answer["result"]["structuredContent"]["cells"].as_array().context("no cells")?;
    let id = |cell: &Value| cell["id"].as_str().map(str::to_owned).context("a cell without an id");
    cells.iter().map(id).collect()
}
