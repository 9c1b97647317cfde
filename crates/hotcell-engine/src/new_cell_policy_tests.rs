//! Rules about cells hold for every way in which a cell is made.

use std::sync::Arc;
use std::time::Duration;

use hotcell_model::{
    Caller, CellFork, CellKill, CellList, CellRef, CellSpawn, Command, Digest, ErrorCode, ExecRun,
    FileCall, FileOp, FileWrite, HOST_IMAGE, Image, Keep, KillWait, Network, Patience, Query, Role,
    Tenant, Timestamp, VolumeRestore,
};
use hotcell_policy::{Policy, PolicyError};

use crate::new_cell_policy::{spellings, without_version};
use crate::testing::{House, ask, persistent};
use crate::{Engine, Policies, PolicyUse, PoolSettings};

const CONTENT: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn short_and_full_names_are_one() {
    let of = |text: &str| spellings(&text.parse().unwrap());
    let all = of("debian");
    for name in ["debian", "library/debian:latest", "docker.io/library/debian:latest"] {
        assert!(all.contains(&name.to_owned()), "{all:?}");
        assert_eq!(of(name), all);
    }
    assert!(!all.contains(&"debian:12".to_owned()));
    assert_eq!(of("ghcr.io/a/b:1"), ["ghcr.io/a/b:1"]);
}

#[test]
fn a_pinned_name_is_related_to_its_tag() {
    let pinned = format!("debian:12@{CONTENT}").parse().unwrap();
    assert!(spellings(&pinned).iter().all(|name| name.ends_with(CONTENT)));
    let related = without_version(&pinned);
    for name in ["debian:12".to_owned(), format!("docker.io/library/debian@{CONTENT}")] {
        assert!(related.contains(&name), "{related:?}");
    }
    assert!(without_version(&"debian:12".parse().unwrap()).is_empty());
}

/// Rules that do not change.
#[derive(Debug)]
struct Fixed(Arc<Policy>);

impl Policies for Fixed {
    fn in_force(&self) -> Arc<Policy> {
        Arc::clone(&self.0)
    }

    fn by_profile(&self, profile: &str) -> Result<Policy, PolicyError> {
        Policy::parse(None, profile)
    }
}

/// A server with one rule of this verdict for this condition.
fn server(house: &House, verdict: &str, condition: &str) -> Engine {
    let rules = format!("[[rule]]\nid = 'r'\nverdict = '{verdict}'\n{condition}\n");
    let policy = Arc::new(Policy::parse(Some(&rules), "open").unwrap());
    let mut engine = house.engine();
    let ledger = hotcell_ledger::ChainedLedger::new(crate::recorded_tests::settings(house));
    engine.keep_ledger_in(Arc::new(ledger)).unwrap();
    let within = Duration::from_secs(3600);
    engine.judge_by(Arc::new(Fixed(policy)), PolicyUse::Enforced, within).unwrap();
    engine
}

/// An agent with a default cell that is not there yet.
fn agent() -> Caller {
    let caller = Caller::local(7).in_role(Role::Agent);
    Caller { patience: Patience::None, default_cell: Some("own".parse().unwrap()), ..caller }
}

async fn code<Q: Query>(engine: &Engine, caller: &Caller, query: Q) -> Option<ErrorCode> {
    engine.ask(caller, query).await.err().map(|error| error.code)
}

async fn cells(engine: &Engine) -> usize {
    ask(engine, CellList { include_stopped: true }).await.unwrap().cells.len()
}

fn run() -> ExecRun {
    ExecRun::new(CellRef::Default, Command::Shell("echo hi".to_owned()))
}

fn write() -> FileCall {
    let write = FileWrite { path: "x".to_owned(), ..FileWrite::default() };
    FileCall::new(CellRef::Default, FileOp::Write(write))
}

const DENIED: Option<ErrorCode> = Some(ErrorCode::Denied);

#[tokio::test]
async fn the_default_cell_is_judged() {
    let house = House::new();
    let engine = server(&house, "deny", "image = 'host'");
    assert_eq!(code(&engine, &agent(), run()).await, DENIED);
    assert_eq!(code(&engine, &agent(), write()).await, DENIED);
    assert_eq!(cells(&engine).await, 0);
    // By what it may reach, too.
    let network: Network = vec!["db.corp:443".parse().unwrap()].into();
    let reaching = Caller { default_network: network, ..agent() };
    let engine = server(&house, "deny", "egress = 'db.corp'");
    assert_eq!(code(&engine, &reaching, run()).await, DENIED);
    assert_eq!(cells(&engine).await, 0);
    // The control: another cell may be made, and one that is there may be used.
    assert_eq!(code(&engine, &agent(), run()).await, None);
    let engine = server(&house, "deny", "image = 'host'");
    assert_eq!(code(&engine, &agent(), run()).await, None);
    assert_eq!(cells(&engine).await, 1);
}

