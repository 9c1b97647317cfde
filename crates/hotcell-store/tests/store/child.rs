//! Other processes: this very test program, started again with a part to play.
#![allow(clippy::disallowed_methods, reason = "the tests need other processes, with a part each")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use hotcell_model::{Alias, CellId, Claim, KeyScope, Store, StoredCell, Tenant, Timestamp};
use hotcell_store::SqliteStore;
use hotcell_testkit::sample;

const PART: &str = "HOTCELL_TEST_PART";
const DIRECTORY: &str = "HOTCELL_TEST_DIRECTORY";
const NUMBER: &str = "HOTCELL_TEST_NUMBER";

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Opens the store, the first time ever for all at once, and takes an alias and a key.
    Claim,
    /// Adds one to the number in a file, many times, each under the lock of a cell.
    Count,
    /// Adds cells with execs one after another, and says which it has.
    Add,
    /// Begins to write, and says so.
    Hang,
    /// Takes the lock of a cell, and says so.
    Lock,
}

const PARTS: [Part; 5] = [Part::Claim, Part::Count, Part::Add, Part::Hang, Part::Lock];
pub(crate) const COUNTS: u64 = 25;

/// A running child.
pub(crate) struct Actor {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a child; it waits for [`Actor::go`].
pub(crate) fn start(part: Part, directory: &Path, number: u64) -> Actor {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child::plays_its_part", "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, format!("{part:?}"))
        .env(DIRECTORY, directory)
        .env(NUMBER, number.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Actor { child, lines }
}

impl Actor {
    /// Lets it begin.
    pub(crate) fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// What it says next; `None` when it says nothing more.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The test harness speaks on the same stream.
            if let Some((_, said)) = line.trim_end().split_once("child: ") {
                return Some(said.to_owned());
            }
        }
    }

    /// Ends it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn finish(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// Says something to the parent.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "child: {text}").unwrap();
    out.flush().unwrap();
}

/// The cell that child `number` adds as its `step`th.
pub(crate) fn added(number: u64, step: u64) -> StoredCell {
    sample::cell(number * 100_000 + step)
}

/// In an ordinary run there is no part to play, and every part is played by the tests beside this.
#[test]
fn plays_its_part() {
    let Ok(named) = std::env::var(PART) else { return };
    let part = PARTS.into_iter().find(|part| format!("{part:?}") == named).unwrap();
    let directory = std::env::var_os(DIRECTORY).unwrap();
    let number = std::env::var(NUMBER).unwrap().parse().unwrap();
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(play(part, Path::new(&directory), number));
}

async fn play(part: Part, directory: &Path, number: u64) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory).unwrap());
    match part {
        Part::Claim => claim(&*store, number).await,
        Part::Count => count(&*store, directory).await,
        Part::Add => add(&*store, number).await,
        Part::Hang => hang(directory),
        Part::Lock => {
            let _held = store.lock_cell(&CellId::from_random(number)).await.unwrap();
            say("locked");
            wait_for_ever();
        }
    }
}

async fn claim(store: &dyn Store, number: u64) {
    let alias: Alias = "work".parse().unwrap();
    let won = store.insert_cell(&sample::named_cell(number, &alias)).await.is_ok();
    let later = Timestamp::now().plus_seconds(3600);
    let value = number.to_string();
    let claim = store
        .claim_key(&KeyScope::Spawn(Tenant::default()), "key", &value, number, later)
        .await
        .unwrap();
    let owner = match claim {
        Claim::New => value,
        Claim::Taken { value, .. } => value,
    };
    say(&format!("{won} {owner}"));
}

async fn count(store: &dyn Store, directory: &Path) {
    let file = directory.join("count");
    for _ in 0..COUNTS {
        let held = store.lock_cell(&CellId::from_random(1)).await.unwrap();
        let before: u64 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        std::fs::write(&file, (before + 1).to_string()).unwrap();
        if before.is_multiple_of(3) {
            store.delete_cell(&CellId::from_random(1)).await.unwrap();
        }
        drop(held);
    }
}

async fn add(store: &dyn Store, number: u64) {
    for step in 0.. {
        let cell = added(number, step);
        let id = cell.spec.id.clone();
        let ended = sample::ended(&sample::exec(&id, number * 100_000 + step));
        store.insert_cell(&cell).await.unwrap();
        store.put_execs(&id, &[ended], step + 1).await.unwrap();
        say(&step.to_string());
    }
}

/// Dies, when it is killed, between a write and its commit.
fn hang(directory: &Path) {
    let connection = rusqlite::Connection::open(directory.join("hotcell.db")).unwrap();
    // So small a cache that what was written is in the log before it is committed.
    connection.pragma_update(None, "cache_size", 1).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 0..2000 {
        let values = (number.to_string(), "x".repeat(200));
        connection.execute("INSERT INTO setting (name, value) VALUES (?1, ?2)", values).unwrap();
    }
    say("writing");
    wait_for_ever();
}

fn wait_for_ever() {
    loop {
        std::thread::park();
    }
}
