//! Tests of keeping house: volumes, reconciling, collecting, clients of cells.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hotcell_model::{
    Caller, CellAdopt, CellAttach, CellId, CellInfo, CellKill, CellKilled, CellList, CellRef,
    CellSpawn, CellState, CloseReason, Collect, Collectable, Collected, Command, Error, ErrorCode,
    ExecBounds, ExecGet, ExecRun, Keep, KillWait, Reconcile, Role, Stream, Volume, VolumeRemove,
    VolumeRestore, VolumesList,
};

use crate::Engine;
use crate::testing::{House, ask, persistent, poll, run_forever, shell};

fn kill(cell: &CellId, volumes: bool) -> CellKill {
    CellKill { cell: cell.clone().into(), force: true, volumes, wait: KillWait::Removed }
}

async fn named(engine: &Engine, alias: &str) -> CellId {
    let alias = Some(alias.parse().unwrap());
    let spawn = CellSpawn { alias, keep: Keep::Always, ..CellSpawn::default() };
    ask(engine, spawn).await.unwrap().id
}

async fn volumes(engine: &Engine) -> Vec<Volume> {
    ask(engine, VolumesList).await.unwrap().volumes
}

async fn listed(engine: &Engine) -> Vec<CellId> {
    let cells = ask(engine, CellList { include_stopped: true }).await.unwrap().cells;
    cells.into_iter().map(|cell| cell.id).collect()
}

fn count(done: &Collected, kind: Collectable) -> u64 {
    done.removed.iter().find(|removed| removed.kind == kind).map_or(0, |removed| removed.count)
}

async fn collect(engine: &Engine, dry_run: bool) -> Collected {
    let done = ask(engine, Collect { dry_run }).await.unwrap();
    assert_eq!(done.errors, [] as [String; 0]);
    done
}

#[tokio::test]
async fn the_files_of_a_persistent_cell_outlive_it_unless_told() {
    let house = House::new();
    let engine = house.engine();
    let (kept, gone) = (named(&engine, "kept").await, named(&engine, "gone").await);
    let exec = run_forever(&engine, &kept).await;
    let CellKilled { volume, .. } = ask(&engine, kill(&kept, false)).await.unwrap();
    let volume = volume.expect("its files are kept");
    assert_eq!(
        (volume.cell.clone(), volume.alias.clone().unwrap().to_string()),
        (kept.clone(), "kept".into())
    );
    assert_eq!(ask(&engine, kill(&gone, true)).await.unwrap().volume, None);

    assert!(house.driver.has(&kept) && !house.driver.has(&gone));
    assert!(ask(&engine, ExecGet { exec }).await.unwrap().end.is_some());
    // It is gone for everybody who wants to use it.
    for engine in [&engine, &house.engine()] {
        assert_eq!(listed(engine).await, [] as [CellId; 0]);
        let refused = ask(engine, shell(&kept, "echo hi")).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotFound);
        let again = ask(engine, kill(&kept, true)).await.unwrap_err();
        assert_eq!(again.code, ErrorCode::NotFound);
        assert_eq!(volumes(engine).await, std::slice::from_ref(&volume));
    }
    // Its name is free, and only that of one cell.
    let other = named(&engine, "kept").await;
    let restore = || VolumeRestore { cell: kept.clone().into() };
    assert_eq!(ask(&engine, restore()).await.unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(volumes(&engine).await.len(), 1);
    ask(&engine, kill(&other, true)).await.unwrap();
    let restored = ask(&engine, restore()).await.unwrap();
    assert_eq!((restored.id, restored.state), (kept.clone(), CellState::Ready));
    assert_eq!(volumes(&engine).await, []);
    ask(&house.engine(), shell(&kept, "echo hi")).await.unwrap();
    assert_eq!(ask(&engine, restore()).await.unwrap_err().code, ErrorCode::Conflict);
}

#[tokio::test]
async fn a_cell_that_is_not_persistent_leaves_nothing() {
    let house = House::new();
    let engine = house.engine();
    let cell = ask(&engine, CellSpawn::default()).await.unwrap().id;
    assert_eq!(ask(&engine, kill(&cell, false)).await.unwrap().volume, None);
    assert!(!house.driver.has(&cell));
}

#[tokio::test]
async fn a_sleeping_cell_is_kept_and_removed_by_hand() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    house.driver.supervisor(&cell).close(CloseReason::Asleep).await;
    ask(&engine, kill(&cell, false)).await.unwrap();
    assert!(house.driver.has(&cell));
    let removed = ask(&engine, VolumeRemove { cell: cell.clone().into() }).await.unwrap();
    assert_eq!(removed.cell, cell);
    assert!(!house.driver.has(&cell));
    assert_eq!(volumes(&engine).await, []);
}

