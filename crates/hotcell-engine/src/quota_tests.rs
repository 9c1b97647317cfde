//! Each quota holds for its tenant, over all processes, and leaves others alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotcell_model::{
    Caller, Cell, CellKill, CellSpawn, Command, Error, ErrorCode, ExecCancel, ExecId, ExecRun,
    FileCall, FileOp, FileWrite, Keep, KillWait, RequestedLimits, Result, Signal,
};

use crate::testing::House;
use crate::{Engine, Quota, TenantSettings};

fn of(tenant: &str) -> Caller {
    Caller::local(1000).in_tenant(tenant.parse().unwrap())
}

/// A house in which the tenant `a` may have so much.
fn house<const N: usize>(quotas: [(Quota, u64); N]) -> House {
    let mut house = House::new();
    let settings = TenantSettings { quotas: quotas.into(), secrets: None };
    house.settings.tenants.named.insert("a".parse().unwrap(), settings);
    house
}

async fn spawn(engine: &Engine, caller: &Caller) -> Result<Cell> {
    let limits = RequestedLimits { memory_mb: Some(100), ..RequestedLimits::default() };
    let spawn = CellSpawn { keep: Keep::Always, limits, ..CellSpawn::default() };
    engine.ask(caller, spawn).await
}

async fn kill(engine: &Engine, caller: &Caller, cell: &Cell) {
    let kill = CellKill { cell: cell.id.clone().into(), force: true, wait: KillWait::Removed };
    engine.ask(caller, kill).await.unwrap();
}

async fn run(engine: &Engine, caller: &Caller, cell: &Cell) -> Result<ExecId> {
    let run = ExecRun::new(cell.id.clone(), Command::Shell("forever".to_owned()));
    Ok(engine.ask(caller, run).await?.exec.id)
}

async fn cancel(engine: &Engine, caller: &Caller, exec: ExecId) {
    let cancel = ExecCancel { exec, signal: Signal::KILL, grace_s: 0.0 };
    engine.ask(caller, cancel).await.unwrap();
}

#[track_caller]
fn assert_hit(error: Error, key: &str, limit: u64, current: u64) {
    assert_eq!(error.code, ErrorCode::LimitExceeded, "{error}");
    assert!(error.retry_after_s.is_some() && error.hint.unwrap().contains(key));
    let hit = error.quota.unwrap();
    assert_eq!((hit.key.as_str(), hit.limit, hit.current), (key, limit, current));
}

#[tokio::test]
async fn cells_of_a_tenant_are_bounded_over_all_processes() {
    let house = house([(Quota::Cells, 2)]);
    let (one, other) = (house.engine(), house.engine());
    let first = spawn(&one, &of("a")).await.unwrap();
    spawn(&other, &of("a")).await.unwrap();
    assert_hit(spawn(&one, &of("a")).await.unwrap_err(), "tenants.a.cells", 2, 2);
    assert_hit(spawn(&other, &of("a")).await.unwrap_err(), "tenants.a.cells", 2, 2);
    for _ in 0..3 {
        spawn(&one, &of("b")).await.unwrap();
    }
    kill(&one, &of("a"), &first).await;
    spawn(&other, &of("a")).await.unwrap();
}

#[tokio::test]
async fn memory_of_a_tenant_is_bounded() {
    let house = house([(Quota::MemoryMb, 250)]);
    let engine = house.engine();
    for _ in 0..2 {
        spawn(&engine, &of("a")).await.unwrap();
    }
    assert_hit(spawn(&engine, &of("a")).await.unwrap_err(), "tenants.a.memory_mb", 250, 200);
    for _ in 0..3 {
        spawn(&engine, &of("b")).await.unwrap();
    }
}

#[tokio::test]
async fn execs_of_a_tenant_are_bounded_over_its_cells_and_all_processes() {
    let house = house([(Quota::Execs, 2)]);
    let (one, other) = (house.engine(), house.engine());
    let (first, second) =
        (spawn(&one, &of("a")).await.unwrap(), spawn(&one, &of("a")).await.unwrap());
    let began = run(&one, &of("a"), &first).await.unwrap();
    run(&other, &of("a"), &second).await.unwrap();
    for (engine, cell) in [(&one, &second), (&other, &first)] {
        let refused = run(engine, &of("a"), cell).await.unwrap_err();
        assert_hit(refused, "tenants.a.execs", 2, 2);
    }
    let theirs = spawn(&one, &of("b")).await.unwrap();
    for _ in 0..3 {
        run(&one, &of("b"), &theirs).await.unwrap();
    }
    cancel(&one, &of("a"), began).await;
    run(&other, &of("a"), &first).await.unwrap();
}