#[tokio::test]
async fn a_default_cell_that_needs_approval_is_not_made_before() {
    let house = House::new();
    let engine = server(&house, "ask", "image = 'host'");
    let error = engine.ask(&agent(), run()).await.unwrap_err();
    assert!(error.held.is_some(), "{error:?}");
    assert_eq!(cells(&engine).await, 0);
    // A command that needs approval waits in its cell, which needs none.
    let engine = server(&house, "ask", "command = 'echo'");
    assert_eq!(code(&engine, &agent(), run()).await, None);
    assert_eq!(cells(&engine).await, 1);
}

#[tokio::test]
async fn forks_and_restored_cells_are_judged() {
    let house = House::new();
    let cell = CellRef::Id(persistent(&house.engine()).await);
    let fork = CellFork {
        cell: cell.clone(),
        checkpoint: None,
        alias: None,
        count: 1,
        keep: None,
        ttl_s: None,
        idempotency_key: None,
    };
    let denying = server(&house, "deny", "image = 'host'");
    let open = server(&house, "deny", "image = 'other'");
    assert_eq!(code(&denying, &agent(), fork.clone()).await, DENIED);
    // The fake keeps no checkpoints.
    assert_eq!(code(&open, &agent(), fork).await, Some(ErrorCode::Unsupported));
    let wait = KillWait::default();
    let kill = CellKill { cell: cell.clone(), force: true, volumes: false, wait };
    ask(&house.engine(), kill).await.unwrap();
    let restore = VolumeRestore { cell };
    let operator = Caller::of("token:ops".to_owned(), Role::Operator);
    assert_eq!(code(&denying, &operator, restore.clone()).await, DENIED);
    assert_eq!(code(&open, &operator, restore).await, None);
}

#[tokio::test]
async fn cells_made_ahead_of_need_are_judged() {
    let mut house = House::new();
    house.settings.pool = PoolSettings { size: 1, ..PoolSettings::default() };
    let (denying, open) =
        (server(&house, "deny", "image = 'host'"), server(&house, "deny", "image = 'other'"));
    open.keep_house(Tenant::default());
    while open.pool_figures().ready == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(code(&denying, &agent(), CellSpawn::default()).await, DENIED);
    assert_eq!(code(&denying, &agent(), run()).await, DENIED);
    assert_eq!(code(&open, &agent(), CellSpawn::default()).await, None);
    assert_eq!(open.pool_figures().given, 1);
    // None is made of an image that is denied.
    let spawn = CellSpawn { keep: Keep::Pool, ..CellSpawn::default() };
    for (engine, is_denied) in [(&denying, true), (&open, false)] {
        let checked = crate::policies::check_own_cell(engine.site(), &spawn).await;
        assert_eq!(checked.is_err(), is_denied);
    }
}

#[tokio::test]
async fn an_image_is_judged_by_what_it_is() {
    let house = House::new();
    let image = |name: &str| Image {
        name: name.parse().unwrap(),
        digest: Digest::parse(CONTENT).unwrap(),
        platform: "linux/amd64".to_owned(),
        layers: 1,
        bytes: 1,
        since: Timestamp::now(),
    };
    *house.driver.kept_images.0.lock().unwrap() =
        vec![image("debian:12"), image("mirror.test/deb")];
    let spawn = |image: &str| CellSpawn { image: image.to_owned(), ..CellSpawn::default() };
    let pinned = format!("docker.io/library/debian@{CONTENT}");
    let names = ["debian:12", "docker.io/library/debian:12", "mirror.test/deb:latest", &pinned];
    for rule in ["debian:12", "docker.io/library/debian:12", "mirror.test/*", &pinned] {
        let engine = server(&house, "deny", &format!("image = '{rule}'"));
        for name in names {
            assert_eq!(code(&engine, &agent(), spawn(name)).await, DENIED, "{rule} {name}");
        }
        assert_eq!(code(&engine, &agent(), spawn(HOST_IMAGE)).await, None, "{rule}");
        assert_eq!(code(&engine, &agent(), spawn("debian:13")).await, None, "{rule}");
    }
}
