//! What belongs to one tenant does not exist for another: over every tool, every route of `/v1`,
//! resources, tasks and ports. A new tool or route fails the test until it has a case here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::egress::python;
use crate::world::{Era, HttpServer, McpClient, Outside, Sent, World, eventually};

in_worlds! {
    [root]
    no_tool_reaches_another_tenants_things,
    no_route_reaches_another_tenants_things,
    resources_tasks_and_ports_are_each_tenants_own,
    two_servers_on_standard_input_share_nothing,
    secrets_are_each_tenants_own,
    the_owner_of_the_state_directory_sees_every_tenant,
    metrics_tell_of_ones_own_tenant,
    a_quota_that_is_hit_is_told_with_its_figures,
    calls_a_second_are_bounded,
    those_who_wait_share_the_queue_of_all,
}

in_worlds! {
    [root, docker]
    what_a_tenant_has_on_disk_is_bounded,
    what_the_cells_of_a_tenant_carry_is_bounded_together,
    what_all_cells_carry_is_bounded_together,
}

/// Somebody who calls as one of a tenant.
struct Party {
    server: HttpServer,
}

impl Party {
    /// One of this tenant, by a server that is its own.
    fn of(world: &World, tenant: &str) -> Self {
        Self { server: HttpServer::start_with(world, &["--tenant", tenant], &[]) }
    }

    /// Status and body of the answer.
    fn ask(&self, sent: &Sent) -> (u16, String) {
        let answer = self.server.ask(sent);
        (answer.status, answer.body)
    }

    fn json(&self, sent: &Sent) -> Value {
        self.server.ask(sent).json()
    }
}

/// What a call is made to name.
#[derive(Debug, Clone)]
struct Named {
    cell: String,
    exec: String,
    checkpoint: String,
}

impl Named {
    fn never(&self) -> Self {
        let cell = if self.cell.starts_with("c_") { "c_0123456789" } else { "never" };
        let [exec, checkpoint] = ["e_0123456789", "k_0123456789"].map(str::to_owned);
        let checkpoint = format!("{}{}", &self.checkpoint[..2], &checkpoint[2..]);
        Self { cell: cell.to_owned(), exec, checkpoint }
    }

    /// What is said of another, said of this.
    fn instead_of(&self, other: &Self, text: &str) -> String {
        text.replace(&other.cell, &self.cell)
            .replace(&other.exec, &self.exec)
            .replace(&other.checkpoint, &self.checkpoint)
    }
}

/// A cell of a party with all that can be named in it.
fn furnish(party: &Party) -> Named {
    let spawn = json!({ "alias": "work", "persistent": true });
    let cell = party.json(&Sent::post("/v1/cells", &spawn));
    let cell = cell["id"].as_str().unwrap().to_owned();
    let run = json!({
        "cell": cell, "wait_s": 0,
        "command": "echo secret-of-a > file; echo secret-of-a; exec cat", "stdin_open": true,
    });
    let run = party.json(&Sent::post("/v1/execs", &run));
    let exec = run["exec"]["id"].as_str().unwrap().to_owned();
    eventually("output", || {
        let output = format!("/v1/execs/{exec}/output");
        party.ask(&Sent::get(&output)).1.contains("secret-of-a")
    });
    let path = format!("/v1/cells/{cell}/checkpoints");
    let checkpoint = party.json(&Sent::post(&path, &json!({})));
    Named { cell, exec, checkpoint: checkpoint["id"].as_str().unwrap().to_owned() }
}

/// How A's things look from A.
fn state(party: &Party, named: &Named) -> Value {
    let get = |path: String| party.json(&Sent::get(&path));
    let cell = get(format!("/v1/cells/{}", named.cell));
    json!({
        "cell": cell["cell"],
        "execs": cell["execs"],
        "files": get(format!("/v1/cells/{}/files", named.cell)),
        "checkpoints": get(format!("/v1/cells/{}/checkpoints", named.cell)),
        "output": get(format!("/v1/execs/{}/output", named.exec)),
        "cells": get("/v1/cells".to_owned())["cells"].as_array().unwrap().len(),
    })
}

/// What becomes of a call that names another tenant's things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is not found.
    Names,
    /// It says of what is not there that it is not there.
    Tells,
    /// It names nothing, and shows nothing of theirs.
    NamesNothing,
    /// It is for operators, whatever it names.
    ForOperators,
}

type Arguments = fn(&Named) -> Value;

