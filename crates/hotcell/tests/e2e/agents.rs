//! Real agents with a scripted model: every check is on what the agent shows its model.

use std::path::Path;
use std::time::Duration;

use crate::world::{Kind, World, agents, clients, is_root, program};

/// An agent takes a second for a step where the machine is busy, and all of them take many.
const DEADLINE: Duration = Duration::from_secs(540);

/// Makes a test for each client.
macro_rules! drives {
    ($($test:ident: $client:literal,)+) => {
        $(
            #[test]
            fn $test() {
                drive("run", $client);
            }
        )+
    };
}

drives! {
    claude_code: "claude-code",
    codex: "codex",
    gemini_cli: "gemini",
    langchain: "langchain",
    openai_agents: "openai-agents",
    opencode: "opencode",
    pydantic_ai: "pydantic-ai",
    qwen_code: "qwen-code",
    typescript_sdk: "typescript-sdk",
}

/// The agent fixes a failing test in its cell; the user reviews and applies the change.
#[test]
fn claude_code_fixes_a_project() {
    drive("project", "claude-code");
}

#[test]
fn codex_fixes_a_project() {
    drive("project", "codex");
}

fn drive(action: &str, client: &str) {
    let Some((agents, clients)) = agents().zip(clients()) else { return };
    let kind = if is_root() { Kind::Root } else { Kind::Rootless };
    let Some(world) = World::enter(kind) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/agents.py");
    let python = agents.join("venv/bin/python");
    let finished = world
        .other(text(&python), ["-B", text(&script), action, text(program()), client])
        .env("HOTCELL_TEST_AGENTS", &agents)
        .env("HOTCELL_TEST_CLIENTS", clients)
        .env("TMPDIR", world.home())
        .start()
        .finish_within(DEADLINE);
    // The report has many lines: it is not shown as a value.
    assert_eq!(finished.code(), 0, "{}\n{}", finished.stdout(), finished.stderr());
    assert!(finished.stdout().ends_with("scenarios passed\n"), "{finished:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
