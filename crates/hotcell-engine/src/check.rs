//! Checks of what callers ask for, before anything is done.

use std::collections::BTreeMap;
use std::time::Duration;

use hotcell_model::{
    CellFork, CellSpawn, Code, Command, DriverCapabilities, Error, ExecBounds, ExecRun, HOST_IMAGE,
    ImageName, LIMITS, RequestedLimits, Result, SecretForm, SecretGrant, Stdin, TerminalSize,
    check_grants_together,
};

use crate::settings::Settings;

/// The longest a single call waits.
const MAX_WAIT_S: f64 = 3600.0;
/// All arguments and variables of one exec together; the kernel takes no more than a few times this.
const MAX_ARGUMENTS_BYTES: usize = 1 << 20;
/// What can be sent along as standard input; more goes through a file or piece by piece.
const MAX_STDIN_BYTES: usize = 1 << 20;
/// Code, which is no argument of a program.
const MAX_CODE_BYTES: usize = 1 << 20;
const MAX_PATH_BYTES: usize = 4095;
const MAX_KEY_BYTES: usize = 256;
const MAX_TERMINAL_SIDE: u16 = 1000;
const MAX_GRANTS: usize = 32;
/// The most forks at once.
const MAX_FORKS: u32 = 100;
const MAX_LABELS: usize = 16;
const MAX_LABEL_BYTES: usize = 64;

/// Checks a spawn as far as that needs no driver.
pub(crate) fn cell_spawn(request: &CellSpawn) -> Result<()> {
    if request.image != HOST_IMAGE {
        request.image.parse::<ImageName>()?;
    }
    variables(&request.env)?;
    secrets(&request.secrets)?;
    labels(&request.on)?;
    ttl("ttl_s", request.ttl_s)?;
    ttl("idle_ttl_s", request.idle_ttl_s)?;
    idempotency_key(request.idempotency_key.as_deref())
}

/// Checks a fork.
pub(crate) fn cell_fork(request: &CellFork) -> Result<()> {
    let count = request.count;
    if count == 0 || count > MAX_FORKS {
        return Err(Error::argument("count", format!("between 1 and {MAX_FORKS}"), count));
    }
    if request.idempotency_key.is_some() && count > 1 {
        return Err(Error::invalid(format!("a key cannot stand for {count} forks"))
            .hint("fork the cell once for each key"));
    }
    ttl("ttl_s", request.ttl_s)?;
    idempotency_key(request.idempotency_key.as_deref())
}

/// Checks the form of grants.
pub(crate) fn secrets(grants: &[SecretGrant]) -> Result<()> {
    if grants.len() > MAX_GRANTS {
        return Err(Error::invalid(format!("a cell cannot be granted {} secrets", grants.len()))
            .hint(format!("grant at most {MAX_GRANTS}")));
    }
    check_grants_together(grants)?;
    let name = |grant: &SecretGrant| match &grant.form {
        SecretForm::Env { variable } => Some((variable.clone(), String::new())),
        SecretForm::Header(_) => None,
    };
    variables(&grants.iter().filter_map(name).collect())
}

/// Checks the form of labels.
fn labels(on: &BTreeMap<String, String>) -> Result<()> {
    if on.len() > MAX_LABELS {
        return Err(Error::invalid(format!("a place cannot be asked for {} labels", on.len()))
            .hint(format!("ask for at most {MAX_LABELS}")));
    }
    let is_plain = |text: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        !text.is_empty() && text.len() <= MAX_LABEL_BYTES && text.bytes().all(allowed)
    };
    match on.iter().find(|(label, value)| !is_plain(label) || !is_plain(value)) {
        None => Ok(()),
        Some((label, value)) => Err(Error::invalid(format!(
            "{label:?}={value:?} is no label of a place"
        ))
        .hint("label and value have letters, digits, . _ - and /, such as gpu=yes, engine=west")),
    }
}

