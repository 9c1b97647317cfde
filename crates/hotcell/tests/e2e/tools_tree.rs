//! What cells see at `/tools`: the tools of declared servers as files that nobody in a cell changes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{
    Era, HttpServer, Invocation, Kind, McpClient, Sent, World, eventually, eventually_some,
    tool_servers,
};

in_worlds! { [root, without_cgroups, rootless, single_id]
    tools_are_files_that_nobody_in_a_cell_writes,
    a_list_that_changes_changes_the_files_of_cells_that_run,
    without_servers_the_index_says_so,
}

in_worlds! { [root]
    tools_of_real_servers_are_listed_and_grepped,
    what_a_tenant_was_answered_is_shown_to_it_alone,
    a_tree_stays_whatever_becomes_of_a_cell,
    what_servers_say_stays_within_the_tree,
}

in_worlds! { [without_namespaces]
    without_a_root_of_its_own_a_cell_has_no_tools,
}

const ALLOW: &str = "[[rule]]\nid = \"tools\"\nverdict = \"allow\"\ntool = [\"*.*\"]\n";

/// A server whose list a test writes.
struct Listing {
    config: PathBuf,
    tools: PathBuf,
}

fn tool(name: &str, about: &str) -> Value {
    json!({ "name": name, "description": about, "inputSchema": {
        "type": "object", "properties": { "key": { "type": "string", "description": "which one" } },
    } })
}

impl Listing {
    fn declare(world: &World, tools: &[Value]) -> Self {
        let script = world.home().join("listing_server.py");
        fs::write(&script, include_str!("listing_server.py")).unwrap();
        let declared = Self {
            config: world.home().join("hotcell.toml"),
            tools: world.home().join("tools.json"),
        };
        declared.list(tools);
        let config = format!(
            "[toolbox.shop]\ncommand = \"python3\"\nargs = [{script:?}, {:?}]\n",
            declared.tools
        );
        fs::write(&declared.config, config).unwrap();
        fs::write(world.home().join("policy.toml"), ALLOW).unwrap();
        for path in [&script, &declared.tools, &declared.config, &world.home().join("policy.toml")]
        {
            world.own(path);
        }
        declared
    }

    /// Makes the server list these.
    fn list(&self, tools: &[Value]) {
        let new = self.tools.with_extension("new");
        fs::write(&new, serde_json::to_vec(tools).unwrap()).unwrap();
        fs::rename(&new, &self.tools).unwrap();
    }

    fn serve(&self, world: &World) -> Invocation {
        let config = self.config.display().to_string();
        let policy = world.home().join("policy.toml");
        world.hotcell(["serve", "--config", &config]).env("HOTCELL_POLICY_FILE", policy)
    }
}

/// What a command prints, and how it ends.
fn sh(client: &mut McpClient, command: &str) -> (Value, String) {
    let ran = client.call("exec_run", json!({ "command": command, "wait_s": 50 }));
    let text = format!(
        "{}{}",
        ran["stdout"].as_str().unwrap_or_default(),
        ran["stderr"].as_str().unwrap_or_default()
    );
    (ran["exit_code"].clone(), text)
}

/// Waits until a command succeeds; what it printed.
#[track_caller]
fn once(client: &mut McpClient, what: &str, command: &str) -> String {
    eventually_some(what, || {
        let (code, text) = sh(client, command);
        (code == 0).then_some(text)
    })
}

fn tools_are_files_that_nobody_in_a_cell_writes(world: &World) {
    let shop = Listing::declare(world, &[tool("find-order", "Finds an order"), tool("pay", "")]);
    let mut client = McpClient::start_with(shop.serve(world), Era::Modern);
    // Nobody has called a tool or looked for one.
    let seen = once(&mut client, "the server is listed", "cat /tools/shop/find_order.pyi");
    assert!(seen.contains("from tools.shop import find_order"), "{seen}");
    assert!(seen.contains("policy: allow (rule tools)"), "{seen}");
    let (_, seen) = sh(&mut client, "cd /tools; find . | sort; cat INDEX.md");
    for path in ["./shop/__init__.pyi", "./shop/index.d.ts", "./shop/pay.pyi", "./shop/pay.d.ts"] {
        assert!(seen.contains(path), "{path}: {seen}");
    }
    assert!(seen.contains("- shop (2)"), "{seen}");
    let (_, seen) = sh(&mut client, "grep -rl 'Finds an order' /tools");
    assert!(seen.contains("/tools/shop/find_order.pyi"), "{seen}");

    let tries = ["echo x > $D/x", "rm -f $D/INDEX.md", "mv $D/INDEX.md $D/y", "chmod 777 $D"];
    let roots: &[bool] = if world.kind().has_root_inside() { &[false, true] } else { &[false] };
    for as_root in roots {
        for tried in tries {
            // The same where it may write.
            let command = format!(
                "D=$(mktemp -d); echo i > $D/INDEX.md; ({tried}) || exit 7; D=/tools; ! ({tried})"
            );
            let asked = json!({ "command": command, "wait_s": 50, "as_root": as_root });
            let ran = client.call("exec_run", asked);
            assert_eq!(ran["exit_code"], 0, "{tried}, as root: {as_root}: {ran}");
        }
    }
    // Files are read as any others, and written nowhere there.
    let read = client.call("fs_read", json!({ "path": "/tools/INDEX.md" }));
    assert!(read["content"].as_str().unwrap().contains("- shop (2)"), "{read}");
    let listed = client.call("fs_list", json!({ "path": "/tools/shop" }));
    assert!(listed.to_string().contains("find_order.pyi"), "{listed}");
    let write = json!({ "path": "/tools/shop/new.pyi", "content": "x" });
    let refused = client.ask_tool("fs_write", write);
    let refused = client.answer(refused)["result"].clone();
    assert_eq!(refused["isError"], true, "{refused}");
    let told = refused["content"].to_string();
    assert!(told.contains("denied") && told.contains("/workspace"), "{told}");
    let tree = world.state_dir().join("tools/main");
    let mut names: Vec<_> =
        fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["INDEX.md", "hotcell", "shop"]);
}