const TOOLS: &[(&str, Kind, Arguments)] = &[
    ("cell_spawn", Kind::NamesNothing, |_| json!({ "alias": "work-2" })),
    ("cell_list", Kind::NamesNothing, |_| json!({ "include_stopped": true })),
    ("cell_attach", Kind::Names, |it| json!({ "cell": it.cell })),
    ("cell_info", Kind::Names, |it| json!({ "cell": it.cell })),
    (
        "cell_checkpoint",
        Kind::Names,
        |it| json!({ "cell": it.cell, "action": "diff", "checkpoint": it.checkpoint }),
    ),
    ("cell_fork", Kind::Names, |it| json!({ "cell": it.cell })),
    ("exec_run", Kind::Names, |it| json!({ "cell": it.cell, "command": "cat file" })),
    ("code_run", Kind::Names, |it| json!({ "cell": it.cell, "code": "open('file').read()" })),
    ("tool_search", Kind::NamesNothing, |_| json!({ "query": "x" })),
    ("exec_poll", Kind::Names, |it| json!({ "exec_id": it.exec })),
    ("exec_input", Kind::Names, |it| json!({ "exec_id": it.exec, "text": "x" })),
    ("exec_list", Kind::Names, |it| json!({ "cell": it.cell })),
    ("fs_read", Kind::Names, |it| json!({ "cell": it.cell, "path": "file" })),
    ("fs_write", Kind::Names, |it| json!({ "cell": it.cell, "path": "new", "content": "x" })),
    (
        "fs_edit",
        Kind::Names,
        |it| json!({ "cell": it.cell, "path": "file", "edits": [{ "old": "secret", "new": "x" }] }),
    ),
    ("fs_list", Kind::Names, |it| json!({ "cell": it.cell, "path": "." })),
    ("fs_stat", Kind::Names, |it| json!({ "cell": it.cell, "path": "." })),
    ("fs_search", Kind::Names, |it| json!({ "cell": it.cell, "pattern": "secret" })),
    (
        "fs_batch",
        Kind::Names,
        |it| json!({ "cell": it.cell, "operations": [{ "op": "read", "path": "file" }] }),
    ),
    ("fs_export", Kind::Names, |it| json!({ "cell": it.cell, "path": "." })),
    ("fs_import", Kind::Names, |it| {
        // An archive without anything in it.
        json!({ "cell": it.cell, "path": "in", "archive": "A".repeat(1364) + "AA==" })
    }),
    ("fs_delete", Kind::Names, |it| json!({ "cell": it.cell, "path": "new" })),
    ("exec_cancel", Kind::Tells, |it| json!({ "exec_id": it.exec })),
    ("cell_kill", Kind::Names, |it| json!({ "cell": it.cell, "force": true })),
];

/// What a result says, in words.
fn words(result: &Value) -> String {
    let code = &result["_meta"]["hotcell/error"]["code"];
    format!("{code}: {} {}", result["content"], result["structuredContent"])
}

fn no_tool_reaches_another_tenants_things(world: &World) {
    let (a, b) = (Party::of(world, "a"), Party::of(world, "b"));
    let theirs = furnish(&a);
    let listed = b.json(&Sent::modern(1, "tools/list", None, json!({})));
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let tools: BTreeSet<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let cases: BTreeSet<&str> = TOOLS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(tools, cases, "say in TOOLS what the new tool names");

    let before = state(&a, &theirs);
    let call = |party: &Party, tool: &str, arguments: Value| {
        party.json(&Sent::tool(tool, arguments))["result"].clone()
    };
    for cell in [theirs.cell.clone(), "work".to_owned()] {
        let theirs = Named { cell, ..theirs.clone() };
        let never = theirs.never();
        for (tool, kind, arguments) in TOOLS {
            let result = call(&b, tool, arguments(&theirs));
            let said = words(&result);
            match kind {
                Kind::Names => {
                    assert_eq!(result["isError"], true, "{tool}: {said}");
                    assert!(said.starts_with("\"not_found\""), "{tool}: {said}");
                    let expected = words(&call(&b, tool, arguments(&never)));
                    assert_eq!(said, theirs.instead_of(&never, &expected), "{tool}");
                }
                Kind::Tells => {
                    assert!(said.contains("not_found"), "{tool}: {said}");
                    let expected = words(&call(&b, tool, arguments(&never)));
                    assert_eq!(said, theirs.instead_of(&never, &expected), "{tool}");
                }
                Kind::ForOperators => assert_eq!(result["isError"], true, "{tool}: {said}"),
                Kind::NamesNothing => {
                    assert!(!said.contains(&theirs.exec), "{tool}: {said}");
                    assert!(!said.contains(&before["cell"]["id"].to_string()), "{tool}: {said}");
                }
            }
        }
    }
    assert_eq!(state(&a, &theirs), before, "nothing of theirs has changed");
    // The same calls are good for the one whose things they are.
    for (tool, _, arguments) in TOOLS {
        let result = call(&a, tool, arguments(&theirs));
        let said = words(&result);
        assert!(result["isError"] != true, "{tool}: {said}");
        assert!(!said.contains("not_found"), "{tool}: {said}");
    }
    for party in [a, b] {
        assert_eq!(party.server.terminate().code(), 0);
    }
}

