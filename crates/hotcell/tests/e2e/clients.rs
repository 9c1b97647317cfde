//! Programs of others drive ours: the official Python client and the Inspector, over both
//! transports and in both eras of the protocol.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::{Finished, HttpServer, Invocation, Kind, World, clients, is_root, program};

/// Makes a test for each transport and era.
macro_rules! by_transport_and_era {
    ($behaviour:ident) => {
        mod $behaviour {
            #[test]
            fn stdio_modern() {
                super::$behaviour("stdio", "modern");
            }

            #[test]
            fn stdio_legacy() {
                super::$behaviour("stdio", "legacy");
            }

            #[test]
            fn http_modern() {
                super::$behaviour("http", "modern");
            }

            #[test]
            fn http_legacy() {
                super::$behaviour("http", "legacy");
            }
        }
    };
}

by_transport_and_era!(the_python_client);
by_transport_and_era!(the_inspector);

/// A world of whoever runs the tests, who can read what was installed.
fn enter() -> Option<(World, PathBuf)> {
    let installed = clients()?;
    let kind = if is_root() { Kind::Root } else { Kind::Rootless };
    Some((World::enter(kind)?, installed))
}

fn the_python_client(transport: &str, era: &str) {
    let Some((world, installed)) = enter() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python_client.py");
    let python = installed.join("venv/bin/python");
    let finished = world
        .other(text(&python), ["-B", text(&script), "run", text(program()), transport, era])
        .run()
        .succeeded();
    assert!(finished.stdout().ends_with("scenarios passed\n"), "{finished:?}");
}

/// The Inspector's command line, and the server where it does not start one itself.
struct Inspector<'a> {
    world: &'a World,
    installed: PathBuf,
    server: Option<HttpServer>,
    era: &'a str,
}

impl Inspector<'_> {
    fn ask(&self, method: &str) -> Invocation {
        let modules = self.installed.join("node_modules");
        let script =
            modules.join("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        let state_dir = format!("HOTCELL_STATE_DIR={}", self.world.state_dir().display());
        let asked = self
            .world
            .other(text(&node(&modules)), [text(&script), "--cli", "--protocol-era", self.era])
            .env("HOME", self.world.home());
        let asked = match &self.server {
            Some(server) => {
                let url = format!("http://{}/mcp", server.address);
                asked.args([url.as_str(), "--transport", "http"])
            }
            None => asked.args(["-e", &state_dir, text(program()), "serve"]),
        };
        asked.args(["--method", method, "--format", "json"])
    }

    fn call(&self, tool: &str, arguments: &str) -> Finished {
        let asked = self.ask("tools/call");
        asked.args(["--tool-name", tool, "--tool-args-json", arguments]).run()
    }
}

fn the_inspector(transport: &str, era: &str) {
    /// What the Inspector exits with for a result that is an error.
    const TOOL_FAILED: i32 = 5;
    let Some((world, installed)) = enter() else { return };
    let server = (transport == "http").then(|| HttpServer::start(&world));
    let inspector = Inspector { world: &world, installed, server, era };
    let listed = inspector.ask("tools/list").arg("--strict").run().succeeded();
    let listed: Value = serde_json::from_str(&listed.stdout()).unwrap();
    assert_eq!(listed["result"]["tools"][0]["name"], "cell_spawn", "{listed}");

    let ran = inspector.call("exec_run", r#"{"argv":["echo","from here"]}"#).succeeded();
    let ran: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(ran["result"]["structuredContent"]["stdout"], "from here\n", "{ran}");
    // What the model is told is ours, not the client's about the shape of it.
    let refused = inspector.call("exec_run", r#"{"colour":1}"#).exited(TOOL_FAILED);
    assert!((refused.stdout() + &refused.stderr()).contains("colour"), "{refused:?}");
    if let Some(server) = inspector.server {
        server.terminate().succeeded();
    }
}

/// What the conformance suite calls by name is in no program that users get.
#[test]
fn fixtures_are_not_built_in() {
    let kind = if is_root() { Kind::Root } else { Kind::Rootless };
    let Some(world) = World::enter(kind) else { return };
    let refused = world.hotcell(["serve", "--conformance-fixtures"]).run().exited(2);
    assert!(refused.stderr().contains("--conformance-fixtures"), "{refused:?}");
    let bytes = fs::read(program()).unwrap();
    for (name, expected) in [("exec_poll", true), ("test_simple_text", false)] {
        let found = bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert_eq!(found, expected, "{name}");
    }
}

/// The runtime that was installed for the Inspector.
fn node(modules: &Path) -> PathBuf {
    let names = fs::read_dir(modules).unwrap().flatten().map(|entry| entry.path());
    let is_node = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("node-linux-")
    };
    names.filter(is_node).map(|path| path.join("bin/node")).next().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
