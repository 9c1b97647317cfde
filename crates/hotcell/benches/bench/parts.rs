//! The parts of the benchmark and the promise beside each number.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};
use hotcell_native::CgroupUse;

use crate::containers::DockerEngine;
use crate::floor::Floor;
use crate::load::{Load, Worker};
use crate::mcp::{HttpTalk, StdioTalk};
use crate::samples::{Samples, Shot, Turns, take_turns};
use crate::site::{Guards, Site};
use crate::table::{Row, megabytes, time, times};
use crate::{memory, oneshot};

const OUTPUT_BYTES: usize = 50 << 20;
const IDLE_CELLS: usize = 10;
pub(crate) const PARALLEL: u32 = 100;

/// One part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Exec,
    Rate,
    Spawn,
    Output,
    Parallel,
    Idle,
    Mcp,
    Http,
    Files,
    Neighbour,
    Guards,
    Code,
    Containers,
    Dialects,
}

const PARTS: [Part; 14] = [
    Part::Exec,
    Part::Rate,
    Part::Spawn,
    Part::Output,
    Part::Parallel,
    Part::Idle,
    Part::Mcp,
    Part::Http,
    Part::Files,
    Part::Neighbour,
    Part::Guards,
    Part::Code,
    Part::Containers,
    Part::Dialects,
];

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Rate => "rate",
            Self::Spawn => "spawn",
            Self::Output => "output",
            Self::Parallel => "parallel",
            Self::Idle => "idle",
            Self::Mcp => "mcp",
            Self::Http => "http",
            Self::Files => "files",
            Self::Neighbour => "neighbour",
            Self::Guards => "guards",
            Self::Code => "code",
            Self::Containers => "containers",
            Self::Dialects => "dialects",
        }
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match PARTS.into_iter().find(|part| part.name() == text) {
            Some(part) => Ok(part),
            None => bail!("there is no part {text:?}: {:?}", PARTS.map(Self::name)),
        }
    }
}

/// Where and how to measure, and what came of it.
pub(crate) struct Bench<'a> {
    pub(crate) hotcell: &'a Path,
    pub(crate) floor: &'a Path,
    pub(crate) state: &'a Path,
    pub(crate) files: &'a Path,
    /// Where the programs of others are installed.
    pub(crate) peers: Option<&'a Path>,
    /// Where the server is installed whose place a dialect takes.
    pub(crate) original: Option<&'a Path>,
    /// The Docker engine to measure with.
    pub(crate) docker: Option<&'a DockerEngine>,
    pub(crate) quick: bool,
    pub(crate) cgroups: CgroupUse,
    pub(crate) rows: Vec<Row>,
}