#[tokio::test]
async fn of_many_who_begin_at_once_only_as_many_do_as_may() {
    let house = Arc::new(house([(Quota::Execs, 3)]));
    let cell = spawn(&house.engine(), &of("a")).await.unwrap();
    let mut tries = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let (house, cell) = (Arc::clone(&house), cell.clone());
        tries.spawn(async move { run(&house.engine(), &of("a"), &cell).await });
    }
    let begun = tries.join_all().await.into_iter().filter(Result::is_ok).count();
    assert_eq!(begun, 3);
}

#[tokio::test]
async fn only_so_many_of_a_tenant_wait() {
    let mut house = house([(Quota::Execs, 1), (Quota::Queue, 1)]);
    house.settings.admission.wait = Duration::from_secs(30);
    let (engine, other) = (Arc::new(house.engine()), house.engine());
    let cell = spawn(&engine, &of("a")).await.unwrap();
    let first = run(&engine, &of("a"), &cell).await.unwrap();
    let mut waiter = tokio::task::JoinSet::new();
    {
        let (engine, cell) = (Arc::clone(&engine), cell.clone());
        waiter.spawn(async move { run(&engine, &of("a"), &cell).await });
    }
    let line = house.directory.path().join("waiting/a");
    while std::fs::read_dir(&line).map_or(0, Iterator::count) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = run(&other, &of("a"), &cell).await.unwrap_err();
    assert_hit(refused, "tenants.a.queue", 1, 1);
    cancel(&engine, &of("a"), first).await;
    waiter.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_tenant_that_floods_does_not_keep_another_waiting() {
    let mut house = House::new();
    house.settings.admission.execs = Some(2);
    house.settings.admission.wait = Duration::from_secs(30);
    let engine = Arc::new(house.engine());
    let (noisy, quiet) =
        (spawn(&engine, &of("a")).await.unwrap(), spawn(&engine, &of("b")).await.unwrap());
    let mut running = Vec::new();
    for _ in 0..2 {
        running.push(run(&engine, &of("a"), &noisy).await.unwrap());
    }
    let mut flood = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (engine, noisy) = (Arc::clone(&engine), noisy.clone());
        flood.spawn(async move { run(&engine, &of("a"), &noisy).await });
    }
    while engine.waiting_execs() < 50 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut theirs = tokio::task::JoinSet::new();
    {
        let (engine, quiet) = (Arc::clone(&engine), quiet.clone());
        theirs.spawn(async move { run(&engine, &of("b"), &quiet).await });
    }
    while engine.waiting_execs() < 51 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The next that is free is the other's, though fifty came before.
    cancel(&engine, &of("a"), running.remove(0)).await;
    theirs.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(engine.waiting_execs(), 50);
    flood.abort_all();
}

#[tokio::test]
async fn what_a_tenant_has_on_disk_is_bounded() {
    let house = house([(Quota::DiskMb, 20)]);
    let engine = house.engine();
    let cell = spawn(&engine, &of("a")).await.unwrap();
    let second = spawn(&engine, &of("a")).await.unwrap();
    // Just below, everything is done.
    house.driver.disk_bytes.store((10 << 20) - 1, Ordering::SeqCst);
    run(&engine, &of("a"), &cell).await.unwrap();
    house.driver.disk_bytes.store(10 << 20, Ordering::SeqCst);
    let write = FileWrite { path: "f".to_owned(), ..FileWrite::default() };
    let write = FileCall::new(cell.id.clone(), FileOp::Write(write));
    for refused in [
        spawn(&engine, &of("a")).await.err(),
        run(&engine, &of("a"), &second).await.err(),
        engine.ask(&of("a"), write).await.err(),
    ] {
        assert_hit(refused.unwrap(), "tenants.a.disk_mb", 20, 20);
    }
    let theirs = spawn(&engine, &of("b")).await.unwrap();
    run(&engine, &of("b"), &theirs).await.unwrap();
    kill(&engine, &of("a"), &second).await;
    spawn(&engine, &of("a")).await.unwrap();
}
