//! Agents on the user's project: they see it, and its real files change only with the user's approval.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Era, Invocation, McpClient, World, program};

in_worlds! { [root, rootless]
    an_agent_works_on_the_project_it_is_started_in,
    an_approval_covers_only_what_was_shown,
    files_that_the_user_changed_meanwhile_are_conflicts,
    what_makes_the_host_run_something_is_named_and_shown,
    changes_are_discarded_with_approval,
}

in_worlds! { [root]
    a_question_shows_all_changes_or_is_not_asked,
    code_cannot_change_the_real_files,
    the_person_at_the_client_approves_an_apply,
    the_person_at_an_older_client_approves_an_apply,
    changes_made_after_the_question_are_asked_about_again,
    a_directory_that_cannot_be_a_workspace_leaves_the_cell_empty,
    an_older_default_cell_without_the_project_is_left_alone,
    a_server_without_the_project_has_an_empty_cell,
    a_shell_sees_what_the_user_changed_at_its_next_line,
    a_cell_on_another_directory_is_out_of_reach,
    without_a_project_there_are_no_tools_for_it,
    what_setup_writes_lets_the_agent_see_the_project,
    long_lists_of_changes_have_pages,
    one_long_file_does_not_hide_the_others,
    new_files_that_git_ignores_stay_in_the_cell,
}

/// A project of the world's user.
struct Project<'a> {
    world: &'a World,
    dir: PathBuf,
}

impl<'a> Project<'a> {
    fn new(world: &'a World, script: &str) -> Self {
        Self::named(world, "project", script)
    }

    fn named(world: &'a World, name: &str, script: &str) -> Self {
        let dir = world.home().join(name);
        fs::create_dir(&dir).unwrap();
        world.own(&dir);
        let project = Self { world, dir };
        project.host(script);
        // File times have the granularity of a tick: what was made just now must be older than the cell.
        std::thread::sleep(Duration::from_millis(20));
        project
    }

    /// What the user runs in it; `$HOTCELL` is the program.
    fn host(&self, script: &str) -> String {
        let whole = format!("cd '{}' && {script}", self.dir.display());
        let shell = self.world.other("sh", ["-ec", &whole]).env("HOTCELL", program());
        shell.env("HOME", self.world.home()).run().succeeded().stdout()
    }

    /// A server that is started in the project, as a client does.
    fn serve(&self, args: &[&str]) -> Invocation {
        let env = self.world.other("env", []).arg(&format!("--chdir={}", self.dir.display()));
        env.arg(program().to_str().unwrap()).arg("serve").args(args.iter().copied())
    }

    fn agent(&self) -> McpClient {
        McpClient::start_with(self.serve(&["--project"]), Era::Legacy)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap_or_else(|error| format!("{path}: {error}"))
    }
}

fn run(agent: &mut McpClient, script: &str) -> String {
    let ran = agent.call("exec_run", json!({ "command": script }));
    assert_eq!(ran["exit_code"], 0, "{ran}");
    ran["stdout"].as_str().unwrap().to_owned()
}

