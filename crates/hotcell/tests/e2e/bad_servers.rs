//! Servers of tools that do what they should not, seen from the code that calls them.

use std::fs;

use serde_json::{Value, json};

use crate::world::{Era, HttpServer, McpClient, Sent, World, eventually_some};

in_worlds! { [root]
    code_goes_on_after_what_a_server_does,
    code_outlasts_a_server_that_hangs_or_floods,
    a_list_that_changes_is_seen_by_the_next_run,
    words_of_a_server_widen_no_policy,
    a_server_is_given_nothing_that_it_asks_for,
    what_one_tenant_was_answered_is_nothing_to_another,
}

in_worlds! { [root, rootless]
    a_server_in_a_cell_has_nothing_of_the_host,
}

const SERVER: &str = include_str!("../../../hotcell-downstream/tests/downstream/misbehaving.py");
/// Two servers of which one has a secret; the other lies about itself.
const DECLARED: &str = "[toolbox.kind]\ncommand = \"python3\"\nargs = [\"SCRIPT\"]\ntimeout_s = 8\n\
     env = { TOKEN = { secret = \"files-token\" } }\n\
     [toolbox.sly]\ncommand = \"python3\"\nargs = [\"SCRIPT\", \"sly\"]\ntimeout_s = 60\n";
const SECRET: &str = "a-value-that-only-one-server-has";
const ALLOW_KIND: &str = "[[rule]]\nid = \"kind\"\nverdict = \"allow\"\ntool = [\"kind.*\"]\n";
const ALLOW_BOTH: &str =
    "[[rule]]\nid = \"both\"\nverdict = \"allow\"\ntool = [\"kind.*\", \"sly.*\"]\n";

