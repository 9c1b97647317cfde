//! Applies that end before they are done.

use crate::projects::Project;
use crate::world::{World, eventually, kill_9};

in_worlds! { [root, rootless]
    an_apply_whose_client_is_gone_is_not_done,
}

fn an_apply_whose_client_is_gone_is_not_done(world: &World) {
    let project = Project::new(world, "echo a > a");
    project.cell("head -c 256M /dev/urandom > big; echo cell >> a");
    let staging = || {
        let names = std::fs::read_dir(&project.dir).unwrap().flatten().map(|it| it.file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with(".hotcell-apply-"))
    };
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
    let client = world.hotcell(["apply", "--cell", &cell]).start();
    eventually("the apply has begun", staging);
    kill_9(client.pid());
    eventually("the apply has ended", || !staging());
    assert!(!project.has("big"));
    assert_eq!(project.read("a"), "a\n");
    // The control: with its client it is done.
    assert_eq!(project.host("\"$HOTCELL\" apply"), "M a\nA big\n");
}