type Request = fn(&Named) -> Sent;

/// By the method and the path of the description.
const ROUTES: &[(&str, &str, Kind, Request)] = &[
    ("get", "/v1/cells", Kind::NamesNothing, |_| Sent::get("/v1/cells?include_stopped=true")),
    ("post", "/v1/cells", Kind::NamesNothing, |_| {
        Sent::post("/v1/cells", &json!({ "persistent": true }))
    }),
    ("get", "/v1/execs", Kind::NamesNothing, |_| Sent::get("/v1/execs")),
    ("get", "/v1/cells/{cell}", Kind::Names, |it| Sent::get(&format!("/v1/cells/{}", it.cell))),
    ("post", "/v1/execs", Kind::Names, |it| {
        Sent::post("/v1/execs", &json!({ "cell": it.cell, "command": "cat file" }))
    }),
    ("get", "/v1/execs/{exec}", Kind::Names, |it| Sent::get(&format!("/v1/execs/{}", it.exec))),
    ("post", "/v1/execs/{exec}/input", Kind::Names, |it| {
        Sent::post(&format!("/v1/execs/{}/input", it.exec), &json!({ "text": "x\n" }))
    }),
    ("get", "/v1/execs/{exec}/output", Kind::Names, |it| {
        Sent::get(&format!("/v1/execs/{}/output", it.exec))
    }),
    ("get", "/v1/cells/{cell}/files", Kind::Names, |it| {
        Sent::get(&format!("/v1/cells/{}/files", it.cell))
    }),
    ("get", "/v1/cells/{cell}/files/{path}", Kind::Names, |it| {
        Sent::get(&format!("/v1/cells/{}/files/file", it.cell))
    }),
    ("put", "/v1/cells/{cell}/files/{path}", Kind::Names, |it| {
        Sent::put(&format!("/v1/cells/{}/files/new", it.cell), "x")
    }),
    ("get", "/v1/cells/{cell}/stat", Kind::Names, |it| {
        Sent::get(&format!("/v1/cells/{}/stat?path=file", it.cell))
    }),
    ("post", "/v1/cells/{cell}/edit", Kind::Names, |it| {
        let edit = json!({ "path": "file", "edits": [{ "old": "secret", "new": "x" }] });
        Sent::post(&format!("/v1/cells/{}/edit", it.cell), &edit)
    }),
    ("post", "/v1/cells/{cell}/search", Kind::Names, |it| {
        Sent::post(&format!("/v1/cells/{}/search", it.cell), &json!({ "pattern": "of" }))
    }),
    ("post", "/v1/cells/{cell}/batch", Kind::Names, |it| {
        let batch = json!({ "operations": [{ "op": "read", "path": "file" }] });
        Sent::post(&format!("/v1/cells/{}/batch", it.cell), &batch)
    }),
    ("get", "/v1/cells/{cell}/archive", Kind::Names, |it| {
        Sent::get(&format!("/v1/cells/{}/archive?path=.", it.cell))
    }),
    ("put", "/v1/cells/{cell}/archive", Kind::Names, |it| {
        Sent::put(&format!("/v1/cells/{}/archive?path=in", it.cell), vec![0_u8; 1024])
    }),
    ("get", "/v1/cells/{cell}/checkpoints", Kind::Names, |it| {
        Sent::get(&format!("/v1/cells/{}/checkpoints", it.cell))
    }),
    ("post", "/v1/cells/{cell}/checkpoints", Kind::Names, |it| {
        Sent::post(&format!("/v1/cells/{}/checkpoints", it.cell), &json!({}))
    }),
    ("get", "/v1/cells/{cell}/checkpoints/{checkpoint}/diff", Kind::Names, |it| {
        Sent::get(&format!("/v1/cells/{}/checkpoints/{}/diff", it.cell, it.checkpoint))
    }),
    ("post", "/v1/cells/{cell}/forks", Kind::Names, |it| {
        Sent::post(&format!("/v1/cells/{}/forks", it.cell), &json!({}))
    }),
    ("delete", "/v1/cells/{cell}/files/{path}", Kind::Names, |it| {
        Sent::delete(&format!("/v1/cells/{}/files/new", it.cell))
    }),
    ("post", "/v1/execs/{exec}/cancel", Kind::Tells, |it| {
        Sent::post(&format!("/v1/execs/{}/cancel", it.exec), &json!({}))
    }),
    ("get", "/v1/execs/{exec}/stream", Kind::Names, |it| {
        Sent::get(&format!("/v1/execs/{}/stream", it.exec))
    }),
    ("post", "/v1/cells/{cell}/checkpoints/{checkpoint}/restore", Kind::Names, |it| {
        let path = format!("/v1/cells/{}/checkpoints/{}/restore", it.cell, it.checkpoint);
        Sent::post(&path, &json!({ "force": true }))
    }),
    ("delete", "/v1/cells/{cell}/checkpoints/{checkpoint}", Kind::Names, |it| {
        Sent::delete(&format!("/v1/cells/{}/checkpoints/{}", it.cell, it.checkpoint))
    }),
    ("get", "/v1/volumes", Kind::NamesNothing, |_| Sent::get("/v1/volumes")),
    ("post", "/v1/reconcile", Kind::ForOperators, |_| Sent::post("/v1/reconcile", &json!({}))),
    ("post", "/v1/garbage", Kind::ForOperators, |_| Sent::post("/v1/garbage", &json!({}))),
    ("get", "/v1/approvals", Kind::ForOperators, |_| Sent::get("/v1/approvals")),
    ("get", "/v1/approvals/{approval}", Kind::ForOperators, |it| {
        Sent::get(&format!("/v1/approvals/{}", it.exec))
    }),
    ("post", "/v1/approvals/{approval}", Kind::ForOperators, |it| {
        let grant = json!({ "grant": "approve" });
        Sent::post(&format!("/v1/approvals/{}", it.exec), &grant)
    }),
    ("get", "/v1/audit", Kind::ForOperators, |_| Sent::get("/v1/audit")),
    ("get", "/v1/audit/summary", Kind::ForOperators, |_| Sent::get("/v1/audit/summary")),
    ("delete", "/v1/cells/{cell}", Kind::Names, |it| {
        Sent::delete(&format!("/v1/cells/{}?force=true", it.cell))
    }),
    ("post", "/v1/volumes/{cell}/restore", Kind::Names, |it| {
        Sent::post(&format!("/v1/volumes/{}/restore", it.cell), &json!({}))
    }),
    // Once more, for what is kept of it to be removed.
    ("delete", "/v1/cells/{cell}", Kind::Names, |it| {
        Sent::delete(&format!("/v1/cells/{}?force=true", it.cell))
    }),
    ("delete", "/v1/volumes/{cell}", Kind::Names, |it| {
        Sent::delete(&format!("/v1/volumes/{}", it.cell))
    }),
];

