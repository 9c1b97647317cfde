//! The command line itself: help, completions, configuration.

use std::fs;

use crate::world::World;

in_worlds! { [root]
    help_and_version_go_to_stdout,
    completions_are_made_for_every_shell,
    a_setting_that_means_nothing_is_named,
    a_configuration_file_is_read_and_overridden,
}

fn help_and_version_go_to_stdout(world: &World) {
    assert!(world.text(["--version"]).starts_with("hotcell "));
    assert!(world.text(["--help"]).contains("Exit codes"));
    assert!(world.text(["run", "--help"]).contains("--idempotency-key"));
    let bare = world.hotcell([]).run().exited(2);
    assert_eq!(bare.stdout(), "");
    assert!(bare.stderr().contains("Usage"), "{bare:?}");
}

fn completions_are_made_for_every_shell(world: &World) {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(world.text(["completions", shell]).contains("hotcell"), "{shell}");
    }
    let script = world.text(["completions", "bash"]);
    let path = world.home().join("completion");
    fs::write(&path, script).unwrap();
    world.other("bash", ["-n", path.to_str().unwrap()]).run().succeeded();
}

fn a_setting_that_means_nothing_is_named(world: &World) {
    let refused = world.hotcell(["cells"]).env("HOTCELL_COLOUR", "green").run().exited(2);
    assert!(refused.stderr().contains("HOTCELL_COLOUR"), "{refused:?}");
    assert!(refused.stderr().contains("\nhint: "), "{refused:?}");
    let refused = world.hotcell(["cells"]).env("HOTCELL_MAX_RUNNING", "0").run().exited(2);
    assert!(refused.stderr().contains("HOTCELL_MAX_RUNNING"), "{refused:?}");
    let path = world.home().join("hotcell.toml");
    fs::write(&path, "max_sprinting = 3\n").unwrap();
    let refused = world.hotcell(["--config", path.to_str().unwrap(), "cells"]).run().exited(2);
    assert!(refused.stderr().contains("max_sprinting"), "{refused:?}");
}

fn a_configuration_file_is_read_and_overridden(world: &World) {
    let path = world.home().join("hotcell.toml");
    fs::write(&path, "max_running = 3\nsleep_after_s = 7\n[native]\ncgroups = \"off\"\n").unwrap();
    let shown = world
        .hotcell(["--config", path.to_str().unwrap(), "config", "--json"])
        .env("HOTCELL_MAX_RUNNING", "4")
        .run()
        .succeeded()
        .stdout();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(
        shown["max_running"],
        serde_json::json!({"value": 4, "origin": "HOTCELL_MAX_RUNNING"})
    );
    assert_eq!(shown["sleep_after_s"], serde_json::json!({"value": 7, "origin": file}));
    assert_eq!(shown["native.cgroups"], serde_json::json!({"value": "off", "origin": file}));
    assert_eq!(shown["output_mb"]["origin"], "default");
}
