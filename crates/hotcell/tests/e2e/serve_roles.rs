//! One server, callers of two tenants in three roles: each does what its role is for, with what is
//! its tenant's.

use serde_json::{Value, json};

use crate::world::{HttpAnswer, HttpServer, Sent, World, eventually};

in_worlds! {
    [root]
    each_role_does_what_it_is_for_in_its_own_tenant,
    nothing_that_is_sent_makes_a_caller_more_than_its_token,
    bounds_for_all_tenants_hold_and_tell_nothing_of_others,
    what_is_refused_takes_no_memory,
}

const CAREFUL: (&str, &str) = ("HOTCELL_POLICY_PROFILE", "careful");
const REQUIRED: (&str, &str) = ("HOTCELL_HTTP_AUTH", "required");
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

/// Somebody with a token.
struct Party<'a> {
    server: &'a HttpServer,
    token: String,
}

impl<'a> Party<'a> {
    fn new(world: &World, server: &'a HttpServer, tenant: &str, role: &str) -> Self {
        let name = format!("{tenant}-{role}");
        let create = ["token", "create", "--name", &name, "--tenant", tenant, "--role", role];
        let token = world.hotcell(create).run().succeeded().stdout().trim().to_owned();
        Self { server, token }
    }

    fn ask(&self, sent: Sent) -> HttpAnswer {
        self.server.ask(&sent.with("authorization", &format!("Bearer {}", self.token)))
    }

    fn get(&self, path: &str) -> HttpAnswer {
        self.ask(Sent::get(path))
    }

    #[track_caller]
    fn run(&self, run: &Value) -> Value {
        self.ask(Sent::post("/v1/execs", run)).is(201).json()["exec"].clone()
    }
}

fn each_role_does_what_it_is_for_in_its_own_tenant(world: &World) {
    let server = HttpServer::start_with(world, &[], &[CAREFUL, REQUIRED]);
    let party = |tenant: &str, role: &str| Party::new(world, &server, tenant, role);
    let [agent, operator, auditor] = ["agent", "operator", "auditor"].map(|it| party("a", it));
    let [other_agent, other_operator, other_auditor] =
        ["agent", "operator", "auditor"].map(|it| party("b", it));
    let cell = json!({ "persistent": true, "alias": "work" });
    let cell = agent.ask(Sent::post("/v1/cells", &cell)).is(201).json()["id"].clone();
    let cell = cell.as_str().unwrap();

    // Output as it was is for operators, and of their own tenant.
    let told = agent.run(&json!({
        "cell": cell, "command": format!("echo {SECRET} | tee file"), "wait_s": 20,
    }));
    let exec = told["id"].as_str().unwrap();
    let output = format!("/v1/execs/{exec}/output");
    let (masked, raw) = (agent.get(&output).is(200).body, format!("{output}?raw=true"));
    assert!(!masked.contains(SECRET) && masked.contains("[REDACTED:"), "{masked}");
    assert!(!operator.get(&output).is(200).body.contains(SECRET));
    assert!(operator.get(&raw).is(200).body.contains(SECRET));
    agent.get(&raw).is(403);
    auditor.get(&raw).is(403);
    other_agent.get(&raw).is(403);
    other_operator.get(&raw).is(404);
    agent.get(&format!("/v1/execs/{exec}/stream?raw=true")).is(403);
    let put = format!("/v1/cells/{cell}/files/file?raw=true");
    agent.ask(Sent::put(&put, "[REDACTED:github]")).is(403);
    other_operator.ask(Sent::put(&put, "x")).is(404);

    // What asks for approval is answered by an operator of the tenant and by nobody else.
    let asks = |command: &str| {
        let exec = agent.run(&json!({ "cell": cell, "command": command, "wait_s": 0 }));
        assert_eq!(exec["state"], "queued", "{exec}");
        exec["id"].as_str().unwrap().to_owned()
    };
    let (wanted, unwanted) = (asks("rm file"), asks("rm other"));
    let listed = operator.get("/v1/approvals").is(200).body;
    assert!(listed.contains(&wanted) && listed.contains(&unwanted), "{listed}");
    let theirs = other_operator.get("/v1/approvals").is(200).body;
    assert!(!theirs.contains(&wanted), "{theirs}");
    let answer = |party: &Party<'_>, exec: &str, grant: &str| {
        party.ask(Sent::post(&format!("/v1/approvals/{exec}"), &json!({ "grant": grant })))
    };
    for party in [&agent, &auditor, &other_agent, &other_auditor] {
        party.get("/v1/approvals").is(403);
        answer(party, &wanted, "approve").is(403);
    }
    let theirs = answer(&other_operator, &wanted, "approve").is(404).body;
    let never = answer(&other_operator, "e_0123456789", "approve").is(404).body;
    assert_eq!(theirs.replace(&wanted, "e_0123456789"), never);
    answer(&operator, &wanted, "approve").done();
    answer(&operator, &unwanted, "refuse").done();
    let ended = |exec: &str| {
        let path = format!("/v1/execs/{exec}");
        eventually("it has ended", || agent.get(&path).is(200).json()["state"] == "ended");
        agent.get(&path).json()["end"]["cause"].clone()
    };
    assert_eq!((ended(&wanted), ended(&unwanted)), (json!("exited"), json!("denied")));

    // The ledger is for operators and auditors, and each sees its own tenant.
    let _ = other_agent.run(&json!({ "command": "true", "wait_s": 20 }));
    for (party, own, other) in [
        (&operator, "token:a-agent", "token:b-agent"),
        (&auditor, "token:a-agent", "token:b-agent"),
        (&other_operator, "token:b-agent", "token:a-agent"),
        (&other_auditor, "token:b-agent", "token:a-agent"),
    ] {
        let told = party.get("/v1/audit?limit=1000").is(200).body;
        assert!(told.contains(own) && !told.contains(other), "{own}: {told}");
        party.get("/v1/audit/summary").is(200);
    }
    let theirs = other_auditor.get(&format!("/v1/audit?exec={exec}")).body;
    assert!(!theirs.contains("token:a-agent"), "{theirs}");
    for party in [&agent, &other_agent] {
        party.get("/v1/audit").is(403);
        party.get("/v1/audit/summary").is(403);
    }
    // An auditor looks at what was done, and at nothing else.
    for path in [format!("/v1/cells/{cell}"), output, format!("/v1/cells/{cell}/files/file")] {
        auditor.get(&path).is(403);
        other_auditor.get(&path).is(403);
    }
    auditor.ask(Sent::tool("cell_list", json!({}))).is(403);
    for path in [format!("/v1/cells/{cell}"), format!("/v1/execs/{exec}")] {
        other_agent.get(&path).is(404);
        other_operator.get(&path).is(404);
        agent.get(&path).is(200);
        operator.get(&path).is(200);
    }
    assert_eq!(server.terminate().code(), 0);
}

