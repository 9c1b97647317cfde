//! Cells: named ones keep their files, unnamed ones go, and all can be listed, shown and ended.

use std::fs;

use serde_json::Value;

use crate::world::{Kind, World, eventually};

in_every_world! {
    a_named_cell_keeps_what_was_written,
    an_unnamed_cell_is_removed_with_its_command,
    cells_are_spawned_listed_shown_and_killed,
    a_killed_name_is_free_again,
    a_cell_is_root_inside_only_where_it_can_be,
    what_is_printed_as_json_is_json,
}

// An ordinary user cannot own copies of what the host's root owns: for one the programs are
// read-only.
in_worlds! { [root, without_cgroups]
    what_root_of_a_cell_installs_stays_in_the_cell,
}

fn is_null_or_absent(value: &Value, name: &str) -> bool {
    value.get(name).is_none_or(Value::is_null)
}

fn a_named_cell_keeps_what_was_written(world: &World) {
    world.text([
        "run",
        "--cell",
        "work",
        "echo mine > note; mkdir ~/d; echo x > ~/d/f; ln -s note link",
    ]);
    assert_eq!(world.text(["run", "--cell", "work", "cat note link ~/d/f"]), "mine\nmine\nx\n");
    assert_eq!(world.text(["run", "--cell", "other", "ls -A"]), "", "cells share no files");
    let id = world.cell_id("work");
    assert_eq!(world.text(["run", "--cell", &id, "cat note"]), "mine\n");
}

fn an_unnamed_cell_is_removed_with_its_command(world: &World) {
    assert_eq!(world.text(["run", "echo x > f; ls"]), "f\n");
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"], Value::Array(Vec::new()));
    eventually("its files are gone", || fs::read_dir(world.cells_dir()).unwrap().count() == 0);
}

fn cells_are_spawned_listed_shown_and_killed(world: &World) {
    let spawned = world.json(["spawn", "lab", "--ttl", "1h", "-e", "FROM_CELL=yes", "--json"]);
    let id = spawned["id"].as_str().unwrap();
    assert_eq!((&spawned["alias"], &spawned["state"]), (&"lab".into(), &"ready".into()));
    assert_eq!(spawned["persistent"], false);
    assert!(!is_null_or_absent(&spawned, "expires_at"), "{spawned}");
    assert_eq!(world.text(["run", "--cell", "lab", "echo $FROM_CELL"]), "yes\n");
    assert_eq!(
        world.text(["run", "--cell", "lab", "-e", "FROM_CELL=no", "echo $FROM_CELL"]),
        "no\n"
    );

    let plain = world.text(["spawn", "--persistent"]);
    let listed = world.json(["cells", "--json"]);
    let ids: Vec<&Value> = listed["cells"].as_array().unwrap().iter().map(|c| &c["id"]).collect();
    assert_eq!(ids, [plain.trim(), id], "the newest is first");

    let exec = world.detach("lab", "sleep 1000");
    let info = world.json(["info", "lab", "--json"]);
    assert_eq!(info["cell"]["id"], id);
    assert_eq!(info["stats"]["running"], 1);
    assert_eq!(info["execs"][0]["id"], exec.as_str());
    assert!(info["cell"]["isolation"]["layers"].as_array().unwrap().len() > 8, "{info}");
    assert!(world.text(["info", "lab"]).contains("1 running"));

    let refused = world.hotcell(["kill", "--volumes", "lab"]).run().exited(4);
    assert!(refused.stderr().contains("hint: "), "{refused:?}");
    assert_eq!(world.json(["kill", "--volumes", "--force", "--json", "lab"])["status"], "killed");
    world.hotcell(["info", "lab"]).run().exited(3);
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
    world.text(["kill", "--volumes", plain.trim()]);
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"], Value::Array(Vec::new()));
}

fn a_killed_name_is_free_again(world: &World) {
    world.text(["run", "--cell", "again", "echo old > f"]);
    world.text(["kill", "--volumes", "again"]);
    assert_eq!(world.text(["run", "--cell", "again", "ls -A"]), "");
}

fn a_cell_is_root_inside_only_where_it_can_be(world: &World) {
    let finished = world.hotcell(["run", "--as-root", "id -u; echo x > /etc/made-by-root"]).run();
    if world.kind() == Kind::SingleId {
        let refused = finished.exited(125);
        assert!(refused.stderr().contains("as_root"), "{refused:?}");
        assert!(refused.stderr().contains("hint: give the user subordinate ids"), "{refused:?}");
    } else {
        assert_eq!(finished.succeeded().stdout(), "0\n");
    }
    let plain = world.hotcell(["run", "id -u; id -g; touch /etc/x"]).run();
    assert_eq!(plain.stdout(), "1000\n1000\n");
    assert!(world.kind() == Kind::SingleId || plain.code() != 0, "{plain:?}");
}

fn what_is_printed_as_json_is_json(world: &World) {
    world.text(["run", "--cell", "j", "true"]);
    let streamed = world
        .hotcell(["run", "--json", "--cell", "j", "echo o; echo e >&2; exit 3"])
        .run()
        .exited(3);
    let text = streamed.stdout();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = &lines.last().unwrap()["exec"];
    assert_eq!(last["end"]["exit_code"], 3);
    let of = |stream: &str| -> String {
        lines
            .iter()
            .filter(|l| l["stream"] == stream)
            .map(|l| l["data"].as_str().unwrap())
            .collect()
    };
    assert_eq!((of("stdout").as_str(), of("stderr").as_str()), ("o\n", "e\n"));
    assert_eq!(world.json(["doctor", "--json"])["drivers"][0]["driver"], "native");
    assert_eq!(world.json(["config", "--json"])["state_dir"]["origin"], "HOTCELL_STATE_DIR");
}

fn what_root_of_a_cell_installs_stays_in_the_cell(world: &World) {
    let install = "printf '#!/bin/sh\\necho hi' > /usr/bin/made-here; \
                   chmod 755 /usr/bin/made-here; rm /usr/bin/env";
    world.text(["run", "--cell", "tools", "--as-root", install]);
    assert_eq!(
        world.text(["run", "--cell", "tools", "made-here; test -e /usr/bin/env || echo gone"]),
        "hi\ngone\n"
    );
    assert_eq!(
        world.text([
            "run",
            "test -e /usr/bin/made-here || echo no; test -e /usr/bin/env && echo there"
        ]),
        "no\nthere\n"
    );
    assert!(!std::path::Path::new("/usr/bin/made-here").exists());
}
