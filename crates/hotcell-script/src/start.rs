//! What an exec of a script is until it is node: reads the text that its order has, and hands node one
//! that it can run.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::thread;

use hotcell_runner::{ORDER, Order, REPORT, ScriptOrder};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::{Fault, Language, Script, read};

/// The stack on which a text is read. What is nested more deeply ends the process.
const STACK_BYTES: usize = 64 << 20;
/// The most address space that reading may take.
const MEMORY_BYTES: u64 = 1 << 30;
/// The most CPU time.
const CPU_SECONDS: u64 = 10;
/// The exit code of a run that could not be begun.
const FAILED: u8 = 1;

/// Reads the script that the order of this process has and becomes node, or reports what is wrong.
/// The arguments are the language, and the path of node with what follows it on its command line.
#[must_use]
pub fn start(arguments: &[OsString]) -> ExitCode {
    let told = match prepare(arguments) {
        Ok(Ready { mut node, order, .. }) => {
            // Its number is on the command line.
            let failed = node.exec();
            drop(order);
            format!("node cannot be started: {failed}")
        }
        Err(Failed::Fault(fault)) => {
            report(&fault);
            return ExitCode::from(FAILED);
        }
        Err(Failed::Io(error)) => format!("the script cannot be handed to node: {error}"),
    };
    report(&Fault { message: told, line: None, shown: String::new() });
    ExitCode::from(FAILED)
}

struct Ready {
    node: Command,
    order: OwnedFd,
}

enum Failed {
    Fault(Fault),
    Io(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn prepare(arguments: &[OsString]) -> Result<Ready, Failed> {
    let [language, node, more @ ..] = arguments else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
    };
    let language = match language.to_str() {
        Some("javascript") => Language::JavaScript,
        Some("typescript") => Language::TypeScript,
        Some(_) | None => return Err(io::Error::from(io::ErrorKind::InvalidInput).into()),
    };
    let mut order = String::new();
    File::open(inherited(ORDER))?.read_to_string(&mut order)?;
    let order: Order = serde_json::from_str(&order).map_err(io::Error::from)?;
    let Script { code, map, inserted } = read_within_limits(&order.code, language)?;
    let (source, results, limits) = (order.code, order.results, order.limits);
    let order = ScriptOrder { source, code, map, inserted, results, limits };
    let order = in_memory(&serde_json::to_vec(&order).map_err(io::Error::from)?)?;
    let mut command = program(node);
    command.args(more).arg(order.as_raw_fd().to_string());
    Ok(Ready { node: command, order })
}

#[expect(clippy::disallowed_methods, reason = "this process becomes node; it starts no other")]
fn program(path: &OsString) -> Command {
    Command::new(path)
}

/// A descriptor of this process, by a path.
fn inherited(descriptor: i32) -> String {
    format!("/proc/self/fd/{descriptor}")
}

/// A file in memory that the program has which this process becomes.
fn in_memory(content: &[u8]) -> io::Result<OwnedFd> {
    let file = File::from(memfd_create("script", MemfdFlags::empty())?);
    file.write_all_at(content, 0)?;
    Ok(file.into())
}

/// Reads a text. Whatever happens to this process meanwhile, a report says that it could not be read.
fn read_within_limits(source: &str, language: Language) -> Result<Script, Failed> {
    let unread = || Fault {
        message: "the code cannot be read: it is nested too deeply, or too large".to_owned(),
        line: None,
        shown: String::new(),
    };
    report(&unread());
    match read_apart(source, language)? {
        Ok(Ok(script)) => {
            // Node reports by itself.
            OpenOptions::new().write(true).open(inherited(REPORT))?.set_len(0)?;
            Ok(script)
        }
        Ok(Err(fault)) => Err(Failed::Fault(fault)),
        Err(_) => Err(Failed::Fault(unread())),
    }
}

/// Reads a text on a stack of its own, within limits that hold for that long.
fn read_apart(
    source: &str,
    language: Language,
) -> io::Result<thread::Result<Result<Script, Fault>>> {
    let kept = [
        (Resource::Core, limit(Resource::Core, 0)?),
        (Resource::As, limit(Resource::As, MEMORY_BYTES)?),
        (Resource::Cpu, limit(Resource::Cpu, CPU_SECONDS)?),
    ];
    // A stack that is full is told of there.
    let errors = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?;
    rustix::stdio::dup2_stderr(OpenOptions::new().write(true).open("/dev/null")?)?;
    let read = thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(STACK_BYTES);
        let reader = reader.spawn_scoped(scope, || read(source, language))?;
        Ok(reader.join())
    });
    rustix::stdio::dup2_stderr(&errors)?;
    for (resource, before) in kept {
        setrlimit(resource, before)?;
    }
    read
}

/// Lowers a limit for a while, if it is higher; what it was.
fn limit(resource: Resource, most: u64) -> io::Result<Rlimit> {
    let before = getrlimit(resource);
    let current = before.current.map_or(most, |current| current.min(most));
    setrlimit(resource, Rlimit { current: Some(current), ..before })?;
    Ok(before)
}

/// Writes what is wrong in place of what was reported so far.
fn report(fault: &Fault) {
    let error = json!({
        "type": "SyntaxError", "message": fault.message, "traceback": fault.traceback(),
        "line": fault.line,
    });
    let report = json!({ "status": "error", "result": null, "error": error, "artifacts": [] });
    // Without it the exec still has its end.
    if let Ok(file) = OpenOptions::new().write(true).open(inherited(REPORT)) {
        let _ = file.set_len(0).and_then(|()| file.write_all_at(report.to_string().as_bytes(), 0));
    }
}