fn nothing_that_is_sent_makes_a_caller_more_than_its_token(world: &World) {
    let server = HttpServer::start_with(world, &[], &[REQUIRED]);
    let agent = Party::new(world, &server, "a", "agent");
    let other = Party::new(world, &server, "b", "agent");
    let cell = other.ask(Sent::post("/v1/cells", &json!({}))).is(201).json()["id"].clone();
    let cell = cell.as_str().unwrap();
    let bold = |sent: Sent| {
        let named = ["tenant", "role", "principal", "reach", "sight", "scope", "user", "uid"];
        let values = ["b", "operator", "token:b-agent", "all", "raw", "admin", "local:0", "0"];
        named.iter().zip(values).fold(sent, |sent, (name, value)| {
            sent.with(&format!("x-hotcell-{name}"), value)
                .with(&format!("x-forwarded-{name}"), value)
                .with(&format!("hotcell-{name}"), value)
        })
    };
    agent.ask(bold(Sent::get(&format!("/v1/cells/{cell}")))).is(404);
    agent.ask(bold(Sent::get("/v1/audit"))).is(403);
    for name in ["tenant", "tenants", "role", "reach", "sight", "caller", "all_tenants"] {
        // Unknown arguments are refused by name, in a query, a body and a tool.
        let query = agent.ask(Sent::get(&format!("/v1/cells?{name}=b")));
        assert_eq!(query.status, 400, "{name}: {query:?}");
        let body = agent.ask(Sent::post("/v1/cells", &json!({ name: "b" })));
        assert_eq!(body.status, 400, "{name}: {body:?}");
        let tool = agent.ask(Sent::tool("cell_list", json!({ name: "b" }))).json();
        assert!(tool.to_string().contains(name), "{tool}");
        assert!(!tool.to_string().contains(cell), "{tool}");
        let meta = json!({ name: "b", format!("hotcell/{name}"): "b" });
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "cell_info", "arguments": { "cell": cell }, "_meta": meta },
        });
        let session = server.open_session_with(&agent.token);
        let told = agent.ask(Sent::message(&call).with("mcp-session-id", &session)).json();
        assert_eq!(told["result"]["isError"], true, "{told}");
        assert!(told.to_string().contains("not_found"), "{told}");
    }
    // What runs in a cell cannot call as anybody: neither server nor state are there.
    let run = json!({
        "command": "env | grep -c HOTCELL_; command -v hotcell; ls -d \"$HOTCELL_STATE_DIR\" /run/hotcell; \
                    python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", PORT))'"
            .replace("PORT", &server.address.port().to_string()),
        "wait_s": 20,
        "env": { "HOTCELL_TENANT": "b", "HOTCELL_STATE_DIR": world.state_dir() },
    });
    let ran = agent.ask(Sent::tool("exec_run", run)).is(200).tool_result();
    assert_ne!(ran["exit_code"], 0, "{ran}");
    assert_eq!(ran["stdout"].as_str().unwrap().trim(), "2", "{ran}");
    assert_eq!(server.terminate().code(), 0);
}

