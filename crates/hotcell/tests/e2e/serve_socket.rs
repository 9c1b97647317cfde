//! A server at a unix socket: the kernel says who calls.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{Finished, Kind, Live, World, kill_9};

in_worlds! {
    [root, rootless]
    the_owner_of_a_socket_may_call,
    a_socket_that_was_left_is_replaced_and_one_in_use_is_not,
    callers_at_a_socket_are_of_the_servers_tenant_and_agents,
    what_is_no_socket_is_left_alone,
}

/// A plain client: connects, sends a request, prints the status and the body.
const CLIENT: &str = r#"
import json, socket, sys
path, method, target, body, token = sys.argv[1:6]
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(path)
except PermissionError:
    print(json.dumps({"status": 0}))
    sys.exit()
head = f"{method} {target} HTTP/1.1\r\nhost: anything.example.org\r\nconnection: close\r\n"
if token:
    head += f"authorization: Bearer {token}\r\n"
head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
# A server that takes no connection from us answers without having read.
try:
    client.sendall((head + body).encode())
except BrokenPipeError:
    pass
answer = b""
while True:
    try:
        piece = client.recv(65536)
    except ConnectionResetError:
        continue
    if not piece:
        break
    answer += piece
head, _, body = answer.partition(b"\r\n\r\n")
print(json.dumps({"status": int(head.split()[1]), "body": body.decode()}))
"#;

fn ask(world: &World, socket: &Path, method: &str, target: &str, body: &Value) -> (u64, Value) {
    ask_with(world, socket, "", (method, target), body)
}