/// The changes that a tool lists, page by page.
fn paged(agent: &mut McpClient, tool: &str, arguments: &Value) -> Vec<String> {
    let mut arguments = arguments.clone();
    let mut found = Vec::new();
    loop {
        let page = agent.call(tool, arguments.clone());
        let changes = page["changes"].as_array().unwrap();
        assert!(changes.len() <= 300, "{}", changes.len());
        found.extend(changes.iter().map(|it| it.as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(cursor) => arguments["cursor"] = cursor.into(),
            None => return found,
        }
    }
}

fn long_lists_of_changes_have_pages(world: &World) {
    let project = Project::new(world, "echo 0 > f; git init -q .");
    let mut agent = project.agent();
    let kept = agent.call("cell_checkpoint", json!({ "action": "create" }));
    let checkpoint = kept["checkpoints"][0]["id"].as_str().unwrap().to_owned();
    run(
        &mut agent,
        "for n in $(seq 650); do echo $n > new$n; done; mkdir a-b a; echo x > a/f; echo x > a-b/f",
    );
    let changes = paged(&mut agent, "workspace_diff", &json!({}));
    let mut unique = changes.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!((changes.len(), unique.len()), (654, 654), "{changes:?}");
    let first = agent.call("workspace_diff", json!({ "max_bytes": 64000 }));
    let patch = first["patch"].as_str().unwrap();
    assert!(patch.contains("+++ b/a/f\n"), "{patch}");
    let second = agent.call("workspace_diff", json!({ "cursor": "300", "max_bytes": 64000 }));
    assert!(!second["patch"].as_str().unwrap().contains("+++ b/a/f\n"));
    let since = paged(
        &mut agent,
        "cell_checkpoint",
        &json!({ "action": "diff", "checkpoint": checkpoint }),
    );
    assert!(since.len() >= 654, "{}", since.len());
    assert!(since.iter().any(|line| line.ends_with("/new650")));
    let wrong = agent.ask_tool("workspace_diff", json!({ "cursor": "x" }));
    let refusal = agent.answer(wrong)["result"]["content"][0]["text"].to_string();
    assert!(refusal.contains("cursor") && refusal.contains("next_cursor"), "{refusal}");
}

fn one_long_file_does_not_hide_the_others(world: &World) {
    let project = Project::new(world, "echo 0 > z; git init -q .");
    let mut agent = project.agent();
    run(&mut agent, "seq 100000 > big; echo 1 > z");
    let told = agent.call("workspace_diff", json!({}));
    let patch = told["patch"].as_str().unwrap();
    assert!(patch.contains("--- a/z\n") && patch.contains("+1\n"), "{patch}");
    assert_eq!((&told["left_out"], &told["truncated"]), (&json!(["big"]), &json!(true)), "{told}");
}

fn new_files_that_git_ignores_stay_in_the_cell(world: &World) {
    let project = Project::new(
        world,
        "printf '/build/\n*.log\n' > .gitignore; echo mine > old.log; echo 0 > a; git init -q .",
    );
    let mut agent = project.agent();
    // More than one approval covers, and a directory with nothing but ignored files.
    run(&mut agent, "mkdir -p build/deep out; touch build/deep/{1..600} out/x.log; echo 1 > b.log");
    run(&mut agent, "echo 1 > a; echo 1 > new; echo theirs > old.log");
    let diff = agent.call("workspace_diff", json!({}));
    assert_eq!(diff["changes"], json!(["M a", "A new", "M old.log"]), "{diff}");
    assert_eq!(diff["ignored"], json!(["b.log", "build/", "out/"]), "{diff}");
    let id = awaiting(&mut agent, "workspace_apply", json!({}));
    let shown = world.text(["approvals", &id]);
    let part = "not applied, ignored by git:\n  b.log\n  build/\n  out/\n";
    assert!(shown.contains(part), "{shown}");
    world.hotcell(["approve", &id]).run().succeeded();
    // What is built meanwhile was not asked about, and needs no second approval.
    run(&mut agent, "echo 2 > build/later");
    let done = agent.call("workspace_apply", json!({}));
    assert_eq!(done["changes"], json!(["M a", "A new", "M old.log"]), "{done}");
    let is_there = |path: &str| project.dir.join(path).exists();
    assert!(is_there("new") && !is_there("build") && !is_there("out") && !is_there("b.log"));
    // What is named is applied, and so is all of an ignored directory that is.
    let diff = agent.call("workspace_diff", json!({ "paths": ["build/deep", "b.log"] }));
    assert_eq!(diff["truncated"], true, "{}", diff["changes"]);
    let id = awaiting(&mut agent, "workspace_apply", json!({ "paths": ["b.log"] }));
    world.hotcell(["approve", &id]).run().succeeded();
    let done = agent.call("workspace_apply", json!({ "paths": ["b.log"] }));
    assert_eq!((&done["changes"], project.read("b.log")), (&json!(["A b.log"]), "1\n".into()));
    // A discard throws away everything, and names all of it.
    run(&mut agent, "touch c{1..30}.log");
    let named = agent.call("workspace_diff", json!({}))["ignored"].clone();
    assert_eq!(named.as_array().unwrap().len(), 20, "the first of them: {named}");
    let id = awaiting(&mut agent, "workspace_discard", json!({}));
    let shown = world.text(["approvals", &id]);
    assert!(shown.contains("discard, ignored by git:\n  build/\n  c1.log\n"), "{shown}");
    assert!((1..=30).all(|number| shown.contains(&format!("  c{number}.log\n"))), "{shown}");
    world.hotcell(["approve", &id]).run().succeeded();
    assert_eq!(agent.call("workspace_discard", json!({}))["status"], "discarded");
    assert_eq!(run(&mut agent, "ls"), "a\nb.log\nnew\nold.log\n");
    agent.leave();
}

/// Asks for an apply that nobody has approved yet; the id of the approval.
#[track_caller]
fn awaiting(agent: &mut McpClient, tool: &str, arguments: Value) -> String {
    let asked = agent.call(tool, arguments);
    assert_eq!(asked["status"], "awaiting_approval", "{asked}");
    let id = asked["approval_id"].as_str().unwrap().to_owned();
    let message = asked["message"].as_str().unwrap();
    assert!(message.contains(&format!("hotcell approve {id}")), "{message}");
    id
}

/// Calls a tool that refuses; what it says.
#[track_caller]
fn refused(agent: &mut McpClient, tool: &str, arguments: Value) -> String {
    let id = agent.ask_tool(tool, arguments);
    let answer = agent.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

fn code_cannot_change_the_real_files(world: &World) {
    let project = Project::new(world, "echo one > a");
    let rules = world.home().join("policy.toml");
    let allow = "[[rule]]\nid = \"own\"\nverdict = \"allow\"\ntool = [\"hotcell.*\"]\n";
    fs::write(&rules, allow).unwrap();
    let serve = project.serve(&["--project"]).env("HOTCELL_POLICY_FILE", &rules);
    let mut agent = McpClient::start_with(serve, Era::Legacy);
    run(&mut agent, "echo two > a");
    let mut code = |code: &str| {
        let arguments = json!({ "code": code, "timeout_s": 100, "wait_s": 50 });
        agent.call("code_run", arguments)["result"].clone()
    };
    for tool in ["workspace_apply", "workspace_discard"] {
        let tried = format!(
            "try:\n    from tools.hotcell import {tool}\n    said = {tool}()\n\
             except Exception as error:\n    said = repr(error)\nsaid"
        );
        let said = code(&tried);
        assert!(said.as_str().is_some_and(|said| said.contains("has no tool")), "{said}");
    }
    // The control: it can look at what would change.
    let look = "from tools.hotcell import workspace_diff\nworkspace_diff()['changes']";
    assert_eq!(code(look), json!(["M a"]));
    assert_eq!(project.read("a"), "one\n");
}

fn an_agent_works_on_the_project_it_is_started_in(world: &World) {
    let project = Project::new(world, "echo one > a; echo b > b");
    let mut agent = McpClient::start_silent(project.serve(&["--project"]), Era::Legacy);
    let hello = agent.request("initialize", crate::world::hello("2025-11-25"));
    let told = hello["result"]["instructions"].as_str().unwrap();
    let dir = project.dir.to_str().unwrap();
    assert!(told.contains("copy-on-write") && told.contains(dir), "{told}");
    assert!(told.contains("workspace_apply"), "{told}");
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));

    assert_eq!(run(&mut agent, "ls; cat a; echo two >> a; echo n > new"), "a\nb\none\n");
    let diff = agent.call("workspace_diff", json!({}));
    assert_eq!(diff["changes"], json!(["M a", "A new"]), "{diff}");
    assert!(diff["patch"].as_str().unwrap().contains("@@ -1 +1,2 @@\n one\n+two\n"), "{diff}");
    let one = agent.call("workspace_diff", json!({ "paths": ["/workspace/new"] }));
    assert_eq!(one["changes"], json!(["A new"]), "{one}");
    assert!(refused(&mut agent, "workspace_diff", json!({ "paths": ["../x"] })).contains("../x"));
    assert_eq!(project.host("\"$HOTCELL\" diff --name-status"), "M a\nA new\n");
    // The user goes on working, and the agent sees it.
    project.host("echo mine > b");
    assert_eq!(run(&mut agent, "cat b"), "mine\n");

    let id = awaiting(&mut agent, "workspace_apply", json!({}));
    assert_eq!((project.read("a"), project.dir.join("new").exists()), ("one\n".to_owned(), false));
    let shown = world.text(["approvals", &id]);
    for part in ["workspace_apply", "M a", "A new", "2 lines added", "rule real-files", dir, "+two"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // The same call again waits for the same approval.
    assert_eq!(awaiting(&mut agent, "workspace_apply", json!({})), id);
    assert_eq!(world.json(["approvals", "--json"]).as_array().unwrap().len(), 1);
    world.hotcell(["approve", &id]).run().succeeded();
    assert_eq!(project.read("a"), "one\n", "an approval alone changes nothing");
    let done = agent.call("workspace_apply", json!({}));
    assert_eq!(done["status"], "applied", "{done}");
    assert_eq!(done["changes"], json!(["M a", "A new"]), "{done}");
    assert_eq!((project.read("a"), project.read("new")), ("one\ntwo\n".into(), "n\n".into()));
    assert_eq!(project.read("b"), "mine\n");
    let done = agent.call("workspace_apply", json!({}));
    assert_eq!(done["status"], "nothing_to_do", "{done}");
    // An approval is for one apply.
    run(&mut agent, "echo three >> a");
    let again = awaiting(&mut agent, "workspace_apply", json!({}));
    assert_ne!(again, id);
    world.hotcell(["approve", "--refuse", &again]).run().succeeded();
    assert!(refused(&mut agent, "workspace_apply", json!({})).contains("refused by"));
    assert_eq!(project.read("a"), "one\ntwo\n");
    agent.leave();
}

fn a_question_shows_all_changes_or_is_not_asked(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = project.agent();
    // Longer than one part of a question.
    run(&mut agent, "seq 1000 1600 > long; printf x > \"$(printf 'b\\nD a')\"");
    let id = awaiting(&mut agent, "workspace_apply", json!({}));
    let shown = world.text(["approvals", &id]);
    for part in ["+1000\n", "+1300\n", "+1600\n", "A b\\nD a"] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    let approved = world.hotcell(["approve", &id]).run().succeeded();
    assert!(approved.stderr().contains("+1600"), "what is approved is shown: {approved:?}");
    assert_eq!(agent.call("workspace_apply", json!({}))["status"], "applied");
    assert!(project.read("long").ends_with("1600\n"));
    run(&mut agent, "seq 10000 20000 > longer; echo two > a");
    let said = refused(&mut agent, "workspace_apply", json!({}));
    assert!(said.contains("limit_exceeded") && said.contains("hotcell apply"), "{said}");
    assert_eq!(world.json(["approvals", "--json"]), json!([]));
    // The control: what can be shown is asked about.
    awaiting(&mut agent, "workspace_apply", json!({ "paths": ["a"] }));
    agent.leave();
}

fn an_approval_covers_only_what_was_shown(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = project.agent();
    run(&mut agent, "echo good > a");
    let first = awaiting(&mut agent, "workspace_apply", json!({}));
    // Another content of the same path, then another path.
    run(&mut agent, "echo evil > a");
    world.hotcell(["approve", &first]).run().succeeded();
    let second = awaiting(&mut agent, "workspace_apply", json!({}));
    assert_ne!(second, first);
    run(&mut agent, "echo evil > b");
    world.hotcell(["approve", &second]).run().succeeded();
    awaiting(&mut agent, "workspace_apply", json!({}));
    // A mode is a change, too.
    run(&mut agent, "rm b; echo good > a; chmod 600 a");
    awaiting(&mut agent, "workspace_apply", json!({}));
    assert_eq!(project.read("a"), "one\n");
    // What was approved first still is.
    run(&mut agent, "chmod 644 a");
    assert_eq!(agent.call("workspace_apply", json!({}))["status"], "applied");
    assert_eq!(project.read("a"), "good\n");
    assert!(!project.dir.join("b").exists());
    agent.leave();
}

fn files_that_the_user_changed_meanwhile_are_conflicts(world: &World) {
    let project =
        Project::new(world, "mkdir d; echo a > a; echo b > b; echo x > d/x; echo y > d/y");
    let mut agent = project.agent();
    run(&mut agent, "echo agent >> a; echo agent >> b; rm -r d");
    project.host("echo user >> a; echo user >> d/x");
    let diff = agent.call("workspace_diff", json!({}));
    let conflicts: Vec<&str> =
        diff["conflicts"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(conflicts.contains(&"a") && conflicts.contains(&"d/x"), "{diff}");
    let id = awaiting(&mut agent, "workspace_apply", json!({}));
    let shown = world.text(["approvals", &id]);
    assert!(shown.contains("not applied, changed by you meanwhile"), "{shown}");
    // What the user edits after the question is asked about again.
    project.host("echo later >> b");
    world.hotcell(["approve", &id]).run().succeeded();
    let id = awaiting(&mut agent, "workspace_apply", json!({}));
    world.hotcell(["approve", &id]).run().succeeded();
    let done = agent.call("workspace_apply", json!({}));
    assert_eq!(done["changes"], json!(["D d/y"]), "{done}");
    assert_eq!(done["conflicts"], json!(["a", "b", "d/", "d/x"]), "{done}");
    assert_eq!(project.read("a"), "a\nuser\n");
    assert_eq!(project.read("b"), "b\nlater\n");
    assert_eq!(project.read("d/x"), "x\nuser\n");
    assert!(!project.dir.join("d/y").exists());
    agent.leave();
}

fn what_makes_the_host_run_something_is_named_and_shown(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = project.agent();
    run(&mut agent, "echo two > a; echo 'rm -rf /' > .envrc; echo x > tool; chmod +x tool");
    let id = awaiting(&mut agent, "workspace_apply", json!({ "paths": ["."] }));
    let shown = world.text(["approvals", &id]);
    assert!(shown.contains("not applied, could make this machine run something"), "{shown}");
    world.hotcell(["approve", &id]).run().succeeded();
    let done = agent.call("workspace_apply", json!({ "paths": ["."] }));
    assert_eq!(done["changes"], json!(["M a"]), "{done}");
    assert_eq!(done["guarded"].as_array().unwrap().len(), 2, "{done}");
    assert!(!project.dir.join(".envrc").exists() && !project.dir.join("tool").exists());
    let id = awaiting(&mut agent, "workspace_apply", json!({ "paths": [".envrc"] }));
    let shown = world.text(["approvals", &id]);
    assert!(shown.contains("CAN MAKE THIS MACHINE RUN SOMETHING: A .envrc"), "{shown}");
    world.hotcell(["approve", &id]).run().succeeded();
    let done = agent.call("workspace_apply", json!({ "paths": [".envrc"] }));
    assert_eq!(done["changes"], json!(["A .envrc"]), "{done}");
    assert!(project.dir.join(".envrc").exists() && !project.dir.join("tool").exists());
    agent.leave();
}

fn changes_are_discarded_with_approval(world: &World) {
    let project = Project::new(world, "echo one > a; echo one > b");
    let mut agent = project.agent();
    run(&mut agent, "echo two > a; echo two > b");
    let job = agent.call("exec_run", json!({ "command": "sleep 600", "wait_s": 0 }));
    let said = refused(&mut agent, "workspace_discard", json!({}));
    assert!(said.contains(job["exec_id"].as_str().unwrap()), "{said}");
    assert_eq!(world.json(["approvals", "--json"]), json!([]));
    agent.call("exec_cancel", json!({ "exec_id": job["exec_id"] }));
    let id = awaiting(&mut agent, "workspace_discard", json!({ "paths": ["a"] }));
    assert_eq!(run(&mut agent, "cat a"), "two\n");
    // It is no approval of more.
    world.hotcell(["approve", &id]).run().succeeded();
    let all = awaiting(&mut agent, "workspace_discard", json!({}));
    let done = agent.call("workspace_discard", json!({ "paths": ["a"] }));
    assert_eq!((&done["status"], &done["changes"]), (&json!("discarded"), &json!(["M a"])));
    assert_eq!(run(&mut agent, "cat a b"), "one\ntwo\n");
    world.hotcell(["approve", "--refuse", &all]).run().succeeded();
    assert_eq!(project.read("b"), "one\n");
    agent.leave();
}

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A call by a client that can put a form before a person.
fn with_form(agent: &mut McpClient, tool: &str, more: &Value) -> Value {
    let mut params = json!({
        "name": tool, "arguments": {}, "_meta": { CAPABILITIES: { "elicitation": {} } },
    });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    agent.request("tools/call", params)["result"].clone()
}

fn answer(asked: &Value, action: &str, approve: bool) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let content = json!({ "approve": approve });
    json!({
        "requestState": asked["requestState"],
        "inputResponses": { "approval": { "action": action, "content": content } },
    })
}

fn the_person_at_the_client_approves_an_apply(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = McpClient::start_with(project.serve(&["--project"]), Era::Modern);
    run(&mut agent, "echo two > a");
    let asked = with_form(&mut agent, "workspace_apply", &json!({}));
    let message = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("M a") && message.contains("1 path"), "{message}");
    // A form that was left is no approval, and is not put before the person again by itself.
    let left = with_form(&mut agent, "workspace_apply", &answer(&asked, "cancel", true));
    assert_eq!(left["structuredContent"]["status"], "awaiting_approval", "{left}");
    let asked = with_form(&mut agent, "workspace_apply", &json!({}));
    let declined = with_form(&mut agent, "workspace_apply", &answer(&asked, "decline", true));
    assert_eq!(declined["isError"], true, "{declined}");
    assert_eq!(project.read("a"), "one\n");
    run(&mut agent, "echo three > a");
    let asked = with_form(&mut agent, "workspace_apply", &json!({}));
    let done = with_form(&mut agent, "workspace_apply", &answer(&asked, "accept", true));
    assert_eq!(done["structuredContent"]["status"], "applied", "{done}");
    assert_eq!(project.read("a"), "three\n");
    agent.leave();
}

