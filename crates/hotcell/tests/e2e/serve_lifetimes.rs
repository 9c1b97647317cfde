//! A transient cell of an agent stays as long as any server runs, and no longer; a server that waits
//! is small.

use std::time::Duration;

use serde_json::json;

use crate::world::{
    Era, Invocation, McpClient, World, eventually, is_alive, peak_kib, resident_kib,
};

in_worlds! { [root, rootless]
    a_server_takes_over_what_another_one_leaves,
    without_a_server_a_transient_cell_ends,
    a_server_that_waits_takes_little_memory,
}

/// Longer than a server takes to notice that another one is gone.
const GRACE: Duration = Duration::from_secs(3);

fn serve(world: &World) -> Invocation {
    world.hotcell(["serve"]).env("HOTCELL_ORPHAN_GRACE_S", GRACE.as_secs().to_string())
}

/// Makes a transient cell with an exec in it; both ids.
fn begin(client: &mut McpClient) -> (String, String) {
    let cell = client.call("cell_spawn", json!({}))["id"].as_str().unwrap().to_owned();
    let run = json!({ "cell": cell, "command": "sleep 1000", "wait_s": 0 });
    let exec = client.call("exec_run", run)["exec_id"].as_str().unwrap().to_owned();
    (cell, exec)
}

fn a_server_takes_over_what_another_one_leaves(world: &World) {
    let mut first = McpClient::start_with(serve(world), Era::Modern);
    let mut second = McpClient::start_with(serve(world), Era::Legacy);
    let (cell, exec) = begin(&mut first);
    let supervisor = world.supervisor(&cell);
    first.kill();
    std::thread::sleep(2 * GRACE);
    let polled = second.call("exec_poll", json!({ "exec_id": exec }));
    assert_eq!(polled["status"], "running", "{polled}");
    second.leave().0.succeeded();
    eventually("the cell has ended with the last server", || !is_alive(supervisor));
}

fn without_a_server_a_transient_cell_ends(world: &World) {
    let mut only = McpClient::start_with(serve(world), Era::Modern);
    let (cell, exec) = begin(&mut only);
    let supervisor = world.supervisor(&cell);
    only.kill();
    eventually("the cell has ended", || !is_alive(supervisor));
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
}

fn a_server_that_waits_takes_little_memory(world: &World) {
    let mut client = McpClient::start_with(serve(world), Era::Modern);
    let server = client.pid();
    eventually("it has let go of what its start needed", || {
        resident_kib(server) * 2 < peak_kib(server)
    });
    let ran = client.call("exec_run", json!({ "command": "echo all there" }));
    assert_eq!(ran["stdout"], "all there\n", "{ran}");
}
