//! Many processes and threads that want the same thing at the same moment.

use std::path::Path;
use std::sync::{Arc, Barrier};

use hotcell_model::{CellId, Claim, KeyScope, Store, Tenants, Timestamp};
use hotcell_store::SqliteStore;
use hotcell_testkit::sample;

use crate::child::{COUNTS, Part, start};

const PROCESSES: u64 = 12;
const THREADS: u64 = 8;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Runs `act` in many threads at the same moment, each with its own number.
fn at_once<T: Send>(act: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(usize::try_from(THREADS).unwrap());
    std::thread::scope(|scope| {
        let run = |number| {
            barrier.wait();
            act(number)
        };
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn processes_make_the_database_and_one_of_them_gets_the_alias_and_the_key() {
    for _ in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("not/yet/there");
        let mut actors: Vec<_> = (0..PROCESSES).map(|n| start(Part::Claim, &state, n)).collect();
        actors.iter_mut().for_each(|actor| actor.go());
        let said: Vec<String> = actors.iter_mut().map(|actor| actor.hear().unwrap()).collect();
        actors.into_iter().for_each(|actor| actor.finish());
        let winners = said.iter().filter(|line| line.starts_with("true")).count();
        assert_eq!(winners, 1, "{said:?}");
        let owners: std::collections::BTreeSet<_> =
            said.iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(owners.len(), 1, "{said:?}");
        let store = SqliteStore::open(&state).unwrap();
        assert_eq!(block_on(store.list_cells(&Tenants::All)).unwrap().len(), 1);
        assert_eq!(leftovers(&state), Vec::<String>::new());
    }
}

/// Files of the state directory that only the making of a database needs.
fn leftovers(state: &Path) -> Vec<String> {
    let names = std::fs::read_dir(state).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".new") || name.contains("corrupt"))
        .collect()
}

#[test]
fn processes_count_under_a_lock_and_none_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("count"), "0").unwrap();
    let mut actors: Vec<_> = (0..6).map(|n| start(Part::Count, directory.path(), n)).collect();
    actors.iter_mut().for_each(|actor| actor.go());
    actors.into_iter().for_each(|actor| actor.finish());
    let counted = std::fs::read_to_string(directory.path().join("count")).unwrap();
    assert_eq!(counted, (6 * COUNTS).to_string());
}

#[test]
fn threads_open_a_new_state_directory_at_once() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let opened = at_once(|number| {
            let store = SqliteStore::open(directory.path()).unwrap();
            block_on(store.insert_cell(&sample::cell(number))).unwrap();
            store
        });
        for store in &opened {
            let cells = block_on(store.list_cells(&Tenants::All)).unwrap();
            assert_eq!(u64::try_from(cells.len()).unwrap(), THREADS, "all use one file");
            assert_eq!(store.recovered(), None);
        }
    }
}

#[test]
fn threads_that_share_a_store_lose_no_write() {
    let directory = tempfile::tempdir().unwrap();
    let shared: [Arc<SqliteStore>; 2] =
        std::array::from_fn(|_| Arc::new(SqliteStore::open(directory.path()).unwrap()));
    at_once(|thread| {
        let store = &shared[usize::from(thread % 2 == 0)];
        block_on(async {
            for step in 0..50 {
                let number = thread * 1000 + step;
                let id = sample::cell(number).spec.id;
                store.insert_cell(&sample::cell(number)).await.unwrap();
                store.put_execs(&id, &[sample::exec(&id, number)], 1).await.unwrap();
            }
        });
    });
    let cells = block_on(shared[0].list_cells(&Tenants::All)).unwrap();
    assert_eq!(u64::try_from(cells.len()).unwrap(), THREADS * 50);
}

#[test]
fn threads_race_for_a_key_that_expires_and_is_released() {
    let directory = tempfile::tempdir().unwrap();
    SqliteStore::open(directory.path()).unwrap();
    for round in 0..20 {
        let won = at_once(|number| {
            let store = SqliteStore::open(directory.path()).unwrap();
            let value = format!("{round} {number}");
            // What the round before left is past its time.
            let expires = Timestamp(if round % 2 == 0 { 1 } else { u64::MAX });
            let key = format!("key {}", round / 2);
            let scope = KeyScope::Run(CellId::from_random(7));
            let claim = block_on(store.claim_key(&scope, &key, &value, 0, expires)).unwrap();
            claim == Claim::New
        });
        let winners = won.into_iter().filter(|won| *won).count();
        if round % 2 == 0 {
            assert_eq!(u64::try_from(winners).unwrap(), THREADS, "free again at once");
        } else {
            assert_eq!(winners, 1);
        }
    }
}

#[test]
fn a_wait_for_a_lock_does_not_hold_up_the_runtime_nor_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let cell = CellId::from_random(1);
    let held = block_on(store.lock_cell(&cell)).unwrap();
    block_on(async {
        let mut wait = store.lock_cell(&cell);
        for number in 0..10 {
            let other = sample::cell(number);
            tokio::select! {
                biased;
                _ = &mut wait => panic!("two have the lock"),
                inserted = store.insert_cell(&other) => inserted.unwrap(),
            }
        }
    });
    // The runtime is gone while the cancelled wait still sleeps in the kernel.
    drop(held);
    drop(block_on(store.lock_cell(&cell)).unwrap());
}

#[test]
fn the_lock_file_goes_with_its_cell() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let locks = || std::fs::read_dir(directory.path().join("locks")).unwrap().count();
    let cell = CellId::from_random(1);
    let held = block_on(store.lock_cell(&cell)).unwrap();
    block_on(store.delete_cell(&cell)).unwrap();
    assert_eq!(locks(), 1);
    drop(held);
    assert_eq!(locks(), 0);
    drop(block_on(store.lock_cell(&cell)).unwrap());
    assert_eq!(locks(), 1);
    block_on(store.delete_cell(&cell)).unwrap();
    assert_eq!(locks(), 0);
}
