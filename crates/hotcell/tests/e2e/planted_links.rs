//! Links that a cell leaves in its own root lead nowhere on the host when the cell wakes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::world::{Kind, World, eventually, is_alive, kill_9};

in_worlds! { [root, rootless, single_id]
    a_link_in_place_of_the_home_directory_is_not_followed,
    a_cell_without_its_home_directory_gets_it_back,
}

/// Runs a script with all the power that there is in the cell.
fn run(world: &World, script: &str) -> String {
    let power = if world.kind() == Kind::SingleId { &[][..] } else { &["--as-root"] };
    let run = world.hotcell(["run", "--cell", "links"]).args(power.iter().copied());
    run.arg(script).run().succeeded().stdout()
}

/// Ends the supervisor, and uses the cell again.
fn wake(world: &World) {
    let supervisor = world.supervisor("links");
    kill_9(supervisor);
    eventually("the supervisor is gone", || !is_alive(supervisor));
    assert_eq!(world.text(["run", "--cell", "links", "echo awake"]), "awake\n");
}

fn a_link_in_place_of_the_home_directory_is_not_followed(world: &World) {
    let bait = world.home().join("bait");
    fs::create_dir(&bait).unwrap();
    world.own(&bait);
    let owner = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
    run(world, &format!("mv /home /home2; ln -s '{}' /home", bait.display()));
    wake(world);
    assert_eq!(fs::read_dir(&bait).unwrap().count(), 0, "the wake wrote to the host");
    // What is there already keeps its owner.
    let inner = bait.join("cell");
    fs::create_dir(&inner).unwrap();
    world.own(&inner);
    let before = owner(&inner);
    wake(world);
    assert_eq!(owner(&inner), before);
    // One that leads nowhere does not keep the cell from waking, and stays as the cell made it.
    run(world, "rm /home; ln -s /nowhere/at/all /home");
    wake(world);
    assert_eq!(run(world, "readlink /home"), "/nowhere/at/all\n");
}

fn a_cell_without_its_home_directory_gets_it_back(world: &World) {
    run(world, "mv /home /home2");
    wake(world);
    let look = "touch ~/mine && stat -c %U /home/cell && id -un";
    let seen = world.text(["run", "--cell", "links", look]);
    let names: Vec<&str> = seen.lines().collect();
    assert_eq!(names[0], names[1], "it belongs to whoever runs commands");
}