#[tokio::test]
async fn a_volume_is_found_again_when_the_index_is_lost() {
    let house = House::new();
    let cell = named(&house.engine(), "kept").await;
    ask(&house.engine(), kill(&cell, false)).await.unwrap();
    house.delete_index();
    let engine = house.engine();
    assert_eq!(listed(&engine).await, [] as [CellId; 0]);
    assert_eq!(volumes(&engine).await.len(), 1);
    // One that was brought back is a cell, whatever else gets lost.
    ask(&engine, VolumeRestore { cell: cell.clone().into() }).await.unwrap();
    house.delete_index();
    assert_eq!(listed(&house.engine()).await, [cell]);
}

/// Whoever ends a cell may die after its note is written and before the index knows.
#[tokio::test]
async fn a_note_without_the_index_is_enough() {
    let house = House::new();
    let cell = named(&house.engine(), "kept").await;
    house.driver.supervisor(&cell).close(CloseReason::Asleep).await;
    let note =
        format!("{{\"at\":{}}}", serde_json::to_value(hotcell_model::Timestamp::now()).unwrap());
    std::fs::write(house.directory.path().join(format!("cells/{cell}/kept.json")), note).unwrap();
    let engine = house.engine();
    let refused = ask(&engine, shell(&cell, "echo hi")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
    assert_eq!(volumes(&engine).await.len(), 1);
    named(&engine, "kept").await;
}

#[tokio::test]
async fn volumes_go_after_their_time() {
    let mut house = House::new();
    house.settings.volume_keep_s = Some(0);
    house.settings.log_keep_s = 3600;
    let engine = house.engine();
    let cell = persistent(&engine).await;
    // Nothing is due yet, whoever sweeps in passing.
    house.settings.volume_keep_s = None;
    ask(&house.engine(), kill(&cell, false)).await.unwrap();
    assert_eq!(count(&collect(&house.engine(), false).await, Collectable::Volumes), 0);
    assert_eq!(count(&collect(&engine, true).await, Collectable::Volumes), 1);
    assert!(house.driver.has(&cell));
    assert_eq!(count(&collect(&engine, false).await, Collectable::Volumes), 1);
    assert!(!house.driver.has(&cell) && house.has_records(&cell));
    assert_eq!(volumes(&engine).await, []);
    assert_eq!(collect(&engine, false).await.removed, []);
}

fn age(path: &Path, by: Duration) {
    for entry in std::fs::read_dir(path).unwrap() {
        let file = File::options().append(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
    }
}

#[tokio::test]
async fn old_output_of_a_cell_that_lives_goes_and_is_stated() {
    let mut house = House::new();
    house.settings.log_keep_s = 2;
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let (old, live) = (run_forever(&engine, &cell).await, run_forever(&engine, &cell).await);
    let supervisor = house.driver.supervisor(&cell);
    supervisor.print(&old, Stream::Stdout, b"old output\n");
    supervisor.print(&live, Stream::Stdout, b"of one that runs\n");
    supervisor.exit(&old, 7);
    let logs = house.directory.path().join(format!("cells/{cell}/records/log"));
    // It was silent for long, and has ended just now.
    age(&logs, Duration::from_secs(7200));
    assert_eq!(count(&collect(&engine, false).await, Collectable::Logs), 0);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(count(&collect(&engine, true).await, Collectable::Logs), 1);
    assert_eq!(ask(&engine, poll(&old, 0)).await.unwrap().records.len(), 1);
    assert_eq!(count(&collect(&engine, false).await, Collectable::Logs), 1);
    let page = ask(&engine, poll(&old, 0)).await.unwrap();
    assert_eq!((page.records.len(), page.complete), (0, true));
    assert_eq!(page.dropped.unwrap().dropped_bytes, 11);
    assert_eq!(page.exec.end.unwrap().exit_code, Some(7));
    assert_eq!(ask(&engine, poll(&live, 0)).await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn output_that_was_asked_to_be_kept_for_less_goes_earlier() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let supervisor = house.driver.supervisor(&cell);
    let mut execs = Vec::new();
    for keep_s in [Some(0), None] {
        let bounds = ExecBounds { keep_s, ..ExecBounds::default() };
        let command = Command::Shell("sleep forever".to_owned());
        let run = ExecRun { bounds, ..ExecRun::new(cell.clone(), command) };
        let exec = ask(&engine, run).await.unwrap().exec.id;
        supervisor.print(&exec, Stream::Stdout, b"output\n");
        supervisor.exit(&exec, 0);
        execs.push(exec);
    }
    age(&house.directory.path().join(format!("cells/{cell}/records/log")), Duration::from_secs(60));
    assert_eq!(count(&collect(&engine, false).await, Collectable::Logs), 1);
    let kept = async |exec| ask(&engine, poll(exec, 0)).await.unwrap().records.len();
    assert_eq!((kept(&execs[0]).await, kept(&execs[1]).await), (0, 1));
}

#[tokio::test]
async fn the_oldest_output_goes_where_it_is_too_much() {
    let mut house = House::new();
    house.settings.log_bytes = 150;
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let (old, new) = (run_forever(&engine, &cell).await, run_forever(&engine, &cell).await);
    let logs = house.directory.path().join(format!("cells/{cell}/records/log"));
    let supervisor = house.driver.supervisor(&cell);
    supervisor.print(&old, Stream::Stdout, &[b'x'; 20]);
    age(&logs, Duration::from_secs(60));
    supervisor.print(&new, Stream::Stdout, &[b'y'; 20]);
    supervisor.exit(&old, 0);
    supervisor.exit(&new, 0);
    assert_eq!(count(&collect(&engine, false).await, Collectable::Logs), 1);
    assert_eq!(ask(&engine, poll(&old, 0)).await.unwrap().records.len(), 0);
    assert_eq!(ask(&engine, poll(&new, 0)).await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn reconciling_adopts_ends_and_removes() {
    let house = House::new();
    let engine = house.engine();
    let (stays, lost) = (named(&engine, "stays").await, named(&engine, "lost").await);
    house.driver.supervisor(&lost).close(CloseReason::Asleep).await;
    house.driver.lose(&lost);
    let orphan = CellId::from_random(99);
    house.driver.orphans.lock().unwrap().push(orphan.clone());
    let done = ask(&engine, Reconcile).await.unwrap();
    assert_eq!(done.errors, [] as [String; 0]);
    let seen = (done.discovered, done.adopted, done.cleaned_up, done.orphaned, done.missing);
    assert_eq!(seen, (2, 0, 0, 1, 1));
    assert_eq!(*house.driver.orphans.lock().unwrap(), []);
    assert_eq!(listed(&engine).await, std::slice::from_ref(&stays));
    named(&engine, "lost").await;

    house.delete_index();
    let done = ask(&house.engine(), Reconcile).await.unwrap();
    assert_eq!((done.adopted, done.orphaned, done.missing), (2, 0, 0));
    let again = ask(&house.engine(), Reconcile).await.unwrap();
    let seen = (again.discovered, again.adopted, again.cleaned_up, again.orphaned, again.missing);
    assert_eq!(seen, (2, 0, 0, 0, 0));
}

/// What somebody is at work on is left alone.
#[tokio::test]
async fn reconciling_leaves_what_is_being_made() {
    let house = House::new();
    house.driver.hang_in_start.store(true, std::sync::atomic::Ordering::SeqCst);
    let engine = house.engine();
    let making = tokio::time::timeout(Duration::from_millis(200), named(&engine, "new"));
    let other = house.engine();
    let reconciling = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        ask(&other, Reconcile).await.unwrap()
    };
    let (made, done) = tokio::join!(making, reconciling);
    assert!(made.is_err());
    assert_eq!((done.missing, done.cleaned_up, done.orphaned), (0, 0, 0));
}

#[tokio::test]
async fn housekeeping_is_for_operators_and_names_cells_to_those_of_all() {
    let house = House::new();
    let engine = house.engine();
    let agent = Caller::of("agent".to_owned(), Role::Agent);
    assert_eq!(engine.ask(&agent, Reconcile).await.unwrap_err().code, ErrorCode::Denied);
    let collect = Collect { dry_run: true };
    assert_eq!(engine.ask(&agent, collect).await.unwrap_err().code, ErrorCode::Denied);
    // Unless whoever started the server lets its callers.
    let trusted = agent.keeping_house();
    engine.ask(&trusted, collect).await.unwrap();
    engine.ask(&trusted, Reconcile).await.unwrap();
    assert_eq!(engine.ask(&trusted, CellAdopt).await.unwrap_err().code, ErrorCode::Denied);
    let confined = Caller::of("operator".to_owned(), Role::Operator);
    house.driver.orphans.lock().unwrap().push(CellId::from_random(99));
    house.driver.refuse_to_clear.store(true, std::sync::atomic::Ordering::SeqCst);
    let seen = engine.ask(&confined, Reconcile).await.unwrap();
    assert!(!seen.errors[0].contains("c_"), "{seen:?}");
    let seen = ask(&engine, Reconcile).await.unwrap();
    assert!(seen.errors[0].contains("c_"), "{seen:?}");
}

#[tokio::test]
async fn clients_of_a_cell_are_remembered() -> Result<(), Error> {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let attach = |name: Option<&str>| CellAttach {
        cell: CellRef::Id(cell.clone()),
        client_name: name.map(str::to_owned),
        session_id: Some("s1".to_owned()),
    };
    ask(&engine, attach(Some("editor\n"))).await?;
    ask(&engine, attach(None)).await?;
    let details = ask(&house.engine(), attach(Some("editor"))).await?;
    assert_eq!(details.attachments.len(), 2);
    let seen = ask(&engine, CellInfo { cell: cell.clone().into() }).await?.attachments;
    let names: Vec<_> = seen.iter().map(|it| it.client_name.as_str()).collect();
    assert_eq!(names, ["editor", ""]);
    assert!(seen[0].last_seen >= seen[0].attached_at && seen[0].principal == "local:1000");
    Ok(())
}
