//! `hotcell-tool`: calls the tools of other servers from a shell inside a cell. It is this program by
//! another name, and knows nothing of the host: what it says goes to whoever had its exec run.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use hotcell_jail::shown::{CALLS_PROGRAM, CALLS_SOCKET};
use hotcell_model::{Error, ErrorCode};
use serde_json::{Map, Value, json};

use crate::errors::{Codes, Failure};

const USAGE: &str = "\
Calls a tool of another server, or tells which there are.

  hotcell-tool                                    lists servers
  hotcell-tool --search WORDS                     looks for tools
  hotcell-tool SERVER                             lists the server's tools
  hotcell-tool SERVER --help                      shows them with what they take
  hotcell-tool SERVER TOOL --help                 shows all about a tool
  hotcell-tool SERVER TOOL [--NAME VALUE]…        calls it
  hotcell-tool SERVER TOOL --json '{\"NAME\": …}'   calls it; - reads standard input

A VALUE is what the tool takes there: a text, or JSON. Several of one NAME are a list, a NAME without
a VALUE is true. The result is printed as JSON; with --raw before SERVER, a text as it is.
Exit status: 0, 1 where the tool failed, else that of the error: invalid 2, not_found 3, conflict 4,
denied 5, limit_exceeded 6, timeout 7, cancelled 8, unsupported 9, unavailable 10, internal 70.
";
/// Where the files of tools lie.
const STUBS: &str = "/tools";
/// The longest answer; servers are bounded by less.
const MOST_BYTES: usize = 256 << 20;
/// The status where a tool itself failed.
const TOOL_FAILED: u8 = 1;

/// Whether this program was started by that name.
pub(crate) fn is_named(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(CALLS_PROGRAM))
}

/// Does what its arguments say, which begin with its name.
pub(crate) fn run(args: Vec<OsString>) -> ExitCode {
    let done = words(args).and_then(|words| understand(&words)).and_then(perform);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fault::Tool(message)) => {
            // There is nobody else to tell.
            let _ = writeln!(io::stderr(), "error: tool_failed: {message}");
            ExitCode::from(TOOL_FAILED)
        }
        Err(Fault::Own(failure)) => {
            failure.tell(&mut io::stderr());
            ExitCode::from(failure.exit_code(Codes::Own))
        }
    }
}

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The tool says so.
    Tool(String),
    Own(Failure),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let message = format!("{}: {}", error.code, error.message);
        Self::Own(Failure::Refused(Error { message, ..error }))
    }
}

fn wrong(message: impl Into<String>) -> Fault {
    Error::invalid(message).hint("see `hotcell-tool --help`").into()
}

fn words(args: Vec<OsString>) -> Result<Vec<String>, Fault> {
    let text = |arg: OsString| {
        arg.into_string().map_err(|arg| wrong(format!("{} is no text in UTF-8", arg.display())))
    };
    args.into_iter().skip(1).map(text).collect()
}

/// What is asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Asked {
    Usage,
    /// A file of `/tools`.
    Stub {
        server: String,
        file: String,
    },
    /// Lists, or what a search finds, as lines.
    Look(Value),
    Call {
        call: Call,
        shape: Shape,
    },
}

/// What is called, and with what.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) with: Given,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Given {
    /// Words of the command line.
    Words(Vec<(String, Option<String>)>),
    /// An object.
    Json(String),
    /// One that is read from standard input.
    Input,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Json,
    /// A text as it is.
    Raw,
}

/// Understands a command line.
pub(crate) fn understand(words: &[String]) -> Result<Asked, Fault> {
    if let [first, query @ ..] = words
        && first == "--search"
    {
        if query.is_empty() {
            return Err(wrong("--search is given without words"));
        }
        let question = json!({ "op": "search", "query": query.join(" "), "detail": "stub" });
        return Ok(Asked::Look(question));
    }
    let (shape, words) = match words {
        [first, rest @ ..] if first == "--raw" => (Shape::Raw, rest),
        words => (Shape::Json, words),
    };
    let (names, rest) = words.split_at(words.iter().take_while(|it| !it.starts_with('-')).count());
    let has_help = rest.iter().any(|word| word == "--help" || word == "-h");
    match (names, rest) {
        ([], _) if has_help => Ok(Asked::Usage),
        ([server], _) if has_help => {
            Ok(Asked::Stub { server: server.clone(), file: "__init__.pyi".to_owned() })
        }
        ([server, tool], _) if has_help => {
            Ok(Asked::Stub { server: server.clone(), file: format!("{tool}.pyi") })
        }
        ([], []) => Ok(Asked::Look(json!({ "op": "list", "server": null }))),
        ([server], []) => Ok(Asked::Look(json!({ "op": "list", "server": server }))),
        ([server, tool], rest) => {
            let (server, tool, with) = (server.clone(), tool.clone(), given(rest)?);
            Ok(Asked::Call { call: Call { server, tool, with }, shape })
        }
        ([] | [_], [first, ..]) => Err(wrong(format!("{first} is given without a tool"))),
        ([_, _, beyond, ..], _) => Err(wrong(format!("{beyond:?} is no --NAME"))),
    }
}

