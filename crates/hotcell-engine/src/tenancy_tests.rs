//! What belongs to one tenant does not exist for another, whatever is asked for.

use std::time::Duration;

use hotcell_model::{
    ApprovalGive, ApprovalId, ApprovalList, AuditQuery, AuditSummary, Caller, CellAdopt,
    CellAttach, CellFork, CellId, CellInfo, CellKill, CellList, CellRef, CellSpawn, Checked,
    CheckpointCompare, CheckpointCreate, CheckpointDelete, CheckpointId, CheckpointList,
    CheckpointRestore, CodeStats, Collect, Command, Diagnose, DriftedFiles, Error, ErrorCode,
    ExecCancel, ExecFollow, ExecGet, ExecId, ExecInput, ExecList, ExecPoll, ExecRun, ExecWait,
    FileCall, FileStat, FileStream, Grant, ImageImport, ImagePull, ImageRemove, ImagesList, Keep,
    KillWait, NetChange, NetLog, NetShow, OutputFilter, OutputView, Pace, PolicyCheck, PortDial,
    Probe, ProjectApply, ProjectDiff, ProjectDiscard, ProjectPaths, Reconcile, Reply, Request,
    Result, Role, SecretRemove, SecretSet, SecretValue, SecretsList, Signal, Tenant, TokenCreate,
    TokenRevoke, TokensList, ToolDetail, ToolList, ToolNames, ToolRun, ToolSearch, VolumeRemove,
    VolumeRestore, VolumesList,
};

use crate::testing::House;
use crate::{Answer, Engine};

/// What a request is made to name.
#[derive(Debug, Clone)]
struct Named {
    cell: CellRef,
    exec: ExecId,
    checkpoint: CheckpointId,
}

impl Named {
    /// Something that never was.
    fn never(cell: &CellRef) -> Self {
        let cell = match cell {
            CellRef::Id(_) | CellRef::Default => CellRef::Id(CellId::from_random(77)),
            CellRef::Alias(_) => CellRef::Alias("never".parse().unwrap()),
        };
        let (exec, checkpoint) = (ExecId::from_random(77), CheckpointId::from_random(77));
        Self { cell, exec, checkpoint }
    }

    /// What is said about these, said about others.
    fn instead_of(&self, other: &Self, text: &str) -> String {
        text.replace(&other.cell.to_string(), &self.cell.to_string())
            .replace(other.exec.as_str(), self.exec.as_str())
    }
}

/// What becomes of a request that names what is another tenant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is not found.
    Names,
    /// It names nothing: other tests look at what it lists and makes.
    NamesNothing,
}

type Make = fn(&Named) -> Request;

