//! The program that makes system calls and says what became of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What became of system calls: a name and a word on each.
pub(crate) type Fates = Vec<(String, String)>;

/// Builds it, as far as it is not built yet, and copies it to where others can run it.
pub(crate) fn try_calls(directory: &Path) -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "hotcell-jail", "--example", "try_calls"])
        .args(["--message-format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "the program that tries system calls cannot be built");
    let text = String::from_utf8(built.stdout).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut executable =
        messages.filter_map(|message| Some(message["executable"].as_str()?.to_owned()));
    let copy = directory.join("try_calls");
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