fn ask_with(
    world: &World,
    socket: &Path,
    token: &str,
    (method, target): (&str, &str),
    body: &Value,
) -> (u64, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let socket = socket.to_str().unwrap();
    let asked = world.other("python3", ["-c", CLIENT, socket, method, target, &body, token]);
    let answered: Finished = asked.run().succeeded();
    let answered: Value = serde_json::from_str(&answered.stdout()).unwrap();
    let body = answered["body"].as_str().unwrap_or_default();
    (answered["status"].as_u64().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

fn serve(world: &World, name: &str, variables: &[(&str, &str)]) -> (Live, PathBuf) {
    let path = world.home().join(name);
    let at = format!("unix:{}", path.display());
    let mut serve = world.hotcell(["serve", "--http", &at]);
    for (name, value) in variables {
        serve = serve.env(name, value);
    }
    let live = serve.start();
    live.await_stderr(&format!("listening on {at}"));
    (live, path)
}

fn the_owner_of_a_socket_may_call(world: &World) {
    // Proof is required, and who one is is proof.
    let (live, path) = serve(world, "sock", &[("HOTCELL_HTTP_AUTH", "required")]);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let run = json!({ "command": "echo over a socket", "wait_s": 20 });
    let (status, ran) = ask(world, &path, "POST", "/v1/execs", &run);
    assert_eq!((status, &ran["messages"][0]["data"]), (201, &json!("over a socket\n")), "{ran}");
    assert_eq!(ask(world, &path, "GET", "/v1/cells", &Value::Null).0, 200);
    crate::world::send(live.pid(), rustix::process::Signal::TERM);
    assert_eq!(live.finish().code(), 0);
    assert!(!path.exists());
}

fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not(world: &World) {
    let (live, path) = serve(world, "sock", &[]);
    let at = format!("unix:{}", path.display());
    let second = world.hotcell(["serve", "--http", &at]).run();
    assert!(second.code() != 0 && second.stderr().contains("somebody else listens"), "{second:?}");
    assert_eq!(ask(world, &path, "GET", "/health", &Value::Null).0, 200);
    kill_9(live.pid());
    live.finish();
    assert!(path.exists());
    let (live, path) = serve(world, "sock", &[]);
    assert_eq!(ask(world, &path, "GET", "/health", &Value::Null).0, 200);
    drop(live);
}

fn callers_at_a_socket_are_of_the_servers_tenant_and_agents(world: &World) {
    let (live, path) = serve(world, "sock", &[("HOTCELL_TENANT", "team-a")]);
    let run = json!({ "command": "true", "wait_s": 20 });
    assert_eq!(ask(world, &path, "POST", "/v1/execs", &run).0, 201);
    let of = |tenant: &str| {
        let listed = world.hotcell(["--tenant", tenant, "cells", "--json"]).run().succeeded();
        let listed: Value = serde_json::from_str(&listed.stdout()).unwrap();
        listed["cells"].as_array().unwrap().len()
    };
    assert_eq!((of("team-a"), of("main")), (1, 0));
    for path_of_operators in ["/v1/approvals", "/v1/audit"] {
        assert_eq!(ask(world, &path, "GET", path_of_operators, &Value::Null).0, 403);
    }
    // A token that is sent says who calls; one that is nobody's does not leave one the owner.
    let made = world.hotcell(["token", "create", "--role", "auditor"]).run().succeeded();
    let made = made.stdout().trim().to_owned();
    let with =
        |token: &str, target: &str| ask_with(world, &path, token, ("GET", target), &Value::Null).0;
    assert_eq!((with(&made, "/v1/audit"), with(&made, "/v1/cells")), (200, 403));
    for junk in ["junk", "hc_0000000000_junk", "a.b.c"] {
        assert_eq!(with(junk, "/v1/cells"), 401, "{junk}");
    }
    drop(live);
}

fn what_is_no_socket_is_left_alone(world: &World) {
    let refused = |path: &Path| {
        let at = format!("unix:{}", path.display());
        let refused = world.hotcell(["serve", "--http", &at]).run();
        assert!(refused.code() != 0 && refused.stderr().contains("no socket"), "{refused:?}");
    };
    let file = world.home().join("file");
    fs::write(&file, "kept").unwrap();
    refused(&file);
    // Nor is what a link leads to taken for the server's, be it there or not.
    let (link, dangling) = (world.home().join("link"), world.home().join("dangling"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::os::unix::fs::symlink(world.home().join("absent"), &dangling).unwrap();
    refused(&link);
    refused(&dangling);
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    assert!(link.is_symlink() && dangling.is_symlink() && !world.home().join("absent").exists());
}

#[test]
fn other_users_are_refused_unless_they_are_named() {
    let (Some(root), Some(other)) = (World::enter(Kind::Root), World::enter(Kind::Rootless)) else {
        return;
    };
    let uid = other.user().uid;
    // The mode of the file keeps others out, and the server would too.
    let (live, path) = serve(&root, "sock", &[]);
    assert_eq!(ask(&other, &path, "GET", "/v1/cells", &Value::Null).0, 0);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let (status, refused) = ask(&other, &path, "GET", "/v1/cells", &Value::Null);
    assert_eq!((status, &refused["code"]), (403, &json!("denied")), "{refused}");
    assert_eq!(ask(&other, &path, "GET", "/health", &Value::Null).0, 403);
    assert_eq!(ask(&root, &path, "GET", "/v1/cells", &Value::Null).0, 200);
    drop(live);
    // A named one has the role that it was given.
    let named = format!("{uid}=auditor");
    let (live, path) = serve(&root, "named", &[("HOTCELL_HTTP_SOCKET_UIDS", &named)]);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
    assert_eq!(ask(&other, &path, "GET", "/metrics", &Value::Null).0, 200);
    assert_eq!(ask(&other, &path, "GET", "/v1/cells", &Value::Null).0, 403);
    assert_eq!(ask(&root, &path, "GET", "/v1/cells", &Value::Null).0, 200);
    drop(live);
    // Root may call whoever owns the socket.
    let (live, path) = serve(&other, "sock", &[]);
    assert_eq!(ask(&root, &path, "GET", "/v1/cells", &Value::Null).0, 200);
    assert_eq!(ask(&other, &path, "GET", "/v1/cells", &Value::Null).0, 200);
    drop(live);
}