/// One for each kind of request.
const CASES: &[(&str, Kind, Make)] = &[
    ("cell_spawn", Kind::NamesNothing, |_| CellSpawn::default().into()),
    ("cell_list", Kind::NamesNothing, |_| CellList { include_stopped: true }.into()),
    ("cell_info", Kind::Names, |it| CellInfo { cell: it.cell.clone() }.into()),
    ("cell_adopt", Kind::NamesNothing, |_| CellAdopt.into()),
    ("cell_attach", Kind::Names, |it| {
        CellAttach { cell: it.cell.clone(), client_name: None, session_id: None }.into()
    }),
    ("volumes_list", Kind::NamesNothing, |_| VolumesList.into()),
    ("volume_restore", Kind::Names, |it| VolumeRestore { cell: it.cell.clone() }.into()),
    ("volume_remove", Kind::Names, |it| VolumeRemove { cell: it.cell.clone() }.into()),
    ("reconcile", Kind::NamesNothing, |_| Reconcile.into()),
    ("collect", Kind::NamesNothing, |_| Collect { dry_run: true }.into()),
    ("checkpoint_create", Kind::Names, |it| CheckpointCreate { cell: it.cell.clone() }.into()),
    ("checkpoint_list", Kind::Names, |it| CheckpointList { cell: it.cell.clone() }.into()),
    ("checkpoint_compare", Kind::Names, |it| {
        let (cell, checkpoint) = (it.cell.clone(), it.checkpoint.clone());
        CheckpointCompare { cell, checkpoint, limit: 10, skip: 0, patch_bytes: None }.into()
    }),
    ("checkpoint_restore", Kind::Names, |it| {
        let (cell, checkpoint) = (it.cell.clone(), it.checkpoint.clone());
        CheckpointRestore { cell, checkpoint, force: true }.into()
    }),
    ("checkpoint_delete", Kind::Names, |it| {
        let (cell, checkpoint) = (it.cell.clone(), it.checkpoint.clone());
        CheckpointDelete { cell, checkpoint }.into()
    }),
    ("cell_fork", Kind::Names, |it| {
        CellFork {
            cell: it.cell.clone(),
            checkpoint: None,
            alias: None,
            count: 1,
            keep: None,
            ttl_s: None,
            idempotency_key: None,
        }
        .into()
    }),
    ("net_show", Kind::Names, |it| NetShow { cell: it.cell.clone() }.into()),
    ("net_change", Kind::Names, |it| {
        NetChange { cell: it.cell.clone(), allow: Vec::new(), deny: Vec::new() }.into()
    }),
    ("net_log", Kind::Names, |it| NetLog { cell: it.cell.clone(), limit: 10 }.into()),
    ("project_diff", Kind::Names, |it| {
        let cell = it.cell.clone();
        let paths = ProjectPaths::default();
        let leave_out_ignored = false;
        ProjectDiff {
            cell,
            paths,
            limit: 10,
            skip: 0,
            patch_bytes: 0,
            plan: None,
            leave_out_ignored,
        }
        .into()
    }),
    ("project_apply", Kind::Names, |it| {
        let (cell, paths) = (it.cell.clone(), ProjectPaths::default());
        let (drifted, leave_out_ignored) = (DriftedFiles::Refuse, false);
        ProjectApply { cell, paths, drifted, expected: None, leave_out_ignored }.into()
    }),
    ("project_discard", Kind::Names, |it| {
        let (cell, paths) = (it.cell.clone(), ProjectPaths::default());
        ProjectDiscard { cell, paths, expected: None }.into()
    }),
    ("exec_run", Kind::Names, |it| {
        ExecRun::new(it.cell.clone(), Command::Shell("forever".to_owned())).into()
    }),
    ("exec_wait", Kind::Names, |it| {
        ExecWait { exec: it.exec.clone(), wait_s: 0.0, result_bytes: 100 }.into()
    }),
    ("tool_run", Kind::Names, |it| {
        let (server, tool) = ("s".to_owned(), "t".to_owned());
        let (exec, arguments) = (Some(it.exec.clone()), serde_json::Map::new());
        ToolRun { exec, server, tool, arguments }.into()
    }),
    ("tool_search", Kind::NamesNothing, |_| {
        let (query, detail) = ("x".to_owned(), ToolDetail::Name);
        ToolSearch { query, detail, server: None, limit: 5 }.into()
    }),
    ("tool_names", Kind::NamesNothing, |_| ToolNames { server: None }.into()),
    ("tool_list", Kind::NamesNothing, |_| ToolList::default().into()),
    ("exec_get", Kind::Names, |it| ExecGet { exec: it.exec.clone() }.into()),
    ("exec_poll", Kind::Names, |it| {
        let (exec, filter) = (it.exec.clone(), OutputFilter::default());
        ExecPoll {
            exec,
            after_seq: 0,
            wait_s: 0.0,
            filter,
            max_bytes: 100,
            view: OutputView::default(),
        }
        .into()
    }),
    ("exec_input", Kind::Names, |it| {
        ExecInput { eof: true, ..ExecInput::to(it.exec.clone()) }.into()
    }),
    ("exec_list", Kind::Names, |it| {
        let cell = Some(it.cell.clone());
        ExecList { cell, status: None, limit: 10, cursor: None }.into()
    }),
    ("exec_follow", Kind::Names, |it| {
        ExecFollow { exec: it.exec.clone(), after_seq: 0, pace: Pace::Free }.into()
    }),
    ("file_call", Kind::Names, |it| {
        let look = FileStat { path: ".".to_owned() };
        FileCall::new(it.cell.clone(), look.into()).into()
    }),
    ("file_stream", Kind::Names, |it| {
        let look = FileStat { path: ".".to_owned() };
        FileStream { cell: it.cell.clone(), op: look.into() }.into()
    }),
    ("port_dial", Kind::Names, |it| PortDial { cell: it.cell.clone(), port: 80 }.into()),
    ("secret_set", Kind::NamesNothing, |_| {
        let value = SecretValue::new(b"a value".to_vec()).unwrap();
        SecretSet { name: "name".parse().unwrap(), value }.into()
    }),
    ("secrets_list", Kind::NamesNothing, |_| SecretsList.into()),
    ("secret_remove", Kind::NamesNothing, |_| {
        SecretRemove { name: "name".parse().unwrap() }.into()
    }),
    ("image_import", Kind::NamesNothing, |_| {
        ImageImport { path: "/nowhere".into(), name: None, driver: None }.into()
    }),
    ("image_pull", Kind::NamesNothing, |_| {
        ImagePull { name: "name".parse().unwrap(), driver: None }.into()
    }),
    ("images_list", Kind::NamesNothing, |_| ImagesList::default().into()),
    ("image_remove", Kind::NamesNothing, |_| {
        ImageRemove { name: "name".parse().unwrap(), driver: None }.into()
    }),
    ("diagnose", Kind::NamesNothing, |_| Diagnose.into()),
    ("probe", Kind::NamesNothing, |_| Probe.into()),
    ("approval_list", Kind::Names, |it| {
        ApprovalList { id: Some(ApprovalId::Exec(it.exec.clone())) }.into()
    }),
    ("approval_give", Kind::Names, |it| {
        ApprovalGive { id: ApprovalId::Exec(it.exec.clone()), grant: Grant::Approve }.into()
    }),
    ("policy_check", Kind::NamesNothing, |_| {
        let checked = Checked::Argv(vec!["true".to_owned()]);
        PolicyCheck { checked, as_root: false, profile: None }.into()
    }),
    ("audit_query", Kind::NamesNothing, |_| AuditQuery::default().into()),
    ("audit_summary", Kind::NamesNothing, |_| AuditSummary::default().into()),
    ("code_stats", Kind::NamesNothing, |_| CodeStats::default().into()),
    ("token_create", Kind::NamesNothing, |_| {
        let (name, tenant, role) = (None, Tenant::default(), Role::Agent);
        TokenCreate { name, tenant, role, scopes: None, expires_at: None }.into()
    }),
    ("tokens_list", Kind::NamesNothing, |_| TokensList.into()),
    ("token_revoke", Kind::NamesNothing, |_| TokenRevoke { token: "t".parse().unwrap() }.into()),
    ("exec_cancel", Kind::Names, |it| {
        ExecCancel { exec: it.exec.clone(), signal: Signal::TERM, grace_s: 0.0 }.into()
    }),
    ("cell_kill", Kind::Names, |it| {
        CellKill { cell: it.cell.clone(), force: true, volumes: true, wait: KillWait::Removed }
            .into()
    }),
];

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

