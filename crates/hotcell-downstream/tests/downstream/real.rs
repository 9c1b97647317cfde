//! Servers that others wrote and many use.

use std::collections::HashSet;
use std::path::Path;

use hotcell_downstream::{ServerSpec, SpecText};
use hotcell_model::{ErrorCode, ServerState, ToolServers};
use serde_json::json;

use crate::world::{SECRET, call, names, serve, serve_listed, stdio, text, tool_servers, with_env};

fn node(place: &Path, package: &str, args: &[&str]) -> ServerSpec {
    let script =
        place.join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    stdio("node", &[&[script.to_str().unwrap()], args].concat())
}

fn python(place: &Path, name: &str, args: &[&str]) -> ServerSpec {
    let program = place.join(name).join("bin").join(format!("mcp-server-{name}"));
    stdio(program.to_str().unwrap(), args)
}

#[tokio::test]
async fn everything_is_listed_and_called() {
    let Some(place) = tool_servers() else { return };
    let spec = node(&place, "server-everything", &["stdio"]);
    let servers = serve(with_env(spec, "TOKEN", SpecText::Secret("token".parse().unwrap())));
    assert_eq!(servers.standing()[0].state, ServerState::Idle);
    let listed = names(&servers).await;
    assert!(listed.len() > 8 && listed.iter().any(|name| name == "echo"), "{listed:?}");
    assert_eq!(servers.standing()[0].state, ServerState::Ready);

    let echoed = call(&servers, "echo", json!({ "message": "hello" })).await.unwrap();
    assert!(text(&echoed).contains("hello") && !echoed.is_error, "{echoed:?}");
    assert!(echoed.bytes > 20, "{echoed:?}");

    let typed =
        call(&servers, "get-structured-content", json!({ "location": "Chicago" })).await.unwrap();
    assert!(typed.structured.as_ref().is_some_and(|found| found["temperature"].is_number()));

    let image = call(&servers, "get-tiny-image", json!({})).await.unwrap();
    assert!(image.content.iter().any(|block| block["type"] == "image"), "{image:?}");

    // What is in its environment is what it was given, and the secret does not come back.
    let env = text(&call(&servers, "get-env", json!({})).await.unwrap()).to_owned();
    let env: serde_json::Value = serde_json::from_str(&env).unwrap();
    let variables: HashSet<&str> = env.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(variables.is_subset(&HashSet::from(["PATH", "LANG", "TOKEN"])), "{variables:?}");
    assert!(env["TOKEN"].as_str().is_some_and(|value| !value.contains(SECRET)), "{env}");

    let wrong = call(&servers, "echo", json!({})).await;
    let is_refused = match &wrong {
        Ok(answer) => answer.is_error,
        Err(error) => error.code == ErrorCode::Invalid,
    };
    assert!(is_refused, "{wrong:?}");
}

#[tokio::test]
async fn a_file_system_keeps_its_bounds() {
    let Some(place) = tool_servers() else { return };
    let files = tempfile::tempdir().unwrap();
    let files = files.path().canonicalize().unwrap();
    let servers = serve(node(&place, "server-filesystem", &[files.to_str().unwrap()]));
    let path = files.join("a.txt");
    let written = json!({ "path": path, "content": "one\ntwo\n" });
    assert!(!call(&servers, "write_file", written).await.unwrap().is_error);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    let read = call(&servers, "read_text_file", json!({ "path": path })).await.unwrap();
    assert_eq!(text(&read), "one\ntwo\n");
    // The tool says by itself that it failed.
    let outside = call(&servers, "read_text_file", json!({ "path": "/etc/passwd" })).await.unwrap();
    assert!(outside.is_error, "{outside:?}");
    let standing = &servers.standing()[0];
    assert_eq!((standing.calls, standing.errors, standing.restarts), (3, 1, 0));
}

#[tokio::test]
async fn a_memory_lasts_while_the_server_does() {
    let Some(place) = tool_servers() else { return };
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("memory.json").to_str().unwrap().to_owned();
    let spec =
        with_env(node(&place, "server-memory", &[]), "MEMORY_FILE_PATH", SpecText::Plain(file));
    let servers = serve(spec);
    let entity = json!({ "name": "cell", "entityType": "thing", "observations": ["it is hot"] });
    call(&servers, "create_entities", json!({ "entities": [entity] })).await.unwrap();
    let found = call(&servers, "search_nodes", json!({ "query": "hot" })).await.unwrap();
    assert!(text(&found).contains("cell"), "{found:?}");
    let none = call(&servers, "search_nodes", json!({ "query": "cold" })).await.unwrap();
    assert!(!text(&none).contains("it is hot"), "{none:?}");
}

#[tokio::test]
async fn python_servers_of_two_ages_are_spoken_to() {
    let Some(place) = tool_servers() else { return };
    let kept = tempfile::tempdir().unwrap();
    let database = kept.path().join("a.db");
    let servers = serve_listed(
        python(&place, "sqlite", &["--db-path", database.to_str().unwrap()]),
        Some(&kept.path().join("listings")),
    );
    let listed = names(&servers).await;
    assert!(listed.iter().any(|name| name == "read_query"), "{listed:?}");
    call(&servers, "create_table", json!({ "query": "CREATE TABLE t (a INTEGER)" })).await.unwrap();
    let insert = json!({ "query": "INSERT INTO t VALUES (6), (7)" });
    call(&servers, "write_query", insert).await.unwrap();
    let sum = json!({ "query": "SELECT sum(a) AS s FROM t" });
    let sum = call(&servers, "read_query", sum).await.unwrap();
    assert!(text(&sum).contains("13"), "{sum:?}");

    let servers = serve(python(&place, "time", &["--local-timezone", "UTC"]));
    let asked =
        json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let converted = call(&servers, "convert_time", asked).await.unwrap();
    assert!(text(&converted).contains("21:00"), "{converted:?}");
}