fn a_list_that_changes_changes_the_files_of_cells_that_run(world: &World) {
    let shop = Listing::declare(world, &[tool("find", "Finds an order"), tool("pay", "Pays it")]);
    let mut client = McpClient::start_with(shop.serve(world), Era::Modern);
    once(&mut client, "the server is listed", "test -e /tools/shop/pay.pyi");
    // A process that is in the tree meanwhile stays there.
    let watching = "cd /tools/shop; until test -e refund.pyi; do sleep 0.05; done; \
                    ls; cat find.pyi; grep -c . ../INDEX.md";
    let asked = client.ask_tool("exec_run", json!({ "command": watching, "wait_s": 50 }));
    shop.list(&[tool("find", "Finds a parcel"), tool("refund", "Pays it back")]);
    let seen = client.answer(asked)["result"]["structuredContent"].clone();
    let seen = seen["stdout"].as_str().unwrap();
    assert!(seen.contains("refund.d.ts") && seen.contains("Finds a parcel"), "{seen}");
    once(&mut client, "what is gone is removed", "test ! -e /tools/shop/pay.pyi");
    let (_, seen) = sh(&mut client, "cat /tools/shop/__init__.pyi");
    assert!(seen.contains("refund(") && !seen.contains("pay("), "{seen}");

    // Another server begins with what is known, and with what it is told.
    client.leave();
    shop.list(&[tool("find", "Finds a parcel"), tool("later", "Waits")]);
    let mut client = McpClient::start_with(shop.serve(world), Era::Modern);
    let (code, _) = sh(&mut client, "test -e /tools/shop/find.pyi");
    assert_eq!(code, 0, "what was listed before is there at once");
    fs::write(&shop.config, "").unwrap();
    client.leave();
    let mut client = McpClient::start_with(shop.serve(world), Era::Modern);
    once(&mut client, "without servers the tree is empty", "test ! -e /tools/shop");
}

fn without_servers_the_index_says_so(world: &World) {
    let seen = world.text(["run", "--", "sh", "-c", "ls /tools; cat /tools/INDEX.md"]);
    assert!(seen.starts_with("INDEX.md\n") && seen.contains("[toolbox.NAME]"), "{seen}");
}

fn tools_of_real_servers_are_listed_and_grepped(world: &World) {
    let Some(place) = tool_servers() else { return };
    let config = crate::code_tools::declare(world, &place);
    let serve = world.hotcell(["serve", "--config", &config]);
    let mut client = McpClient::start_with(serve, Era::Modern);
    let seen = once(
        &mut client,
        "both are listed",
        "ls /tools/everything /tools/files/read_text_file.pyi",
    );
    assert!(seen.contains("echo.pyi") && seen.contains("get_sum.d.ts"), "{seen}");
    let (_, seen) =
        sh(&mut client, "grep -l message /tools/everything/*.pyi; wc -l /tools/INDEX.md");
    assert!(seen.contains("/tools/everything/echo.pyi"), "{seen}");
    // What is allowed without a rule, and what is not.
    let (_, seen) = sh(
        &mut client,
        "grep -h policy: /tools/files/read_text_file.pyi /tools/everything/echo.pyi",
    );
    assert!(seen.contains("policy: allow") && seen.contains("policy: ask"), "{seen}");
    let ran = client.call(
        "code_run",
        json!({ "wait_s": 50, "code":
        "import ast, pathlib\nfiles = list(pathlib.Path('/tools').rglob('*.pyi'))\n\
         for file in files: ast.parse(file.read_text())\nlen(files)" }),
    );
    assert!(ran["result"].as_u64().unwrap() > 20, "{ran}");
}