fn the_person_at_an_older_client_approves_an_apply(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = McpClient::start_silent(project.serve(&["--project"]), Era::Legacy);
    let mut greeting = crate::world::hello("2025-11-25");
    greeting["capabilities"] = json!({ "elicitation": {} });
    agent.request("initialize", greeting);
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    for (content, approve) in [("two", false), ("three", true)] {
        run(&mut agent, &format!("echo {content} > a"));
        let call = agent.ask_tool("workspace_apply", json!({}));
        let asked = agent.find("a question", |message| {
            message["method"] == "elicitation/create"
                && message["params"]["message"].as_str().is_some_and(|it| it.contains(content))
        });
        let result = json!({ "action": "accept", "content": { "approve": approve } });
        agent.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        let answer = agent.find("an answer", |message| {
            message["id"] == call && message["result"]["content"].is_array()
        });
        assert_eq!(answer["result"]["isError"] != true, approve, "{answer}");
        let expected = if approve { "three\n" } else { "one\n" };
        assert_eq!(project.read("a"), expected);
    }
    agent.leave();
}

fn changes_made_after_the_question_are_asked_about_again(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = McpClient::start_with(project.serve(&["--project"]), Era::Modern);
    run(&mut agent, "echo good > a");
    let asked = with_form(&mut agent, "workspace_apply", &json!({}));
    run(&mut agent, "echo evil > a");
    let again = with_form(&mut agent, "workspace_apply", &answer(&asked, "accept", true));
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert_ne!(again["requestState"], asked["requestState"]);
    let message = again["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("evil"), "{message}");
    assert_eq!(project.read("a"), "one\n");
    let done = with_form(&mut agent, "workspace_apply", &answer(&again, "decline", false));
    assert_eq!(done["isError"], true, "{done}");
    assert_eq!(project.read("a"), "one\n");
    agent.leave();
}

fn tools_of(agent: &mut McpClient) -> Vec<String> {
    let listed = agent.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn a_directory_that_cannot_be_a_workspace_leaves_the_cell_empty(world: &World) {
    // Invocations start in the root directory.
    let mut agent = McpClient::start_silent(world.hotcell(["serve", "--project"]), Era::Legacy);
    let hello = agent.request("initialize", crate::world::hello("2025-11-25"));
    let told = hello["result"]["instructions"].as_str().unwrap();
    assert!(told.contains("belongs to the whole machine"), "{told}");
    assert!(told.contains("start the client in the directory of that project"), "{told}");
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert_eq!(run(&mut agent, "pwd; ls"), "/workspace\n");
    assert!(!tools_of(&mut agent).iter().any(|tool| tool.starts_with("workspace_")));
    let (finished, _) = agent.leave();
    assert!(finished.stderr().contains("the default cell is empty"), "{finished:?}");
    // Where the directory is named as a must it is an error.
    world.hotcell(["serve", "--workspace", "/"]).run().exited(5);
}

fn an_older_default_cell_without_the_project_is_left_alone(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = McpClient::start_with(project.serve(&[]), Era::Legacy);
    run(&mut agent, "echo old > mine");
    agent.leave();
    let mut agent = project.agent();
    assert_eq!(run(&mut agent, "cat a; echo two > a; ls"), "one\na\n");
    assert_eq!(project.host("\"$HOTCELL\" diff --name-status"), "M a\n");
    assert_eq!(project.host("\"$HOTCELL\" run --workspace . cat a"), "two\n");
    let (finished, _) = agent.leave();
    assert!(finished.stderr().contains("was made without the files of"), "{finished:?}");
    let mut agent = McpClient::start_with(project.serve(&[]), Era::Legacy);
    assert_eq!(run(&mut agent, "cat mine"), "old\n");
    agent.leave();
}

fn a_shell_sees_what_the_user_changed_at_its_next_line(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = project.agent();
    let shell = json!({ "command": "cat a; exec sh", "stdin_open": true, "wait_s": 20 });
    let shell = agent.call("exec_run", shell);
    assert_eq!(shell["stdout"], "one\n", "{shell}");
    project.host("echo two > b; mv b a");
    let line = json!({
        "exec_id": shell["exec_id"], "text": "cat a\n", "until": "match", "pattern": "two", "wait_s": 20,
    });
    let answer = agent.call("exec_input", line);
    assert_eq!(answer["messages"][0]["data"], "two\n", "{answer}");
}

fn a_server_without_the_project_has_an_empty_cell(world: &World) {
    let project = Project::new(world, "echo one > a");
    let mut agent = project.agent();
    assert_eq!(run(&mut agent, "ls"), "a\n");
    drop(agent);
    let mut agent = McpClient::start_with(project.serve(&[]), Era::Legacy);
    assert_eq!(run(&mut agent, "ls; echo own > b; ls"), "b\n");
    let (served, _) = agent.leave();
    assert!(served.stderr().contains("stays as it is; another cell is used"), "{served:?}");
    assert_eq!(run(&mut project.agent(), "ls"), "a\n");
    let mut again = McpClient::start_with(project.serve(&[]), Era::Legacy);
    assert_eq!(run(&mut again, "ls"), "b\n");
}

fn a_cell_on_another_directory_is_out_of_reach(world: &World) {
    let project = Project::new(world, "echo one > a");
    let other = Project::named(world, "other", "echo secret > s");
    other.host("\"$HOTCELL\" run --workspace . 'echo more >> s'");
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].clone();
    let mut agent = project.agent();
    for tool in ["workspace_diff", "workspace_apply", "workspace_discard"] {
        let said = refused(&mut agent, tool, json!({ "cell": cell }));
        assert!(said.contains("denied") && !said.contains("secret"), "{tool}: {said}");
    }
    assert_eq!(world.json(["approvals", "--json"]), json!([]));
    agent.leave();
}

fn without_a_project_there_are_no_tools_for_it(world: &World) {
    let mut agent = McpClient::start(world, Era::Legacy);
    assert!(!tools_of(&mut agent).iter().any(|tool| tool.starts_with("workspace_")));
    agent.leave();
    let project = Project::new(world, "true");
    let mut agent = project.agent();
    let of_project: Vec<String> =
        tools_of(&mut agent).into_iter().filter(|tool| tool.starts_with("workspace_")).collect();
    assert_eq!(of_project, ["workspace_diff", "workspace_apply", "workspace_discard"]);
    agent.leave();
}

fn what_setup_writes_lets_the_agent_see_the_project(world: &World) {
    let project = Project::new(world, "echo one > a");
    for (client, file, pointer) in [
        ("claude-code", ".claude.json", "/mcpServers/hotcell"),
        ("opencode", ".config/opencode/opencode.json", "/mcp/hotcell"),
    ] {
        let written = world.hotcell(["setup", client, "--yes"]).env("HOME", world.home()).run();
        let said = written.succeeded().stderr();
        let state = world.state_dir();
        assert!(said.contains(&format!("state directory of the server: {}", state.display())));
        assert!(said.contains("copy-on-write"), "{said}");
        let text = fs::read_to_string(world.home().join(file)).unwrap();
        let entry: Value = serde_json::from_str(&text).unwrap();
        let entry = entry.pointer(pointer).unwrap();
        let words = |value: &Value| -> Vec<String> {
            let words = value.as_array().into_iter().flatten();
            words.map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        let command = match entry["command"].as_str() {
            Some(program) => [vec![program.to_owned()], words(&entry["args"])].concat(),
            None => words(&entry["command"]),
        };
        // The client has none of our variables, and starts the server in the project.
        let env = world.other("env", ["-u", "HOTCELL_STATE_DIR"]);
        let env = env.arg(&format!("--chdir={}", project.dir.display()));
        let serve = env.args(command.iter().map(String::as_str));
        let mut agent = McpClient::start_with(serve, Era::Legacy);
        assert_eq!(run(&mut agent, "ls"), "a\n", "{client}");
        agent.leave();
        let cells = world.json(["cells", "--json"]);
        assert_eq!(cells["cells"].as_array().unwrap().len(), 1, "{client}: {cells}");
    }
}