fn no_route_reaches_another_tenants_things(world: &World) {
    let (a, b) = (Party::of(world, "a"), Party::of(world, "b"));
    let theirs = furnish(&a);
    let described = b.json(&Sent::get("/v1/openapi.json"));
    let mut routes = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            routes.insert((method.clone(), path.clone()));
        }
    }
    let cases: BTreeSet<(String, String)> =
        ROUTES.iter().map(|(method, path, ..)| ((*method).into(), (*path).into())).collect();
    assert_eq!(routes, cases, "say in ROUTES what the new route names");

    let before = state(&a, &theirs);
    for cell in [theirs.cell.clone(), "work".to_owned()] {
        let theirs = Named { cell, ..theirs.clone() };
        let never = theirs.never();
        for (method, path, kind, request) in ROUTES {
            let (status, said) = b.ask(&request(&theirs));
            match kind {
                Kind::Names => assert_eq!(status, 404, "{method} {path}: {said}"),
                Kind::ForOperators => assert_eq!(status, 403, "{method} {path}: {said}"),
                Kind::Tells => assert!(said.contains("not_found"), "{method} {path}: {said}"),
                Kind::NamesNothing => {
                    assert!(!said.contains(&theirs.exec), "{method} {path}: {said}");
                    let id = before["cell"]["id"].as_str().unwrap();
                    assert!(!said.contains(id), "{method} {path}: {said}");
                    continue;
                }
            }
            let expected = b.ask(&request(&never));
            let expected = (expected.0, theirs.instead_of(&never, &expected.1));
            assert_eq!((status, said), expected, "{method} {path}");
        }
    }
    assert_eq!(state(&a, &theirs), before, "nothing of theirs has changed");
    // A page that ended at another tenant's exec goes on as one that ended at none.
    let cursor = |exec: &str| format!("/v1/execs?cursor=9999999999999.{exec}");
    let never = theirs.never();
    let paged = b.ask(&Sent::get(&cursor(&theirs.exec)));
    assert_eq!(paged, b.ask(&Sent::get(&cursor(&never.exec))));
    for (method, path, kind, request) in ROUTES {
        if *kind == Kind::ForOperators {
            continue;
        }
        let (status, said) = a.ask(&request(&theirs));
        assert!((200..300).contains(&status), "{method} {path}: {status} {said}");
    }
    for party in [a, b] {
        assert_eq!(party.server.terminate().code(), 0);
    }
}

