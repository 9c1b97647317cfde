//! Tests of cells that are made ahead of need.

use std::time::Duration;

use hotcell_model::{
    CellId, CellInfo, CellList, CellRef, CellSpawn, CellState, CloseReason, Error, ErrorCode, Keep,
    Network, RequestedLimits, Tenant,
};

use crate::testing::{House, ask, shell};
use crate::{Admission, Engine, PoolFigures, PoolSettings};

fn house(size: u32) -> House {
    let mut house = House::new();
    house.settings.pool = PoolSettings { size, ..PoolSettings::default() };
    house
}

/// A server that keeps a pool, once it is full.
async fn server(house: &House) -> Engine {
    let engine = house.engine();
    engine.keep_house(Tenant::default());
    until(&engine, |figures| figures.ready == u64::from(house.settings.pool.size)).await;
    engine
}

async fn until(engine: &Engine, is_so: impl Fn(&PoolFigures) -> bool) {
    for _ in 0..2000 {
        if is_so(&engine.pool_figures()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", engine.pool_figures());
}

fn named(alias: &str) -> CellSpawn {
    CellSpawn { alias: Some(alias.parse().unwrap()), keep: Keep::Always, ..CellSpawn::default() }
}

#[tokio::test]
async fn a_spawn_is_given_a_cell_that_is_there() {
    let house = house(2);
    let server = server(&house).await;
    assert_eq!(house.driver.starts(), 2);
    assert_eq!(ask(&server, CellList { include_stopped: true }).await.unwrap().cells, []);

    let env = [("NAME".to_owned(), "value".to_owned())].into();
    let cell = ask(&house.engine(), CellSpawn { env, ..named("mine") }).await.unwrap();
    assert_eq!((cell.state, cell.persistent), (CellState::Ready, true));
    // As another process sees it, and as its own server does.
    for engine in [&server, &house.engine()] {
        let seen = ask(engine, CellInfo { cell: "mine".parse().unwrap() }).await.unwrap().cell;
        assert_eq!(seen.id, cell.id);
        ask(engine, shell(&cell.id, "echo hi")).await.unwrap();
    }
    until(&server, |figures| figures.made == 3 && figures.ready == 2).await;
    let own = ask(&server, CellSpawn::default()).await.unwrap();
    assert!(!own.persistent && own.expires_at.is_some());
    assert_eq!(server.pool_figures().given, 1);
}

/// Nobody has a cell that nobody was given.
#[tokio::test]
async fn a_cell_of_the_pool_cannot_be_used_by_its_id() {
    let house = house(1);
    let server = server(&house).await;
    let id = house.driver.only_cell();
    for engine in [&server, &house.engine()] {
        let refused = ask(engine, shell(&id, "echo hi")).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotFound);
        let refused = ask(engine, CellInfo { cell: CellRef::Id(id.clone()) }).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn each_is_given_out_once() {
    let house = house(3);
    let _server = server(&house).await;
    let engines: Vec<Engine> = (0..6).map(|_| house.engine()).collect();
    let spawns = engines.iter().map(|engine| ask(engine, CellSpawn::default()));
    let cells = futures_util::future::join_all(spawns).await;
    let ids: std::collections::HashSet<CellId> =
        cells.into_iter().map(|cell| cell.unwrap().id).collect();
    assert_eq!(ids.len(), 6);
}

#[tokio::test]
async fn what_differs_in_shape_is_made_anew() {
    let house = house(1);
    let server = server(&house).await;
    let limits = RequestedLimits { memory_mb: Some(77), ..RequestedLimits::default() };
    let cell = ask(&server, CellSpawn { limits, ..CellSpawn::default() }).await.unwrap();
    assert_eq!(cell.limits.memory_mb, 77);
    assert_eq!(
        server.pool_figures(),
        PoolFigures { ready: 1, missed: 1, made: 1, ..PoolFigures::default() }
    );
    let other = Tenant::DEFAULT.replace("main", "other").parse().unwrap();
    let caller = hotcell_model::Caller::local(1000).in_tenant(other);
    let cell = server.ask(&caller, CellSpawn::default()).await.unwrap();
    assert_eq!(cell.network, Network::None);
    assert_eq!(server.pool_figures().given, 0);
}

/// A key stands for one cell, also for one that was made before it was named.
#[tokio::test]
async fn keys_and_names_hold() {
    let house = house(2);
    let server = server(&house).await;
    let keyed = |alias| CellSpawn { idempotency_key: Some("k".to_owned()), ..named(alias) };
    let first = ask(&server, keyed("one")).await.unwrap();
    let again = ask(&house.engine(), keyed("one")).await.unwrap();
    assert_eq!(first.id, again.id);
    assert_eq!(ask(&server, keyed("two")).await.unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(ask(&server, named("one")).await.unwrap_err().code, ErrorCode::Conflict);
    until(&server, |figures| figures.ready == 2).await;
    let others: Vec<Engine> = (0..8).map(|_| house.engine()).collect();
    let spawns = others.iter().map(|engine| ask(engine, named("raced")));
    let spawned = futures_util::future::join_all(spawns).await;
    let made: Vec<_> = spawned.iter().filter(|it| it.is_ok()).collect();
    let refused =
        |it: &&Result<_, Error>| it.as_ref().is_err_and(|it| it.code == ErrorCode::Conflict);
    assert_eq!((made.len(), spawned.iter().filter(refused).count()), (1, 7));
}

#[tokio::test]
async fn one_that_died_is_not_given_out() {
    let house = house(1);
    let server = server(&house).await;
    let dead = house.driver.only_cell();
    house.driver.supervisor(&dead).close(CloseReason::Orphaned).await;
    let cell = ask(&house.engine(), CellSpawn::default()).await.unwrap();
    assert_ne!(cell.id, dead);
    ask(&server, shell(&cell.id, "echo hi")).await.unwrap();
    until(&server, |_| !house.driver.has(&dead)).await;
    assert!(!house.has_records(&dead));
}

/// Whoever asks for a cell comes before those that nobody asked for.
#[tokio::test]
async fn the_pool_makes_room() {
    let mut house = house(2);
    house.settings.admission = Admission { cells: 2, ..Admission::default() };
    let server = server(&house).await;
    let limits = RequestedLimits { memory_mb: Some(77), ..RequestedLimits::default() };
    for _ in 0..2 {
        ask(&server, CellSpawn { limits, ..CellSpawn::default() }).await.unwrap();
    }
    let full = ask(&server, CellSpawn { limits, ..CellSpawn::default() }).await.unwrap_err();
    assert_eq!(full.code, ErrorCode::LimitExceeded);
}