/// Refuses limits that were asked for by name and would not hold.
pub(crate) fn enforceable(asked: &RequestedLimits, can: &DriverCapabilities) -> Result<()> {
    let wanted = [
        ("memory", asked.memory_mb.is_some(), can.memory_limit),
        ("cpus", asked.cpus.is_some(), can.cpu_limit),
        ("pids", asked.pids.is_some(), can.pids_limit),
        ("disk", asked.disk_mb.is_some() || asked.disk_files.is_some(), can.disk_limit),
    ];
    match wanted.into_iter().find(|(_, asked, enforced)| *asked && !enforced) {
        None => Ok(()),
        Some((name, ..)) => {
            Err(Error::unsupported(format!("a {name} limit cannot be enforced on this machine"))
                .hint("`hotcell doctor` tells what is missing; or leave the limit out"))
        }
    }
}

/// Checks a run.
pub(crate) fn exec_run(request: &ExecRun) -> Result<()> {
    let words = command(&request.command)?;
    variables(&request.env)?;
    let variables: usize = request.env.iter().map(|(n, v)| n.len() + v.len() + 2).sum();
    if words + variables > MAX_ARGUMENTS_BYTES {
        return Err(Error::invalid(format!(
            "the arguments and variables are {} bytes together, more than {MAX_ARGUMENTS_BYTES}",
            words + variables
        ))
        .hint("write them to a file in the cell and pass its path"));
    }
    if request.cwd.is_empty() || request.cwd.contains('\0') || request.cwd.len() > MAX_PATH_BYTES {
        return Err(Error::argument("cwd", "a path in the cell", format!("{:?}", request.cwd))
            .hint("relative paths are below /workspace"));
    }
    stdin(&request.stdin)?;
    if let Some(size) = request.pty {
        terminal_size(size)?;
    }
    if let Some(timeout_s) = request.timeout_s {
        let most = LIMITS.max_seconds as f64;
        if !(timeout_s.is_finite() && timeout_s > 0.0 && timeout_s <= most) {
            let range = format!("more than 0 and at most {} seconds", LIMITS.max_seconds);
            return Err(Error::argument("timeout_s", range, timeout_s));
        }
    }
    wait(request.wait_s)?;
    bounds(&request.bounds)?;
    idempotency_key(request.idempotency_key.as_deref())
}

/// Checks the bounds of one run.
fn bounds(bounds: &ExecBounds) -> Result<()> {
    let ExecBounds { most_live, output_bytes, keep_s, grace_ms } = *bounds;
    let within = |name: &str, value: Option<u64>, least: u64, most: u64| match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(Error::argument(name, format!("between {least} and {most}"), value))
        }
        Some(_) | None => Ok(()),
    };
    within("most_live", most_live.map(u64::from), 1, u64::from(u32::MAX))?;
    within("output_bytes", output_bytes, LIMITS.min_output_bytes, LIMITS.max_output_bytes)?;
    within("keep_s", keep_s, 0, LIMITS.max_seconds)?;
    within("grace_ms", grace_ms, 0, LIMITS.max_seconds)
}

/// Checks that a run may be root in its cell, if it wants to be.
pub(crate) fn root(request: &ExecRun, settings: &Settings) -> Result<()> {
    may_be_root(request.as_root, settings)
}

/// Checks that somebody may be root in a cell, if they want to be.
pub(crate) fn may_be_root(as_root: bool, settings: &Settings) -> Result<()> {
    if as_root && !settings.as_root {
        return Err(Error::denied("commands of agents may not be root in their cells here").hint(
            "run it without as_root; the operator can allow it by the setting serve.as_root",
        ));
    }
    Ok(())
}

/// A wait as a duration.
pub(crate) fn wait(wait_s: f64) -> Result<Duration> {
    seconds("wait_s", wait_s)
}

/// A grace as a duration.
pub(crate) fn grace(grace_s: f64) -> Result<Duration> {
    seconds("grace_s", grace_s)
}

/// A terminal has at least one character, and no more than programs can be expected to draw.
pub(crate) fn terminal_size(size: TerminalSize) -> Result<()> {
    let sides = 1..=MAX_TERMINAL_SIDE;
    if !sides.contains(&size.rows) || !sides.contains(&size.cols) {
        let range = format!("between 1 and {MAX_TERMINAL_SIDE}");
        let given = format!("{} and {}", size.rows, size.cols);
        return Err(Error::argument("rows and cols", range, given).hint("24 and 80 are usual"));
    }
    Ok(())
}

