//! What the tests stand on: servers of a test, and what is asked of them.
#![expect(clippy::disallowed_methods, reason = "where servers are is told by the environment")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_downstream::{
    Launch, McpServers, ServerSpec, SpecText, StdioLaunch, Surroundings, ValueOf,
};
use hotcell_model::{Error, Result, SecretValue, ToolAnswer, ToolCall, ToolServers};
use serde_json::Value;

/// How long a server may take to list its tools.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The secret that servers of tests are given.
pub(crate) const SECRET: &str = "hunter2-is-a-long-enough-secret";

/// A declaration of a program.
pub(crate) fn stdio(command: &str, args: &[&str]) -> ServerSpec {
    ServerSpec::new(Launch::Stdio(StdioLaunch {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
    }))
}

/// A declaration of the server that misbehaves.
pub(crate) fn misbehaving(args: &[&str]) -> ServerSpec {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/downstream/misbehaving.py");
    let mut spec = stdio("python3", &[&[script], args].concat());
    spec.timeout = Duration::from_secs(20);
    with_env(spec, "TOKEN", SpecText::Secret("token".parse().unwrap()))
}

pub(crate) fn with_env(mut spec: ServerSpec, name: &str, value: SpecText) -> ServerSpec {
    if let Launch::Stdio(stdio) = &mut spec.launch {
        stdio.env.insert(name.to_owned(), value);
    }
    spec
}

/// What servers of tests are started with.
pub(crate) fn surroundings(listings: Option<&Path>) -> Surroundings {
    let value_of: ValueOf = Arc::new(|name| match name.as_str() {
        "token" => SecretValue::new(SECRET.as_bytes().to_vec()),
        other => Err(Error::not_found(format!("no secret {other:?}"))),
    });
    let path = std::env::var("PATH").unwrap();
    let env = [("PATH", path), ("LANG", "C.UTF-8".to_owned())];
    Surroundings {
        value_of,
        env: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        directory: PathBuf::from("/"),
        listings: listings.map(Path::to_owned),
        nameservers: Vec::new(),
        ca_file: None,
    }
}

/// One server, named `it`.
pub(crate) fn serve(spec: ServerSpec) -> McpServers {
    serve_listed(spec, None)
}

pub(crate) fn serve_listed(spec: ServerSpec, listings: Option<&Path>) -> McpServers {
    McpServers::new([("it".parse().unwrap(), spec)], surroundings(listings)).unwrap()
}

pub(crate) async fn call(servers: &McpServers, tool: &str, arguments: Value) -> Result<ToolAnswer> {
    call_within(servers, tool, arguments, None).await
}

pub(crate) async fn call_within(
    servers: &McpServers,
    tool: &str,
    arguments: Value,
    timeout: Option<Duration>,
) -> Result<ToolAnswer> {
    let Value::Object(arguments) = arguments else { panic!("{arguments} are no arguments") };
    servers
        .call(ToolCall { server: "it".to_owned(), tool: tool.to_owned(), arguments, timeout })
        .await
}

/// The names of the tools of the only server.
pub(crate) async fn names(servers: &McpServers) -> Vec<String> {
    let listings = servers.listings(PATIENCE).await;
    assert_eq!(listings.servers[0].fault, None);
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    listings.servers[0].tools.iter().map(name).collect()
}

/// The text of the first block.
pub(crate) fn text(answer: &ToolAnswer) -> &str {
    answer.content[0]["text"].as_str().unwrap()
}

/// Whether a process is there, and not only waits to be reaped.
pub(crate) fn is_alive(pid: u64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never was so: {what}");
}

/// Where the servers of others are; says loudly that they are missing, or fails where they are required.
pub(crate) fn tool_servers() -> Option<PathBuf> {
    if let Some(place) = std::env::var_os("HOTCELL_TEST_TOOL_SERVERS") {
        return Some(place.into());
    }
    let why = "HOTCELL_TEST_TOOL_SERVERS is not set: there are no servers of others";
    let required = std::env::var("HOTCELL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == "tool-servers");
    assert!(!is_required, "tool-servers is required: {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED {test}: {why}");
    if let Some(list) = std::env::var_os("HOTCELL_TEST_SKIPS") {
        let mut list = fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{test}: {why}").unwrap();
    }
    None
}
