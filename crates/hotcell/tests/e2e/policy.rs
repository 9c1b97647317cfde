//! What agents may do: rules that are enforced, explained, read again, and asked about.

use std::fs;

use serde_json::{Value, json};

use crate::world::{Era, HttpServer, McpClient, Sent, World};

in_worlds! { [root, rootless]
    a_command_that_is_asked_about_waits_for_a_person,
    an_approval_outlives_the_server_that_asked_for_it,
    a_checkpoint_is_made_before_what_destroys,
}

in_worlds! { [root]
    what_is_refused_or_not_answered_never_starts,
    rules_are_for_agents_and_are_explained_to_everybody,
    rules_are_read_again_and_broken_ones_are_not,
    variables_and_input_of_a_run_are_judged,
    rules_lie_where_no_cell_can_write,
    agents_approve_nothing,
    the_person_at_the_client_is_asked,
    the_person_at_an_older_client_is_asked,
    a_client_that_declines_by_itself_leaves_the_question_open,
}

const CAREFUL: (&str, &str) = ("HOTCELL_POLICY_PROFILE", "careful");

fn careful(world: &World) -> McpClient {
    let serve = world.hotcell(["serve", "--cell", "judged"]).env(CAREFUL.0, CAREFUL.1);
    McpClient::start_with(serve, Era::Modern)
}

fn run(client: &mut McpClient, command: &str, wait_s: f64) -> Value {
    client.call("exec_run", json!({ "command": command, "wait_s": wait_s }))
}

/// The text of a call that was refused.
#[track_caller]
fn refused(client: &mut McpClient, tool: &str, arguments: Value) -> String {
    let id = client.ask_tool(tool, arguments);
    let answer = client.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

fn id(ran: &Value) -> String {
    ran["exec_id"].as_str().unwrap().to_owned()
}

fn a_command_that_is_asked_about_waits_for_a_person(world: &World) {
    let mut agent = careful(world);
    let ran = run(&mut agent, "mkdir keep && echo x >> keep/me", 20.0);
    assert_eq!(ran["exit_code"], 0, "{ran}");
    let asked = run(&mut agent, "cd keep && rm -rf ./me", 0.0);
    assert_eq!(asked["status"], "awaiting_approval", "{asked}");
    let why = asked["approval"].as_str().unwrap();
    assert!(why.contains("careful-destructive") && why.contains("hotcell approve"), "{why}");
    // Others go on meanwhile, and nothing was removed.
    assert_eq!(run(&mut agent, "cat keep/me", 20.0)["stdout"], "x\n");
    let exec = id(&asked);
    let listed = world.text(["approvals"]);
    assert!(listed.contains(&exec) && listed.contains("careful-destructive"), "{listed}");
    assert!(world.text(["ps"]).contains("queued (approval)"));
    assert_eq!(world.text(["approve", &exec]), format!("{exec} granted\n"));
    let ended = agent.call("exec_poll", json!({ "exec_id": exec, "wait_s": 20 }));
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("ended"), &json!(0)), "{ended}");
    assert_eq!(run(&mut agent, "ls keep", 20.0)["stdout"], "");
    world.hotcell(["approve", &exec]).run().exited(4);
    assert!(!world.text(["approvals"]).contains(&exec));
    let shown = world.json(["approvals", "--json"]);
    assert_eq!(shown, json!([]));
    agent.leave();
}

fn an_approval_outlives_the_server_that_asked_for_it(world: &World) {
    let mut agent = careful(world);
    run(&mut agent, "echo x >> gone", 20.0);
    let exec = id(&run(&mut agent, "rm gone", 0.0));
    agent.kill();
    assert_eq!(world.exec(&exec)["approval"]["asked_by"], format!("local:{}", world.user().uid));
    world.hotcell(["approve", &exec]).run().succeeded();
    assert_eq!(world.ended(&exec)["end"]["exit_code"], 0);
    world.hotcell(["run", "--cell", "judged", "test ! -e gone"]).run().succeeded();
}

