//! Programs that take whatever they get, each up to its limit, while a neighbour goes on.
//!
//! What a program gets without the limit, or with a larger one, shows that it was the limit.

use serde_json::{Value, json};

use crate::resource_limits::has_layer;
use crate::world::{Finished, HttpServer, Kind, Sent, World, eventually};

in_every_world! {
    a_fork_bomb_stays_within_its_processes,
    threads_are_counted_as_processes,
    files_in_memory_have_a_bound,
    descriptors_run_out_in_one_process_alone,
    output_without_end_is_kept_in_part,
    time_that_is_over_ends_the_command,
    thousands_of_short_commands_leave_the_neighbour_alone,
}

in_worlds! { [root, without_cgroups, rootless, single_id, docker]
    bytes_on_disk_end_the_command,
    empty_files_end_the_command,
    bytes_below_long_and_deep_paths_are_counted,
}

in_worlds! { [root]
    memory_ends_the_command,
    memory_of_a_child_is_named_too,
    pages_that_are_cached_are_given_back,
}

/// A server with two cells: the neighbour, and one that a program runs away in.
struct Street {
    server: HttpServer,
}

impl Street {
    fn new(world: &World) -> Self {
        let server = HttpServer::start_with(world, &[], &[("HOTCELL_OUTPUT_MB", "1")]);
        let street = Self { server };
        street.spawn("neighbour", json!({}));
        street
    }

    fn spawn(&self, alias: &str, limits: Value) {
        let asked = json!({ "alias": alias, "limits": limits });
        self.server.ask(&Sent::tool("cell_spawn", asked)).is(200).done();
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        self.server.ask(&Sent::tool(tool, arguments)).is(200).tool_result()
    }

    /// Runs away in a cell; how it ended. Meanwhile the neighbour and the server answer.
    fn run_away(&self, cell: &str, command: &str) -> Value {
        let asked = json!({ "cell": cell, "command": command, "wait_s": 0, "timeout_s": 120 });
        let mut seen = self.call("exec_run", asked);
        let mut answers = 0;
        while seen["status"] != "ended" {
            self.neighbour_answers();
            answers += 1;
            let poll = json!({ "exec_id": seen["exec_id"], "tail_lines": 20 });
            seen = self.call("exec_poll", poll);
        }
        self.neighbour_answers();
        assert!(answers > 0, "nobody looked while it ran");
        let messages = seen["messages"].as_array().cloned().unwrap_or_default();
        let printed: String = messages.iter().filter_map(|m| m["data"].as_str()).collect();
        seen["printed"] = printed.into();
        seen
    }

    fn neighbour_answers(&self) {
        let answer = self.call("exec_run", json!({ "cell": "neighbour", "argv": ["true"] }));
        assert_eq!((&answer["end_cause"], &answer["exit_code"]), (&json!("exited"), &json!(0)));
        self.server.ask(&Sent::get("/health")).is(200);
    }

    /// The cell can be used again, whatever happened in it.
    fn is_usable(&self, cell: &str) {
        let answer = self.call("exec_run", json!({ "cell": cell, "command": "echo fine" }));
        assert_eq!(answer["stdout"], "fine\n", "{answer}");
    }

    fn end(self) -> Finished {
        self.server.terminate()
    }
}

fn hit(end: &Value, limit: &str) -> bool {
    end["limits_hit"].as_array().is_some_and(|hit| hit.iter().any(|name| name == limit))
}

/// Whether a control group keeps this limit, and says when it was reached.
fn is_counted(world: &World) -> bool {
    world.kind() == Kind::Root && has_layer(world, "memory_limit") && has_layer(world, "pids_limit")
}

