//! `run -t` and `attach`: a real terminal inside, and ours given to it.

use crate::world::{Terminal, World, eventually, marked, program, state_of, unique};

in_every_world_whatsoever! {
    a_terminal_has_the_size_and_kind_of_ours_and_passes_keys,
    a_new_window_size_arrives,
    ctrl_c_goes_to_the_command_and_the_terminal_is_given_back,
    a_shell_with_jobs_works,
    without_a_terminal_of_ours_there_is_still_one_inside,
    attaching_joins_and_leaving_leaves_it_running,
}

in_worlds! { [root, rootless]
    a_terminal_that_hangs_up_ends_the_command,
}

/// The program in a terminal of its own, with the signals that a terminal sends as a shell leaves
/// them: whoever runs the tests under `nohup` had them ignored, and the program heeds that.
pub(crate) fn in_terminal<const N: usize>(world: &World, args: [&str; N]) -> Terminal {
    let program = program().to_str().unwrap();
    let words = ["--ctty", "--wait", "env", "--default-signal=HUP,INT,QUIT", program];
    let setsid = world.other("setsid", words).args(args);
    Terminal::run(setsid.env("TERM", "xterm-256color"), 33, 101)
}

fn a_terminal_has_the_size_and_kind_of_ours_and_passes_keys(world: &World) {
    let script =
        "stty size; echo $TERM; test -t 0 -a -t 1 -a -t 2 && tty; read line; echo got:$line";
    let mut terminal = in_terminal(world, ["run", "-t", script]);
    terminal.await_text("33 101\r\n");
    terminal.await_text("xterm-256color\r\n");
    terminal.await_text("/dev/pts/");
    assert!(!terminal.is_cooked(), "our terminal must be raw while it is the exec's");
    terminal.keys("hello\r");
    terminal.await_text("got:hello");
    assert!(terminal.screen().contains("hello\r\ngot:hello"), "echoed: {:?}", terminal.screen());
    terminal.finish().succeeded();
}

fn a_new_window_size_arrives(world: &World) {
    let script = "trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done";
    let terminal = in_terminal(world, ["run", "-t", script]);
    terminal.await_text("ready");
    terminal.resize(12, 34);
    terminal.await_text("12 34");
    terminal.finish().exited(5);
}

fn ctrl_c_goes_to_the_command_and_the_terminal_is_given_back(world: &World) {
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let mut terminal = in_terminal(world, ["run", "-t", script]);
    terminal.await_text("ready");
    terminal.keys("\x03");
    terminal.await_text("caught");
    eventually("the terminal is as it was", || terminal.is_cooked());
    terminal.finish().exited(9);
}

fn a_shell_with_jobs_works(world: &World) {
    let mark = unique("86");
    let mut terminal = in_terminal(world, ["run", "-t", "--", "bash", "--norc", "-i"]);
    terminal.keys("PS1='re''ady> '\r");
    terminal.await_text("ready> ");
    terminal.keys(&format!("sleep {mark}\r"));
    // A shell puts a job into the foreground before its program runs.
    eventually("the job runs", || !marked(&mark).is_empty());
    terminal.keys("\x1a");
    terminal.await_text("Stopped");
    terminal.keys("fg\r");
    let stopped = |pid: &i32| state_of(*pid) == Some('T');
    eventually("the job goes on", || !marked(&mark).iter().any(stopped));
    terminal.keys("\x03");
    eventually("the job is interrupted", || marked(&mark).is_empty());
    terminal.keys("exit 3\r");
    terminal.finish().exited(3);
}

fn without_a_terminal_of_ours_there_is_still_one_inside(world: &World) {
    let finished = world.hotcell(["run", "-t", "stty size; test -t 1 && echo tty"]).run();
    assert_eq!(finished.succeeded().stdout(), "24 80\r\ntty\r\n");
}

fn attaching_joins_and_leaving_leaves_it_running(world: &World) {
    let script = "echo begun; while read line; do echo \"got:$line\"; done; exit 6";
    let exec = world.text(["run", "-d", "-t", "--cell", "joined", script]).trim().to_owned();
    eventually("the exec prints", || world.text(["logs", &exec]).contains("begun"));

    let mut terminal = in_terminal(world, ["attach", &exec]);
    terminal.await_text("begun");
    terminal.keys("first\r");
    terminal.await_text("got:first");
    terminal.keys("\x10\x11");
    terminal.await_text("it runs on");
    eventually("the terminal is as it was", || terminal.is_cooked());
    terminal.finish().succeeded();
    assert_eq!(world.exec(&exec)["state"], "running");

    let mut again = in_terminal(world, ["attach", &exec]);
    again.await_text("got:first");
    again.keys("second\r");
    again.await_text("got:second");
    again.keys("\x04");
    again.finish().exited(6);
    assert!(world.text(["logs", &exec]).contains("got:second"));
}

fn a_terminal_that_hangs_up_ends_the_command(world: &World) {
    let terminal = in_terminal(world, ["run", "-t", "echo ready; sleep 1000"]);
    terminal.await_text("ready");
    let exec = world.json(["ps", "--json"])["execs"][0]["id"].as_str().unwrap().to_owned();
    let program = terminal.hang_up();
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
    program.finish();
}