fn seconds(name: &str, value: f64) -> Result<Duration> {
    if value.is_finite() && (0.0..=MAX_WAIT_S).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(Error::argument(name, format!("between 0 and {MAX_WAIT_S} seconds"), value))
    }
}

fn ttl(name: &str, value: Option<u64>) -> Result<()> {
    match value {
        Some(seconds) if !(1..=LIMITS.max_seconds).contains(&seconds) => {
            let range = format!("between 1 and {} seconds", LIMITS.max_seconds);
            Err(Error::argument(name, range, seconds))
        }
        Some(_) | None => Ok(()),
    }
}

fn idempotency_key(key: Option<&str>) -> Result<()> {
    match key {
        Some(key) if key.is_empty() || key.len() > MAX_KEY_BYTES => {
            let range = format!("1 to {MAX_KEY_BYTES} bytes, such as a UUID");
            Err(Error::argument("idempotency_key", range, format!("{} bytes", key.len())))
        }
        Some(_) | None => Ok(()),
    }
}

/// The bytes that the command takes up as arguments.
fn command(command: &Command) -> Result<usize> {
    let words: &[String] = match command {
        Command::Code(code) if code.text.trim().is_empty() => {
            return Err(Error::invalid("code is empty").hint("pass the code to run"));
        }
        // It is no argument of anything.
        Command::Code(code) if code.text.len() > MAX_CODE_BYTES => {
            let length = code.text.len();
            return Err(Error::invalid(format!("code of {length} bytes cannot be run")).hint(
                format!("run at most {MAX_CODE_BYTES} bytes; put more into files and import it"),
            ));
        }
        Command::Code(Code { language, session: Some(turn), .. }) if language.is_script() => {
            let (name, language) = (&turn.name, language.as_str());
            return Err(Error::unsupported(format!(
                "session {name} cannot keep variables of {language}: sessions are for Python"
            ))
            .hint("leave session out, and keep what is needed later in files"));
        }
        Command::Code(_) => return Ok(0),
        Command::Shell(text) if text.trim().is_empty() => {
            return Err(Error::invalid("command is empty").hint("pass the command to run"));
        }
        Command::Shell(text) => std::slice::from_ref(text),
        Command::Argv(words) => words,
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(
            Error::invalid("argv names no program").hint("pass a program and its arguments")
        );
    }
    for word in words {
        if word.contains('\0') {
            return Err(Error::invalid("the command contains a NUL byte")
                .hint("no argument can; pass such bytes through standard input or a file"));
        }
        if word.len() > LIMITS.max_argument_bytes {
            return Err(Error::invalid(format!(
                "an argument of {} bytes is longer than the {} the kernel passes on",
                word.len(),
                LIMITS.max_argument_bytes
            ))
            .hint("pass it through standard input or a file in the cell"));
        }
    }
    Ok(words.iter().map(|word| word.len() + 1).sum())
}

fn variables(env: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Error::invalid(format!("env: {name:?} cannot be the name of a variable"))
                .hint("a name is not empty and has no `=` and no NUL byte"));
        }
        if value.contains('\0') {
            return Err(Error::invalid(format!("env: the value of {name} contains a NUL byte"))
                .hint("no variable can; pass such bytes through a file in the cell"));
        }
        if name.len() + 1 + value.len() > LIMITS.max_argument_bytes {
            return Err(Error::invalid(format!(
                "env: {name} with {} bytes is longer than the {} the kernel passes on",
                value.len(),
                LIMITS.max_argument_bytes
            ))
            .hint("pass it through a file in the cell"));
        }
    }
    Ok(())
}

fn stdin(stdin: &Stdin) -> Result<()> {
    match stdin {
        Stdin::Text(text) if text.len() > MAX_STDIN_BYTES => Err(Error::invalid(format!(
            "stdin must be at most {MAX_STDIN_BYTES} bytes, not {}",
            text.len()
        ))
        .hint("leave the input open and send it piece by piece, or write it to a file")),
        Stdin::Empty | Stdin::Text(_) | Stdin::Open => Ok(()),
    }
}
