//! Whole processes: a plain one, one in bwrap, and `hotcell run`.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The interpreter that cells have, not a script of its user's that looks for one.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A program with no input and no output of its own yet.
#[expect(clippy::disallowed_methods, reason = "a benchmark compares with plain processes")]
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// `sh -c true` as the standard library starts it, by `posix_spawn`.
pub(crate) fn plain() -> Result<Duration> {
    timed(program("/bin/sh").args(["-c", "true"]))
}

/// `python3` that prints a sum.
pub(crate) fn python() -> Result<Duration> {
    timed(program(PYTHON).args(["-I", "-c", "print(1 + 1)"]))
}

/// Whether bwrap is here and can make a sandbox.
pub(crate) fn bwrap_works() -> bool {
    bwrap_command().stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// `true` in a sandbox of bwrap, made and thrown away.
pub(crate) fn bwrap() -> Result<Duration> {
    timed(&mut bwrap_command())
}

fn bwrap_command() -> Command {
    let mut command = program("bwrap");
    command.args(["--unshare-all", "--ro-bind", "/", "/", "true"]);
    command
}

/// `hotcell run true`: a whole process that makes a cell, runs in it, and removes it.
pub(crate) fn hotcell_run(hotcell: &Path, state: &Path) -> Result<Duration> {
    timed(program(hotcell).arg("--state-dir").arg(state).args(["run", "--", "true"]))
}

/// A command whose output goes to a file.
pub(crate) fn to_file(argv: &[&str], file: &Path) -> Result<Duration> {
    let output = File::create(file).context("make the output file")?;
    timed(program(argv[0]).args(&argv[1..]).stdout(output))
}

/// A command in a cell by the command line, its output to nowhere.
pub(crate) fn hotcell_in(
    hotcell: &Path,
    state: &Path,
    cell: &str,
    argv: &[&str],
) -> Result<Duration> {
    let mut command = program(hotcell);
    command.arg("--state-dir").arg(state).args(["run", "--cell", cell, "--"]).args(argv);
    timed(&mut command)
}

/// Runs a command to its end.
pub(crate) fn timed(command: &mut Command) -> Result<Duration> {
    let began = Instant::now();
    let status = command.status().with_context(|| format!("run {command:?}"))?;
    let took = began.elapsed();
    ensure!(status.success(), "{command:?}: {status}");
    Ok(took)
}
