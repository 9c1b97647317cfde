//! A database that is gone, damaged, not ours, or from another version.
#![allow(clippy::disallowed_methods, reason = "the tests damage the file itself")]

use std::fs;
use std::path::{Path, PathBuf};

use hotcell_model::{Error, ErrorCode, Store, Tenants};
use hotcell_store::{SqliteStore, StoreError};
use hotcell_testkit::sample;
use rusqlite::Connection;
use tempfile::TempDir;

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("hotcell.db")
}

/// A state directory with cells, none of which are in the write-ahead log any more.
async fn filled(cells: u64) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    for number in 0..cells {
        store.insert_cell(&sample::cell(number)).await.unwrap();
    }
    store.mark_rebuilt().await.unwrap();
    drop(store);
    checkpoint(&file(&directory));
    directory
}

fn checkpoint(file: &Path) {
    let connection = Connection::open(file).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// Overwrites all of the file after its first page.
fn scramble(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    assert!(bytes.len() > 8192);
    bytes[4096..].fill(0xA5);
    fs::write(file, bytes).unwrap();
}

async fn count(store: &SqliteStore) -> usize {
    store.list_cells(&Tenants::All).await.unwrap().len()
}

fn refusal(directory: &Path) -> Error {
    SqliteStore::open(directory).map(|_| ()).map_err(Error::from).unwrap_err()
}

#[tokio::test]
async fn a_deleted_database_is_begun_anew() {
    let directory = filled(3).await;
    let store = SqliteStore::open(directory.path()).unwrap();
    assert!(!store.needs_rebuild().await.unwrap());
    fs::remove_file(file(&directory)).unwrap();
    let other = SqliteStore::open(directory.path()).unwrap();
    other.insert_cell(&sample::cell(7)).await.unwrap();
    assert!(other.needs_rebuild().await.unwrap());
    // The store that was open all the time goes over to the new file.
    assert_eq!(count(&store).await, 1);
    store.insert_cell(&sample::cell(8)).await.unwrap();
    assert_eq!(count(&other).await, 2);
    // What the old one leaves behind when it is closed does no harm to the new one.
    drop(store);
    other.insert_cell(&sample::cell(9)).await.unwrap();
    drop(other);
    assert_eq!(count(&SqliteStore::open(directory.path()).unwrap()).await, 3);
}

#[tokio::test]
async fn a_state_directory_deleted_under_an_open_store_is_made_again() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let store = SqliteStore::open(&directory).unwrap();
    store.insert_cell(&sample::cell(1)).await.unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(count(&store).await, 0);
    drop(store.lock_cell(&sample::cell(1).spec.id).await.unwrap());
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(file(&directory), "").unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    assert_eq!(count(&store).await, 0);
    assert_eq!(store.recovered(), None, "nothing was lost");
}

#[tokio::test]
async fn what_is_no_database_is_moved_aside() {
    for garbage in ["x".repeat(100_000), "no database\n".to_owned()] {
        let directory = filled(1).await;
        fs::write(file(&directory), &garbage).unwrap();
        let store = SqliteStore::open(directory.path()).unwrap();
        let aside = store.recovered().unwrap();
        assert_eq!(fs::read_to_string(&aside).unwrap(), garbage);
        let name = aside.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("hotcell.db.corrupt-") && !name.contains(':'), "{name}");
        assert_eq!(count(&store).await, 0);
        assert!(store.needs_rebuild().await.unwrap());
        assert_eq!(SqliteStore::open(directory.path()).unwrap().recovered(), None);
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_moved_aside() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = Connection::open(file(&directory)).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (42)").unwrap();
    drop(foreign);
    let store = SqliteStore::open(directory.path()).unwrap();
    let aside = Connection::open(store.recovered().unwrap()).unwrap();
    let kept: i64 = aside.query_row("SELECT x FROM theirs", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 42);
    store.insert_cell(&sample::cell(1)).await.unwrap();
}

#[tokio::test]
async fn a_database_without_its_tables_is_moved_aside() {
    let directory = filled(1).await;
    Connection::open(file(&directory)).unwrap().execute_batch("DROP TABLE claimed_key").unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    assert!(store.recovered().is_some());
    assert_eq!(count(&store).await, 0);
}

#[tokio::test]
async fn damage_that_a_statement_comes_upon_is_healed_and_the_statement_done() {
    let directory = filled(200).await;
    scramble(&file(&directory));
    let opened = SqliteStore::open(directory.path());
    let store = opened.unwrap();
    // Whether opening or inserting finds it, the caller sees neither.
    store.insert_cell(&sample::cell(1000)).await.unwrap();
    assert_eq!(count(&store).await, 1);
    let aside = store.recovered().unwrap();
    assert!(fs::metadata(aside).unwrap().len() > 8192);
    assert!(store.needs_rebuild().await.unwrap());
}

#[tokio::test]
async fn damage_under_open_stores_leads_them_all_to_one_new_file() {
    let directory = filled(200).await;
    let stores: Vec<_> = (0..3).map(|_| SqliteStore::open(directory.path()).unwrap()).collect();
    scramble(&file(&directory));
    for (number, store) in (1000..).zip(&stores) {
        store.insert_cell(&sample::cell(number)).await.unwrap();
    }
    for store in &stores {
        assert_eq!(count(store).await, 3);
    }
    let healers = stores.iter().filter(|store| store.recovered().is_some()).count();
    assert_eq!(healers, 1);
    drop(stores);
    assert_eq!(count(&SqliteStore::open(directory.path()).unwrap()).await, 3);
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_as_it_is() {
    let directory = filled(2).await;
    let newer = Connection::open(file(&directory)).unwrap();
    newer.execute_batch("PRAGMA user_version = 1000; ALTER TABLE cell RENAME TO cells").unwrap();
    drop(newer);
    let error = SqliteStore::open(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 1000, .. }), "{error}");
    let error = Error::from(error);
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("version 1000"), "{error}");
    assert!(error.hint.unwrap().contains("newer hotcell"));
    let rows: i64 = Connection::open(file(&directory))
        .unwrap()
        .query_row("SELECT count(*) FROM cells", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 2);
}

#[tokio::test]
async fn a_database_that_left_its_journal_mode_is_brought_back() {
    let directory = filled(2).await;
    let mode: String = Connection::open(file(&directory))
        .unwrap()
        .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete");
    let store = SqliteStore::open(directory.path()).unwrap();
    assert_eq!(count(&store).await, 2);
    let mode: String = Connection::open(file(&directory))
        .unwrap()
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_named() {
    let directory = filled(1).await;
    Connection::open(file(&directory)).unwrap().execute("UPDATE cell SET spec = '{'", []).unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let error = store.list_cells(&Tenants::All).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Internal);
    assert!(error.message.contains(sample::cell(0).spec.id.as_str()), "{error}");
    assert!(error.hint.is_some());
}

#[test]
fn a_directory_that_cannot_be_one_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("file");
    fs::write(&path, "").unwrap();
    for directory in [path.clone(), path.join("below")] {
        let error = refusal(&directory);
        assert_eq!(error.code, ErrorCode::Unavailable);
        assert!(error.message.contains(path.to_str().unwrap()), "{error}");
        assert!(error.hint.unwrap().contains("HOTCELL_STATE_DIR"));
    }
}

#[test]
fn only_its_owner_can_read_the_state() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let _store = SqliteStore::open(&directory).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("hotcell.db")), 0o600);
}
