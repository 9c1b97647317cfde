//! How a cell fares while a program in another one takes whatever it gets.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hotcell_model::RequestedLimits;

use crate::parts::Bench;
use crate::samples::Samples;
use crate::site::Site;
use crate::table::{Row, time, times};

const LIMITS: RequestedLimits = RequestedLimits {
    memory_mb: None,
    cpus: None,
    pids: Some(64),
    disk_mb: Some(64),
    disk_files: Some(20_000),
};

/// Short execs in another cell, under way at the same time.
const SHORT_AT_ONCE: usize = 4;

/// Each goes on for as long as it is let, within its limits.
const RUNAWAYS: [(&str, &str); 7] = [
    ("processes", "while :; do perl -e 'for (1..12) { fork } sleep 1'; done 2>/dev/null"),
    (
        "threads",
        "while :; do python3 -c '
import threading, time
try:
    while True: threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
except RuntimeError: time.sleep(1)'; done",
    ),
    ("memory", "while :; do perl -e 'push @x, \"x\" x 1000000 while 1'; done 2>/dev/null"),
    (
        "disk",
        "while :; do head -c 4000000 /dev/zero >> f; test $(stat -c %s f) -lt 60000000 || rm f; done",
    ),
    (
        "inodes",
        "while :; do perl -e 'for (1..15000) { open F, \">f$_\" }'; find . -name 'f*' -delete; done",
    ),
    (
        "descriptors",
        "ulimit -n $(ulimit -Hn); while :; do perl -e '1 while open $f[@f], \"/dev/null\"'; done",
    ),
    ("output", "yes"),
];

impl Bench<'_> {
    /// The neighbour's p99 during each runaway, as a multiple of its p99 in quiet.
    pub(crate) fn neighbour(&mut self, site: &Site) -> Result<()> {
        let (neighbour, _) = site.spawn(None)?;
        let time_each = if self.quick { Duration::from_secs(3) } else { Duration::from_secs(20) };
        let watch = || -> Result<Samples> {
            let (until, mut taken) = (Instant::now() + time_each, Vec::new());
            while Instant::now() < until {
                taken.push(site.exec(&neighbour)?);
                site.pause(Duration::from_millis(2));
            }
            Ok(Samples::from_all(taken))
        };
        for (name, command) in RUNAWAYS {
            // Before each: what else the machine does changes.
            let quiet = watch()?;
            let limits = match name {
                "memory" if self.has_memory_limit() => {
                    RequestedLimits { memory_mb: Some(64), ..LIMITS }
                }
                "memory" => continue,
                _ => LIMITS,
            };
            let cell = site.spawn_with(limits)?;
            site.begin(&cell, command)?;
            std::thread::sleep(Duration::from_millis(500));
            let beside = watch()?;
            ensure!(site.running(&cell)? == 1, "runaway {name} ended before it was told to");
            site.kill(&cell)?;
            self.add_neighbour(&format!("runaway {name}"), &quiet, &beside);
        }
        let quiet = watch()?;
        let cell = site.spawn_with(LIMITS)?;
        let flood = site.flood(&cell, SHORT_AT_ONCE);
        let beside = watch()?;
        let short = flood.stop()?;
        site.kill(&cell)?;
        let what = format!("{short} short execs, {SHORT_AT_ONCE} at once");
        self.add_neighbour(&what, &quiet, &beside);
        site.kill(&neighbour)
    }

    fn add_neighbour(&mut self, beside_what: &str, quiet: &Samples, beside: &Samples) {
        let ratio = beside.p99().as_secs_f64() / quiet.p99().as_secs_f64();
        let spread = format!("p99 {}, quiet {}", time(beside.p99()), time(quiet.p99()));
        let row = Row::new(format!("`sh -c true` beside {beside_what}"), time(beside.p50()));
        self.rows.push(row.spread(spread).ratio(times(ratio, "quiet p99")).promise("≤ 5 ×"));
    }

    fn has_memory_limit(&self) -> bool {
        self.cgroups == hotcell_native::CgroupUse::Auto && rustix::process::getuid().is_root()
    }
}
