//! Tests of the checks: each wrong value is named, with what to do.

use std::collections::BTreeMap;

use hotcell_model::{
    CellRef, CellSpawn, Command, Error, ErrorCode, ExecRun, LIMITS, Stdin, TerminalSize,
};

use crate::check;

fn run() -> ExecRun {
    let cell: CellRef = "work".parse().unwrap();
    ExecRun::new(cell, Command::Argv(vec!["true".to_owned()]))
}

fn variables(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

#[track_caller]
fn assert_invalid(result: Result<(), Error>, part: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Invalid, "{error}");
    assert!(error.message.contains(part), "{error}");
    assert!(error.hint.is_some() || error.message.contains(" must be "), "{error}");
}

#[test]
fn a_plain_run_and_a_plain_spawn_are_fine() {
    check::exec_run(&run()).unwrap();
    check::cell_spawn(&CellSpawn::default()).unwrap();
}

#[test]
fn commands_that_cannot_run_are_refused() {
    let with = |command| ExecRun { command, ..run() };
    let argv = |words: &[&str]| Command::Argv(words.iter().map(|&w| w.to_owned()).collect());
    assert_invalid(check::exec_run(&with(Command::Shell(" \n".to_owned()))), "empty");
    assert_invalid(check::exec_run(&with(argv(&[]))), "no program");
    assert_invalid(check::exec_run(&with(argv(&["", "x"]))), "no program");
    assert_invalid(check::exec_run(&with(argv(&["echo", "a\0b"]))), "NUL");
    assert_invalid(check::exec_run(&with(Command::Shell("a\0b".to_owned()))), "NUL");
    let long = "x".repeat(LIMITS.max_argument_bytes + 1);
    assert_invalid(check::exec_run(&with(argv(&["echo", &long]))), "131072 bytes");
    let many = vec!["x".repeat(100_000); 11];
    assert_invalid(check::exec_run(&with(Command::Argv(many))), "together");
}

#[test]
fn variables_that_cannot_be_set_are_refused() {
    for name in ["", "A=B", "A\0"] {
        let env = variables(name, "x");
        assert_invalid(
            check::exec_run(&ExecRun { env: env.clone(), ..run() }),
            "name of a variable",
        );
        let spawn = CellSpawn { env, ..CellSpawn::default() };
        assert_invalid(check::cell_spawn(&spawn), "name of a variable");
    }
    assert_invalid(check::exec_run(&ExecRun { env: variables("A", "\0"), ..run() }), "NUL");
    let long = variables("A", &"x".repeat(LIMITS.max_argument_bytes));
    assert_invalid(check::exec_run(&ExecRun { env: long, ..run() }), "longer than");
}

#[test]
fn labels_that_no_place_has_are_refused() {
    let on =
        |label: &str, value: &str| CellSpawn { on: variables(label, value), ..Default::default() };
    check::cell_spawn(&on("example.org/gpu", "A-100_x")).unwrap();
    for (label, value) in
        [("", "x"), ("gpu", ""), ("gpu", "a b"), ("g=", "x"), ("gpu", &"x".repeat(65))]
    {
        assert_invalid(check::cell_spawn(&on(label, value)), "no label");
    }
    let many = (0..17).map(|number| (number.to_string(), "x".to_owned())).collect();
    let many = CellSpawn { on: many, ..CellSpawn::default() };
    assert_invalid(check::cell_spawn(&many), "17 labels");
}

#[test]
fn times_out_of_bounds_are_refused() {
    for timeout_s in [0.0, -1.0, f64::NAN, f64::INFINITY, 4e7] {
        let timed = ExecRun { timeout_s: Some(timeout_s), ..run() };
        assert_invalid(check::exec_run(&timed), "timeout_s must be more than 0");
    }
    for wait_s in [-0.1, f64::NAN, 3600.5] {
        assert_invalid(
            check::exec_run(&ExecRun { wait_s, ..run() }),
            "wait_s must be between 0 and 3600 seconds, not",
        );
    }
    for ttl_s in [0, LIMITS.max_seconds + 1] {
        let spawn = CellSpawn { ttl_s: Some(ttl_s), ..CellSpawn::default() };
        assert_invalid(check::cell_spawn(&spawn), "ttl_s must be between 1");
        let spawn = CellSpawn { idle_ttl_s: Some(ttl_s), ..CellSpawn::default() };
        assert_invalid(check::cell_spawn(&spawn), "idle_ttl_s must be between 1");
    }
}

#[test]
fn other_values_out_of_bounds_are_refused() {
    for cwd in [String::new(), "a\0b".to_owned(), "x".repeat(5000)] {
        assert_invalid(check::exec_run(&ExecRun { cwd, ..run() }), "cwd must be");
    }
    let stdin = Stdin::Text("x".repeat((1 << 20) + 1));
    assert_invalid(check::exec_run(&ExecRun { stdin, ..run() }), "stdin must be");
    let pty = Some(TerminalSize { rows: 0, cols: 80 });
    assert_invalid(
        check::exec_run(&ExecRun { pty, ..run() }),
        "rows and cols must be between 1 and 1000, not 0 and 80",
    );
    let idempotency_key = Some(String::new());
    assert_invalid(check::exec_run(&ExecRun { idempotency_key, ..run() }), "key");
    let image = String::new();
    assert_invalid(check::cell_spawn(&CellSpawn { image, ..CellSpawn::default() }), "image");
}