fn a_fork_bomb_stays_within_its_processes(world: &World) {
    let street = Street::new(world);
    street.spawn("bomb", json!({ "pids": 64 }));
    // Bounded for a machine on which the limit does not hold.
    let bomb = "perl -e 'for (1..12) { fork }; sleep 2; print \"here\\n\"' | wc -l";
    let end = street.run_away("bomb", bomb);
    let here: u32 = end["printed"].as_str().unwrap().trim().parse().unwrap();
    assert!(here < 64, "{end}");
    if is_counted(world) {
        assert!(hit(&end, "pids"), "{end}");
    }
    street.is_usable("bomb");
    street.spawn("larger", json!({ "pids": 512 }));
    let smaller_bomb = bomb.replace("1..12", "1..7");
    let end = street.run_away("larger", &smaller_bomb);
    assert_eq!((end["printed"].as_str().unwrap().trim(), hit(&end, "pids")), ("128", false));
    street.end();
}

const THREADS: &str = "python3 -c '
import threading, time
count = 0
try:
    for _ in range(200):
        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
        count += 1
except RuntimeError as error:
    print(error)
print(count, flush=True)
time.sleep(1)
import os
os._exit(0)'";

fn threads_are_counted_as_processes(world: &World) {
    let street = Street::new(world);
    street.spawn("threads", json!({ "pids": 64 }));
    let end = street.run_away("threads", THREADS);
    let printed = end["printed"].as_str().unwrap();
    let count: u32 = printed.lines().last().unwrap().parse().unwrap();
    assert!(count < 64 && printed.contains("start new thread"), "{end}");
    if is_counted(world) {
        assert!(hit(&end, "pids"), "{end}");
    }
    street.is_usable("threads");
    street.spawn("larger", json!({ "pids": 512 }));
    let end = street.run_away("larger", THREADS);
    assert_eq!(end["printed"], "200\n", "{end}");
    street.end();
}

const GREEDY: &str = "perl -e 'for (1..30) { push @x, \"x\" x 10000000 } print scalar @x'";

fn memory_ends_the_command(world: &World) {
    if !is_counted(world) {
        return;
    }
    let street = Street::new(world);
    street.spawn("memory", json!({ "memory_mb": 64 }));
    let end = street.run_away("memory", &format!("sleep 0.5; exec {GREEDY}"));
    assert_eq!(end["end_cause"], "oom_killed", "{end}");
    assert!(hit(&end, "memory"), "{end}");
    street.is_usable("memory");
    street.spawn("larger", json!({ "memory_mb": 1024 }));
    let end = street.run_away("larger", &format!("sleep 0.5; exec {GREEDY}"));
    assert_eq!((&end["printed"], hit(&end, "memory")), (&json!("30"), false));
    street.end();
}

fn memory_of_a_child_is_named_too(world: &World) {
    if !is_counted(world) {
        return;
    }
    let street = Street::new(world);
    street.spawn("memory", json!({ "memory_mb": 64 }));
    let end = street.run_away("memory", &format!("sleep 0.5; {GREEDY}; echo and on"));
    assert_eq!((&end["end_cause"], &end["exit_code"]), (&json!("exited"), &json!(0)), "{end}");
    assert!(end["printed"].as_str().unwrap().ends_with("and on\n"), "{end}");
    assert!(hit(&end, "memory"), "{end}");
    street.end();
}

fn pages_that_are_cached_are_given_back(world: &World) {
    if !is_counted(world) {
        return;
    }
    let Some(world) = World::enter_on_disk(world.kind()) else { return };
    let street = Street::new(&world);
    street.spawn("cache", json!({ "memory_mb": 64, "disk_mb": 1000 }));
    let end = street.run_away("cache", "head -c 300000000 /dev/zero > f; cat f f | wc -c; rm f");
    assert_eq!((&end["end_cause"], hit(&end, "memory")), (&json!("exited"), false), "{end}");
    assert_eq!(end["printed"], "600000000\n");
    street.end();
}

