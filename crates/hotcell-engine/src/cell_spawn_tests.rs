//! Tests of spawning: defaults, refusals, keys, aliases, and what is left after a failure.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hotcell_model::{
    Cell, CellId, CellKill, CellList, CellSpawn, CellState, ErrorCode, Keep, KeyScope, KillWait,
    RequestedLimits, Store, Tenant, Timestamp,
};
use hotcell_store::SqliteStore;

use crate::testing::{House, ask, isolation, shell};
use crate::{Engine, Settings, fingerprint};

fn named(alias: &str) -> CellSpawn {
    CellSpawn { alias: Some(alias.parse().unwrap()), keep: Keep::Always, ..CellSpawn::default() }
}

fn keyed(key: &str) -> CellSpawn {
    CellSpawn { idempotency_key: Some(key.to_owned()), ..CellSpawn::default() }
}

async fn kill(engine: &Engine, cell: CellId) {
    ask(
        engine,
        CellKill { cell: cell.into(), force: true, volumes: true, wait: KillWait::Removed },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_spawned_cell_is_ready_and_has_the_defaults() {
    let house = House::new();
    let cell = ask(&house.engine(), CellSpawn::default()).await.unwrap();
    assert_eq!(cell.state, CellState::Ready);
    assert_eq!(cell.isolation, Some(isolation()));
    assert_eq!(cell.limits.memory_mb, 512);
    let ttl = Settings::default().default_ttl_s;
    assert_eq!(cell.expires_at, Some(cell.created_at.plus_seconds(ttl)));
    assert!(house.has_records(&cell.id));
}

#[tokio::test]
async fn limits_and_drivers_that_do_not_exist_are_refused_before_anything_is_made() {
    let house = House::new();
    let engine = house.engine();
    let limits = RequestedLimits { memory_mb: Some(1 << 40), ..RequestedLimits::default() };
    let refused = ask(&engine, CellSpawn { limits, ..CellSpawn::default() }).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);

    let limits = RequestedLimits { cpus: Some(1.0), ..RequestedLimits::default() };
    let refused = ask(&engine, CellSpawn { limits, ..CellSpawn::default() }).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unsupported);
    assert!(refused.hint.unwrap().contains("hotcell doctor"));

    let driver = Some("mainframe".to_owned());
    let refused = ask(&engine, CellSpawn { driver, ..CellSpawn::default() }).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert_eq!(house.driver.starts(), 0);
}

#[tokio::test]
async fn a_spawner_with_keep_holder_holds_and_holds_again() {
    let house = House::new();
    let engine = house.engine();
    let spawn = CellSpawn { keep: Keep::Holder, ..CellSpawn::default() };
    let cell = ask(&engine, spawn).await.unwrap().id;
    let supervisor = house.driver.supervisor(&cell);
    let held = supervisor.holds();
    assert!(held > 0);
    supervisor.drop_links();
    crate::testing::run_forever(&engine, &cell).await;
    assert!(supervisor.holds() > held);
}

#[tokio::test]
async fn one_key_is_one_cell_across_processes() {
    let house = House::new();
    let first = ask(&house.engine(), keyed("k")).await.unwrap();
    let second = ask(&house.engine(), keyed("k")).await.unwrap();
    assert_eq!(first.id, second.id);
    assert_eq!(house.driver.starts(), 1);
    let other = ask(&house.engine(), keyed("other")).await.unwrap();
    assert_ne!(first.id, other.id);
}

#[tokio::test]
async fn a_key_for_something_else_is_a_conflict() {
    let house = House::new();
    let engine = house.engine();
    let cell = ask(&engine, keyed("k")).await.unwrap().id;
    let different = CellSpawn { ttl_s: Some(5), ..keyed("k") };
    let refused = ask(&engine, different).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.message.contains(cell.as_str()));
    kill(&engine, cell).await;
    let refused = ask(&engine, keyed("k")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.message.contains("has ended"));
}

#[tokio::test]
async fn racing_spawns_with_one_key_make_one_cell() {
    let house = House::new();
    let (one, two, three) = (house.engine(), house.engine(), house.engine());
    let (one, two, three) =
        tokio::join!(ask(&one, keyed("k")), ask(&two, keyed("k")), ask(&three, keyed("k")));
    let ids = [one, two, three].map(|cell| cell.unwrap().id);
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[1], ids[2]);
    assert_eq!(house.driver.starts(), 1);
}

#[tokio::test]
async fn a_failed_start_leaves_nothing_and_frees_key_and_alias() {
    let house = House::new();
    let engine = house.engine();
    let spawn = CellSpawn { idempotency_key: Some("k".to_owned()), ..named("work") };
    house.driver.refuse_to_start.store(true, Ordering::SeqCst);
    let refused = ask(&engine, spawn.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unsupported);
    assert!(ask(&engine, CellList { include_stopped: true }).await.unwrap().cells.is_empty());
    assert_eq!(std::fs::read_dir(house.directory.path().join("cells")).unwrap().count(), 0);

    house.driver.refuse_to_start.store(false, Ordering::SeqCst);
    let different = CellSpawn { ttl_s: Some(77), ..spawn };
    assert_eq!(ask(&engine, different).await.unwrap().state, CellState::Ready);
}

