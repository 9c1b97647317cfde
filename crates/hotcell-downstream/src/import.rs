//! Reads the servers that other clients were told of: `{"mcpServers": {NAME: …}}`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hotcell_model::{Error, Result};
use serde_json::{Map, Value};

use crate::spec::{HttpLaunch, Launch, ServerName, ServerSpec, SpecText, StdioLaunch};

/// A declaration that was read.
pub type Imported = (ServerName, ServerSpec);

const STDIO_KEYS: [&str; 5] = ["args", "command", "cwd", "env", "type"];
const HTTP_KEYS: [&str; 3] = ["headers", "type", "url"];

/// The servers in a text.
///
/// # Errors
/// `invalid` for what is no plain JSON of that form, with the key that is wrong. No value is
/// repeated in it: such files have tokens in them.
pub fn mcp_servers_json(text: &str) -> Result<Vec<Imported>> {
    let whole: Value = serde_json::from_str(text).map_err(|error| {
        Error::invalid(format!("not JSON at line {}, column {}", error.line(), error.column()))
            .hint("comments and commas before a closing bracket are no JSON: take them out")
    })?;
    let servers = match whole.get("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err(Error::invalid("`mcpServers` is no object")),
        None => {
            return Err(Error::invalid("there is no `mcpServers`")
                .hint("the file is {\"mcpServers\": {\"NAME\": {\"command\": …}}}"));
        }
    };
    servers.iter().map(|(name, declared)| read(name, declared)).collect()
}

fn read(name: &str, declared: &Value) -> Result<Imported> {
    let at =
        |error: Error| Error { message: format!("mcpServers.{name}: {}", error.message), ..error };
    let read = || {
        let parsed = name.parse()?;
        let declared = declared.as_object().ok_or_else(|| Error::invalid("is no object"))?;
        let launch = match (declared.contains_key("command"), declared.contains_key("url")) {
            (true, false) => Launch::Stdio(stdio(declared)?),
            (false, true) => Launch::Http(http(declared)?),
            (true, true) => return Err(Error::invalid("has both `command` and `url`")),
            (false, false) => return Err(Error::invalid("has neither `command` nor `url`")),
        };
        let spec = ServerSpec::new(launch);
        spec.check()?;
        Ok((parsed, spec))
    };
    read().map_err(at)
}

fn stdio(declared: &Map<String, Value>) -> Result<StdioLaunch> {
    only(declared, &STDIO_KEYS)?;
    of_type(declared, &["stdio"])?;
    let args = match declared.get("args") {
        None => Vec::new(),
        Some(Value::Array(args)) => args
            .iter()
            .map(|arg| arg.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| Error::invalid("`args` has something that is no text"))?,
        Some(_) => return Err(Error::invalid("`args` is no list")),
    };
    Ok(StdioLaunch {
        command: text(declared, "command")?.unwrap_or_default(),
        args,
        env: texts(declared, "env")?,
        cwd: text(declared, "cwd")?.map(PathBuf::from),
    })
}

fn http(declared: &Map<String, Value>) -> Result<HttpLaunch> {
    only(declared, &HTTP_KEYS)?;
    of_type(declared, &["http", "streamable-http", "streamableHttp"])?;
    let mut headers = texts(declared, "headers")?;
    let authorization =
        headers.keys().find(|name| name.eq_ignore_ascii_case("authorization")).cloned();
    let bearer = match authorization.and_then(|name| headers.remove(&name)) {
        None => None,
        Some(SpecText::Plain(value)) => match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                Some(SpecText::Plain(token.trim().to_owned()))
            }
            Some(_) | None => {
                return Err(Error::invalid("`headers.Authorization` is no bearer token"));
            }
        },
        Some(secret @ SpecText::Secret(_)) => Some(secret),
    };
    Ok(HttpLaunch { url: text(declared, "url")?.unwrap_or_default(), headers, bearer })
}

fn of_type(declared: &Map<String, Value>, known: &[&str]) -> Result<()> {
    match text(declared, "type")? {
        Some(kind) if !known.contains(&kind.as_str()) => {
            Err(Error::invalid(format!("`type` is {kind:?}; it can be {}", known.join(", ")))
                .hint("servers that speak SSE alone are not supported"))
        }
        Some(_) | None => Ok(()),
    }
}

fn only(declared: &Map<String, Value>, known: &[&str]) -> Result<()> {
    match declared.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Error::invalid(format!("unknown key `{key}`"))
            .hint(format!("known are {}", known.join(", ")))),
        None => Ok(()),
    }
}

fn text(declared: &Map<String, Value>, key: &str) -> Result<Option<String>> {
    match declared.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Error::invalid(format!("`{key}` is no text"))),
    }
}

fn texts(declared: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, SpecText>> {
    let Some(found) = declared.get(key) else { return Ok(BTreeMap::new()) };
    let found = found.as_object().ok_or_else(|| Error::invalid(format!("`{key}` is no object")))?;
    let read = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), SpecText::Plain(text.clone()))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(Error::invalid(format!("`{key}.{name}` is no text")))
        }
    };
    found.iter().map(read).collect()
}