fn resources_tasks_and_ports_are_each_tenants_own(world: &World) {
    let (a, b) = (Party::of(world, "a"), Party::of(world, "b"));
    let theirs = furnish(&a);
    let serve = json!({
        "cell": theirs.cell, "wait_s": 0,
        "command": "cd /tmp; echo secret-of-a > index.html; exec python3 -m http.server 8080",
    });
    a.json(&Sent::post("/v1/execs", &serve));
    let never = theirs.never();
    type Ask = fn(&Named) -> Sent;
    let calls: &[(&str, Ask)] = &[
        ("resource of an exec", |it| {
            let uri = format!("exec://{}/stdout", it.exec);
            Sent::modern(1, "resources/read", Some(&uri), json!({ "uri": uri }))
        }),
        ("resource of a file", |it| {
            let uri = format!("workspace:{}/file", it.cell);
            Sent::modern(1, "resources/read", Some(&uri), json!({ "uri": uri }))
        }),
        ("task", |it| {
            let task = json!({ "taskId": it.exec });
            Sent::modern(1, "tasks/get", Some(&it.exec), task)
        }),
        ("port by path", |it| Sent::get(&format!("/cells/{}/ports/8080/", it.cell))),
        ("port by name", |it| Sent::get("/").with("host", &format!("8080.{}.localhost", it.cell))),
    ];
    for (what, ask) in calls {
        eventually(what, || {
            let (status, said) = a.ask(&ask(&theirs));
            status == 200 && !said.contains("\"error\"")
        });
        let (status, said) = b.ask(&ask(&theirs));
        let expected = b.ask(&ask(&never));
        assert_eq!((status, said.clone()), (expected.0, theirs.instead_of(&never, &expected.1)));
        assert!(said.contains("not_found") || said.contains("there is no"), "{what}: {said}");
        assert!(!said.contains("secret-of-a"), "{what}: {said}");
    }
    // Ending a task of theirs ends nothing.
    let cancel =
        Sent::modern(1, "tasks/cancel", Some(&theirs.exec), json!({ "taskId": theirs.exec }));
    assert!(b.ask(&cancel).1.contains("there is no task"));
    let exec = a.json(&Sent::get(&format!("/v1/execs/{}", theirs.exec)));
    assert_eq!(exec["state"], "running");
    let listed = b.ask(&Sent::modern(1, "resources/list", None, json!({}))).1;
    assert!(!listed.contains(&theirs.exec) && !listed.contains(&theirs.cell), "{listed}");
    for party in [a, b] {
        assert_eq!(party.server.terminate().code(), 0);
    }
}

fn two_servers_on_standard_input_share_nothing(world: &World) {
    let start = |tenant: &str| {
        McpClient::start_with(world.hotcell(["serve", "--tenant", tenant]), Era::Legacy)
    };
    let (mut a, mut b) = (start("a"), start("b"));
    let ran = |client: &mut McpClient, text: &str| {
        let run = json!({ "command": format!("cat was 2>/dev/null; echo {text} > was") });
        client.call("exec_run", run)
    };
    let first = ran(&mut a, "of-a");
    // The default cell of the same directory is another one for another tenant.
    assert_eq!(ran(&mut b, "of-b")["stdout"], "");
    assert_eq!(ran(&mut a, "again")["stdout"], "of-a\n");
    let uri = format!("workspace:{}", first["cell"].as_str().unwrap());
    let subscribed = b.request("resources/subscribe", json!({ "uri": uri }));
    assert!(subscribed["error"]["message"].as_str().unwrap().contains("no resource"));
    assert!(a.request("resources/subscribe", json!({ "uri": uri }))["error"].is_null());
    let completed = b.request(
        "completion/complete",
        json!({
            "ref": { "type": "ref/resource", "uri": "exec://{exec_id}/{stream}" },
            "argument": { "name": "exec_id", "value": "" },
        }),
    );
    let exec = first["exec_id"].as_str().unwrap();
    assert!(!completed.to_string().contains(exec), "{completed}");
    for client in [a, b] {
        client.leave().0.succeeded();
    }
}

