//! How execs end: timeouts, commands that cannot be run, what is left behind.

use crate::world::World;

in_every_world_whatsoever! {
    a_timeout_ends_the_command,
    a_command_may_use_its_grace_after_the_timeout,
    what_cannot_be_run_exits_as_a_shell_shows_it,
    what_a_command_leaves_behind_is_ended_with_it,
    output_written_just_before_the_end_is_there,
    usage_is_measured,
}

fn a_timeout_ends_the_command(world: &World) {
    let finished =
        world.hotcell(["run", "--timeout", "0.3", "--cell", "t", "echo up; sleep 1000"]).run();
    assert_eq!((finished.code(), finished.stdout().as_str()), (124, "up\n"), "{finished:?}");
    let listed = world.json(["ps", "--all", "--json"]);
    assert_eq!(listed["execs"][0]["end"]["cause"], "timed_out");
    world.hotcell(["run", "--timeout", "1h", "--cell", "t", "exit 3"]).run().exited(3);
}

fn a_command_may_use_its_grace_after_the_timeout(world: &World) {
    let script = "trap 'echo tidy; exit 0' TERM; while :; do sleep 0.02; done";
    let finished = world.hotcell(["run", "--timeout", "0.2", script]).run().exited(124);
    assert_eq!(finished.stdout(), "tidy\n");
}

fn what_cannot_be_run_exits_as_a_shell_shows_it(world: &World) {
    let missing = world.hotcell(["run", "--", "no-such-program", "x"]).run().exited(127);
    assert!(missing.stderr().contains("no-such-program"), "{missing:?}");
    world.hotcell(["run", "--", "/workspace/no/such/file", "x"]).run().exited(127);
    world.hotcell(["run", "no-such-program"]).run().exited(127);
    let refused = world.hotcell(["run", "--", "/etc/passwd", "x"]).run().exited(126);
    assert!(refused.stderr().contains("/etc/passwd"), "{refused:?}");
}

fn what_a_command_leaves_behind_is_ended_with_it(world: &World) {
    let script = "sleep 1000 & setsid sleep 1000 & echo main is done";
    let finished = world.hotcell(["run", "--cell", "left", script]).run().succeeded();
    assert_eq!(finished.stdout(), "main is done\n");
    assert!(finished.stderr().contains("2 processes"), "{finished:?}");
    let listed = world.json(["ps", "--all", "--json"]);
    assert_eq!(listed["execs"][0]["end"]["killed_descendants"], 2);
    assert_eq!(crate::world::descendants(world.supervisor("left")), Vec::<i32>::new());
}

fn output_written_just_before_the_end_is_there(world: &World) {
    let script =
        "for i in $(seq 1 50); do (echo child $i &) ; done; head -c 300000 /dev/zero | tr '\\0' x";
    let finished = world.hotcell(["run", "--cell", "late", script]).run().succeeded();
    let text = finished.stdout();
    assert_eq!(text.matches('x').count(), 300_000);
}

fn usage_is_measured(world: &World) {
    let script = "i=0; while test $i -lt 30000; do i=$((i+1)); done; head -c 100000 /dev/zero";
    let finished = world.hotcell(["run", "--json", script]).run().succeeded();
    let last = finished.stdout().lines().last().unwrap().to_owned();
    let exec: serde_json::Value = serde_json::from_str(&last).unwrap();
    let usage = &exec["exec"]["end"]["usage"];
    assert!(usage["cpu_ms"].as_u64().unwrap() > 10, "{usage}");
    assert!(usage["max_rss_kb"].as_u64().unwrap() > 500, "{usage}");
    assert_eq!(usage["stdout_bytes"], 100_000);
}
