//! Cells of a root that has what a container engine leaves it: no power to mount on the host.

use serde_json::Value;

use crate::world::{World, descendants, eventually_some, kill_9};

in_worlds! { [container_root]
    commands_are_never_the_hosts_root,
    root_of_the_cell_is_refused_with_what_to_do,
    files_checkpoints_and_forks_work,
    a_directory_of_the_host_is_refused,
}

in_worlds! { [root, container_root]
    a_cell_outlives_the_end_of_its_supervisor,
}

fn commands_are_never_the_hosts_root(world: &World) {
    let isolation = &world.json(["doctor", "--json"])["drivers"][0]["isolation"];
    let layers = isolation["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["name"] == "private_ids"), "{isolation}");
    world.text(["spawn", "inner"]);
    let exec = world.detach("inner", "echo begun; exec sleep 60");
    let process = eventually_some("the command runs", || {
        let name =
            |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        descendants(world.supervisor("inner")).into_iter().find(|pid| name(pid) == "sleep\n")
    });
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let of = |name: &str| -> Vec<u64> {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace().skip(1).map(|number| number.parse().unwrap()).collect()
    };
    for id in of("Uid:").into_iter().chain(of("Gid:")) {
        assert!(id > 1 << 30, "{status}");
    }
    // Its supervisor is the one who is.
    let supervisor = world.supervisor("inner");
    let status = std::fs::read_to_string(format!("/proc/{supervisor}/status")).unwrap();
    assert!(status.contains("Uid:\t0\t0\t0\t0"), "{status}");
    world.text(["cancel", &exec]);
}

fn root_of_the_cell_is_refused_with_what_to_do(world: &World) {
    let refused = world.hotcell(["run", "--as-root", "id"]).run();
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr().contains("CAP_SYS_ADMIN"), "{refused:?}");
}

fn files_checkpoints_and_forks_work(world: &World) {
    world.text(["spawn", "first", "--persistent"]);
    world.text(["run", "--cell", "first", "mkdir d; echo one > d/f; chmod 600 d/f"]);
    let made = world.json(["checkpoint", "create", "first", "--json"]);
    let checkpoint = made["id"].as_str().unwrap();
    world.hotcell(["cp", "-", "first:d/f"]).input("two\n").run().succeeded();
    assert_eq!(world.text(["cat", "first:d/f"]), "two\n");
    let forked = world.json(["fork", "first", "--checkpoint", checkpoint, "--json"]);
    let fork = forked["cells"][0]["id"].as_str().unwrap();
    assert_eq!(world.text(["run", "--cell", fork, "cat d/f; echo three > d/f"]), "one\n");
    assert_eq!(world.text(["cat", "first:d/f"]), "two\n");
    let diff = world.json(["checkpoint", "diff", "first", checkpoint, "--json"]);
    let changed: Vec<&Value> = diff["changes"].as_array().unwrap().iter().collect();
    assert!(changed.iter().any(|change| change["path"] == "/workspace/d/f"), "{diff}");
    world.text(["checkpoint", "restore", "first", checkpoint]);
    assert_eq!(world.text(["run", "--cell", "first", "cat d/f"]), "one\n");
    world.text(["kill", "--volumes", fork]);
    world.text(["kill", "--volumes", "first"]);
}

fn a_directory_of_the_host_is_refused(world: &World) {
    let project = world.home().join("project");
    std::fs::create_dir(&project).unwrap();
    let refused = world.hotcell(["run", "--workspace", project.to_str().unwrap(), "true"]).run();
    assert!(refused.stderr().contains("run hotcell as the user"), "{refused:?}");
}

fn a_cell_outlives_the_end_of_its_supervisor(world: &World) {
    world.text(["spawn", "torn", "--persistent"]);
    world.text(["run", "--cell", "torn", "echo kept > f"]);
    kill_9(world.supervisor("torn"));
    assert_eq!(world.text(["run", "--cell", "torn", "cat f"]), "kept\n");
}
