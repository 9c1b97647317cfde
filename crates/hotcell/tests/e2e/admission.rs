//! What all cells of a state directory may have together.

use crate::world::{Finished, World, eventually};

in_every_world! {
    what_would_be_too_much_together_is_refused_with_the_reason,
    a_cell_waits_for_room,
    only_so_many_cells_have_processes,
}

const DISK: &str = "HOTCELL_ADMISSION_DISK_MB";
const WAIT: &str = "HOTCELL_ADMISSION_WAIT_S";

fn refused(finished: Finished, words: &[&str]) {
    let finished = finished.exited(6);
    let said = finished.stderr();
    for word in words {
        assert!(said.contains(word), "{word} is missing in {said}");
    }
}

fn what_would_be_too_much_together_is_refused_with_the_reason(world: &World) {
    let bounded = |name: &str, disk: &str| {
        world.hotcell(["spawn", name, "--persistent", "--disk", disk]).env(DISK, "1000").run()
    };
    bounded("first", "600M").succeeded();
    refused(bounded("second", "401M"), &["401", "1000", "600", "first", "admission.disk_mb"]);
    refused(bounded("never", "1001M"), &["1001", "admission.disk_mb"]);
    // Nothing of what was refused is left, and what fits is let in.
    let listed = world.json(["cells", "--json"]);
    assert_eq!(listed["cells"].as_array().unwrap().len(), 1, "{listed}");
    bounded("third", "400M").succeeded();
    // One that ended gives its room back.
    world.text(["kill", "first"]);
    bounded("second", "600M").succeeded();

    // Without the bound the same is let in.
    world.text(["spawn", "fourth", "--disk", "1001M"]);
}

fn a_cell_waits_for_room(world: &World) {
    world.text(["spawn", "first", "--disk", "600M"]);
    let waits = world
        .hotcell(["run", "--disk", "600M", "echo in"])
        .env(DISK, "1000")
        .env(WAIT, "60")
        .start();
    // It is in the index while it waits, and has no supervisor yet.
    eventually("the second cell is known", || {
        world.json(["cells", "--json"])["cells"].as_array().unwrap().len() == 2
    });
    world.text(["kill", "first"]);
    assert_eq!(waits.finish().succeeded().stdout(), "in\n");
    // What never fits is not waited for.
    let never = world
        .hotcell(["run", "--disk", "1001M", "true"])
        .env(DISK, "1000")
        .env(WAIT, "86400")
        .run();
    assert!(never.exited(125).stderr().contains("1001"));
}

fn only_so_many_cells_have_processes(world: &World) {
    let spawn = |name: &str| {
        let spawn = world.hotcell(["spawn", name, "--persistent"]);
        spawn.env("HOTCELL_ADMISSION_CELLS", "2").env("HOTCELL_SLEEP_AFTER_S", "1").run()
    };
    spawn("first").succeeded();
    world.text(["spawn", "second"]);
    refused(spawn("third"), &["2 cells", "first", "second", "admission.cells"]);
    // One that has fallen asleep does not count, and waking it does.
    eventually("the first is asleep", || {
        world.json(["info", "first", "--json"])["cell"]["state"] == "asleep"
    });
    spawn("third").succeeded();
    eventually("the third is asleep", || {
        world.json(["info", "third", "--json"])["cell"]["state"] == "asleep"
    });
    world.text(["spawn", "fourth"]);
    let woken =
        world.hotcell(["run", "--cell", "first", "true"]).env("HOTCELL_ADMISSION_CELLS", "2").run();
    assert!(woken.exited(125).stderr().contains("admission.cells"));
    world.text(["run", "--cell", "first", "true"]);
}