impl Bench<'_> {
    /// Measures these parts, or all.
    pub(crate) fn measure(&mut self, only: &[Part]) -> Result<()> {
        let site = Site::open(self.state, self.hotcell, self.cgroups, Guards::None)?;
        for part in PARTS.into_iter().filter(|part| only.is_empty() || only.contains(part)) {
            match part {
                Part::Exec => self.exec(&site)?,
                Part::Rate => self.rate(&site)?,
                Part::Spawn => self.spawn(&site)?,
                Part::Output => self.output(&site)?,
                Part::Parallel => self.parallel(&site)?,
                Part::Idle => self.idle(&site)?,
                Part::Mcp => self.serve::<StdioTalk>(&site)?,
                Part::Http => self.serve::<HttpTalk>(&site)?,
                Part::Files => self.files(&site)?,
                Part::Neighbour => self.neighbour(&site)?,
                Part::Guards => self.guards()?,
                Part::Code => self.code()?,
                Part::Containers => self.containers(&site)?,
                Part::Dialects => self.dialects()?,
            }
        }
        Ok(())
    }

    /// Fewer when in a hurry.
    pub(crate) fn rounds(&self, most: usize) -> usize {
        if self.quick { most.div_ceil(10) } else { most }
    }

    pub(crate) fn add(
        &mut self,
        what: &str,
        samples: &Samples,
        ratio: String,
        promise: &'static str,
    ) {
        let spread = format!("{}, {}", time(samples.min()), time(samples.p99()));
        let row = Row::new(what, time(samples.p50())).spread(spread);
        self.rows.push(row.ratio(ratio).promise(promise));
    }

    fn exec(&mut self, site: &Site) -> Result<()> {
        let (cell, _) = site.spawn(None)?;
        let mut floor = Floor::start(self.floor)?;
        let shots: [Shot<'_>; 3] = [
            Box::new(oneshot::plain),
            Box::new(|| {
                let began = Instant::now();
                floor.work(Load { calls: 1, at_once: 1 })?;
                Ok(began.elapsed())
            }),
            Box::new(|| site.exec(&cell)),
        ];
        let turns = Turns { rounds: self.rounds(100), in_a_row: 10 };
        let [plain, least, exec] = take_turns(turns, shots)?;
        floor.stop()?;
        site.kill(&cell)?;
        let to_floor = |samples: &Samples| {
            let min = samples.min_ratio_to(&least);
            format!("{:.2} × floor (min {min:.2})", samples.ratio_to(&least))
        };
        self.add("plain `sh -c true` by posix_spawn", &plain, to_floor(&plain), "");
        self.add("floor: fork, vfork, `sh -c true`, read, over a pipe", &least, String::new(), "");
        let promise = "≤ 1.0 × floor";
        self.add("exec `sh -c true` in a warm cell, engine", &exec, to_floor(&exec), promise);
        Ok(())
    }

    fn rate(&mut self, site: &Site) -> Result<()> {
        let (cell, _) = site.spawn(None)?;
        let mut floor = Floor::start(self.floor)?;
        for at_once in [1, 16, 64] {
            let calls = self.rounds(500).max(at_once);
            let shots: [Shot<'_>; 2] = [
                Box::new(|| {
                    let began = Instant::now();
                    floor.work(Load { calls, at_once })?;
                    Ok(began.elapsed())
                }),
                Box::new(|| {
                    let began = Instant::now();
                    site.exec_many(&cell, calls, at_once)?;
                    Ok(began.elapsed())
                }),
            ];
            let [least, exec] = take_turns(Turns { rounds: 3, in_a_row: 1 }, shots)?;
            let rate = |took: Duration| calls as f64 / took.as_secs_f64();
            let row = Row::new(
                format!("execs a second in a warm cell, {at_once} in flight"),
                format!("{:.0}/s", rate(exec.p50())),
            );
            let row = row.spread(format!("floor {:.0}/s", rate(least.p50())));
            let row = row.ratio(times(1.0 / exec.ratio_to(&least), "floor"));
            self.rows.push(if at_once == 64 { row.promise("≥ 0.9 × floor") } else { row });
        }
        floor.stop()?;
        site.kill(&cell)
    }

    fn spawn(&mut self, site: &Site) -> Result<()> {
        let turns = Turns { rounds: self.rounds(20), in_a_row: 5 };
        let (hotcell, state) = (self.hotcell, self.state);
        let pool = Site::open_pooled(&state.join("pooled"), hotcell, None)?;
        let ours: [Shot<'_>; 3] = [
            Box::new(|| site.spawn_and_kill()),
            Box::new(|| oneshot::hotcell_run(hotcell, state)),
            Box::new(|| pool.claim_and_kill()),
        ];
        if !oneshot::bwrap_works() {
            let [cold, run, claimed] = take_turns(turns, ours)?;
            pool.end_pool()?;
            self.rows.push(Row::new("`bwrap --unshare-all true`", "skipped: does not work here"));
            self.add("cold spawn, engine", &cold, String::new(), "≤ 1.0 × bwrap");
            self.add("`hotcell run true`, whole process", &run, String::new(), "");
            self.add("a cell that was ready", &claimed, String::new(), "≤ 1 ms");
            return Ok(());
        }
        let [first, second, third] = ours;
        let shots: [Shot<'_>; 4] = [Box::new(oneshot::bwrap), first, second, third];
        let [bwrap, cold, run, claimed] = take_turns(turns, shots)?;
        pool.end_pool()?;
        let to_bwrap = |samples: &Samples| {
            let min = samples.min_ratio_to(&bwrap);
            format!("{:.2} × bwrap (min {min:.2})", samples.ratio_to(&bwrap))
        };
        let what = "`bwrap --unshare-all --ro-bind / / true`, whole process";
        self.add(what, &bwrap, String::new(), "");
        self.add("cold spawn until ready, engine", &cold, to_bwrap(&cold), "≤ 1.0 × bwrap");
        self.add("`hotcell run true`, whole process", &run, to_bwrap(&run), "");
        self.add("a cell that was ready", &claimed, to_bwrap(&claimed), "≤ 1 ms");
        Ok(())
    }

    fn output(&mut self, site: &Site) -> Result<()> {
        let bytes = OUTPUT_BYTES.to_string();
        self.output_of(site, "one block", &["head", "-c", &bytes, "/dev/zero"], OUTPUT_BYTES)?;
        let (lines, bytes) = lines_of(OUTPUT_BYTES);
        self.output_of(site, "lines", &["seq", "1", &lines.to_string()], bytes)
    }

    fn output_of(&mut self, site: &Site, what: &str, argv: &[&str], bytes: usize) -> Result<()> {
        let alias = "bench-output";
        let (cell, _) = site.spawn(Some(alias))?;
        let supervisor = memory::supervisor(&site.state, &cell)?;
        site.exec(&cell)?;

        let before = memory::resident(supervisor)?;
        memory::reset_own_peak()?;
        let own_before = memory::resident(std::process::id())?;
        site.read_output(&cell, argv, bytes)?;
        let grown = memory::peak(supervisor)?.saturating_sub(before);
        let own_grown = memory::peak(std::process::id())?.saturating_sub(own_before);

        // A new file each time, as each exec has a new log: pages that were just freed are faster.
        let mut file = (0..).map(|number| self.files.join(format!("output-{number}")));
        let (hotcell, state) = (self.hotcell, self.state);
        let shots: [Shot<'_>; 3] = [
            Box::new(|| oneshot::to_file(argv, &file.next().unwrap_or_default())),
            Box::new(|| site.read_output(&cell, argv, bytes)),
            Box::new(|| oneshot::hotcell_in(hotcell, state, alias, argv)),
        ];
        let turns = Turns { rounds: self.rounds(10).max(3), in_a_row: 1 };
        let [to_file, engine, cli] = take_turns(turns, shots)?;
        site.kill(&cell)?;
        let to_baseline = |samples: &Samples| {
            let min = samples.min_ratio_to(&to_file);
            format!("{:.2} × `cmd > file` (min {min:.2})", samples.ratio_to(&to_file))
        };
        let promise = "≤ 1.2 × `cmd > file`";
        self.add(&format!("50 MB, {what}: `cmd > file`"), &to_file, String::new(), "");
        let named = format!("50 MB, {what}: followed, engine");
        self.add(&named, &engine, to_baseline(&engine), promise);
        let named = format!("50 MB, {what}: `hotcell run --cell X cmd`");
        self.add(&named, &cli, to_baseline(&cli), promise);
        let grown = format!("{} + {}", megabytes(grown), megabytes(own_grown));
        let named = format!("50 MB, {what}: growth of supervisor + engine");
        self.rows.push(Row::new(named, grown).promise("≤ 16 MB"));
        Ok(())
    }

    fn parallel(&mut self, site: &Site) -> Result<()> {
        let (cell, _) = site.spawn(None)?;
        site.exec(&cell)?;
        let mut took = Vec::new();
        let mut right = 0;
        let rounds = self.rounds(10).max(3);
        for _ in 0..rounds {
            let (all_started, were_right) = site.parallel(&cell, PARALLEL)?;
            took.push(all_started);
            right += were_right;
        }
        site.kill(&cell)?;
        let samples = Samples::from_all(took);
        let asked = u32::try_from(rounds)? * PARALLEL;
        let correct = format!("{right} of {asked} right");
        self.add("100 execs at once, until all run", &samples, correct, "≤ 150 ms, all right");
        Ok(())
    }

    fn idle(&mut self, site: &Site) -> Result<()> {
        let mut cells = Vec::new();
        for _ in 0..IDLE_CELLS {
            let (cell, _) = site.spawn(None)?;
            site.exec(&cell)?;
            cells.push(cell);
        }
        let mut supervisors = 0;
        let mut keepers = 0;
        let mut counted = memory::SHARE;
        for cell in &cells {
            let supervisor = memory::supervisor(&site.state, cell)?;
            let keeper = memory::keeper(supervisor)?;
            match (memory::share(supervisor), memory::share(keeper)) {
                (Some(inside), Some(outside)) => {
                    supervisors += inside;
                    keepers += outside;
                }
                // The kernel shows no more of a process that hides itself.
                (_, _) => {
                    counted = memory::OWN_PAGES;
                    supervisors += memory::anonymous(supervisor)?;
                    keepers += memory::anonymous(keeper)?;
                }
            }
        }
        for cell in &cells {
            site.kill(cell)?;
        }
        let each = |all: u64| all / IDLE_CELLS as u64;
        let (inside, outside) = (each(supervisors), each(keepers));
        let row = Row::new("idle cell after one exec, memory", megabytes(inside + outside));
        let parts = format!("supervisor {}, keeper {}", megabytes(inside), megabytes(outside));
        self.rows.push(row.spread(parts).ratio(counted).promise("≤ 2 MB"));
        Ok(())
    }
}

/// How many lines `seq` prints until there are `least` bytes, and how many bytes they are.
fn lines_of(least: usize) -> (usize, usize) {
    let mut bytes = 0;
    let mut lines = 0_usize;
    while bytes < least {
        lines += 1;
        bytes += lines.ilog10() as usize + 2;
    }
    (lines, bytes)
}