fn what_a_tenant_was_answered_is_shown_to_it_alone(world: &World) {
    let shop = Listing::declare(world, &[tool("find", "Finds an order")]);
    let config = shop.config.display().to_string();
    let token = |tenant: &str| {
        let create = ["token", "create", "--name", tenant, "--tenant", tenant, "--role", "agent"];
        world.hotcell(create).run().succeeded().stdout().trim().to_owned()
    };
    let tokens = [token("one"), token("two")];
    let policy = world.home().join("policy.toml").display().to_string();
    let server = HttpServer::start_with(
        world,
        &["--config", &config],
        &[("HOTCELL_POLICY_FILE", policy.as_str())],
    );
    let call = |token: &str, name: &str, arguments: Value| {
        let sent = Sent::tool(name, arguments);
        server.ask(&sent.with("authorization", &format!("Bearer {token}"))).tool_result()
    };
    let shell = |token: &str, command: &str| {
        call(token, "exec_run", json!({ "command": command, "wait_s": 50 }))["exit_code"].clone()
    };
    let ask = |token: &str, key: &str| {
        let code = format!("from tools.shop import find\nfind(key={key:?})");
        let ran = call(token, "code_run", json!({ "code": code, "wait_s": 50 }));
        assert_eq!(ran["result"][key], 1, "{ran}");
    };
    for token in &tokens {
        eventually("the server is listed", || shell(token, "test -e /tools/shop/find.pyi") == 0);
    }
    ask(&tokens[0], "alpha_of_one");
    ask(&tokens[1], "beta_of_two");
    let own = ["alpha_of_one", "beta_of_two"];
    for (token, own) in tokens.iter().zip(own) {
        eventually("its own answers are seen", || {
            shell(token, &format!("grep -rq {own} /tools")) == 0
        });
    }
    for (token, other) in tokens.iter().zip([own[1], own[0]]) {
        assert_eq!(shell(token, &format!("grep -rq {other} /tools")), 1, "{other}");
    }
    server.terminate();
}

fn a_tree_stays_whatever_becomes_of_a_cell(world: &World) {
    let shop = Listing::declare(world, &[tool("find", "Finds an order")]);
    let mut client = McpClient::start_with(shop.serve(world), Era::Modern);
    let spawned = client.call("cell_spawn", json!({ "alias": "lasting", "persistent": true }));
    let cell = spawned["id"].as_str().unwrap().to_owned();
    let look = "test -e /tools/shop/find.pyi && ! touch /tools/x 2>/dev/null";
    let run = |client: &mut McpClient, cell: &str, command: &str| {
        let asked = json!({ "cell": cell, "command": command, "wait_s": 50 });
        client.call("exec_run", asked)["exit_code"].clone()
    };
    eventually("the server is listed", || run(&mut client, &cell, look) == 0);
    run(&mut client, &cell, "echo kept > file");
    let kept = world.text(["checkpoint", "create", "lasting"]);
    assert_eq!(run(&mut client, &cell, look), 0, "after a checkpoint");
    run(&mut client, &cell, "rm file");
    let id = kept.split_whitespace().find(|word| word.starts_with("k_")).unwrap();
    world.text(["checkpoint", "restore", "lasting", id]);
    assert_eq!(run(&mut client, &cell, &format!("cat file && {look}")), 0, "restored");
    let forked = world.json(["fork", "lasting", "--json"]);
    let fork = forked["cells"][0]["id"].as_str().unwrap_or_else(|| panic!("{forked}")).to_owned();
    assert_eq!(run(&mut client, &fork, look), 0, "in a fork");
    // The supervisor is gone, and the cell wakes.
    crate::world::kill_9(world.supervisor(&cell));
    assert_eq!(run(&mut client, &cell, &format!("cat file && {look}")), 0, "after it woke");
}

fn what_servers_say_stays_within_the_tree(world: &World) {
    let many = (0..1_999).map(|n| tool(&format!("tool_{n}"), &"words ".repeat(200)));
    let odd = tool("../../../../../../tmp/out", "\"\"\"\nimport os\n");
    let shop = Listing::declare(world, &many.chain([odd]).collect::<Vec<_>>());
    let mut client = McpClient::start_with(shop.serve(world), Era::Modern);
    // The index is written when all else is there.
    once(&mut client, "it is listed", "grep -q 'shop (2000)' /tools/INDEX.md");
    let (_, seen) = sh(&mut client, "ls /tools/shop | wc -l; ls /tools/shop | grep -c out");
    assert_eq!(seen, "4002\n2\n");
    assert!(!Path::new("/tmp/out.pyi").exists());
    let bytes: u64 = walk(&world.state_dir().join("tools"));
    assert!(bytes < 64 << 20, "{bytes}");
}

fn walk(path: &Path) -> u64 {
    fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path()),
            false => entry.metadata().unwrap().len(),
        })
        .sum()
}

fn without_a_root_of_its_own_a_cell_has_no_tools(world: &World) {
    assert_eq!(world.kind(), Kind::WithoutNamespaces);
    let seen = world.text(["run", "--", "sh", "-c", "test ! -e /tools && echo none"]);
    assert_eq!(seen, "none\n");
}