/// Writes down which servers there are and what is allowed; the configuration, and variables.
fn declare(world: &World, rules: &str) -> (String, [(&'static str, String); 2]) {
    world.hotcell(["secret", "set", "files-token"]).input(SECRET).run().succeeded();
    let put = |name: &str, text: &str| {
        let file = world.home().join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let script = put("misbehaving.py", SERVER);
    let config = put("hotcell.toml", &DECLARED.replace("SCRIPT", &script));
    let variables = [
        ("HOTCELL_POLICY_FILE", put("policy.toml", rules)),
        ("HOTCELL_POLICY_ASK_WITHIN_S", "3".to_owned()),
    ];
    (config, variables)
}

fn agent(world: &World, rules: &str) -> McpClient {
    let (config, variables) = declare(world, rules);
    let mut serve = world.hotcell(["serve", "--config", &config]);
    for (name, value) in variables {
        serve = serve.env(name, value);
    }
    McpClient::start_with(serve, Era::Modern)
}

/// What code told of each of some calls: its value, or code and message of its error.
fn each(client: &mut McpClient, imports: &str, calls: &[&str]) -> Vec<Value> {
    let calls = calls.iter().map(|call| format!("told(lambda: {call})")).collect::<Vec<_>>();
    let code = format!(
        "import time\nfrom tools import ToolError\n{imports}\ndef told(call):\n    try:\n        return call()\n    \
         except ToolError as error:\n        return [error.code, error.message]\n\
         def at_last(call):\n    for _ in range(20):\n        answer = told(call)\n        \
         if isinstance(answer, dict):\n            return answer\n        time.sleep(0.3)\n    \
         return answer\n[{}]",
        calls.join(", ")
    );
    let ran = client.call("code_run", json!({ "code": code, "timeout_s": 120, "wait_s": 50 }));
    // A call that awaits approval is reported before the code has ended.
    let page = eventually_some("the code has ended", || {
        let asked = json!({ "exec_id": ran["exec_id"], "wait_s": 20 });
        Some(client.call("exec_poll", asked)).filter(|page| page["complete"] == true)
    });
    let result = page["code"]["result"].as_array();
    result.unwrap_or_else(|| panic!("{page}")).clone()
}

fn code_goes_on_after_what_a_server_does(world: &World) {
    let mut client = agent(world, ALLOW_KIND);
    let calls = [
        "echo(text='before')",
        "crash()",
        "at_last(lambda: echo(text='after a crash'))",
        "len(big(bytes=100_000_000))",
        "at_last(lambda: echo(text='after a hundred megabytes'))",
        "lies()",
        "garbage()",
        "fail()",
    ];
    let imports = "from tools.kind import echo, crash, big, lies, garbage, fail";
    let told = each(&mut client, imports, &calls);
    for (at, text) in [(0, "before"), (2, "after a crash"), (4, "after a hundred megabytes")] {
        assert_eq!(told[at]["text"], text, "{told:?}");
    }
    for (at, code) in [(1, "unavailable"), (3, "limit_exceeded"), (7, "tool_failed")] {
        assert_eq!(told[at][0], code, "{}: {told:?}", calls[at]);
    }
    assert_eq!(told[6], "after garbage", "{told:?}");
    // What it said while it died is told, but not what it was given to keep.
    let last_words = told[1][1].as_str().unwrap();
    assert!(last_words.contains("the last words"), "{last_words}");
    assert!(!format!("{told:?}").contains(SECRET), "{told:?}");
}

fn code_outlasts_a_server_that_hangs_or_floods(world: &World) {
    let mut client = agent(world, ALLOW_KIND);
    let calls = ["hang()", "at_last(lambda: echo(text='after it hung'))"];
    let told = each(&mut client, "from tools.kind import echo, hang", &calls);
    assert_eq!((&told[0][0], &told[1]["text"]), (&json!("timeout"), &json!("after it hung")));
    let calls = ["flood()", "at_last(lambda: echo(text='after a flood'))"];
    let told = each(&mut client, "from tools.kind import echo, flood", &calls);
    assert!(told[0][0].is_string(), "a flood was an answer: {told:?}");
    assert_eq!(told[1]["text"], "after a flood", "{told:?}");
}

fn a_list_that_changes_is_seen_by_the_next_run(world: &World) {
    let mut client = agent(world, ALLOW_KIND);
    let refused = client.call("code_run", json!({ "code": "from tools.kind import added" }));
    assert_eq!(refused["status"], "error", "{refused}");
    each(&mut client, "from tools.kind import change", &["change()"]);
    eventually_some("the new tool can be imported", || {
        let ran = client.call("code_run", json!({ "code": "from tools.kind import added\n1" }));
        (ran["status"] == "ok").then_some(())
    });
    let found = client.call("tool_search", json!({ "query": "added", "detail": "name" }));
    assert!(found["tools"].to_string().contains("kind.added"), "{found}");
}

fn words_of_a_server_widen_no_policy(world: &World) {
    let imports = "from tools.sly import wipe, kind_echo_2e731e, kind_echo_6c5664";
    let calls = ["wipe()", "kind_echo_2e731e()", "kind_echo_6c5664()"];
    let mut client = agent(world, ALLOW_KIND);
    for (call, told) in calls.iter().zip(each(&mut client, imports, &calls)) {
        assert_eq!(told[0], "denied", "{call} ran without a word of a person: {told}");
    }
    // What a server says of itself is shown as its word, and does not decide.
    let shown = client.call("tool_search", json!({ "query": "sly wipe", "detail": "full" }));
    assert!(shown["tools"][0].as_str().unwrap().contains("ask"), "{shown}");
    drop(client);
    // They run where a rule names the server.
    let mut client = agent(world, ALLOW_BOTH);
    for (call, told) in calls.iter().zip(each(&mut client, imports, &calls)) {
        // What looks like a place for a secret stays what it is.
        assert_eq!(told, "done: ${secret:files-token} {{secret.files-token}} $TOKEN", "{call}");
    }
}

fn a_server_is_given_nothing_that_it_asks_for(world: &World) {
    let mut client = agent(world, ALLOW_BOTH);
    let imports =
        "from tools.sly import ask_back, env as sly_env, typed\nfrom tools.kind import env";
    let calls = ["ask_back()", "sly_env()", "env()", "typed(n=1)"];
    let told = each(&mut client, imports, &calls);
    for (asked, answered) in told[0].as_object().unwrap() {
        let granted = answered.get("granted");
        let is_nothing = granted.is_none_or(|granted| *granted == json!({ "roots": [] }));
        assert!(is_nothing, "{asked} was granted: {answered}");
    }
    assert_eq!(told[0].as_object().unwrap().len(), 5, "{told:?}");
    // One server has its secret, which comes back masked; the other has nothing of it.
    assert!(told[1].get("TOKEN").is_none() && told[1].get("PATH").is_some(), "{told:?}");
    assert!(told[2].get("TOKEN").is_some(), "{told:?}");
    assert!(!format!("{told:?}").contains(SECRET), "{told:?}");
    for held in ["HOTCELL", "SECRET"] {
        let names = told[1].as_object().unwrap();
        assert!(!names.keys().any(|name| name.contains(held)), "{names:?}");
    }
    // What it answers is not what it said it would; code gets what came.
    assert!(told[3]["n"] == "no number" || told[3][0].is_string(), "{told:?}");
}

fn what_one_tenant_was_answered_is_nothing_to_another(world: &World) {
    let (config, variables) = declare(world, ALLOW_BOTH);
    let mut variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("HOTCELL_HTTP_AUTH", "required"));
    let server = HttpServer::start_with(world, &["--config", &config], &variables);
    let [a, b] = ["a", "b"].map(|tenant| {
        let made =
            world.hotcell(["token", "create", "--json", "--name", tenant, "--tenant", tenant]);
        let made: Value = serde_json::from_str(&made.run().succeeded().stdout()).unwrap();
        format!("Bearer {}", made["token"].as_str().unwrap())
    });
    let ask = |who: &str, tool: &str, arguments: Value| {
        server.ask(&Sent::tool(tool, arguments).with("authorization", who)).is(200).tool_result()
    };
    let code = "from tools.kind import echo\necho(text='of a alone')";
    let ran = ask(&a, "code_run", json!({ "code": code, "wait_s": 50 }));
    assert_eq!(ran["result"]["text"], "of a alone", "{ran}");
    let full = json!({ "query": "echo", "server": "kind", "detail": "full" });
    let seen = |found: &Value| found["tools"][0].as_str().unwrap().contains("bserved");
    let [of_a, of_b] = [&a, &b].map(|who| ask(who, "tool_search", full.clone()));
    assert!(seen(&of_a), "{of_a}");
    assert!(!seen(&of_b), "{of_b}");
    assert!(!of_a.to_string().contains("of a alone"), "a shape has values: {of_a}");
}

fn a_server_in_a_cell_has_nothing_of_the_host(world: &World) {
    world.hotcell(["secret", "set", "cell-token"]).input(SECRET).run().succeeded();
    let outside = world.home().join("of-the-host");
    fs::write(&outside, "seen").unwrap();
    let declare = |name: &str, more: &str| {
        format!(
            "[toolbox.{name}]\ncommand = \"python3\"\nargs = [\"-c\", {SERVER:?}]\n\
             env = {{ TOKEN = {{ secret = \"cell-token\" }} }}\n{more}"
        )
    };
    let config = world.home().join("hotcell.toml");
    fs::write(&config, declare("free", "") + &declare("held", "cell = true\n")).unwrap();
    let rules = world.home().join("policy.toml");
    let allow = "[[rule]]\nid = \"all\"\nverdict = \"allow\"\ntool = [\"free.*\", \"held.*\"]\n";
    fs::write(&rules, allow).unwrap();
    let config = config.display().to_string();
    let serve = world.hotcell(["serve", "--config", &config]).env("HOTCELL_POLICY_FILE", &rules);
    let mut client = McpClient::start_with(serve, Era::Modern);
    let calls = ["free", "held"].map(|server| format!("tools.{server}.look(path={outside:?})"));
    let told =
        each(&mut client, "import tools.free, tools.held", &calls.each_ref().map(|it| &**it));
    assert_eq!(told[0]["file"], "seen", "{told:?}");
    assert!(told[1]["file"].as_str().unwrap().contains("No such file"), "{told:?}");
    assert_eq!(told[1]["where"], "/workspace", "{told:?}");
    // Both have the secret, and neither can tell it.
    for told in &told {
        let token = told["token"].as_str().unwrap();
        assert!(!token.is_empty() && !token.contains(SECRET), "{told}");
    }
}