fn what_is_refused_or_not_answered_never_starts(world: &World) {
    let serve = world.hotcell(["serve", "--cell", "judged"]).env(CAREFUL.0, CAREFUL.1);
    let mut agent =
        McpClient::start_with(serve.env("HOTCELL_POLICY_ASK_WITHIN_S", "1"), Era::Modern);
    run(&mut agent, "touch a", 20.0);
    let late = id(&run(&mut agent, "rm a", 20.0));
    let late = agent.call("exec_poll", json!({ "exec_id": late, "wait_s": 20 }));
    assert_eq!(late["end_cause"], "denied", "{late}");
    assert!(late["approval"].as_str().unwrap().starts_with("expired by deadline"), "{late}");
    agent.leave();
    let mut agent = careful(world);
    let exec = id(&run(&mut agent, "rm a", 0.0));
    world.hotcell(["approve", "--refuse", &exec]).run().succeeded();
    let ended = agent.call("exec_poll", json!({ "exec_id": exec, "wait_s": 20 }));
    assert_eq!((&ended["end_cause"], &ended["complete"]), (&json!("denied"), &json!(true)));
    assert!(ended["approval"].as_str().unwrap().starts_with("refused by local:0"), "{ended}");
    // What waits can be cancelled like anything else.
    let exec = id(&run(&mut agent, "rm a", 0.0));
    agent.call("exec_cancel", json!({ "exec_id": exec }));
    world.hotcell(["approve", &exec]).run().exited(4);
    assert_eq!(run(&mut agent, "ls", 20.0)["stdout"], "a\n");
    agent.leave();
}

fn rules_are_for_agents_and_are_explained_to_everybody(world: &World) {
    let rules = world.home().join("policy.toml");
    fs::write(
        &rules,
        "[[rule]]\nid = \"no-such-image\"\nverdict = \"deny\"\nreason = \"hosts only\"\nimage = [\"debian*\"]\n\n\
         [[rule]]\nid = \"no-forks\"\nverdict = \"deny\"\ntool = [\"cell_fork\"]\n\n\
         [[rule]]\nid = \"hands-off\"\nverdict = \"deny\"\nwrites = [\"/workspace/locked/**\"]\n",
    )
    .unwrap();
    let serve = world.hotcell(["serve", "--cell", "judged", "--tools", "cell,exec,fs,admin"]);
    let serve = serve.env("HOTCELL_POLICY_FILE", &rules).env("HOTCELL_POLICY_PROFILE", "blocklist");
    let mut agent = McpClient::start_with(serve, Era::Modern);
    let said = refused(&mut agent, "exec_run", json!({ "command": "true; r\"\"m -r -f  /" }));
    assert!(said.contains("denied") && said.contains("rule"), "{said}");
    let said = refused(&mut agent, "exec_run", json!({ "argv": ["rm", "-fr", "/"] }));
    assert!(said.contains("denied"), "{said}");
    let fed = |stdin: &str| json!({ "argv": ["bash", "-s"], "stdin": stdin });
    assert!(refused(&mut agent, "exec_run", fed("true\nrm -fr /\n")).contains("denied"));
    assert_eq!(agent.call("exec_run", fed("echo 'rm -fr /'\n"))["stdout"], "rm -fr /\n");
    // A text that only speaks of it is none.
    assert_eq!(run(&mut agent, "echo 'rm -rf /'", 20.0)["stdout"], "rm -rf /\n");
    let said = refused(&mut agent, "cell_spawn", json!({ "image": "debian:12" }));
    assert!(said.contains("no-such-image") && said.contains("hosts only"), "{said}");
    let said = refused(&mut agent, "cell_fork", json!({ "cell": "judged" }));
    assert!(said.contains("no-forks"), "{said}");
    let write = |path: &str| json!({ "path": path, "content": "x" });
    let said = refused(&mut agent, "fs_write", write("locked/../locked/a"));
    assert!(said.contains("hands-off"), "{said}");
    let said = refused(&mut agent, "exec_run", json!({ "command": "echo x > locked/a" }));
    assert!(said.contains("hands-off"), "{said}");
    agent.call("fs_write", write("open"));
    let checked = agent.call("policy_check", json!({ "command": "ls && env rm -rf /" }));
    assert_eq!((&checked["decision"], &checked["profile"]), (&json!("deny"), &json!("blocklist")));
    assert!(checked["parts"].as_array().unwrap().len() >= 2, "{checked}");
    agent.leave();
    // Whoever is at the terminal is not judged, and can ask.
    world
        .hotcell(["run", "--cell", "judged", "mkdir -p locked && echo x > locked/a"])
        .run()
        .succeeded();
    let check = |profile: &str, command: &str| {
        world.hotcell(["policy", "check", "--profile", profile, command]).run()
    };
    check("careful", "rm -rf build").exited(10);
    let denied = check("allowlist", "nmap localhost").exited(5);
    assert!(denied.stdout().starts_with("deny: "), "{denied:?}");
    check("open", "rm -rf /").exited(0);
    // A command starts in /workspace, also when it is only asked about.
    check("allowlist", "touch x").exited(0);
    check("allowlist", "cd / && touch x").exited(5);
    check("none", "true").exited(2);
    let python = ["policy", "check", "--python", "--json", "--profile", "careful"];
    let verdict = world.hotcell(python).arg("import os\nos.remove('x')").run();
    let verdict: Value = serde_json::from_str(&verdict.stdout()).unwrap();
    assert_eq!(verdict["destructive"], true, "{verdict}");
}