fn of(name: &str) -> Caller {
    Caller::local(1000).in_tenant(tenant(name))
}

/// A cell of a tenant with this alias, and something that runs in it.
async fn furnish(engine: &Engine, caller: &Caller, alias: &str) -> (CellId, ExecId) {
    let alias = Some(alias.parse().unwrap());
    let spawn = CellSpawn { alias, keep: Keep::Always, ..CellSpawn::default() };
    let cell = engine.ask(caller, spawn).await.unwrap().id;
    let run = ExecRun::new(cell.clone(), Command::Shell("forever".to_owned()));
    (cell, engine.ask(caller, run).await.unwrap().exec.id)
}

/// What came of a request, in words; and whether what it names was found.
async fn outcome(engine: &Engine, caller: &Caller, request: Request) -> (String, bool) {
    let asked = tokio::time::timeout(Duration::from_secs(5), engine.call(caller, request)).await;
    match asked {
        Err(_) => ("it goes on".to_owned(), true),
        Ok(Err(error)) => {
            let is_found = error.code != ErrorCode::NotFound;
            let Error { code, message, hint, .. } = error;
            (format!("{code}: {message}: {hint:?}"), is_found)
        }
        Ok(Ok(Answer::Reply(Reply::ExecCancelled(cancelled)))) => {
            let is_found = cancelled.status != hotcell_model::CancelStatus::NotFound;
            (format!("{cancelled:?}"), is_found)
        }
        Ok(Ok(answer)) => (format!("{answer:?}"), true),
    }
}

