//! The programs that try what nothing in a cell may do, and say what became of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What became of system calls: a name and a word on each.
pub(crate) type Fates = Vec<(String, String)>;

/// The one that makes system calls.
pub(crate) fn try_calls(directory: &Path) -> PathBuf {
    example(directory, "try_calls")
}

/// The one that tries ways out of a cell.
pub(crate) fn try_ways(directory: &Path) -> PathBuf {
    example(directory, "try_ways")
}

/// Builds one, as far as it is not built yet, and copies it to where others can run it.
fn example(directory: &Path, name: &str) -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "hotcell-jail", "--example", name])
        .args(["--message-format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "{name} cannot be built");
    let text = String::from_utf8(built.stdout).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut executable =
        messages.filter_map(|message| Some(message["executable"].as_str()?.to_owned()));
    let copy = directory.join(name);
    // By another process, as for the program itself.
    let copied =
        Command::new("cp").arg(executable.next_back().unwrap()).arg(&copy).status().unwrap();
    assert!(copied.success());
    copy
}

/// What it printed.
pub(crate) fn fates(text: &str) -> Fates {
    let parts = |line: &str| {
        let (name, fate) = line.split_once(' ').unwrap_or_else(|| panic!("{text}"));
        (name.to_owned(), fate.to_owned())
    };
    text.lines().map(parts).collect()
}