fn secrets_are_each_tenants_own(world: &World) {
    let set = |tenant: &str, value: &str| {
        let set = world.hotcell(["--tenant", tenant, "secret", "set", "key"]);
        set.input(value.to_owned()).run().succeeded();
    };
    set("a", "value-of-tenant-a");
    let listed = world.text(["--tenant", "b", "secret", "list"]);
    assert!(!listed.contains("key"), "{listed}");
    let show = "test \"$KEY\" = value-of-tenant-a && echo it is";
    let run =
        |tenant: &str| world.hotcell(["--tenant", tenant, "run", "--secret", "key", show]).run();
    assert_eq!(run("a").succeeded().stdout(), "it is\n");
    let refused = run("b");
    assert_eq!(refused.code(), 125);
    assert!(refused.stderr().contains("there is no secret key"), "{}", refused.stderr());
    set("b", "value-of-tenant-b");
    assert_ne!(run("b").code(), 0);
    assert_eq!(run("a").succeeded().stdout(), "it is\n");
}

fn the_owner_of_the_state_directory_sees_every_tenant(world: &World) {
    for tenant in ["a", "b"] {
        world.hotcell(["--tenant", tenant, "spawn", "work"]).run().succeeded();
        world
            .hotcell(["run", "--cell", "work", "true"])
            .env("HOTCELL_TENANT", tenant)
            .run()
            .succeeded();
    }
    assert!(!world.text(["cells"]).contains("work"));
    assert!(!world.text(["ps", "--all"]).contains("true"));
    let all = world.text(["cells", "--all-tenants"]);
    for tenant in ["a", "b"] {
        let row = all.lines().find(|line| line.split_whitespace().nth(1) == Some(tenant));
        assert!(row.is_some_and(|row| row.contains("work")), "{all}");
    }
    let all = world.text(["ps", "--all", "--all-tenants"]);
    assert_eq!(all.lines().filter(|line| line.contains("true")).count(), 2, "{all}");
    assert!(all.lines().any(|line| line.split_whitespace().nth(1) == Some("b")), "{all}");
    let refused = world.hotcell(["--tenant", "No One", "cells"]).run();
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr().contains("--tenant"), "{}", refused.stderr());
}

fn metrics_tell_of_ones_own_tenant(world: &World) {
    let (a, b) = (Party::of(world, "a"), Party::of(world, "b"));
    furnish(&a);
    let code = json!({ "cell": "work", "code": "1 + 1" });
    let ran = a.server.ask(&Sent::tool("code_run", code)).tool_result();
    assert_eq!(ran["result"], 2, "{ran}");
    let of_a = a.ask(&Sent::get("/metrics")).1;
    assert!(of_a.contains("\nhotcell_code_runs_total{end=\"ok\"} 1\n"), "{of_a}");
    assert!(of_a.contains("\nhotcell_code_tokens{place=\"kept_out\"} 0\n"), "{of_a}");
    assert!(of_a.contains("\nhotcell_execs_running 1\n"), "{of_a}");
    assert!(of_a.contains("state=\"ready\"} 1\n"), "{of_a}");
    let of_b = b.ask(&Sent::get("/metrics")).1;
    assert!(of_b.contains("\nhotcell_execs_running 0\n"), "{of_b}");
    assert!(!of_b.contains("state=\"ready\""), "{of_b}");
    assert!(!of_b.contains("hotcell_code_runs_total{"), "{of_b}");
    // The owner of the state directory sees both, and each by its name.
    for (tenant, runs) in [("a", 1), ("b", 0)] {
        assert_eq!(world.json(["stats", "--json", "--tenant", tenant])["runs"], runs);
    }
}

/// A server with a configuration.
fn configured(world: &World, tenant: &str, config: &str) -> Party {
    let path = world.home().join(format!("{tenant}.toml"));
    std::fs::write(&path, config).unwrap();
    world.own(&path);
    let config = path.to_str().unwrap();
    Party { server: HttpServer::start_with(world, &["--config", config, "--tenant", tenant], &[]) }
}