#[tokio::test]
async fn every_request_has_a_case() {
    let mut cases: Vec<&str> = CASES.iter().map(|(name, ..)| *name).collect();
    let mut requests = Request::NAMES.to_vec();
    cases.sort_unstable();
    requests.sort_unstable();
    assert_eq!(cases, requests, "say in CASES what the new request names");
    let named = Named::never(&CellRef::Default);
    for (name, _, make) in CASES {
        assert_eq!(make(&named).name(), *name);
    }
}

#[tokio::test]
async fn what_another_tenant_has_is_as_what_never_was() {
    let house = House::new();
    // One process that has links to all of it, and one that knows nothing yet.
    let engines = [house.engine(), house.engine()];
    let (a, b) = (of("a"), of("b"));
    let (cell, exec) = furnish(&engines[0], &a, "work").await;
    let checkpoint = CheckpointId::from_random(1);
    let before = engines[0].ask(&a, CellInfo { cell: cell.clone().into() }).await.unwrap();
    for engine in &engines {
        for by in [CellRef::Id(cell.clone()), CellRef::Alias("work".parse().unwrap())] {
            let theirs = Named { cell: by, exec: exec.clone(), checkpoint: checkpoint.clone() };
            let never = Named::never(&theirs.cell);
            for (name, kind, make) in CASES {
                if *kind == Kind::NamesNothing {
                    continue;
                }
                let (said, is_found) = outcome(engine, &b, make(&theirs)).await;
                let (expected, _) = outcome(engine, &b, make(&never)).await;
                assert!(!is_found, "{name}: {said}");
                assert_eq!(said, theirs.instead_of(&never, &expected), "{name}");
            }
        }
    }
    let after = engines[0].ask(&a, CellInfo { cell: cell.clone().into() }).await.unwrap();
    assert_eq!(after, before, "nothing of it has changed");
    // The same for the one whose they are: each is found.
    for (name, kind, make) in CASES {
        let theirs = Named {
            cell: CellRef::Alias("work".parse().unwrap()),
            exec: exec.clone(),
            checkpoint: checkpoint.clone(),
        };
        if *kind == Kind::Names {
            let (said, is_found) = outcome(&engines[0], &a, make(&theirs)).await;
            assert!(is_found, "{name}: {said}");
        }
    }
}

