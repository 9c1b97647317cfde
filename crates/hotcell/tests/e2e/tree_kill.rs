//! Ending an exec ends everything it started, whatever that did to get away.

use std::collections::BTreeSet;

use crate::world::{World, descendants, eventually, marked, unique};

in_every_world_whatsoever! {
    cancelling_leaves_no_process,
    the_end_of_the_main_process_leaves_no_process,
    killing_the_cell_leaves_no_process,
    only_the_exec_that_is_cancelled_is_ended,
    killing_what_looks_after_it_frees_no_process,
    stopping_what_looks_after_it_stops_nothing,
}

in_worlds! { [root, rootless]
    a_timeout_leaves_no_process,
}

/// A script with a child, a grandchild, one in a session of its own, a daemon that forked twice,
/// two that ignore every request, and one that never stops forking. All carry the mark.
fn unruly(mark: &str) -> String {
    let still = format!("sleep {mark}");
    let deaf = format!("trap '' TERM INT HUP; while :; do sleep {mark}; done");
    let forker =
        format!("trap '' TERM; go() {{ sleep {mark} & }}; while :; do (go) & (sleep 0.01); done");
    format!(
        "{still} & \
         (sh -c '{still} & {still}') & \
         setsid {still} & \
         (setsid sh -c '(setsid {still} </dev/null >/dev/null 2>&1 &) &' &) ; \
         sh -c \"{deaf}\" & \
         setsid bash -c \"exec >/dev/null 2>&1; {deaf}\" & \
         bash -c \"ulimit -u 300 2>/dev/null; {forker}\" 2>/dev/null & \
         echo started; {still}"
    )
}

/// Waits until the script has started all of it.
fn await_all(world: &World, exec: &str, mark: &str) {
    eventually("the script has begun", || world.text(["logs", exec]).contains("started"));
    eventually("there are many processes", || marked(mark).len() > 12);
}

fn assert_none_left(world: &World, cell: &str, mark: &str) {
    assert_eq!(marked(mark), Vec::<i32>::new(), "survivors, by what they run");
    assert_eq!(descendants(world.supervisor(cell)), Vec::<i32>::new(), "survivors of the cell");
    assert_eq!(world.text(["run", "--cell", cell, "echo works"]), "works\n");
}

fn cancelling_leaves_no_process(world: &World) {
    let mark = unique("71");
    let exec = world.detach("wild", &unruly(&mark));
    await_all(world, &exec, &mark);
    world.text(["cancel", "--grace", "0.3", &exec]);
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
    assert_none_left(world, "wild", &mark);
}

fn a_timeout_leaves_no_process(world: &World) {
    let mark = unique("72");
    let script = unruly(&mark);
    let finished = world.hotcell(["run", "--cell", "wild", "--timeout", "1", &script]).run();
    finished.exited(124);
    assert_none_left(world, "wild", &mark);
}

fn the_end_of_the_main_process_leaves_no_process(world: &World) {
    let mark = unique("73");
    let main = format!("{} & until test -e go; do sleep 0.02; done; exit 11", unruly(&mark));
    let exec = world.detach("wild", &main);
    await_all(world, &exec, &mark);
    world.text(["run", "--cell", "wild", "touch go"]);
    let ended = world.ended(&exec);
    assert_eq!(
        (&ended["end"]["cause"], &ended["end"]["exit_code"]),
        (&"exited".into(), &11.into())
    );
    assert!(ended["end"]["killed_descendants"].as_u64().unwrap() > 5, "{ended}");
    assert_none_left(world, "wild", &mark);
}

fn killing_the_cell_leaves_no_process(world: &World) {
    let mark = unique("74");
    let exec = world.detach("wild", &unruly(&mark));
    await_all(world, &exec, &mark);
    world.text(["kill", "--volumes", "--force", "wild"]);
    assert_eq!(marked(&mark), Vec::<i32>::new());
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
}

fn only_the_exec_that_is_cancelled_is_ended(world: &World) {
    let (doomed, spared) = (unique("75"), unique("76"));
    let other = world.detach("shared", &format!("setsid sleep {spared} & sleep {spared}; true"));
    let sleeps = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    eventually("both sleep", || marked(&spared).iter().filter(|pid| sleeps(pid)).count() == 2);
    let before: BTreeSet<i32> = marked(&spared).into_iter().collect();
    let exec = world.detach("shared", &unruly(&doomed));
    await_all(world, &exec, &doomed);
    world.text(["cancel", "--signal", "KILL", "--grace", "0", &exec]);
    world.ended(&exec);
    assert_eq!(marked(&doomed), Vec::<i32>::new());
    let after: BTreeSet<i32> = marked(&spared).into_iter().collect();
    assert_eq!(before, after);
    assert_eq!(world.exec(&other)["state"], "running");
}

/// Where the process above is one that the exec may kill, that ends the exec; elsewhere the
/// timeout does.
fn killing_what_looks_after_it_frees_no_process(world: &World) {
    let mark = unique("77");
    let script = format!(
        "kill -9 $PPID; (setsid sleep {mark} </dev/null >/dev/null 2>&1 &); sleep {mark} & \
         kill -9 $PPID; sleep {mark}"
    );
    for _ in 0..10 {
        let run = ["run", "--cell", "wild", "--timeout", "0.5", &script];
        assert_ne!(world.hotcell(run).run().code(), 0);
        assert_none_left(world, "wild", &mark);
    }
}

/// Where the process above is one that the exec may stop, it goes on at once: the end of the exec is
/// seen, with its code.
fn stopping_what_looks_after_it_stops_nothing(world: &World) {
    for _ in 0..5 {
        let run = ["run", "--cell", "wild", "--timeout", "60", "kill -STOP $PPID; exit 7"];
        world.hotcell(run).run().exited(7);
    }
    let mark = unique("78");
    let script = format!("(setsid sleep {mark} &); kill -STOP $PPID; sleep {mark}");
    let run = ["run", "--cell", "wild", "--timeout", "0.5", &script];
    assert_ne!(world.hotcell(run).run().code(), 0);
    assert_none_left(world, "wild", &mark);
}
