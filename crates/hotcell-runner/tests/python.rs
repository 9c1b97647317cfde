//! Runs the tests of the runner, which are written in Python, against the text that cells get.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "the runner is run by real interpreters, and what is missing is said loudly"
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Starts one file of tests below `tests/python`; its output is the message of a failure.
fn passes(file: &str) {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("runner.py");
    fs::write(&source, hotcell_runner::source()).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(file);
    // One with packages, where there is one.
    let python = std::env::var("HOTCELL_TEST_PYTHON").ok().filter(|path| !path.is_empty());
    let output = Command::new(python.as_deref().unwrap_or("python3"))
        .arg("-B")
        .arg(&tests)
        .env("HOTCELL_RUNNER_SOURCE", &source)
        .env("TMPDIR", directory.path())
        .output();
    let Ok(output) = output else {
        skip("there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    assert!(said.contains("\nRan ") && !said.contains("\nRan 0 "), "no test was run: {said}");
    if said.contains("skipped=") {
        skip(&format!("{file}: this python3 lacks pandas or matplotlib"));
    }
}

/// Says loudly that something is missing, or fails where it is required.
fn skip(why: &str) {
    let required = std::env::var("HOTCELL_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == "runner"), "runner is required: {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED {test}: {why}");
    if let Some(list) = std::env::var_os("HOTCELL_TEST_SKIPS") {
        let mut list = fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{test}: {why}").unwrap();
    }
}

#[test]
fn ordinary_programs_run() {
    passes("test_snippets.py");
}

#[test]
fn values_are_told_within_their_budget() {
    passes("test_values.py");
}

#[test]
fn runs_end_as_python_ends() {
    passes("test_ends.py");
}

#[test]
fn tools_are_called_in_every_form() {
    passes("test_tools.py");
}

#[test]
fn children_of_a_zygote_share_nothing() {
    passes("test_zygote.py");
}

#[test]
fn a_session_keeps_its_variables_and_nothing_of_a_run() {
    passes("test_turns.py");
}

#[test]
#[should_panic(expected = "can't open file")]
fn a_file_that_fails_is_noticed() {
    passes("test_absent.py");
}