#[tokio::test]
async fn lists_cursors_and_counts_show_nothing_of_another_tenant() {
    let house = House::new();
    let engine = house.engine();
    let (a, b) = (of("a"), of("b"));
    let list = |cursor: Option<String>| ExecList { cell: None, status: None, limit: 1, cursor };
    let mut of_a = Vec::new();
    for alias in ["one", "two"] {
        of_a.push(furnish(&engine, &a, alias).await.1);
    }
    let cells = async |caller: &Caller| {
        let listed = engine.ask(caller, CellList { include_stopped: true }).await.unwrap();
        listed.cells.into_iter().map(|cell| cell.tenant).collect::<Vec<_>>()
    };
    assert_eq!(cells(&b).await, []);
    assert_eq!(engine.ask(&b, CellAdopt).await.unwrap().cells, []);
    let execs = engine.ask(&b, list(None)).await.unwrap();
    assert!(execs.execs.is_empty() && execs.next_cursor.is_none(), "{execs:?}");
    let page = engine.ask(&a, list(None)).await.unwrap();
    let cursor = page.next_cursor.unwrap();
    assert!(engine.ask(&b, list(Some(cursor.clone()))).await.unwrap().execs.is_empty());
    assert_eq!(engine.ask(&a, list(Some(cursor))).await.unwrap().execs.len(), 1);

    let (own, _) = furnish(&engine, &b, "one").await;
    assert_eq!(cells(&b).await, [tenant("b")]);
    let found = engine.ask(&b, CellInfo { cell: CellRef::Alias("one".parse().unwrap()) }).await;
    assert_eq!(found.unwrap().cell.id, own, "a name is each tenant's own");
    // Whoever keeps house sees all of it.
    let server = Caller::server();
    assert_eq!(cells(&server).await, [tenant("b"), tenant("a"), tenant("a")]);
    let all = ExecList { limit: 10, ..list(None) };
    let all = engine.ask(&server, all).await.unwrap();
    assert_eq!(all.execs.len(), 3);
    assert_eq!(all.tenants[&own], tenant("b"));
}

#[tokio::test]
async fn keys_and_default_cells_are_each_tenants_own() {
    let house = House::new();
    let engine = house.engine();
    let (a, b) = (of("a"), of("b"));
    let spawn = CellSpawn { idempotency_key: Some("key".to_owned()), ..CellSpawn::default() };
    let first = engine.ask(&a, spawn.clone()).await.unwrap();
    let second = engine.ask(&b, spawn.clone()).await.unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(engine.ask(&a, spawn).await.unwrap().id, first.id);

    let alias = || "dir-1".parse().unwrap();
    let (a, b) = (a.with_default_cell(alias()), b.with_default_cell(alias()));
    let run = ExecRun::new(CellRef::Default, Command::Shell("forever".to_owned()));
    let of_a = engine.ask(&a, run.clone()).await.unwrap().exec;
    let of_b = engine.ask(&b, run.clone()).await.unwrap().exec;
    assert_ne!(of_a.cell, of_b.cell);
    assert_eq!(engine.ask(&a, run).await.unwrap().exec.cell, of_a.cell);
}

#[tokio::test]
async fn whose_things_are_survives_the_loss_of_the_index() {
    let house = House::new();
    let (a, b, main) = (of("a"), of("b"), Caller::local(1000));
    let (living, ended) = {
        let engine = house.engine();
        let living = furnish(&engine, &a, "living").await;
        let ended = furnish(&engine, &a, "ended").await;
        let kill = CellKill {
            cell: ended.0.clone().into(),
            force: true,
            volumes: true,
            wait: KillWait::Removed,
        };
        engine.ask(&a, kill).await.unwrap();
        (living, ended)
    };
    house.delete_index();
    let engine = house.engine();
    let get = async |caller: &Caller, exec: &ExecId| -> Result<ExecId> {
        Ok(engine.ask(caller, ExecGet { exec: exec.clone() }).await?.id)
    };
    for (_, exec) in [&living, &ended] {
        for other in [&b, &main] {
            assert_eq!(get(other, exec).await.unwrap_err().code, ErrorCode::NotFound);
        }
        assert_eq!(get(&a, exec).await.unwrap(), *exec);
    }
    drop(engine);
    // Records whose owner cannot be told are nobody's.
    let note = house.directory.path().join("cells").join(ended.0.as_str()).join("tenant");
    std::fs::write(note, "").unwrap();
    house.delete_index();
    let engine = house.engine();
    for caller in [&a, &b, &main] {
        let got = engine.ask(caller, ExecGet { exec: ended.1.clone() }).await;
        assert_eq!(got.unwrap_err().code, ErrorCode::NotFound);
        let got = engine.ask(caller, ExecGet { exec: living.1.clone() }).await;
        assert_eq!(got.is_ok(), caller == &a);
    }
}
