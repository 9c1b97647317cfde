//! `hotcell run`: a command's output, input, surroundings and exit code.

use rustix::process::Signal;

use crate::world::{World, eventually, has_pending, send};

in_every_world! {
    the_exit_code_is_the_commands,
    a_signal_shows_in_the_exit_code,
    both_streams_come_apart,
    output_is_shown_while_the_command_runs,
    input_is_passed_only_when_asked,
    one_word_is_shell_text_and_several_are_an_argv,
    the_shell_is_bash_and_never_a_login_shell,
    nothing_of_the_callers_environment_arrives,
    the_working_directory_is_the_workspace_or_the_one_asked_for,
    a_command_may_write_to_its_directories,
    a_closed_pipe_ends_the_writer,
    interrupting_the_program_interrupts_the_command,
    a_second_interrupt_kills_the_command,
    a_request_to_end_is_passed_on,
    a_lost_terminal_leaves_a_named_cell_alone,
}

fn the_exit_code_is_the_commands(world: &World) {
    for code in [0, 1, 3, 42, 127, 255] {
        let finished = world.hotcell(["run", &format!("exit {code}")]).run();
        assert_eq!((finished.code(), finished.stdout().as_str()), (code, ""), "{finished:?}");
    }
}

fn a_signal_shows_in_the_exit_code(world: &World) {
    world.hotcell(["run", "kill -SEGV $$"]).run().exited(128 + 11);
    world.hotcell(["run", "kill -KILL $$"]).run().exited(128 + 9);
}

fn both_streams_come_apart(world: &World) {
    let finished = world.hotcell(["run", "echo out; echo err >&2"]).run().succeeded();
    assert_eq!((finished.stdout().as_str(), finished.stderr().as_str()), ("out\n", "err\n"));
}

fn output_is_shown_while_the_command_runs(world: &World) {
    let mut live = world
        .hotcell(["run", "-i", "echo first; read line; echo \"then $line\""])
        .start_with_input();
    live.await_stdout("first\n");
    live.write(b"more\n");
    assert_eq!(live.finish().succeeded().stdout(), "first\nthen more\n");
}

fn input_is_passed_only_when_asked(world: &World) {
    let text = "one\ntwo\n".repeat(50_000);
    let counted = world.hotcell(["run", "-i", "wc -c; cat"]).input(text.as_str()).run();
    assert_eq!(counted.succeeded().stdout(), format!("{}\n", text.len()));
    let echoed = world.hotcell(["run", "-i", "cat"]).input(text.as_str()).run();
    assert_eq!(echoed.succeeded().stdout(), text);
    let unread = world.hotcell(["run", "wc -c"]).input("not for the command").run();
    assert_eq!(unread.succeeded().stdout(), "0\n");
}

fn one_word_is_shell_text_and_several_are_an_argv(world: &World) {
    let shell = world.text(["run", "echo $((6 * 7)) | tr 4 x"]);
    assert_eq!(shell, "x2\n");
    let argv = world.text(["run", "--", "printf", "%s|", "a b", "$HOME", "*", ""]);
    assert_eq!(argv, "a b|$HOME|*||");
}

fn the_shell_is_bash_and_never_a_login_shell(world: &World) {
    let shell = "echo ${BASH_VERSION:+bash}; shopt -q login_shell && echo login; echo $0";
    let text = world.text(["run", shell]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("bash"), "{text}");
    assert!(!text.contains("login") && !lines.next().unwrap().starts_with('-'), "{text}");
}

fn nothing_of_the_callers_environment_arrives(world: &World) {
    let text = world
        .hotcell(["run", "-e", "GIVEN=a=b c", "-e", "EMPTY=", "env"])
        .env("SECRET_OF_THE_HOST", "hush")
        .run()
        .succeeded()
        .stdout();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.contains(&"GIVEN=a=b c") && lines.contains(&"EMPTY="), "{text}");
    assert!(!text.contains("SECRET") && !text.contains("HOTCELL_"), "{text}");
    for name in ["PATH=", "HOME="] {
        assert!(lines.iter().any(|line| line.starts_with(name)), "{name} is missing: {text}");
    }
}

fn the_working_directory_is_the_workspace_or_the_one_asked_for(world: &World) {
    assert_eq!(world.text(["run", "pwd"]), "/workspace\n");
    assert_eq!(world.text(["run", "--cwd", "/usr/bin", "pwd"]), "/usr/bin\n");
    world.text(["run", "--cell", "dirs", "mkdir -p a/b"]);
    assert_eq!(world.text(["run", "--cell", "dirs", "--cwd", "a/b", "pwd"]), "/workspace/a/b\n");
}

fn a_command_may_write_to_its_directories(world: &World) {
    let script = "set -e; for d in /workspace /tmp ~ /var/tmp; do echo x > $d/f; cat $d/f; done";
    assert_eq!(world.text(["run", script]), "x\n".repeat(4));
}

fn a_closed_pipe_ends_the_writer(world: &World) {
    let finished = world.hotcell(["run", "yes | head -1; echo ${PIPESTATUS[0]}"]).run().succeeded();
    assert_eq!((finished.stdout().as_str(), finished.stderr().as_str()), ("y\n141\n", ""));
}

fn interrupting_the_program_interrupts_the_command(world: &World) {
    let live = world
        .hotcell(["run", "trap 'echo caught; exit 7' INT; echo up; while :; do sleep 0.05; done"])
        .start();
    live.await_stdout("up\n");
    send(live.pid(), Signal::INT);
    let finished = live.finish();
    assert_eq!((finished.code(), finished.stdout().as_str()), (7, "up\ncaught\n"));
}

const DEAF: &str = "trap '' INT TERM HUP; echo up; while :; do sleep 0.05; done";

fn a_second_interrupt_kills_the_command(world: &World) {
    let live = world.hotcell(["run", "--cell", "deaf", DEAF]).start();
    live.await_stdout("up\n");
    send(live.pid(), Signal::INT);
    // Signals of one kind that wait are one signal: the second may come only after the first.
    eventually("the first interrupt is taken", || !has_pending(live.pid()));
    assert_eq!(world.json(["ps", "--json"])["execs"][0]["state"], "running");
    send(live.pid(), Signal::INT);
    live.finish().exited(130);
    let exec = &world.json(["ps", "--all", "--json"])["execs"][0];
    assert_eq!(exec["end"]["cause"], "cancelled");
}

fn a_request_to_end_is_passed_on(world: &World) {
    let script = "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done";
    let live = world.hotcell(["run", script]).start();
    live.await_stdout("up\n");
    send(live.pid(), Signal::TERM);
    assert_eq!(live.finish().exited(4).stdout(), "up\nbye\n");
}

fn a_lost_terminal_leaves_a_named_cell_alone(world: &World) {
    let live = world.hotcell(["run", "--cell", "named", DEAF]).start();
    live.await_stdout("up\n");
    send(live.pid(), Signal::HUP);
    let left = live.finish().exited(129);
    assert!(left.stderr().contains("runs on"), "{left:?}");
    assert_eq!(world.json(["ps", "--json"])["execs"][0]["state"], "running");
}
