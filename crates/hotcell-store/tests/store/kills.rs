//! Processes that are killed in the middle of what they do.
#![allow(clippy::disallowed_methods, reason = "the tests look at the file itself")]

use std::path::Path;

use hotcell_model::{CellId, ExecId, Store, Tenants};
use hotcell_store::SqliteStore;
use hotcell_testkit::sample;

use crate::child::{Part, added, start};

fn assert_sound(directory: &Path) {
    let connection = rusqlite::Connection::open(directory.join("hotcell.db")).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let dangling = connection.query_row("PRAGMA foreign_key_check", [], |_| Ok(()));
    assert_eq!(dangling, Err(rusqlite::Error::QueryReturnedNoRows));
}

#[tokio::test]
async fn what_was_not_committed_is_gone_and_the_rest_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    store.insert_cell(&sample::cell(1)).await.unwrap();
    let mut writer = start(Part::Hang, directory.path(), 0);
    writer.go();
    assert_eq!(writer.hear().as_deref(), Some("writing"));

    // A reader sees what was, and a writer waits for the one that will be killed.
    assert!(store.needs_rebuild().await.unwrap());
    let other = sample::cell(2);
    let mut insert = store.insert_cell(&other);
    tokio::select! {
        biased;
        early = &mut insert => panic!("two wrote at once: {early:?}"),
        () = tokio::task::yield_now() => {}
    }
    writer.kill();
    insert.await.unwrap();
    assert_eq!(store.list_cells(&Tenants::All).await.unwrap().len(), 2);
    assert_sound(directory.path());
    let connection = rusqlite::Connection::open(directory.path().join("hotcell.db")).unwrap();
    let half: i64 =
        connection.query_row("SELECT count(*) FROM setting", [], |row| row.get(0)).unwrap();
    assert_eq!(half, 0);
}

#[tokio::test]
async fn whatever_a_killed_process_was_told_is_done_is_there() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..8_u64 {
        let numbers = [round * 2, round * 2 + 1];
        let mut actors = numbers.map(|number| start(Part::Add, directory.path(), number));
        actors.iter_mut().for_each(|actor| actor.go());
        let mut last = [0; 2];
        for _ in 0..=round * 5 {
            for (actor, last) in actors.iter_mut().zip(&mut last) {
                *last = actor.hear().unwrap().parse().unwrap();
            }
        }
        actors.iter_mut().for_each(|actor| actor.kill());
        // What it said before it died, and was not heard yet, is done too.
        for (actor, last) in actors.iter_mut().zip(&mut last) {
            while let Some(said) = actor.hear() {
                *last = said.parse().unwrap_or(*last);
            }
        }
        let store = SqliteStore::open(directory.path()).unwrap();
        for (number, last) in numbers.into_iter().zip(last) {
            for step in 0..=last {
                let cell = added(number, step);
                assert!(store.find_cell(&cell.spec.id).await.unwrap().is_some());
                let exec = ExecId::from_random(number * 100_000 + step);
                assert!(store.find_exec(&exec).await.unwrap().is_some());
                assert_eq!(store.indexed_bytes(&cell.spec.id).await.unwrap(), step + 1);
            }
        }
        assert_eq!(store.recovered(), None);
        assert_sound(directory.path());
    }
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let cell = CellId::from_random(5);
    let mut holder = start(Part::Lock, directory.path(), 5);
    holder.go();
    assert_eq!(holder.hear().as_deref(), Some("locked"));
    assert!(store.try_lock_cell(&cell).await.unwrap().is_none());
    let mut wait = store.lock_cell(&cell);
    tokio::select! {
        biased;
        _ = &mut wait => panic!("two have the lock"),
        () = tokio::task::yield_now() => {}
    }
    holder.kill();
    let _held = wait.await.unwrap();
    assert!(store.try_lock_cell(&cell).await.unwrap().is_none());
}
