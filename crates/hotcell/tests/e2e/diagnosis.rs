//! The doctor: what it says of a machine is what a cell on it finds.

use serde_json::Value;

use crate::world::{Finished, World, program};

in_every_world! {
    a_cell_that_lacks_what_is_required_is_refused_with_the_remedy,
    the_doctor_foretells_the_isolation_of_a_cell,
    the_table_tells_the_verdict,
}

in_worlds! { [root, rootless, single_id]
    a_forbidden_user_namespace_is_blamed_on_its_sysctl,
}

in_worlds! { [rootless]
    a_forbidden_network_namespace_is_blamed_on_its_own_sysctl,
}

in_worlds! { [root]
    a_state_directory_on_an_overlay_is_named_as_the_fault,
}

in_worlds! { [rootless]
    a_covered_proc_is_found_out,
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["drivers"][0]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{report}"))
}

fn report(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout()).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

/// The program in a shell that first makes the machine worse.
fn after(world: &World, unshare: &str, script: &str, args: &str) -> Finished {
    let script = format!("{script} && exec {} {args}", program().display());
    world.other("unshare", [unshare, "sh", "-euc", &script]).run()
}

fn assert_no_trial_left(world: &World) {
    let entries = std::fs::read_dir(world.state_dir().join("native")).unwrap();
    for entry in entries {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with("trial"), "{name} is left");
    }
}

fn the_doctor_foretells_the_isolation_of_a_cell(world: &World) {
    let report = world.json(["doctor", "--json"]);
    assert_no_trial_left(world);
    for name in ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"] {
        assert_eq!(check(&report, &format!("{name}_namespace"))["status"], "ok", "{report}");
    }
    for name in ["system_calls", "id_maps", "capabilities", "overlay", "proc", "cell_root"] {
        assert_eq!(check(&report, name)["status"], "ok", "{report}");
    }
    world.text(["spawn", "real"]);
    let cell = world.json(["info", "real", "--json"]);
    assert_eq!(report["drivers"][0]["isolation"], cell["cell"]["isolation"]);
}

fn a_cell_that_lacks_what_is_required_is_refused_with_the_remedy(world: &World) {
    let isolation = &world.json(["doctor", "--json"])["drivers"][0]["isolation"];
    for layer in isolation["layers"].as_array().unwrap() {
        let require = ("HOTCELL_NATIVE_REQUIRE", layer["name"].as_str().unwrap());
        world.hotcell(["run", "true"]).env(require.0, require.1).run().exited(0);
    }
    for missing in isolation["missing"].as_array().unwrap() {
        let require = ("HOTCELL_NATIVE_REQUIRE", missing["name"].as_str().unwrap());
        let run = |args: [&str; 2]| world.hotcell(args).env(require.0, require.1).run();
        let refused = run(["run", "true"]).stderr();
        assert!(refused.contains(missing["reason"].as_str().unwrap()), "{refused}");
        assert!(refused.contains(missing["remedy"].as_str().unwrap()), "{refused}");
        let told = report(&run(["doctor", "--json"]).exited(1));
        assert_eq!(check(&told, "required")["status"], "fatal", "{told}");
    }
    let full = world.hotcell(["run", "true"]).env("HOTCELL_NATIVE_LEVEL", "full").run();
    assert_eq!(full.code() == 0, isolation["level"] == "full", "{full:?}");
    assert_eq!(world.text(["cells"]).lines().count(), 1, "nothing half-made stays");
    let odd = world.hotcell(["run", "true"]).env("HOTCELL_NATIVE_REQUIRE", "moat").run();
    assert!(odd.stderr().contains("none of the layers"), "{odd:?}");
}

fn the_table_tells_the_verdict(world: &World) {
    let text = world.text(["doctor"]);
    assert!(text.starts_with("CHECK"), "{text}");
    assert!(text.contains("\nCells of native can be made here."), "{text}");
    assert!(!text.contains("fatal"), "{text}");
}

fn a_forbidden_user_namespace_is_blamed_on_its_sysctl(world: &World) {
    let none = "echo 0 > /proc/sys/user/max_user_namespaces";
    let finished = after(world, "-Ur", none, "doctor --json").exited(1);
    let report = report(&finished);
    assert_eq!(report["drivers"][0]["isolation"], Value::Null);
    let found = check(&report, "user_namespace");
    assert_eq!(found["status"], "fatal");
    assert!(found["detail"].as_str().unwrap().contains("os error 28"), "{found}");
    let remedy = found["remedy"].as_str().unwrap();
    assert!(remedy.contains("sysctl -w user.max_user_namespaces="), "{found}");
    assert_eq!(check(&report, "overlay")["status"], "info");
    assert_no_trial_left(world);

    let finished = after(world, "-Ur", none, "run true").exited(125);
    let said = finished.stderr();
    assert!(said.contains("sysctl -w user.max_user_namespaces="), "{finished:?}");
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"], Value::Array(Vec::new()));
}

fn a_forbidden_network_namespace_is_blamed_on_its_own_sysctl(world: &World) {
    let none = "echo 0 > /proc/sys/user/max_net_namespaces";
    let report = report(&after(world, "-Ur", none, "doctor --json").exited(1));
    assert_eq!(check(&report, "user_namespace")["status"], "ok");
    let found = check(&report, "network_namespace");
    assert_eq!(found["status"], "fatal");
    assert!(found["remedy"].as_str().unwrap().contains("user.max_net_namespaces="), "{found}");
}

fn a_state_directory_on_an_overlay_is_named_as_the_fault(world: &World) {
    let directory = world.home().join("stack");
    std::fs::create_dir(&directory).unwrap();
    let stack = format!(
        "cd {} && mount -t tmpfs none . && cd $PWD && mkdir l u w m && \
         mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m && \
         export HOTCELL_STATE_DIR=$PWD/m/state",
        directory.display()
    );
    let report = report(&after(world, "-m", &stack, "doctor --json").exited(1));
    assert!(check(&report, "file_system")["detail"].as_str().unwrap().starts_with("overlay at"));
    let found = check(&report, "overlay");
    assert_eq!(found["status"], "fatal");
    assert!(found["remedy"].as_str().unwrap().contains("HOTCELL_STATE_DIR"), "{found}");
}

fn a_covered_proc_is_found_out(world: &World) {
    let cover = "mount --bind /dev/null /proc/version";
    let report = report(&after(world, "-mUr", cover, "doctor --json").exited(1));
    let found = check(&report, "proc");
    assert_eq!(found["status"], "fatal");
    assert!(found["detail"].as_str().unwrap().contains("os error 1"), "{found}");
}
