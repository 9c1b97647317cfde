//! Tests of cells whose supervisor writes what it should not: other cells and the ledger stay right.

use std::fs::{self, File};
use std::future::Future;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_journal::Entry;
use hotcell_ledger::ChainedLedger;
use hotcell_model::{
    AuditQuery, CellId, CellKill, CellList, CellState, Command, EndCause, EntryKind, ErrorCode,
    ExecGet, ExecId, ExecList, ExecState, KillWait, LedgerRecord, Stream, Timestamp,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::Engine;
use crate::recorded_tests::settings;
use crate::testing::{House, ask, persistent, poll, run_forever, shell};
use crate::testing_supervisor::end;

/// Far longer than any of this takes: whoever waits for a FIFO waits for ever.
const STUCK: Duration = Duration::from_secs(60);

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(STUCK, what).await.expect("a hostile file made the engine wait")
}

fn engine(house: &House) -> Engine {
    let mut engine = house.engine();
    engine.keep_ledger_in(Arc::new(ChainedLedger::new(settings(house)))).unwrap();
    engine
}

fn all() -> ExecList {
    ExecList { cell: None, status: None, limit: 100, cursor: None }
}

async fn ends_of(engine: &Engine, exec: &ExecId) -> Vec<LedgerRecord> {
    let query = AuditQuery { limit: 1000, ..AuditQuery::default() };
    let mut entries = ask(engine, query).await.unwrap().entries;
    entries.retain(|it| it.kind == EntryKind::ExecEnd && it.exec.as_ref() == Some(exec));
    entries
}

fn records(house: &House, cell: &CellId) -> PathBuf {
    house.directory.path().join("cells").join(cell.as_str()).join("records")
}

fn queued(exec: &ExecId) -> Entry {
    Entry::Queued {
        exec: exec.clone(),
        command: Command::Shell("forged".to_owned()),
        pty: false,
        as_root: false,
        keep_s: None,
        at: Timestamp::now(),
    }
}

#[tokio::test]
async fn a_forged_end_of_an_exec_of_another_cell_is_ignored() {
    let house = House::new();
    let engine = engine(&house);
    let (victim, hostile) = (persistent(&engine).await, persistent(&engine).await);
    let exec = run_forever(&engine, &victim).await;
    let own = run_forever(&engine, &hostile).await;
    ask(&engine, all()).await.unwrap();

    let supervisor = house.driver.supervisor(&hostile);
    for forged in [
        queued(&exec),
        Entry::Started { exec: exec.clone(), pid: Some(1), at: Timestamp::now() },
        Entry::Ended { exec: exec.clone(), end: end(EndCause::Exited, Some(77)) },
        // The control: what it writes about its own exec counts.
        Entry::Ended { exec: own.clone(), end: end(EndCause::Exited, Some(78)) },
    ] {
        supervisor.forge(&forged);
    }
    ask(&engine, all()).await.unwrap();
    let seen = ask(&engine, ExecGet { exec: exec.clone() }).await.unwrap();
    assert_eq!((seen.cell, seen.state), (victim.clone(), ExecState::Running));
    assert_eq!(ends_of(&engine, &exec).await.len(), 0);
    let seen = ask(&engine, ExecGet { exec: own.clone() }).await.unwrap();
    assert_eq!(seen.end.unwrap().exit_code, Some(78));
    assert_eq!(ends_of(&engine, &own).await.len(), 1);

    house.driver.supervisor(&victim).exit(&exec, 0);
    ask(&engine, all()).await.unwrap();
    let seen = ask(&engine, ExecGet { exec: exec.clone() }).await.unwrap();
    assert_eq!(seen.end.unwrap().exit_code, Some(0));
    let ends = ends_of(&engine, &exec).await;
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].cell.as_deref(), Some(victim.as_str()));
}

/// Puts something else in the place of a cell's journal.
fn replace_journal(records: &Path, put: impl FnOnce(&Path)) {
    let journal = records.join("journal");
    fs::remove_file(&journal).unwrap();
    put(&journal);
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test]
async fn a_journal_that_is_no_file_harms_only_its_own_cell() {
    let traps: [fn(&Path); 4] = [
        make_fifo,
        |path| symlink("/etc/passwd", path).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| File::create(path).unwrap().set_len(1 << 42).unwrap(),
    ];
    for trap in traps {
        let house = House::new();
        let engine = engine(&house);
        let (other, hostile) = (persistent(&engine).await, persistent(&engine).await);
        let exec = run_forever(&engine, &hostile).await;
        let kept = ask(&engine, shell(&other, "echo kept")).await.unwrap().exec.id;
        replace_journal(&records(&house, &hostile), trap);

        let error = in_time(ask(&engine, ExecGet { exec: exec.clone() })).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Unavailable);
        assert!(error.message.contains(hostile.as_str()), "{}", error.message);
        let execs = in_time(ask(&engine, all())).await.unwrap().execs;
        assert!(execs.iter().any(|listed| listed.id == kept));
        let cells = in_time(ask(&engine, CellList { include_stopped: true })).await.unwrap().cells;
        assert!(cells.iter().any(|cell| cell.id == other && cell.state == CellState::Ready));

        let kill = CellKill {
            cell: hostile.clone().into(),
            force: true,
            volumes: true,
            wait: KillWait::Removed,
        };
        in_time(ask(&engine, kill)).await.unwrap();
        assert!(!house.driver.has(&hostile));
        assert!(house.has_records(&hostile));
        let kill = CellKill {
            cell: other.clone().into(),
            force: false,
            volumes: true,
            wait: KillWait::Removed,
        };
        in_time(ask(&engine, kill)).await.unwrap();

        // An index that was lost has the execs of the other cell again.
        house.delete_index();
        let seen = in_time(ask(&house.engine(), ExecGet { exec: kept })).await.unwrap();
        assert_eq!(seen.end.unwrap().exit_code, Some(0));
    }
}

#[tokio::test]
async fn a_log_that_is_no_file_harms_only_its_own_exec() {
    let house = House::new();
    let engine = engine(&house);
    let cell = persistent(&engine).await;
    let hostile = run_forever(&engine, &cell).await;
    let other = run_forever(&engine, &cell).await;
    let supervisor = house.driver.supervisor(&cell);
    supervisor.print(&other, Stream::Stdout, b"fine");
    supervisor.print(&hostile, Stream::Stdout, b"x");
    let segment = records(&house, &cell).join(format!("log/{hostile}.{:020}", 1));
    for trap in [make_fifo, |path: &Path| symlink("/etc/shadow", path).unwrap()] {
        fs::remove_file(&segment).unwrap();
        trap(&segment);
        let error = in_time(ask(&engine, poll(&hostile, 0))).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Unavailable);
        assert!(error.message.contains(hostile.as_str()), "{}", error.message);
        let page = in_time(ask(&engine, poll(&other, 0))).await.unwrap();
        assert_eq!(page.records[0].bytes, b"fine");
    }
}