fn rules_are_read_again_and_broken_ones_are_not(world: &World) {
    let rules = world.home().join("policy.toml");
    let deny = |name: &str| {
        format!("[[rule]]\nid = \"no-{name}\"\nverdict = \"deny\"\ncommand = [\"{name}\"]\n")
    };
    fs::write(&rules, deny("hostname")).unwrap();
    let serve = world.hotcell(["serve", "--cell", "judged"]).env("HOTCELL_POLICY_FILE", &rules);
    let mut agent = McpClient::start_with(serve.env("HOTCELL_LOG", "info"), Era::Modern);
    assert!(refused(&mut agent, "exec_run", json!({ "command": "hostname" })).contains("no-host"));
    fs::write(&rules, deny("uname")).unwrap();
    assert!(refused(&mut agent, "exec_run", json!({ "command": "uname" })).contains("no-uname"));
    assert_eq!(run(&mut agent, "hostname", 20.0)["exit_code"], 0);
    fs::write(&rules, "[[rule]]\nid = \"half\"\nverdict =").unwrap();
    assert!(refused(&mut agent, "exec_run", json!({ "command": "uname" })).contains("no-uname"));
    // A hang-up is a look at the file, and no end.
    fs::write(&rules, deny("id")).unwrap();
    let pid = rustix::process::Pid::from_raw(agent.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    assert!(refused(&mut agent, "exec_run", json!({ "command": "id" })).contains("no-id"));
    assert_eq!(run(&mut agent, "uname", 20.0)["exit_code"], 0);
    let (finished, _) = agent.leave();
    let log = finished.stderr();
    assert!(log.contains("the rules from before stay in force"), "{log}");
    // One that is broken from the start is no policy at all.
    fs::write(&rules, "rule = 7").unwrap();
    let refused = world.hotcell(["serve"]).env("HOTCELL_POLICY_FILE", &rules).run().exited(2);
    assert!(refused.stderr().contains("line 1"), "{refused:?}");
}

fn variables_and_input_of_a_run_are_judged(world: &World) {
    let mut agent = careful(world);
    let with = |name: &str, value: &str| json!({ "command": "git --version; true", "env": { name: value }, "wait_s": 20 });
    let said = refused(&mut agent, "exec_run", with("PROMPT_COMMAND", "rm -rf /"));
    assert!(said.contains("block-rm-root"), "{said}");
    let mut asked = with("BASH_ENV", "$(rm x)");
    asked["wait_s"] = json!(0);
    assert_eq!(agent.call("exec_run", asked)["status"], "awaiting_approval");
    assert_eq!(agent.call("exec_run", with("FOO", "rm -rf /"))["exit_code"], 0);
    let said = refused(
        &mut agent,
        "cell_spawn",
        json!({ "image": "host", "env": { "PAGER": "rm -rf /" } }),
    );
    assert!(said.contains("block-rm-root"), "{said}");
    let fed = |stdin: &str| json!({ "command": "cat | sh", "stdin": stdin, "wait_s": 20 });
    assert!(refused(&mut agent, "exec_run", fed("rm -rf /")).contains("block-rm-root"));
    assert_eq!(agent.call("exec_run", fed("echo 'rm -rf /'"))["stdout"], "rm -rf /\n");
    agent.leave();
    let serve = world.hotcell(["serve", "--cell", "judged"]);
    let serve = serve.env("HOTCELL_POLICY_PROFILE", "allowlist");
    let mut agent = McpClient::start_with(serve, Era::Modern);
    for name in ["LD_PRELOAD", "PATH", "GIT_CONFIG_COUNT", "PYTHONPATH"] {
        let run = json!({ "command": "ls", "env": { name: "/workspace" } });
        assert!(refused(&mut agent, "exec_run", run).contains("allowlist-dynamic"), "{name}");
    }
    let run = json!({ "command": "ls", "env": { "LANG": "C" }, "wait_s": 20 });
    assert_eq!(agent.call("exec_run", run)["exit_code"], 0);
    agent.leave();
}

fn rules_lie_where_no_cell_can_write(world: &World) {
    let project = world.home().join("project");
    let elsewhere = world.home().join("elsewhere");
    for directory in [&project, &elsewhere] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("policy.toml"), "").unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, project.join("out")).unwrap();
    std::os::unix::fs::symlink(project.join("policy.toml"), elsewhere.join("in")).unwrap();
    let shown = project.to_str().unwrap();
    let serve = || world.hotcell(["serve", "--workspace", shown]);
    let ways = [
        project.join("policy.toml"),
        project.join("out/policy.toml"),
        project.join("../project/policy.toml"),
        elsewhere.join("in"),
    ];
    for rules in ways {
        let refused = serve().env("HOTCELL_POLICY_FILE", &rules).run().exited(5);
        assert!(refused.stderr().contains("of hotcell in it"), "{refused:?}");
    }
    let rules = elsewhere.join("policy.toml");
    let mut agent = McpClient::start_with(serve().env("HOTCELL_POLICY_FILE", &rules), Era::Modern);
    assert_eq!(run(&mut agent, "true", 20.0)["exit_code"], 0);
    agent.leave();
    // Nor where somebody else can.
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&rules, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = serve().env("HOTCELL_POLICY_FILE", &rules).run().exited(2);
    assert!(refused.stderr().contains("written by everybody"), "{refused:?}");
}

