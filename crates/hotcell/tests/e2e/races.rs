//! Many processes that want the same thing at the same moment.

use std::collections::BTreeSet;

use crate::world::{Finished, Live, World, eventually};

in_every_world! {
    a_key_makes_many_runs_one,
    a_key_shows_the_same_after_the_cell_of_its_run_has_gone,
    a_key_makes_many_foreground_runs_show_the_same,
    a_key_makes_many_spawns_one,
    of_many_spawns_with_one_name_one_wins,
    many_runs_in_a_cell_that_is_not_there_yet_share_one,
    kills_and_runs_of_one_name_end_well,
    the_first_commands_of_all_run_side_by_side,
}

fn finish_all(live: Vec<Live>) -> Vec<Finished> {
    live.into_iter().map(Live::finish).collect()
}

fn the_first_commands_of_all_run_side_by_side(world: &World) {
    let live = (0..8).map(|_| world.hotcell(["run", "echo fine"]).start()).collect();
    for one in finish_all(live) {
        assert_eq!(one.succeeded().stdout(), "fine\n");
    }
}

fn a_key_makes_many_runs_one(world: &World) {
    world.text(["spawn", "once"]);
    let args = [
        "run",
        "-d",
        "--cell",
        "once",
        "--idempotency-key",
        "the-same",
        "echo ran >> f; echo out; sleep 0.2",
    ];
    let live = (0..12).map(|_| world.hotcell(args).start()).collect();
    let ids: BTreeSet<String> =
        finish_all(live).into_iter().map(|one| one.succeeded().stdout()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let exec = ids.first().unwrap().trim();
    world.ended(exec);
    assert_eq!(world.text(["run", "--cell", "once", "cat f"]), "ran\n");

    // Later, too, it is the same exec; and another command under the same key is a mistake.
    assert_eq!(world.hotcell(args).run().succeeded().stdout().trim(), exec);
    let other = world
        .hotcell(["run", "-d", "--cell", "once", "--idempotency-key", "the-same", "echo other"])
        .run();
    assert!(other.exited(125).stderr().contains("the-same"));
}

fn a_key_makes_many_foreground_runs_show_the_same(world: &World) {
    let args =
        ["run", "--cell", "shown", "--idempotency-key", "k", "echo $RANDOM; sleep 0.3; exit 5"];
    let live = (0..6).map(|_| world.hotcell(args).start()).collect();
    let shown: BTreeSet<String> =
        finish_all(live).into_iter().map(|one| one.exited(5).stdout()).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
}

fn a_key_shows_the_same_after_the_cell_of_its_run_has_gone(world: &World) {
    let args = ["run", "--idempotency-key", "k", "echo $RANDOM; echo err >&2; exit 5"];
    let first = world.hotcell(args).run().exited(5);
    assert_eq!(world.hotcell(args).run(), first);
    let gone = || world.json(["cells", "--all", "--json"])["cells"].as_array().unwrap().is_empty();
    eventually("the cell is gone", gone);
    let live = (0..4).map(|_| world.hotcell(args).start()).collect();
    for again in finish_all(live) {
        assert_eq!(again, first);
    }
    assert!(gone());
    let other = world.hotcell(["run", "--idempotency-key", "k", "echo other"]).run().exited(125);
    assert!(other.stderr().contains("another exec"), "{other:?}");
}

fn a_key_makes_many_spawns_one(world: &World) {
    let live =
        (0..8).map(|_| world.hotcell(["spawn", "--idempotency-key", "cell"]).start()).collect();
    let ids: BTreeSet<String> =
        finish_all(live).into_iter().map(|one| one.succeeded().stdout()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"].as_array().unwrap().len(), 1);
}

fn of_many_spawns_with_one_name_one_wins(world: &World) {
    let live = (0..8).map(|_| world.hotcell(["spawn", "wanted"]).start()).collect();
    let (won, lost): (Vec<_>, Vec<_>) =
        finish_all(live).into_iter().partition(|one| one.code() == 0);
    assert_eq!(won.len(), 1, "{won:?} {lost:?}");
    for one in lost {
        let one = one.exited(4);
        assert!(one.stderr().contains("wanted") && one.stderr().contains("hint: "), "{one:?}");
    }
    assert_eq!(world.cell_id("wanted"), won[0].stdout().trim());
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"].as_array().unwrap().len(), 1);
}

fn many_runs_in_a_cell_that_is_not_there_yet_share_one(world: &World) {
    let run = |n: usize| {
        world.hotcell(["run", "--cell", "shared", &format!("echo {n} >> f; echo {n}")]).start()
    };
    for (number, one) in finish_all((0..10).map(run).collect()).into_iter().enumerate() {
        assert_eq!(one.succeeded().stdout(), format!("{number}\n"));
    }
    assert_eq!(
        world.text(["run", "--cell", "shared", "sort -n f | tr '\\n' ' '"]),
        "0 1 2 3 4 5 6 7 8 9 "
    );
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"].as_array().unwrap().len(), 1);
}

fn kills_and_runs_of_one_name_end_well(world: &World) {
    let act = |n: usize| match n % 3 {
        0 => world.hotcell(["kill", "--volumes", "--force", "fought"]).start(),
        _ => world.hotcell(["run", "--cell", "fought", "echo alive"]).start(),
    };
    for one in finish_all((0..15).map(act).collect()) {
        // A run in a cell that is killed meanwhile is cancelled, or finds no cell.
        assert!([0, 3, 125, 130].contains(&one.code()), "{one:?}");
        assert!(!one.stderr().contains("panicked"), "{one:?}");
    }
    assert_eq!(world.text(["run", "--cell", "fought", "echo after"]), "after\n");
}
