//! The parts that measure `hotcell serve`: calls under load, its start, and its memory.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::floor::Floor;
use crate::load::{self, Done, Load, Worker};
use crate::mcp::{CELL, Server, Talk};
use crate::memory::{self, Memory};
use crate::parts::{Bench, PARALLEL};
use crate::samples::{self, Shot, Turns};
use crate::site::Site;
use crate::table::{Row, kilobytes, megabytes, times};

const IN_FLIGHT: [usize; 3] = [1, 16, 64];
/// How long jobs print before memory is looked at.
const PRINTING: Duration = Duration::from_secs(3);

impl Bench<'_> {
    /// Everything about servers that are talked to in one way.
    pub(crate) fn serve<T: Talk>(&mut self, site: &Site) -> Result<()> {
        self.calls::<T>()?;
        self.first_answer::<T>()?;
        // A cell that has run nothing yet, so that what is counted is the jobs.
        site.kill_named(CELL)?;
        self.memory::<T>(site)?;
        site.kill_named(CELL)
    }

    pub(crate) fn server(&self) -> Server<'_> {
        Server::Hotcell { program: self.hotcell, state: self.state, cgroups: self.cgroups }
    }

    fn calls<T: Talk>(&mut self) -> Result<()> {
        let mut floor = Floor::start(self.floor)?;
        let mut echo = T::start(Server::Echo)?;
        let mut server = T::start(self.server())?;
        for at_once in IN_FLIGHT {
            let (rounds, calls) = if at_once == 1 {
                (self.rounds(100), 10)
            } else {
                (5, self.rounds(500).max(2 * at_once))
            };
            let workers: [&mut dyn Worker; 3] = [&mut floor, &mut echo, &mut server];
            let [least, plain, exec] = load::take_turns(rounds, Load { calls, at_once }, workers)?;
            self.add_calls(&format!("floor, {at_once} in flight"), &least, None, "");
            let what = format!("plain rmcp echo, {}, {at_once} in flight", T::NAME);
            self.add_calls(&what, &plain, Some(&least), "");
            let promise = match at_once {
                1 => T::PROMISE,
                64 => "≥ 0.9 × floor's rate",
                _ => "",
            };
            let what = format!("`exec_run` of `sh -c true`, {}, {at_once} in flight", T::NAME);
            self.add_calls(&what, &exec, Some(&least), promise);
        }
        server.stop()?;
        echo.stop()?;
        floor.stop()
    }

    fn add_calls(&mut self, what: &str, done: &Done, floor: Option<&Done>, promise: &'static str) {
        let rate = format!("{:.0}/s", done.rate());
        let ratio = match floor {
            None => rate,
            Some(floor) => {
                let (p50, min) =
                    (done.each.ratio_to(&floor.each), done.each.min_ratio_to(&floor.each));
                let of_rate = times(done.rate() / floor.rate(), "floor");
                format!("{p50:.2} × floor (min {min:.2}); {rate}, {of_rate}")
            }
        };
        self.add(what, &done.each, ratio, promise);
    }

    fn first_answer<T: Talk>(&mut self) -> Result<()> {
        let first = |server| {
            let talk = T::start(server)?;
            let took = talk.first_answer();
            talk.stop()?;
            Ok(took)
        };
        let server = self.server();
        let shots: [Shot<'_>; 2] =
            [Box::new(|| first(Server::Echo)), Box::new(move || first(server))];
        let turns = Turns { rounds: self.rounds(50), in_a_row: 1 };
        let [plain, ours] = samples::take_turns(turns, shots)?;
        let what = format!("plain rmcp echo, {}: start to first answer", T::NAME);
        self.add(&what, &plain, String::new(), "");
        let what = format!("`hotcell serve`, {}: start to first answer", T::NAME);
        let ratio = times(ours.ratio_to(&plain), "echo");
        self.add(&what, &ours, ratio, "≤ 10 ms");
        Ok(())
    }

    /// Memory of a server that does nothing, and of one whose clients wait for jobs that print.
    fn memory<T: Talk>(&mut self, site: &Site) -> Result<()> {
        let echo = T::start(Server::Echo)?;
        let plain = memory::of(echo.pid())?;
        echo.stop()?;
        let mut server = T::start(self.server())?;
        let server_pid = server.pid();
        let idle = memory::of(server_pid)?;
        server.work(Load { calls: 1, at_once: 1 })?;
        let cell = site.find(CELL)?;
        let supervisor = memory::supervisor(&site.state, &cell)?;
        let own_pages = || -> Result<(u64, u64)> {
            Ok((memory::anonymous(server_pid)?, memory::anonymous(supervisor)?))
        };
        let before = own_pages()?;
        let script = "while :; do echo a line of output; sleep 1; done";
        let arguments = json!({ "argv": ["sh", "-c", script], "wait_s": 50 });
        let call = json!({ "name": "exec_run", "arguments": arguments });
        server.ask_only(&call, PARALLEL as usize)?;
        site.until_running(&cell, PARALLEL as usize)?;
        sleep(PRINTING);
        let during = own_pages()?;
        let (busy, inside) = (memory::of(server_pid)?, memory::of(supervisor)?);
        server.stop()?;

        let row = |what: &str, of: Memory| {
            Row::new(format!("{what}, {}", T::NAME), megabytes(of.bytes)).ratio(of.counted)
        };
        self.rows.push(row("plain rmcp echo: memory when idle", plain));
        self.rows.push(row("`hotcell serve`: memory when idle", idle).promise("≤ 12 MB"));
        let grown = |before: u64, during: u64| {
            let bytes = during.saturating_sub(before);
            format!("own +{}, {} a job", megabytes(bytes), kilobytes(bytes / u64::from(PARALLEL)))
        };
        let busy = row("`hotcell serve`: memory while 100 jobs run", busy);
        self.rows.push(busy.spread(grown(before.0, during.0)));
        let inside = row("its supervisor: memory while 100 jobs run", inside);
        self.rows.push(inside.spread(grown(before.1, during.1)));
        Ok(())
    }
}