/// Spawns in a process that dies while the cell is being started.
async fn die_spawning(house: &House, spawn: CellSpawn) -> CellId {
    house.driver.hang_in_start.store(true, Ordering::SeqCst);
    let engine = house.engine();
    let unfinished = tokio::time::timeout(Duration::ZERO, ask(&engine, spawn)).await;
    assert!(unfinished.is_err());
    house.driver.hang_in_start.store(false, Ordering::SeqCst);
    let cells = ask(&house.engine(), CellList { include_stopped: false }).await.unwrap().cells;
    assert_eq!(cells[0].state, CellState::Starting);
    cells[0].id.clone()
}

#[tokio::test]
async fn a_spawn_whose_process_died_is_finished_by_whoever_needs_the_cell() {
    let house = House::new();
    let id = die_spawning(&house, keyed("k")).await;
    assert_eq!(ask(&house.engine(), keyed("k")).await.unwrap().id, id);

    let house = House::new();
    let id = die_spawning(&house, named("work")).await;
    let reused = CellSpawn { reuse_alias: true, ..named("work") };
    let cell = ask(&house.engine(), reused).await.unwrap();
    assert_eq!((cell.id, cell.isolation), (id, Some(isolation())));

    let house = House::new();
    let id = die_spawning(&house, named("work")).await;
    ask(&house.engine(), shell(&id, "echo x")).await.unwrap();
    kill(&house.engine(), id).await;
}

#[tokio::test]
async fn a_key_whose_process_died_before_it_made_anything_is_taken_up() {
    let house = House::new();
    let id = CellId::from_random(42);
    let fingerprint = fingerprint::of_spawn(&keyed("k"));
    let store = SqliteStore::open(house.directory.path()).unwrap();
    let expires = Timestamp::now().plus_seconds(60);
    store
        .claim_key(&KeyScope::Spawn(Tenant::default()), "k", id.as_str(), fingerprint, expires)
        .await
        .unwrap();
    assert_eq!(ask(&house.engine(), keyed("k")).await.unwrap().id, id);
    assert_eq!(ask(&house.engine(), keyed("k")).await.unwrap().id, id);
    assert_eq!(house.driver.starts(), 1);
}

#[tokio::test]
async fn an_alias_is_one_cell_at_a_time() {
    let house = House::new();
    let engine = house.engine();
    let first = ask(&engine, named("work")).await.unwrap();
    let refused = ask(&engine, named("work")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.message.contains(first.id.as_str()));
    assert!(refused.hint.is_some());
    let reused = CellSpawn { reuse_alias: true, ..named("work") };
    assert_eq!(ask(&house.engine(), reused.clone()).await.unwrap().id, first.id);

    kill(&engine, first.id.clone()).await;
    let second = ask(&engine, reused).await.unwrap();
    assert_ne!(first.id, second.id);
}

#[tokio::test]
async fn a_key_goes_before_an_alias() {
    let house = House::new();
    let spawn = CellSpawn { idempotency_key: Some("k".to_owned()), ..named("work") };
    let first = ask(&house.engine(), spawn.clone()).await.unwrap();
    assert_eq!(ask(&house.engine(), spawn.clone()).await.unwrap().id, first.id);
    let other = CellSpawn { idempotency_key: Some("other".to_owned()), ..spawn };
    let refused = ask(&house.engine(), other.clone()).await.unwrap_err();
    assert!(refused.message.contains("has the alias"));
    let reused = CellSpawn { reuse_alias: true, ..other };
    assert_eq!(ask(&house.engine(), reused.clone()).await.unwrap().id, first.id);
    assert_eq!(ask(&house.engine(), reused).await.unwrap().id, first.id);
}

#[tokio::test]
async fn racing_spawns_of_one_alias_agree() {
    let house = House::new();
    let engines: Vec<Engine> = (0..4).map(|_| house.engine()).collect();
    let spawn = || CellSpawn { reuse_alias: true, ..named("work") };
    let (a, b, c, d) = tokio::join!(
        ask(&engines[0], spawn()),
        ask(&engines[1], spawn()),
        ask(&engines[2], spawn()),
        ask(&engines[3], spawn()),
    );
    let cells: Vec<Cell> = [a, b, c, d].into_iter().map(Result::unwrap).collect();
    assert!(cells.iter().all(|cell| cell.id == cells[0].id));
    let listed = ask(&engines[0], CellList { include_stopped: true }).await.unwrap().cells;
    assert_eq!(listed.len(), 1);
    for left in ["cells", "locks"] {
        let count = std::fs::read_dir(house.directory.path().join(left)).unwrap().count();
        assert_eq!(count, 1, "{left}");
    }
}

#[tokio::test]
async fn a_cell_that_is_over_gives_its_alias_away() {
    let house = House::new();
    let engine = house.engine();
    let first = ask(&engine, named("work")).await.unwrap();
    house.driver.supervisor(&first.id).close(hotcell_model::CloseReason::Idle).await;
    let second = ask(&engine, named("work")).await.unwrap();
    assert_ne!(first.id, second.id);
    assert!(!house.driver.has(&first.id));
}