fn a_checkpoint_is_made_before_what_destroys(world: &World) {
    let mut agent = McpClient::start(world, Era::Modern);
    agent.call("cell_spawn", json!({ "alias": "undone", "checkpoint_before": "destructive" }));
    let run = |agent: &mut McpClient, command: &str| {
        agent.call("exec_run", json!({ "cell": "undone", "command": command }))
    };
    let made = run(&mut agent, "echo precious >> a; echo b >> b");
    assert!(made["checkpoint"].is_null(), "{made}");
    let emptied = run(&mut agent, "> b");
    assert!(emptied["checkpoint"].is_string(), "{emptied}");
    let removed = run(&mut agent, "rm -r a b; echo new > c");
    let checkpoint = removed["checkpoint"].as_str().unwrap().to_owned();
    assert_eq!(run(&mut agent, "ls")["stdout"], "c\n");
    let back = json!({ "cell": "undone", "action": "restore", "checkpoint": checkpoint });
    agent.call("cell_checkpoint", back);
    assert_eq!(run(&mut agent, "ls; cat a")["stdout"], "a\nb\nprecious\n");
    // What nobody can know beforehand counts as well, what only looks does not.
    assert!(run(&mut agent, "x=$(echo ls); $x -a")["checkpoint"].is_string());
    assert!(run(&mut agent, "cat a | wc -l")["checkpoint"].is_null());
    // Of many that are one by their key only one makes a checkpoint.
    let before = world.json(["checkpoint", "list", "undone", "--json"]);
    let keyed = json!({ "cell": "undone", "command": "rm a", "idempotency_key": "once" });
    let asked: Vec<u64> = (0..6).map(|_| agent.ask_tool("exec_run", keyed.clone())).collect();
    for id in asked {
        let answer = agent.answer(id);
        assert_eq!(answer["result"]["structuredContent"]["exit_code"], 0, "{answer}");
    }
    let after = world.json(["checkpoint", "list", "undone", "--json"]);
    let count = |list: &Value| list["checkpoints"].as_array().unwrap().len();
    assert_eq!(count(&after), count(&before) + 1, "{after}");
    agent.leave();
}

