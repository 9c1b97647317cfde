//! What the ledger costs: an entry, what a call of `exec_run` adds, and verifying 100,000 entries.
//!
//! `cargo run --release -p hotcell-ledger --example measure`
#![expect(clippy::print_stdout, reason = "it is run to be read")]

use std::error::Error;
use std::time::{Duration, Instant};

use hotcell_ledger::{ChainedLedger, LedgerSettings, Sync};
use hotcell_model::{
    AppendWait, EntryKind, Ledger, LedgerCheck, LedgerEntry, LedgerFilter, Role, Verdict,
};

const ENTRIES: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let ledger = ChainedLedger::new(LedgerSettings {
        directory: home.path().join("ledger"),
        key_file: home.path().join("ledger.key"),
        head_file: home.path().join("ledger.head"),
        segment_bytes: 16 << 20,
        keep: None,
        keep_bytes: None,
        floor: None,
        most_bytes: None,
        sync: Sync::Off,
    });
    let entry = sample();
    ledger.append(&entry, AppendWait::Bounded)?;
    let mut times: Vec<Duration> = Vec::with_capacity(ENTRIES);
    for _ in 1..ENTRIES {
        let begun = Instant::now();
        ledger.reserve()?;
        ledger.append(&entry, AppendWait::Never)?;
        times.push(begun.elapsed());
    }
    tell("an entry", &mut times);
    let command = br#"[{"shell":"true"},"/workspace",{},"empty",false]"#;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..10_000 {
        let begun = Instant::now();
        ledger.reserve()?;
        for _ in 0..2 {
            ledger.digest(&[b"exec_run", command])?;
            ledger.append(&entry, AppendWait::Never)?;
        }
        times.push(begun.elapsed());
    }
    tell("what exec_run adds", &mut times);
    let begun = Instant::now();
    let report = ledger.verify(&LedgerCheck::default())?;
    println!("verifying {} entries: {:.3} s", report.verified, begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let found = ledger.query(&LedgerFilter::default(), 100)?.len();
    println!("the newest {found}: {:.3} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let mut scanned = 0;
    ledger.scan(&LedgerFilter::default(), &mut |_| scanned += 1)?;
    println!("reading all {scanned}: {:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn tell(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e6;
    println!("{what}: p50 {:.1} µs, p99 {:.1} µs", at(50), at(99));
}

fn sample() -> LedgerEntry {
    let entry = LedgerEntry::own(EntryKind::Call, "exec_run")
        .with("cause", "exited")
        .with("exit_code", 0)
        .with("wall_ms", 3_u64);
    LedgerEntry {
        call_id: Some("0123456789abcdef".to_owned()),
        principal: "local:1000".to_owned(),
        role: Some(Role::Agent),
        cell: Some("c_0123456789".to_owned()),
        args: Some("0123456789abcdef0123456789abcdef".to_owned()),
        verdict: Some(Verdict::Allowed),
        outcome: Some("ok".to_owned()),
        took_ms: Some(3),
        ..entry
    }
}
