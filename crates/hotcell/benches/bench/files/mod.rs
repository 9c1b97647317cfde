//! The part that measures files: `hotcell serve` against public servers for files and ripgrep, and
//! what checkpoints and forks cost.

mod contender;
mod disk;
mod layers;
mod sample_tree;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use self::contender::{Contender, HOTCELL, PEERS, Task};
use self::sample_tree::{FILES, MATCHES, NEEDLE, SampleTree};
use crate::mcp::{CELL, StdioTalk};
use crate::oneshot;
use crate::parts::Bench;
use crate::samples::{Samples, Shot, Turns, take_all_turns};
use crate::site::Site;
use crate::table::Row;

/// Threads of a search in a cell, at most.
const SEARCH_THREADS: usize = 8;

impl Bench<'_> {
    pub(crate) fn files(&mut self, site: &Site) -> Result<()> {
        let sample = SampleTree::make(self.files)?;
        let mut contenders = Vec::new();
        for peer in PEERS {
            match peer.start(self.peers, &sample.root) {
                Ok(contender) => contenders.push(contender),
                Err(error) => {
                    let why = format!("skipped: {error}");
                    self.rows.push(Row::new(peer.name(), why));
                }
            }
        }
        let mut server = StdioTalk::over(self.server().program()?, json!({}))?;
        // Whatever runs first makes the cell.
        server.call_once(&json!({ "name": "exec_run", "arguments": { "argv": ["true"] } }))?;
        contenders.push(Contender::hotcell(server));
        self.fill_cell(&sample)?;
        self.tasks(&mut contenders, &sample)?;
        self.search(&mut contenders, &sample)?;
        for contender in contenders {
            contender.stop()?;
        }
        site.kill_named(CELL)?;
        self.layers(site)
    }

    /// Brings the same files into the cell.
    fn fill_cell(&self, sample: &SampleTree) -> Result<()> {
        let mut copy = oneshot::program(self.hotcell);
        copy.arg("--state-dir").arg(self.state).arg("cp");
        copy.arg(format!("{}/.", sample.root.display())).arg(format!("{CELL}:/workspace"));
        let status = copy.status().context("fill the cell")?;
        ensure!(status.success(), "{copy:?}: {status}");
        Ok(())
    }

    fn tasks(&mut self, contenders: &mut [Contender], sample: &SampleTree) -> Result<()> {
        for (task, what, rounds) in [
            (Task::Read, "read 1 MB", 100),
            (Task::Write, "write 1 MB", 100),
            (Task::ListNames, "list 10,000 names", 30),
            (Task::ListSizes, "list 10,000 entries with sizes", 30),
        ] {
            let turns = Turns { rounds: self.rounds(rounds).max(5), in_a_row: 1 };
            let (names, mut shots) = shots(contenders, task);
            if task == Task::Write {
                shots.push(Box::new(|| write_synced(&sample.root)));
            }
            let mut taken = take_all_turns(turns, shots)?;
            let least = if task == Task::Write { taken.pop() } else { None };
            if let Some(least) = least {
                self.add("write 1 MB: plain write, fsync, rename", &least, String::new(), "");
            }
            self.add_task(what, &names, &taken, "faster than all");
        }
        Ok(())
    }

    fn search(&mut self, contenders: &mut [Contender], sample: &SampleTree) -> Result<()> {
        let what = format!("search {FILES} files, {MATCHES} matches");
        let turns = Turns { rounds: self.rounds(30).max(5), in_a_row: 1 };
        let program = self.peers.map(|peers| peers.join("bin/rg")).filter(|rg| rg.exists());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let equal = format!("-j{}", threads.min(SEARCH_THREADS));
        let (mut names, mut shots) = shots(contenders, Task::Search);
        if let Some(rg) = &program {
            for (name, argument) in [("`rg`", None), ("`rg` with as many threads", Some(&equal))] {
                names.insert(0, name.to_owned());
                let place = &sample.tree;
                shots.insert(0, Box::new(move || ripgrep(rg, argument.map(String::as_str), place)));
            }
        } else {
            self.rows.push(Row::new("`rg`", "skipped: not installed"));
        }
        let taken = take_all_turns(turns, shots)?;
        self.add_task(&what, &names, &taken, "≤ 1.3 × `rg`, faster than servers");
        Ok(())
    }

    /// One row for each; hotcell's is the last.
    fn add_task(&mut self, what: &str, names: &[String], taken: &[Samples], promise: &'static str) {
        let Some((ours, others)) = taken.split_last() else { return };
        let ratios = names
            .iter()
            .zip(others)
            .map(|(name, other)| format!("{:.2} × {name}", ours.ratio_to(other)));
        let ratios: Vec<String> = ratios.collect();
        for (name, samples) in names.iter().zip(others) {
            self.add(&format!("{what}: {name}"), samples, String::new(), "");
        }
        self.add(&format!("{what}: {HOTCELL}"), ours, ratios.join(", "), promise);
    }
}

/// A shot for every way in which a contender does a task, hotcell's last.
fn shots(contenders: &mut [Contender], task: Task) -> (Vec<String>, Vec<Shot<'_>>) {
    let mut names = Vec::new();
    let mut shots: Vec<Shot<'_>> = Vec::new();
    for contender in contenders {
        let Contender { name, talk, calls } = contender;
        let calls: Vec<_> = calls.iter().filter(|call| call.task == task).collect();
        let talk = std::rc::Rc::new(std::cell::RefCell::new(talk));
        for call in calls {
            let talk = std::rc::Rc::clone(&talk);
            names.push(match call.manner {
                "" => (*name).to_owned(),
                manner => format!("{name} {manner}"),
            });
            shots.push(Box::new(move || {
                let (took, answer) = talk.borrow_mut().call_once(&call.call)?;
                call.check(&answer)?;
                Ok(took)
            }));
        }
    }
    (names, shots)
}

/// `rg` as a process, its output read to the end.
fn ripgrep(rg: &Path, threads: Option<&str>, place: &Path) -> Result<Duration> {
    let mut command = oneshot::program(rg);
    command.args(["--no-config", "--line-number", "--no-heading", "--color=never"]);
    command.args(threads).arg(NEEDLE).arg(place);
    let began = Instant::now();
    let output = command.stdout(std::process::Stdio::piped()).output().context("run rg")?;
    let took = began.elapsed();
    let found = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    ensure!(found == MATCHES, "rg found {found} lines");
    Ok(took)
}

/// What a safe write costs without any server.
fn write_synced(root: &Path) -> Result<Duration> {
    let content = sample_tree::text();
    let began = Instant::now();
    let staged = root.join("staged");
    let mut file = File::create(&staged)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(staged, root.join("plain.txt"))?;
    Ok(began.elapsed())
}
