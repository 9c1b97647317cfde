//! The state directory: private, any path, and refused with a reason where it cannot be used.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::world::{Kind, World, is_root};

in_every_world! {
    a_state_directory_is_made_private,
    any_path_will_do,
    what_a_newer_version_made_is_left_alone,
    a_directory_that_cannot_be_used_is_refused_with_a_reason,
    the_flag_wins_over_the_variable,
}

fn a_state_directory_is_made_private(world: &World) {
    let path = world.home().join("fresh").join("state");
    let run =
        |args: [&str; 2]| world.hotcell(args).env("HOTCELL_STATE_DIR", &path).run().succeeded();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    run(["run", "true"]);
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let told = run(["run", "true"]);
    assert!(told.stderr().contains("open to others"), "{told:?}");
    assert_eq!(mode(), 0o700);
}

fn any_path_will_do(world: &World) {
    let path = world.home().join("with space and ümlaut").join("deep".repeat(60));
    let run = |args: [&str; 3]| {
        let finished = world.hotcell(args).env("HOTCELL_STATE_DIR", &path).run();
        finished.succeeded().stdout()
    };
    assert_eq!(run(["run", "--cell=far", "echo here > f; cat f"]), "here\n");
    assert_eq!(run(["run", "--cell=far", "cat f"]), "here\n");
    run(["kill", "--volumes", "far"]);
}

fn what_a_newer_version_made_is_left_alone(world: &World) {
    world.text(["cells"]);
    let version = world.state_dir().join("version");
    fs::write(&version, "99\n").unwrap();
    let refused = world.hotcell(["cells"]).run().exited(4);
    assert!(refused.stderr().contains("newer hotcell"), "{refused:?}");
    assert!(refused.stderr().contains("\nhint: "), "{refused:?}");
    world.hotcell(["run", "true"]).run().exited(125);
    fs::write(&version, "1\n").unwrap();
    world.text(["run", "true"]);
}

fn a_directory_that_cannot_be_used_is_refused_with_a_reason(world: &World) {
    let try_at = |path: &std::path::Path| {
        let tried = world.hotcell(["cells"]).env("HOTCELL_STATE_DIR", path).run();
        assert!(tried.stderr().starts_with("error: "), "{tried:?}");
        assert!(tried.stderr().contains("\nhint: "), "{tried:?}");
        assert!(tried.stderr().contains(path.to_str().unwrap()), "{tried:?}");
        tried.code()
    };
    let file = world.home().join("a-file");
    fs::write(&file, "").unwrap();
    assert_eq!(try_at(&file), 5);
    assert_eq!(try_at(&file.join("below")), 5);
    assert_eq!(try_at(std::path::Path::new("/proc/hotcell")), 5);
    if is_root() && matches!(world.kind(), Kind::Rootless | Kind::SingleId) {
        let roots = world.home().join("roots");
        fs::create_dir(&roots).unwrap();
        fs::set_permissions(&roots, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(try_at(&roots), 5, "it belongs to somebody else");
        assert_eq!(try_at(&roots.join("below")), 5, "it cannot be made");
        let locked = world.home().join("locked");
        fs::create_dir(&locked).unwrap();
        world.own(&locked);
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
        assert_eq!(try_at(&locked), 5, "it cannot be written to");
    }
}

fn the_flag_wins_over_the_variable(world: &World) {
    let other = world.home().join("other");
    world.text(["--state-dir", other.to_str().unwrap(), "cells"]);
    assert!(other.join("version").exists() && !world.state_dir().join("version").exists());
    let shown = world.json(["config", "--json"]);
    assert!(shown.to_string().contains("HOTCELL_STATE_DIR"), "{shown}");
}