fn files_in_memory_have_a_bound(world: &World) {
    let street = Street::new(world);
    // Without a memory limit /tmp has a bound too large to be tried here.
    let (limits, places) = if is_counted(world) {
        (json!({ "memory_mb": 128 }), ["/tmp", "/dev/shm"].as_slice())
    } else {
        (json!({}), ["/dev/shm"].as_slice())
    };
    street.spawn("memory", limits);
    let fill = |place: &str| {
        format!("sleep 0.3; head -c 100000000 /dev/zero > {place}/big; stat -c %s {place}/big")
    };
    for place in places {
        let end = street.run_away("memory", &fill(place));
        assert_eq!(end["end_cause"], "exited", "{end}");
        let printed = end["printed"].as_str().unwrap();
        assert!(printed.contains("No space left on device"), "{end}");
        let size: u64 = printed.lines().last().unwrap().parse().unwrap();
        assert!(size <= 64 << 20, "{end}");
        // Full as they are, they do not keep the cell from being used.
        street.is_usable("memory");
    }
    let files = "cd /dev/shm && rm -f big && perl -e 'for $i (1..20000) { open F, \">$i\" or die \"$i $!\" }'";
    let end = street.run_away("memory", &format!("sleep 0.3; {files}"));
    assert!(end["printed"].as_str().unwrap().contains("No space left"), "{end}");
    street.spawn("larger", json!({}));
    assert_eq!(street.run_away("larger", &fill("/tmp"))["printed"], "100000000\n");
    street.end();
}

fn bytes_on_disk_end_the_command(world: &World) {
    let street = Street::new(world);
    let fill =
        "for i in $(seq 100); do head -c 2000000 /dev/zero >> big; sleep 0.02; done; echo all";
    street.spawn("disk", json!({ "disk_mb": 32 }));
    let end = street.run_away("disk", fill);
    assert_eq!((&end["end_cause"], hit(&end, "disk")), (&json!("signaled"), true), "{end}");
    // More cannot be written from outside either, until there is room.
    let write = || {
        let asked = json!({ "cell": "disk", "path": "more", "content": "more" });
        street.server.ask(&Sent::tool("fs_write", asked)).is(200)
    };
    assert!(write().body.contains("over its disk limit"), "{}", write().body);
    street.call("fs_delete", json!({ "cell": "disk", "path": "big" }));
    eventually("it is seen that there is room", || !write().body.contains("over its disk limit"));
    street.is_usable("disk");
    street.spawn("larger", json!({ "disk_mb": 1000 }));
    assert_eq!(street.run_away("larger", fill)["printed"], "all\n");
    street.end();
}

fn bytes_below_long_and_deep_paths_are_counted(world: &World) {
    let street = Street::new(world);
    for (cell, name, depth) in [("long", "'x' x 250", 20), ("deep", "'d'", 3000)] {
        // Made with links in it that would show other directories, and another size.
        let fill = format!(
            "ln -s /usr usr; perl -e '$d = {name}; for (1..{depth}) {{ mkdir $d; chdir $d }} \
             for (1..100) {{ open F, \">>big\"; print F \"x\" x 2000000; close F; select undef, undef, undef, 0.02 }} \
             print \"all\"'",
        )
        .replace("'x'", "\"x\"")
        .replace("'d'", "\"d\"");
        street.spawn(cell, json!({ "disk_mb": 32 }));
        let end = street.run_away(cell, &fill);
        assert_eq!((&end["end_cause"], hit(&end, "disk")), (&json!("signaled"), true), "{end}");
        street.call("cell_kill", json!({ "cell": cell, "force": true, "volumes": true }));
    }
    let left = world.json(["cells", "--json"])["cells"].as_array().unwrap().len();
    assert_eq!(left, 1, "only the neighbour is left");
    street.end();
}

fn empty_files_end_the_command(world: &World) {
    let street = Street::new(world);
    let fill = "perl -e 'for $i (1..30000) { open F, \">f$i\"; select undef, undef, undef, 0.01 if $i % 200 == 0 } print \"all\"'";
    street.spawn("files", json!({ "disk_files": 3000 }));
    let end = street.run_away("files", fill);
    assert_eq!((&end["end_cause"], hit(&end, "disk_files")), (&json!("signaled"), true), "{end}");
    street.call("exec_run", json!({ "cell": "files", "command": "rm f*" }));
    street.is_usable("files");
    street.spawn("larger", json!({}));
    assert_eq!(street.run_away("larger", fill)["printed"], "all");
    street.end();
}