fn a_quota_that_is_hit_is_told_with_its_figures(world: &World) {
    let a = configured(world, "a", "[tenants.a]\ncells = 1\nexecs = 1\n");
    let spawn = Sent::post("/v1/cells", &json!({ "persistent": true, "alias": "one" }));
    a.server.ask(&spawn).is(201);
    let refused = a.server.ask(&Sent::post("/v1/cells", &json!({}))).is(429);
    assert_eq!(refused.header("retry-after"), Some("5"));
    let error = refused.json();
    let quota = json!({ "key": "tenants.a.cells", "limit": 1, "current": 1 });
    assert_eq!((&error["code"], &error["quota"]), (&json!("limit_exceeded"), &quota));
    let run = json!({ "cell": "one", "command": "sleep 600", "wait_s": 0 });
    a.server.ask(&Sent::post("/v1/execs", &run)).is(201);
    let result = a.json(&Sent::tool("exec_run", run.clone()))["result"].clone();
    let error = &result["_meta"]["hotcell/error"];
    assert_eq!(error["quota"]["key"], "tenants.a.execs", "{result}");
    assert!(error["retry_after_s"].is_u64(), "{result}");
    // Another process on the same state directory is held to it as well, another tenant is not.
    let config = world.home().join("a.toml");
    let config = config.to_str().unwrap();
    let other = |tenant: &str| {
        world.hotcell(["--config", config, "--tenant", tenant, "run", "true"]).run().code()
    };
    assert_eq!((other("a"), other("b")), (125, 0));
    a.server.terminate();
}

fn calls_a_second_are_bounded(world: &World) {
    let a = configured(world, "a", "[tenants.default]\ncalls_per_s = 1\ncalls_burst = 5\n");
    let answers: Vec<_> = (0..20).map(|_| a.server.ask(&Sent::get("/v1/cells"))).collect();
    let good = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((5..15).contains(&good), "{good} of 20 were answered");
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json()["quota"]["key"], "tenants.default.calls_per_s");
    // What is no call is answered.
    a.server.ask(&Sent::get("/health")).is(200);
    a.server.terminate();
}

fn what_a_tenant_has_on_disk_is_bounded(world: &World) {
    let a = configured(world, "a", "[tenants.a]\ndisk_mb = 32\n");
    a.server.ask(&Sent::post("/v1/cells", &json!({ "persistent": true, "alias": "full" }))).is(201);
    let run = |command: &str| {
        a.server.ask(&Sent::post("/v1/execs", &json!({ "cell": "full", "command": command })))
    };
    run("head -c 40M /dev/zero > big").is(201);
    // It may be measured before all of it is written.
    let current = || {
        let answer = run("true");
        if answer.status == 429 { answer.json()["quota"]["current"].as_u64() } else { None }
    };
    eventually("all of it is measured", || current().is_some_and(|current| current >= 40));
    let refused = a.server.ask(&Sent::post("/v1/cells", &json!({}))).is(429).json();
    assert_eq!(refused["quota"]["key"], "tenants.a.disk_mb");
    a.server.ask(&Sent::put("/v1/cells/full/files/more", "x")).is(429);
    // Tidying up is not kept from anybody.
    let killed = a.server.ask(&Sent::delete("/v1/cells/full?force=true")).is(200).json();
    // What is kept counts, until it is removed.
    a.server.ask(&Sent::post("/v1/cells", &json!({}))).is(429);
    let volume = killed["volume"]["cell"].as_str().unwrap();
    a.server.ask(&Sent::delete(&format!("/v1/volumes/{volume}"))).is(200);
    a.server.ask(&Sent::post("/v1/cells", &json!({}))).is(201);
    a.server.terminate();
}

fn what_the_cells_of_a_tenant_carry_is_bounded_together(world: &World) {
    let outside = Outside::start(&["good.test"]);
    let config = world.home().join("egress.toml");
    std::fs::write(&config, "[tenants.a]\negress_mb_per_day = 3\n").unwrap();
    world.own(&config);
    let rule = outside.rule("good.test");
    let hotcell = |tenant: &str| {
        let global = ["--config", config.to_str().unwrap(), "--tenant", tenant];
        outside.hotcell(world, global)
    };
    let spawn = |tenant: &str, cell: &str| {
        hotcell(tenant).args(["spawn", cell, "--persistent", "--allow", &rule]).run()
    };
    for (tenant, cell) in [("a", "one"), ("a", "two"), ("b", "one")] {
        spawn(tenant, cell).succeeded();
    }
    let fetch = |tenant: &str, cell: &str, bytes: u32| {
        let script = format!("print(len(ask('good.test', {}, 'send {bytes}')))", outside.port);
        hotcell(tenant).args(["run", "--cell", cell, &python(&script)]).run()
    };
    // Below the bound both are served.
    for cell in ["one", "two"] {
        assert_eq!(fetch("a", cell, 1_000_000).succeeded().stdout(), "1000000\n");
    }
    fetch("a", "one", 2_000_000).succeeded();
    // Neither has carried as much by itself. One that is cut in the middle is not yet refused.
    let is_refused = |cell: &str| {
        let log = hotcell("a").args(["net", "log", cell]).run().succeeded().stdout();
        log.contains("all the bytes that may be carried today are used up")
    };
    for cell in ["two", "one"] {
        eventually("no more is carried", || fetch("a", cell, 1).code() != 0 && is_refused(cell));
    }
    let refused = spawn("a", "three");
    assert_eq!(refused.code(), 6);
    assert!(refused.stderr().contains("tenants.a.egress_mb_per_day"), "{}", refused.stderr());
    assert_eq!(fetch("b", "one", 4_000_000).succeeded().stdout(), "4000000\n");
}

