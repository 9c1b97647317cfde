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
    let kill = CellKill {
        cell: cell.id.clone().into(),
        force: true,
        volumes: true,
        wait: KillWait::Removed,
    };
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

/// A house in which all together may have so many execs.
fn shared(execs: u32) -> House {
    let mut house = House::new();
    house.settings.admission.execs = Some(execs);
    house
}

#[tokio::test]
async fn execs_of_all_tenants_are_bounded_over_all_processes_and_nobody_is_told_of_others() {
    let house = shared(3);
    let (one, other) = (house.engine(), house.engine());
    let (of_a, of_b, of_c) = (
        spawn(&one, &of("a")).await.unwrap(),
        spawn(&other, &of("b")).await.unwrap(),
        spawn(&other, &of("c")).await.unwrap(),
    );
    let theirs = run(&one, &of("a"), &of_a).await.unwrap();
    run(&one, &of("a"), &of_a).await.unwrap();
    let own = run(&other, &of("b"), &of_b).await.unwrap();
    for (engine, tenant, cell, has) in
        [(&one, "b", &of_b, 1), (&other, "a", &of_a, 2), (&one, "c", &of_c, 0)]
    {
        let refused = run(engine, &of(tenant), cell).await.unwrap_err();
        let told = format!("{refused:?}");
        assert_eq!(told.contains(own.as_str()), tenant == "b", "{told}");
        assert_eq!(told.contains(theirs.as_str()), tenant == "a", "{told}");
        assert_hit(refused, "admission.execs", 3, has);
    }
    cancel(&other, &of("a"), theirs).await;
    run(&other, &of("c"), &of_c).await.unwrap();
    assert!(run(&one, &of("c"), &of_c).await.is_err());
}

#[tokio::test]
async fn of_many_processes_and_tenants_only_as_many_begin_as_may_in_all() {
    let house = Arc::new(shared(4));
    let mut cells = Vec::new();
    for tenant in ["a", "b", "c"] {
        cells.push((tenant, spawn(&house.engine(), &of(tenant)).await.unwrap()));
    }
    let mut tries = tokio::task::JoinSet::new();
    for at in 0..15 {
        let (house, (tenant, cell)) = (Arc::clone(&house), cells[at % 3].clone());
        tries.spawn(async move { run(&house.engine(), &of(tenant), &cell).await });
    }
    let begun = tries.join_all().await.into_iter().filter(Result::is_ok).count();
    assert_eq!(begun, 4);
}

#[tokio::test]
async fn one_that_is_about_to_begin_counts_and_one_that_was_killed_before_does_not() {
    let house = shared(1);
    let engine = house.engine();
    let cell = spawn(&engine, &of("a")).await.unwrap();
    let shown = house.directory.path().join("beginning/b");
    std::fs::create_dir_all(&shown).unwrap();
    let file = std::fs::File::create(shown.join("e_0123456789")).unwrap();
    file.lock().unwrap();
    assert_hit(run(&engine, &of("a"), &cell).await.unwrap_err(), "admission.execs", 1, 0);
    drop(file);
    run(&engine, &of("a"), &cell).await.unwrap();
}

#[tokio::test]
async fn only_so_many_wait_in_all_and_there_is_room_for_the_next() {
    let mut house = shared(2);
    house.settings.admission.queue = Some(3);
    house.settings.admission.wait = Duration::from_secs(30);
    let engine = Arc::new(house.engine());
    let mut cells = Vec::new();
    for tenant in ["a", "b", "c"] {
        cells.push(spawn(&engine, &of(tenant)).await.unwrap());
    }
    let first = run(&engine, &of("a"), &cells[0]).await.unwrap();
    run(&engine, &of("a"), &cells[0]).await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for place in [1, 2] {
        let (waiter, cell) = (Arc::clone(&engine), cells[0].clone());
        waiters.spawn(async move { run(&waiter, &of("a"), &cell).await });
        while engine.waiting_execs() < place {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    // One is left, which is not for whoever has two.
    let refused = run(&house.engine(), &of("a"), &cells[0]).await.unwrap_err();
    assert_hit(refused, "admission.queue", 3, 2);
    let mut next = tokio::task::JoinSet::new();
    {
        let (engine, cell) = (Arc::clone(&engine), cells[1].clone());
        next.spawn(async move { run(&engine, &of("b"), &cell).await });
    }
    while engine.waiting_execs() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = run(&house.engine(), &of("c"), &cells[2]).await.unwrap_err();
    assert_hit(refused, "admission.queue", 3, 0);
    cancel(&engine, &of("a"), first).await;
    next.join_next().await.unwrap().unwrap().unwrap();
    waiters.abort_all();
}

#[tokio::test]
async fn a_refusal_for_all_cells_together_tells_of_ones_own_alone() {
    let mut house = House::new();
    house.settings.admission.memory_mb = Some(350);
    house.settings.admission.cells = 5;
    let engine = house.engine();
    for tenant in ["a", "b", "b"] {
        spawn(&engine, &of(tenant)).await.unwrap();
    }
    for (tenant, has) in [("a", 100), ("b", 200), ("c", 0)] {
        let refused = spawn(&engine, &of(tenant)).await.unwrap_err();
        assert!(!refused.message.contains("300"), "{refused}");
        assert_hit(refused, "admission.memory_mb", 350, has);
    }
}