fn descriptors_run_out_in_one_process_alone(world: &World) {
    let street = Street::new(world);
    street.spawn("open", json!({}));
    let open = |most: &str| {
        let (set, shown) = (format!("ulimit -n {most}"), "print scalar(@f), \" $!\"");
        format!(
            "{set}; perl -e 'while (open my $f, \"/dev/null\") {{ push @f, $f }} {shown}; sleep 1'"
        )
    };
    let end = street.run_away("open", &open("$(ulimit -Hn)"));
    let printed = end["printed"].as_str().unwrap();
    let count: u64 = printed.split(' ').next().unwrap().parse().unwrap();
    assert!(count <= 65_536 && printed.contains("Too many open files"), "{end}");
    street.is_usable("open");
    let end = street.run_away("open", &open("100"));
    let fewer: u64 = end["printed"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(fewer < 100 && fewer < count, "{end}");
    let raised = street.run_away("open", "sleep 0.3; ulimit -Hn 65537 && echo raised");
    assert!(!raised["printed"].as_str().unwrap().contains("raised\n"), "{raised}");
    street.end();
}

fn output_without_end_is_kept_in_part(world: &World) {
    let street = Street::new(world);
    street.spawn("loud", json!({}));
    let end = street.run_away("loud", "echo first; yes | head -c 20000000; echo last; sleep 0.3");
    assert_eq!((&end["end_cause"], hit(&end, "output")), (&json!("exited"), true), "{end}");
    assert!(end["printed"].as_str().unwrap().ends_with("last\n"), "{end}");
    let polled = |after: u64| {
        let exec = end["exec_id"].clone();
        street.call("exec_poll", json!({ "exec_id": exec, "after_seq": after, "max_bytes": 16384 }))
    };
    let head = polled(0);
    assert!(head["messages"][0]["data"].as_str().unwrap().starts_with("first\n"));
    let mut next = head["next_seq"].as_u64().unwrap();
    let mut dropped = 0;
    loop {
        let page = polled(next);
        dropped += page["dropped"]["dropped_bytes"].as_u64().unwrap_or(0);
        next = page["next_seq"].as_u64().unwrap();
        if page["complete"] == true {
            break;
        }
    }
    assert!((15_000_000..20_000_000).contains(&dropped), "{dropped} bytes were dropped");
    let end = street.run_away("loud", "yes | head -c 200000; sleep 0.3");
    assert!(!hit(&end, "output"), "{end}");
    street.end();
}

fn time_that_is_over_ends_the_command(world: &World) {
    let street = Street::new(world);
    street.spawn("busy", json!({}));
    let busy =
        json!({ "cell": "busy", "command": "while :; do :; done", "timeout_s": 1, "wait_s": 50 });
    assert_eq!(street.call("exec_run", busy)["end_cause"], "timed_out");
    street.neighbour_answers();
    let short = json!({ "cell": "busy", "command": "sleep 1.2; echo on", "wait_s": 50 });
    assert_eq!(street.call("exec_run", short)["stdout"], "on\n");
    street.end();
}

fn thousands_of_short_commands_leave_the_neighbour_alone(world: &World) {
    let street = Street::new(world);
    street.spawn("many", json!({ "pids": 64 }));
    let per_thread = if world.kind() == Kind::Root { 2500 } else { 250 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..per_thread {
                    let asked = json!({ "cell": "many", "argv": ["true"] });
                    let answer = street.call("exec_run", asked);
                    assert_eq!(answer["exit_code"], 0, "{answer}");
                }
            });
        }
        for _ in 0..100 {
            street.neighbour_answers();
        }
    });
    street.is_usable("many");
    street.end();
}