fn bounds_for_all_tenants_hold_and_tell_nothing_of_others(world: &World) {
    let bounds =
        [REQUIRED, ("HOTCELL_ADMISSION_EXECS", "3"), ("HOTCELL_ADMISSION_CALLS_PER_S", "1000")];
    let server = HttpServer::start_with(world, &[], &bounds);
    let (a, b) =
        (Party::new(world, &server, "a", "agent"), Party::new(world, &server, "b", "agent"));
    let sleep = json!({ "command": "sleep 1000", "wait_s": 0 });
    let first = a.run(&sleep);
    a.run(&sleep);
    // One that another process began counts as well.
    let begun = world.hotcell(["--tenant", "c", "run", "-d", "sleep 1000"]).run().succeeded();
    let refused = b.ask(Sent::post("/v1/execs", &sleep)).is(429);
    assert!(refused.header("retry-after").is_some());
    let told = refused.json();
    assert_eq!(told["quota"], json!({ "key": "admission.execs", "limit": 3, "current": 0 }));
    for theirs in [first["id"].as_str().unwrap(), begun.stdout().trim()] {
        assert!(!refused.body.contains(theirs), "{}", refused.body);
    }
    let own = a.ask(Sent::post("/v1/execs", &sleep)).is(429).json();
    assert_eq!(own["quota"]["current"], 2, "{own}");
    // And the command line is held to what the server began.
    let here = world.hotcell(["run", "true"]).env("HOTCELL_ADMISSION_EXECS", "3").run();
    assert!(here.exited(125).stderr().contains("admission.execs"));
    a.ask(Sent::post(&format!("/v1/execs/{}/cancel", first["id"].as_str().unwrap()), &json!({})))
        .done();
    eventually("there is room", || b.ask(Sent::post("/v1/execs", &sleep)).status == 201);
    assert_eq!(server.terminate().code(), 0);
    let bounds = [REQUIRED, ("HOTCELL_ADMISSION_CALLS_PER_S", "4")];
    let server = HttpServer::start_with(world, &[], &bounds);
    let party = |tenant: &str| Party { server: &server, token: renewed(world, tenant) };
    let (a, b) = (party("a"), party("b"));
    let answers: Vec<_> = (0..30).map(|_| a.get("/v1/cells")).collect();
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json()["quota"]["key"], "admission.calls_per_s");
    // Whoever comes next has a part.
    b.get("/v1/cells").is(200);
    assert_eq!(server.terminate().code(), 0);
}

fn renewed(world: &World, tenant: &str) -> String {
    let create = ["token", "create", "--tenant", tenant];
    world.hotcell(create).run().succeeded().stdout().trim().to_owned()
}

fn what_is_refused_takes_no_memory(world: &World) {
    let server = HttpServer::start_with(world, &[], &[REQUIRED, CAREFUL]);
    let token = renewed(world, "main");
    let bearing = |sent: Sent, token: &str| sent.with("authorization", &format!("Bearer {token}"));
    let big = "x".repeat(1 << 20);
    let denied = json!({ "command": "true", "no_such": big });
    let kinds = [
        ("a wrong token", 401, bearing(Sent::post("/v1/execs", &denied), "junk")),
        ("no JSON", 400, bearing(Sent::post_bytes("/v1/execs", big.clone()), &token)),
        ("no JSON-RPC", 400, bearing(Sent::post_bytes("/mcp", big.clone()), &token)),
        ("an unknown argument", 400, bearing(Sent::post("/v1/execs", &denied), &token)),
    ];
    let figure = |name: &str| {
        let status = format!("/proc/{}/status", server.live.pid());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    for (what, status, sent) in kinds {
        let mut after = Vec::new();
        for _ in 0..6 {
            let sends: Vec<_> = (0..100).map(|_| server.send(&sent)).collect();
            for mut asked in sends {
                // Whoever is refused at the door may be cut off while it still sends.
                if let Some(answer) = asked.answer() {
                    assert_eq!(answer.status, status, "{what}");
                }
            }
            after.push(figure("VmRSS:"));
        }
        // If each hundred left its bodies behind, the later rounds would have 300 MiB more. Some
        // requests may still be on their way out when it is measured.
        let [early, late] = [&after[..3], &after[3..]].map(|some| some.iter().min().copied());
        assert!(late < early.map(|least| least + 96), "{what}: {after:?} MiB after each hundred");
    }
    assert!(figure("VmHWM:") < 256, "{} MiB", figure("VmHWM:"));
    assert_eq!(server.terminate().code(), 0);
}