fn agents_approve_nothing(world: &World) {
    let server = HttpServer::start_with(world, &[], &[CAREFUL]);
    let asked = json!({ "command": "rm x", "wait_s": 0 });
    let asked = server.ask(&Sent::post("/v1/execs", &asked)).is(201).json();
    assert_eq!(asked["exec"]["state"], "queued", "{asked}");
    let exec = asked["exec"]["id"].as_str().unwrap();
    server.ask(&Sent::get("/v1/approvals")).is(403);
    let grant = json!({ "grant": "approve" });
    server.ask(&Sent::post(&format!("/v1/approvals/{exec}"), &grant)).is(403);
    world.hotcell(["approve", "--refuse", exec]).run().succeeded();
    assert_eq!(world.ended(exec)["end"]["cause"], "denied");
}

fn asking(world: &World, era: Era) -> McpClient {
    let serve = world.hotcell(["serve", "--cell", "judged"]).env(CAREFUL.0, CAREFUL.1);
    McpClient::start_silent(serve, era)
}

fn the_person_at_the_client_is_asked(world: &World) {
    let mut agent = asking(world, Era::Modern);
    let can = json!({ "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } });
    let mut call = |command: &str, more: Value| {
        let mut params = json!({
            "name": "exec_run", "arguments": { "command": command }, "_meta": can,
        });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        agent.request("tools/call", params)["result"].clone()
    };
    let made = call("touch a b c", json!({}));
    assert_eq!(made["structuredContent"]["exit_code"], 0, "{made}");
    let asked = call("rm a", json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let message = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("rm a") && message.contains("careful-destructive"), "{message}");
    let answer = |state: &Value, action: &str, approve: bool| {
        let content = json!({ "approve": approve });
        json!({
            "requestState": state,
            "inputResponses": { "approval": { "action": action, "content": content } },
        })
    };
    let ran = call("rm a", answer(&asked["requestState"], "accept", true));
    assert_eq!(ran["structuredContent"]["exit_code"], 0, "{ran}");
    let by = ran["structuredContent"]["approval"].as_str().unwrap();
    assert!(by.starts_with("granted by client:local:0"), "{by}");
    // Once answered, nothing can be made of it again.
    let again = call("rm a", answer(&asked["requestState"], "accept", true));
    assert_eq!(again["structuredContent"]["exec_id"], ran["structuredContent"]["exec_id"]);
    for (file, action, approve) in [("b", "decline", true), ("b", "accept", false)] {
        let asked = call(&format!("rm {file}"), json!({}));
        let refused = call("rm b", answer(&asked["requestState"], action, approve));
        assert_eq!(refused["structuredContent"]["end_cause"], "denied", "{refused}");
    }
    let forged = call("rm b", answer(&json!("e_0000000000"), "accept", true));
    assert_eq!(forged["isError"], true, "{forged}");
    assert_eq!(call("ls", json!({}))["structuredContent"]["stdout"], "b\nc\n");
    agent.leave();
    // The operator may keep that to itself.
    let serve = world.hotcell(["serve", "--cell", "judged"]).env(CAREFUL.0, CAREFUL.1);
    let serve = serve.env("HOTCELL_POLICY_ASK_CLIENT", "false");
    let mut agent = McpClient::start_with(serve, Era::Modern);
    let params = json!({
        "name": "exec_run", "arguments": { "command": "rm c", "wait_s": 0 }, "_meta": can,
    });
    let asked = agent.request("tools/call", params.clone())["result"].clone();
    assert_eq!(asked["structuredContent"]["status"], "awaiting_approval", "{asked}");
    let mut forged = params;
    forged["requestState"] = asked["structuredContent"]["exec_id"].clone();
    forged["inputResponses"] =
        json!({ "approval": { "action": "accept", "content": { "approve": true } } });
    assert_eq!(agent.request("tools/call", forged)["result"]["isError"], true);
    agent.leave();
}

fn the_person_at_an_older_client_is_asked(world: &World) {
    let mut agent = asking(world, Era::Legacy);
    let greeting = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "e2e", "version": "1" },
    });
    agent.request("initialize", greeting);
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    run(&mut agent, "touch a b", 20.0);
    for (command, approve, cause) in [("rm a", true, "exited"), ("rm b", false, "denied")] {
        let call = agent.ask_tool("exec_run", json!({ "command": command }));
        let asked = agent.find("a question", |message| {
            message["method"] == "elicitation/create"
                && message["params"]["message"].as_str().is_some_and(|it| it.contains(command))
        });
        let result = json!({ "action": "accept", "content": { "approve": approve } });
        agent.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        let answer = agent.find("an answer", |message| {
            message["id"] == call && message["result"]["structuredContent"].is_object()
        });
        assert_eq!(answer["result"]["structuredContent"]["end_cause"], cause, "{answer}");
    }
    assert_eq!(run(&mut agent, "ls", 20.0)["stdout"], "b\n");
    agent.leave();
}

fn a_client_that_declines_by_itself_leaves_the_question_open(world: &World) {
    for (client, is_open) in [("codex-mcp-client", true), ("e2e", false)] {
        let mut agent = asking(world, Era::Legacy);
        let greeting = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": client, "version": "1" },
        });
        agent.request("initialize", greeting);
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let made = agent.ask_tool("exec_run", json!({ "command": "touch a" }));
        agent.answer(made);
        let call = agent.ask_tool("exec_run", json!({ "command": "rm a; echo gone" }));
        let asked = agent.find("a question", |message| message["method"] == "elicitation/create");
        let result = json!({ "action": "decline" });
        agent.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        // Both have ids of their own, which may be the same.
        let answer = agent.find("an answer", |message| {
            message["id"] == call && message["result"]["content"].is_array()
        });
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        if is_open {
            assert!(text.contains("awaiting_approval"), "{text}");
            let (_, after) = text.split_once("`hotcell approve ").unwrap();
            let exec = after.split_once('`').unwrap().0;
            world.hotcell(["approve", exec]).run().succeeded();
            assert_eq!(world.ended(exec)["end"]["exit_code"], 0, "it could still be approved");
        } else {
            assert!(text.contains("denied"), "{text}");
        }
        agent.leave();
    }
}
