//! Tests of the way from version to version.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests of a database in memory")]

use rusqlite::Connection;

use crate::schema::{
    APPLICATION_ID, MIGRATIONS, Stamp, has_tables, known_version, migrate, read_stamp,
};

const FIRST: &str = "CREATE TABLE a (x INTEGER NOT NULL) STRICT; INSERT INTO a VALUES (1);";
const SECOND: &str = "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7;";
const BROKEN: &str = "CREATE TABLE b (x INTEGER) STRICT; INSERT INTO missing VALUES (1);";

fn sum(connection: &Connection) -> i64 {
    connection.query_row("SELECT sum(x + y) FROM a", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_new_database_gets_every_table_and_the_stamp() {
    let mut connection = Connection::open_in_memory().unwrap();
    assert!(!has_tables(&connection).unwrap());
    migrate(&mut connection, MIGRATIONS).unwrap();
    assert!(has_tables(&connection).unwrap());
    let expected = Stamp { application_id: APPLICATION_ID, version: known_version() };
    assert_eq!(read_stamp(&connection).unwrap(), expected);
}

#[test]
fn an_older_database_gets_only_what_it_lacks_and_keeps_its_rows() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, &[FIRST]).unwrap();
    assert_eq!(read_stamp(&connection).unwrap().version, 1);
    migrate(&mut connection, &[FIRST, SECOND]).unwrap();
    assert_eq!(read_stamp(&connection).unwrap().version, 2);
    assert_eq!(sum(&connection), 8);
    // Whoever waited for the lock finds the work done.
    migrate(&mut connection, &[FIRST, SECOND]).unwrap();
    assert_eq!(sum(&connection), 8);
}

#[test]
fn a_step_that_fails_leaves_the_database_as_it_was() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, &[FIRST]).unwrap();
    migrate(&mut connection, &[FIRST, SECOND, BROKEN]).unwrap_err();
    assert_eq!(read_stamp(&connection).unwrap().version, 1);
    let columns: i64 = connection
        .query_row("SELECT count(*) FROM pragma_table_info('a')", [], |row| row.get(0))
        .unwrap();
    assert_eq!(columns, 1);
}

#[test]
fn what_was_there_before_tenants_is_that_of_main() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, &MIGRATIONS[..1]).unwrap();
    connection
        .execute_batch(
            "INSERT INTO cell (id, alias, created_at, spec) VALUES ('c_1', 'work', 1, '{}');
             INSERT INTO exec (id, cell, queued_at, ended, record) VALUES ('e_1', 'c_1', 1, 0, '{}');
             INSERT INTO claimed_key VALUES ('', 'key', 'c_1', 1, 2), ('c_1', 'key', 'e_1', 1, 2);",
        )
        .unwrap();
    migrate(&mut connection, MIGRATIONS).unwrap();
    let text =
        |query: &str| -> String { connection.query_row(query, [], |row| row.get(0)).unwrap() };
    assert_eq!(text("SELECT tenant FROM cell WHERE alias = 'work'"), "main");
    assert_eq!(text("SELECT tenant FROM exec WHERE id = 'e_1'"), "main");
    assert_eq!(text("SELECT value FROM claimed_key WHERE cell = '@main' AND name = 'key'"), "c_1");
    assert_eq!(text("SELECT value FROM claimed_key WHERE cell = 'c_1' AND name = 'key'"), "e_1");
    // A name is taken within its tenant alone.
    let insert = "INSERT INTO cell (id, alias, created_at, spec, tenant)";
    connection.execute_batch(&format!("{insert} VALUES ('c_2', 'work', 1, '{{}}', 'a')")).unwrap();
    connection
        .execute_batch(&format!("{insert} VALUES ('c_3', 'work', 1, '{{}}', 'main')"))
        .unwrap_err();
}
