//! A clock that jumped: what lies on disk is from a year ago, or from a year ahead.

use std::fs;

use crate::world::{World, eventually, kill_9};

in_worlds! { [root, single_id]
    cells_from_the_future_and_the_past_are_kept_and_shown,
    a_time_limit_counts_from_the_jump_at_the_latest,
}

/// Moves every point in time of a cell by these days, in its description and in its journal, whose
/// lines have checksums; and loses the index, which then is rebuilt from them.
const SHIFT: &str = r#"
import datetime, re, sys, zlib
days, description, journal = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def moved(text):
    def move(found):
        at = datetime.datetime.strptime(found.group(0), "%Y-%m-%dT%H:%M:%S.%fZ")
        at += datetime.timedelta(days=days)
        return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", move, text)
text = open(description).read()
assert moved(text) != text
open(description, "r+").write(moved(text))
lines = [line[9:] for line in open(journal).read().splitlines()]
with open(journal, "r+") as file:
    file.write("".join("%08x %s\n" % (zlib.crc32(moved(line).encode()), moved(line)) for line in lines))
"#;

fn shift(world: &World, cell: &str, days: &str) {
    let (native, id) = (world.native_dir(cell), world.cell_id(cell));
    let (supervisor, keeper) = (world.supervisor(cell), world.keeper(cell));
    kill_9(keeper);
    kill_9(supervisor);
    let description = native.join("cell.json");
    let journal = world.state_dir().join("cells").join(id).join("records/journal");
    let (description, journal) = (description.to_str().unwrap(), journal.to_str().unwrap());
    world.other("python3", ["-c", SHIFT, days, description, journal]).run().succeeded();
    for file in ["hotcell.db", "hotcell.db-wal", "hotcell.db-shm"] {
        let _ = fs::remove_file(world.state_dir().join(file));
    }
}

fn cells_from_the_future_and_the_past_are_kept_and_shown(world: &World) {
    for (cell, days) in [("ahead", "365"), ("behind", "-365")] {
        world.text(["spawn", cell, "--persistent"]);
        let keyed = ["run", "--cell", cell, "--idempotency-key", "k", "echo kept | tee f; exit 4"];
        world.hotcell(keyed).run().exited(4);
        let exec = world.json(["ps", "--all", "--json"])["execs"][0]["id"].clone();
        let exec = exec.as_str().unwrap();
        shift(world, cell, days);
        let before = world.exec(exec);
        assert_eq!(before["end"]["exit_code"], 4, "{before}");
        assert_eq!(world.text(["logs", exec]), "kept\n");
        assert_eq!(world.text(["logs", "--tail", "1", exec]), "kept\n");
        for args in [vec!["ps", "--all"], vec!["cells", "--all"]] {
            let shown = world.hotcell([]).args(args).run().succeeded().stdout();
            assert!(shown.contains(exec) || shown.contains(cell), "{shown}");
        }
        let listed = world.json(["cells", "--all", "--json"]);
        assert!(listed.to_string().contains(&format!("{cell:?}")), "{listed}");
        world.text(["info", cell]);
        // Keys are the one thing that only the index had.
        assert_eq!(world.text(["run", "--cell", cell, "cat f"]), "kept\n");
        let again = ["run", "--cell", cell, "--idempotency-key", "k2", "echo once >> g; cat g"];
        assert_eq!(world.text(again), "once\n");
        assert_eq!(world.text(again), "once\n");
        world.text(["cells"]);
        assert_eq!(world.text(["logs", exec]), "kept\n", "the sweep left its records alone");
    }
}

fn a_time_limit_counts_from_the_jump_at_the_latest(world: &World) {
    world.text(["spawn", "long", "--ttl", "1h"]);
    shift(world, "long", "-365");
    world.hotcell(["run", "--cell", "long", "--net", "none", "echo another"]).run().succeeded();
    let cells = world.json(["cells", "--all", "--json"])["cells"].clone();
    assert_eq!(cells.as_array().unwrap().len(), 1, "the old one was over: {cells}");

    world.text(["spawn", "short", "--ttl", "3s"]);
    shift(world, "short", "365");
    // It lives, and not for a year.
    assert_eq!(world.text(["run", "--cell", "short", "echo alive"]), "alive\n");
    let supervisor = world.supervisor("short");
    eventually("its time is over", || !crate::world::is_alive(supervisor));
}
