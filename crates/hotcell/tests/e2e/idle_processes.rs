//! Processes of ours that wait for something use no processor time.

use std::time::Duration;

use crate::world::{World, cpu_ticks, eventually, kill_9, marked, program};

in_worlds! { [root, rootless, single_id]
    waiting_costs_no_processor_time,
}

/// How long each state is watched. One that spins uses most of it, unless others need the processor.
const WATCHED: Duration = Duration::from_millis(1500);
/// A fifth of that, in ticks of 10 ms.
const MOST_TICKS: i32 = 30;

/// What an exec may do while its cell and whoever waits for it have nothing to do.
const STATES: [(&[&str], &str); 7] = [
    (&["-d"], "exec sleep SECONDS"),
    (&["-i"], "exec sleep SECONDS"),
    // Nobody reads what can be sent.
    (&["-i"], "exec sleep SECONDS </dev/null"),
    (&["-i"], "exec sleep SECONDS <&- >&- 2>&-"),
    (&["-t"], "exec sleep SECONDS"),
    // Nobody has the terminal open any more.
    (&["-t"], "exec sleep SECONDS </dev/null >/dev/null 2>&1"),
    (&["-i"], "cat & exec sleep SECONDS"),
];

fn waiting_costs_no_processor_time(world: &World) {
    // A number that no other test has among its arguments.
    let seconds = format!("9{:07}", std::process::id());
    let running = || marked(&seconds);
    world.text(["run", "--cell", "idle", "true"]);
    for (options, script) in STATES {
        let run = world.hotcell(["run", "--cell", "idle"]).args(options.iter().copied());
        let run = run.arg(&script.replace("SECONDS", &seconds)).start_with_input();
        eventually("the command runs", || running().len() == 1);
        let mut processes = vec![world.supervisor("idle"), world.keeper("idle")];
        if !options.contains(&"-d") {
            processes.push(run.pid());
        }
        assert_idle(&processes, &format!("{options:?} {script}"));
        world.text(["cancel", "--grace", "0s", &only_exec(world)]);
        run.finish();
    }
    // Whoever reads the output takes no more of it.
    let script = format!("\"$HOTCELL\" run --cell idle 'exec yes' | sleep {seconds}");
    let pipe = world.other("sh", ["-c", &script]).env("HOTCELL", program()).start();
    eventually("the command runs", || running().len() == 2);
    assert_idle(&[world.supervisor("idle"), world.keeper("idle")], "output that nobody reads");
    world.text(["cancel", "--grace", "0s", &only_exec(world)]);
    let reader = running().into_iter().filter(|pid| *pid != pipe.pid());
    reader.for_each(kill_9);
    pipe.finish();
}

fn only_exec(world: &World) -> String {
    let live = world.json(["ps", "--json"]);
    live["execs"][0]["id"].as_str().unwrap().to_owned()
}

/// None of these processes uses more than a little processor time.
#[track_caller]
fn assert_idle(processes: &[i32], state: &str) {
    // What begins the state takes some.
    std::thread::sleep(Duration::from_millis(300));
    let before: Vec<i32> = processes.iter().map(|pid| cpu_ticks(*pid)).collect();
    std::thread::sleep(WATCHED);
    for (pid, before) in processes.iter().zip(before) {
        let used = cpu_ticks(*pid) - before;
        assert!(used <= MOST_TICKS, "process {pid} used {used} ticks in this state: {state}");
    }
}