fn what_all_cells_carry_is_bounded_together(world: &World) {
    let outside = Outside::start(&["good.test"]);
    let rule = outside.rule("good.test");
    let hotcell = |tenant: &str| {
        let command = outside.hotcell(world, ["--tenant", tenant]);
        command.env("HOTCELL_ADMISSION_EGRESS_MB_PER_DAY", "3")
    };
    let spawn = |tenant: &str, cell: &str| {
        hotcell(tenant).args(["spawn", cell, "--persistent", "--allow", &rule]).run()
    };
    let fetch = |tenant: &str, bytes: u32| {
        let script = format!("print(len(ask('good.test', {}, 'send {bytes}')))", outside.port);
        hotcell(tenant).args(["run", "--cell", "one", &python(&script)]).run()
    };
    // Below the bound both are served, and neither reaches it alone.
    for tenant in ["a", "b"] {
        spawn(tenant, "one").succeeded();
        assert_eq!(fetch(tenant, 1_200_000).succeeded().stdout(), "1200000\n");
    }
    fetch("a", 1_200_000).succeeded();
    for tenant in ["a", "b"] {
        eventually("no more is carried", || {
            let is_cut = fetch(tenant, 1).code() != 0;
            let log = hotcell(tenant).args(["net", "log", "one"]).run().succeeded().stdout();
            is_cut && log.contains("all the bytes that may be carried today are used up")
        });
    }
    // What a tenant is told is its own part.
    for (tenant, part) in
        [("a", "2 of them were"), ("b", "1 of them were"), ("c", "0 of them were")]
    {
        let refused = spawn(tenant, "two");
        assert_eq!(refused.code(), 6);
        let said = refused.stderr();
        assert!(said.contains("admission.egress_mb_per_day") && said.contains(part), "{said}");
    }
    hotcell("a").args(["spawn", "two", "--persistent"]).run().succeeded();
}

fn those_who_wait_share_the_queue_of_all(world: &World) {
    let serve = |tenant: &str| {
        let serve = world.hotcell(["--tenant", tenant, "serve", "--cell", "queued"]);
        let bounds = [
            ("HOTCELL_ADMISSION_EXECS", "1"),
            ("HOTCELL_ADMISSION_QUEUE", "2"),
            ("HOTCELL_ADMISSION_WAIT_S", "600"),
        ];
        McpClient::start_with(
            bounds.into_iter().fold(serve, |it, (name, value)| it.env(name, value)),
            Era::Legacy,
        )
    };
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(serve);
    let echo = json!({ "command": "echo in", "wait_s": 20 });
    let runs = a.call("exec_run", json!({ "command": "sleep 1000", "wait_s": 0 }));
    let waiting = |tenant: &str| {
        let line = world.state_dir().join("waiting").join(tenant);
        std::fs::read_dir(line).is_ok_and(|mut line| line.next().is_some())
    };
    let of_a = a.ask_tool("exec_run", echo.clone());
    eventually("one of a waits", || waiting("a"));
    let refused = |client: &mut McpClient, own: u64| {
        let id = client.ask_tool("exec_run", echo.clone());
        let answer = client.answer(id);
        let error = &answer["result"]["_meta"]["hotcell/error"];
        let quota = json!({ "key": "admission.queue", "limit": 2, "current": own });
        assert_eq!(
            (&error["code"], &error["quota"]),
            (&json!("limit_exceeded"), &quota),
            "{answer}"
        );
        assert!(error["retry_after_s"].is_u64(), "{answer}");
    };
    // One place is left, and it is not for whoever has one.
    refused(&mut a, 1);
    let of_b = b.ask_tool("exec_run", echo.clone());
    eventually("one of b waits", || waiting("b"));
    refused(&mut c, 0);
    a.call("exec_cancel", json!({ "exec_id": runs["exec_id"] }));
    for (client, id) in [(&mut a, of_a), (&mut b, of_b)] {
        let answer = client.answer(id);
        assert_eq!(answer["result"]["structuredContent"]["stdout"], "in\n", "{answer}");
    }
    assert_eq!(c.call("exec_run", echo)["stdout"], "in\n");
}