fn given(rest: &[String]) -> Result<Given, Fault> {
    if let [first, text] = rest
        && first == "--json"
    {
        return Ok(if text == "-" { Given::Input } else { Given::Json(text.clone()) });
    }
    let mut given = Vec::new();
    let mut left = rest.iter().peekable();
    while let Some(word) = left.next() {
        let name = word.strip_prefix("--").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| wrong(format!("{word:?} is no --NAME")))?;
        match name.split_once('=') {
            Some(("", _)) => return Err(wrong(format!("{word:?} has no NAME"))),
            Some((name, value)) => given.push((name.to_owned(), Some(value.to_owned()))),
            None if name == "json" => {
                return Err(wrong("--json takes one object, and no other argument beside it"));
            }
            None => {
                let value = left.next_if(|next| !next.starts_with("--")).cloned();
                given.push((name.to_owned(), value));
            }
        }
    }
    Ok(Given::Words(given))
}

fn perform(asked: Asked) -> Result<(), Fault> {
    let shown = match asked {
        Asked::Usage => USAGE.to_owned(),
        Asked::Stub { server, file } => stub(&server, &file)?,
        Asked::Look(question) => lines(ask(question)?),
        Asked::Call { call, shape } => match (shape, ask(question(call)?)?) {
            (Shape::Raw, Value::String(text)) => text,
            (Shape::Raw | Shape::Json, value) => value.to_string(),
        },
    };
    let end = if shown.ends_with('\n') { "" } else { "\n" };
    let mut out = io::stdout();
    let written = out.write_all(shown.as_bytes()).and_then(|()| out.write_all(end.as_bytes()));
    written.and_then(|()| out.flush()).map_err(|error| Fault::Own(Failure::Output(error)))
}

fn question(call: Call) -> Result<Value, Fault> {
    let Call { server, tool, with } = call;
    let object = |text: &str| -> Result<Map<String, Value>, Fault> {
        serde_json::from_str(text).map_err(|error| wrong(format!("--json has no object: {error}")))
    };
    let (key, arguments) = match with {
        Given::Words(words) => ("words", json!(words)),
        Given::Json(text) => ("arguments", json!(object(&text)?)),
        Given::Input => {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| wrong(format!("cannot read standard input: {error}")))?;
            ("arguments", json!(object(&text)?))
        }
    };
    Ok(json!({ "op": "call", "server": server, "tool": tool, key: arguments }))
}

/// What a file of `/tools` has.
fn stub(server: &str, file: &str) -> Result<String, Fault> {
    let is_name = |name: &str| !name.contains('/') && !name.starts_with('.');
    let path = Path::new(STUBS).join(server).join(file);
    let is_within = is_name(server) && is_name(file);
    let found = is_within.then(|| std::fs::read_to_string(&path).ok()).flatten();
    found.ok_or_else(|| {
        Error::not_found(format!("there is no {}", path.display()))
            .hint("`hotcell-tool` lists servers, `hotcell-tool SERVER` its tools")
            .into()
    })
}

/// Names, each on a line, or a text.
fn lines(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(|name| format!("{name}\n")).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

/// Asks whoever had this program's exec run.
fn ask(question: Value) -> Result<Value, Fault> {
    let nobody = |why: String| {
        Error::unavailable(format!("tools cannot be called here: {why}")).hint(
            "whoever started the command carries its calls, if it has tools and is still there",
        )
    };
    let mut socket = UnixStream::connect(CALLS_SOCKET)
        .map_err(|error| nobody(format!("cannot connect to {CALLS_SOCKET}: {error}")))?;
    // Whether or not all of it was taken: whoever refuses it says why.
    let _ = tell(&mut socket, question);
    let mut heard = hear(&mut socket)
        .map_err(|_| nobody("nobody carries the calls of this command".to_owned()))?;
    let Some(error) = heard.get_mut("error").map(Value::take) else {
        return Ok(heard.get_mut("ok").map(Value::take).unwrap_or_default());
    };
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").unwrap_or_default();
    match error.get("code").and_then(|code| serde_json::from_value(code.clone()).ok()) {
        Some(code) => {
            let code: ErrorCode = code;
            let refused = Error { code, hint: text("hint"), ..Error::invalid(message) };
            Err(refused.into())
        }
        None => Err(Fault::Tool(message)),
    }
}

fn tell(socket: &mut UnixStream, mut question: Value) -> io::Result<()> {
    question["id"] = json!(1);
    let bytes = serde_json::to_vec(&question)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    socket.write_all(&length.to_be_bytes())?;
    socket.write_all(&bytes)
}

fn hear(socket: &mut UnixStream) -> io::Result<Value> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
