//! What the configuration says of servers whose tools code may call: `[toolbox.NAME]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_downstream::{
    HttpLaunch, Launch, McpServers, ServerName, ServerSpec, SpecText, StdioLaunch, Surroundings,
    mcp_servers_json,
};
use hotcell_engine::PASS_THROUGH_TOKENS;
use hotcell_model::{Error, NetRule, Result, SecretStore};
use serde_json::Value;
use toml::Table;

use crate::config::Config;
use crate::environment::Environment;
use crate::own_file;

/// A larger file declares no servers.
const MOST_BYTES: u64 = 1 << 20;

/// Every key of a server; the page on the toolbox has the same.
pub(crate) const TOOLBOX_KEYS: &[(&str, &str)] = &[
    ("command", "the program that is the server: its path, or its name in PATH"),
    ("args", "its arguments"),
    ("env", "its variables besides PATH, HOME and LANG, each a text or `{ secret = \"NAME\" }`"),
    ("cwd", "the directory it runs in; HOME unless given"),
    (
        "cell",
        "whether it runs in a cell of its own, without a network and with nothing of this machine but its programs; false unless given",
    ),
    ("allow", "names that it can reach from its cell, as `--allow` of `hotcell run`"),
    ("url", "where the server is, instead of a program: https, or http on this machine"),
    ("headers", "headers of every request, each a text or `{ secret = \"NAME\" }`"),
    ("bearer", "the token that the server is shown, a text or `{ secret = \"NAME\" }`"),
    (
        "trust_annotations",
        "whether what it says of its tools counts for the rules; false unless given",
    ),
    (
        "allow_tools",
        "whether its tools are called without approval; rules of the policy still count; false unless given",
    ),
    ("timeout_s", "seconds that a call, or a start, may take; 60 unless given"),
    ("most_bytes", "bytes that an answer may have; 10000000 unless given"),
    ("parallel", "calls that are under way at once, while others wait; 8 unless given"),
    ("idle_s", "seconds without a call after which the server is ended; 300 unless given"),
];

/// What is said of the toolbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolboxConfig {
    /// A file with servers in the form of other clients; empty for none.
    pub(crate) import: PathBuf,
    /// What the definitions of all tools may cost for clients to be given them as they are.
    pub(crate) pass_through_tokens: u64,
    servers: BTreeMap<ServerName, ServerSpec>,
    /// Those that run in a cell, and what they can reach from there.
    in_cells: BTreeMap<ServerName, Vec<NetRule>>,
}

impl Default for ToolboxConfig {
    fn default() -> Self {
        Self {
            import: PathBuf::new(),
            pass_through_tokens: PASS_THROUGH_TOKENS as u64,
            servers: BTreeMap::new(),
            in_cells: BTreeMap::new(),
        }
    }
}

impl ToolboxConfig {
    /// Whether there are servers whose tools code may call.
    pub(crate) fn has_servers(&self) -> bool {
        !self.servers.is_empty() || !self.import.as_os_str().is_empty()
    }

    /// Takes the servers out of the file's `toolbox` table; what is left are keys like others.
    ///
    /// # Errors
    /// `invalid`, with the key.
    pub(crate) fn take(&mut self, file: &mut Table) -> Result<()> {
        let Some(toml::Value::Table(toolbox)) = file.get_mut("toolbox") else { return Ok(()) };
        let names: Vec<String> =
            toolbox.iter().filter(|(_, it)| it.is_table()).map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(toml::Value::Table(table)) = toolbox.remove(&name) else { continue };
            let place = |error: Error| Error {
                message: format!("[toolbox.{name}] {}", error.message),
                ..error
            };
            let parsed: ServerName = name.parse().map_err(place)?;
            if let Some(reached) = in_cell(&table).map_err(place)? {
                self.in_cells.insert(parsed.clone(), reached);
            }
            self.servers.insert(parsed, read(&table).map_err(place)?);
        }
        Ok(())
    }

    /// What is declared, as it is shown. Values of variables and headers are not.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (String, Value)> {
        self.servers.iter().flat_map(|(name, spec)| {
            let (key, value, names) = match &spec.launch {
                Launch::Stdio(it) => ("command", it.command.clone(), ("env", it.env.keys())),
                Launch::Http(it) => {
                    let url = it.url.split('?').next().unwrap_or_default().to_owned();
                    ("url", url, ("headers", it.headers.keys()))
                }
            };
            let (kind, names) = (names.0, names.1.cloned().collect::<Vec<_>>().join(","));
            let mut said = vec![(key, Value::from(value))];
            if let Some(reached) = self.in_cells.get(name) {
                let reached: Vec<String> = reached.iter().map(ToString::to_string).collect();
                said.extend([("cell", true.into()), ("allow", reached.join(",").into())]);
            }
            if !names.is_empty() {
                said.push((kind, names.into()));
            }
            said.extend([
                ("trust_annotations", spec.trust_annotations.into()),
                ("allow_tools", spec.allow_tools.into()),
                ("timeout_s", spec.timeout.as_secs().into()),
                ("most_bytes", spec.most_bytes.into()),
                ("parallel", spec.parallel.into()),
                ("idle_s", spec.idle.as_secs().into()),
            ]);
            said.into_iter().map(move |(key, value)| (format!("toolbox.{name}.{key}"), value))
        })
    }

    /// Every server that is declared, here or in the file that is named.
    ///
    /// # Errors
    /// `invalid` when that file cannot be read, is no such file, or names a server that is declared
    /// here.
    pub(crate) fn servers(&self) -> Result<BTreeMap<ServerName, ServerSpec>> {
        let mut servers = self.servers.clone();
        if self.import.as_os_str().is_empty() {
            return Ok(servers);
        }
        let shown = self.import.display();
        let text = own_file::read(&self.import, MOST_BYTES).map_err(|error| {
            Error::invalid(format!("cannot read {shown}, which toolbox.import names: {error}"))
        })?;
        let imported = mcp_servers_json(&text.1)
            .map_err(|error| Error { message: format!("{shown}: {}", error.message), ..error })?;
        for (name, spec) in imported {
            if servers.insert(name.clone(), spec).is_some() {
                return Err(Error::invalid(format!("{shown}: {name} is in [toolbox.{name}] too"))
                    .hint("take one of them out"));
            }
        }
        Ok(servers)
    }
}

/// The servers as the engine calls them; `None` where none are declared. Nothing is started yet.
///
/// # Errors
/// `invalid` for a declaration that is wrong.
pub(crate) fn open(
    config: &Config,
    environment: &Environment,
    secrets: Arc<dyn SecretStore>,
    program: &Path,
) -> Result<Option<McpServers>> {
    let mut servers = config.toolbox.servers()?;
    if servers.is_empty() {
        return Ok(None);
    }
    for (name, reached) in &config.toolbox.in_cells {
        if let Some(ServerSpec { launch: Launch::Stdio(launch), .. }) = servers.get_mut(name) {
            *launch = confined(launch, reached, config, environment, program)?;
        }
    }
    let tenant = config.tenant.clone();
    let text = |value: &Option<std::ffi::OsString>| value.clone()?.into_string().ok();
    let home = environment.home.as_ref().map(|home| home.display().to_string());
    let env =
        [("PATH", text(&environment.path)), ("HOME", home), ("LANG", environment.lang.clone())];
    let surroundings = Surroundings {
        value_of: Arc::new(move |name| secrets.resolve(&tenant, name)),
        env: env.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
        directory: environment.home.clone().unwrap_or_else(|| PathBuf::from("/")),
        listings: Some(config.state_dir.join("toolbox")),
        nameservers: config.egress.nameservers.clone(),
        ca_file: config.egress.ca_file.clone(),
    };
    McpServers::new(servers, surroundings).map(Some)
}

/// The same program in a cell of its own, as `hotcell run` makes one for a command and removes it
/// when that ends.
fn confined(
    launch: &StdioLaunch,
    reached: &[NetRule],
    config: &Config,
    environment: &Environment,
    program: &Path,
) -> Result<StdioLaunch> {
    let of_path = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::invalid(format!("{} is no text, and has to be for a cell", path.display()))
        })
    };
    let mut args = vec!["--state-dir".to_owned(), of_path(&config.state_dir)?];
    if let Some(file) = config.file() {
        args.extend(["--config".to_owned(), of_path(file)?]);
    }
    args.extend(["--tenant", config.tenant.as_str(), "run", "-i"].map(str::to_owned));
    for rule in reached {
        args.extend(["--allow".to_owned(), rule.to_string()]);
    }
    for (name, value) in &launch.env {
        args.extend(match value {
            SpecText::Plain(text) => ["--env".to_owned(), format!("{name}={text}")],
            SpecText::Secret(secret) => ["--secret".to_owned(), format!("{secret}={name}")],
        });
    }
    if let Some(cwd) = &launch.cwd {
        args.extend(["--cwd".to_owned(), of_path(cwd)?]);
    }
    args.extend(["--".to_owned(), launch.command.clone()]);
    args.extend(launch.args.iter().cloned());
    let own = environment.settings.iter();
    let env = own.map(|(name, value)| (name.clone(), SpecText::Plain(value.clone()))).collect();
    Ok(StdioLaunch { command: of_path(program)?, args, env, cwd: None })
}

/// What a server can reach from its cell; `None` if it has none.
fn in_cell(table: &Table) -> Result<Option<Vec<NetRule>>> {
    let is_in_cell = match table.get("cell") {
        None => false,
        Some(toml::Value::Boolean(is_in_cell)) => *is_in_cell,
        Some(_) => return Err(wrong("cell", "it is neither true nor false")),
    };
    let reached: Vec<NetRule> = words(table, "allow")?
        .iter()
        .map(|rule| rule.parse().map_err(|error: Error| wrong("allow", &error.message)))
        .collect::<Result<_>>()?;
    match (is_in_cell, table.contains_key("command")) {
        (true, true) => Ok(Some(reached)),
        (true, false) => Err(wrong("cell", "only a server that is a `command` has one")),
        (false, _) if reached.is_empty() => Ok(None),
        (false, _) => Err(wrong("allow", "it is for a server with `cell = true`")),
    }
}

fn read(table: &Table) -> Result<ServerSpec> {
    if let Some(key) = table.keys().find(|key| !TOOLBOX_KEYS.iter().any(|(name, _)| name == key)) {
        let known: Vec<&str> = TOOLBOX_KEYS.iter().map(|(name, _)| *name).collect();
        return Err(Error::invalid(format!("has the key {key:?}, which means nothing to hotcell"))
            .hint(format!("there are {}", known.join(", "))));
    }
    let of_the_other =
        |keys: &[&str], kind: &str| match keys.iter().find(|key| table.contains_key(**key)) {
            Some(key) => Err(Error::invalid(format!("has the key {key:?}, which is for {kind}"))),
            None => Ok(()),
        };
    let launch = match (text(table, "command")?, text(table, "url")?) {
        (Some(command), None) => {
            of_the_other(&["headers", "bearer"], "a server at a `url`")?;
            let cwd = text(table, "cwd")?.map(PathBuf::from);
            if cwd.as_deref().is_some_and(|cwd| !cwd.is_absolute()) {
                return Err(wrong("cwd", "it is no path from the root"));
            }
            let (args, env) = (words(table, "args")?, texts(table, "env")?);
            Launch::Stdio(StdioLaunch { command, args, env, cwd })
        }
        (None, Some(url)) => {
            of_the_other(&["args", "env", "cwd"], "a server that is a `command`")?;
            let bearer =
                table.get("bearer").map(|value| secret_text("bearer", value)).transpose()?;
            Launch::Http(HttpLaunch { url, headers: texts(table, "headers")?, bearer })
        }
        (Some(_), Some(_)) => return Err(Error::invalid("has both `command` and `url`")),
        (None, None) => return Err(Error::invalid("has neither `command` nor `url`")),
    };
    let mut spec = ServerSpec::new(launch);
    let choice = |key: &'static str| match table.get(key) {
        None => Ok(false),
        Some(toml::Value::Boolean(chosen)) => Ok(*chosen),
        Some(_) => Err(wrong(key, "it is neither true nor false")),
    };
    spec.trust_annotations = choice("trust_annotations")?;
    spec.allow_tools = choice("allow_tools")?;
    if let Some(seconds) = number(table, "timeout_s")? {
        spec.timeout = Duration::from_secs(seconds);
    }
    if let Some(seconds) = number(table, "idle_s")? {
        spec.idle = Duration::from_secs(seconds);
    }
    let size = |key| Ok::<_, Error>(number(table, key)?.and_then(|it| usize::try_from(it).ok()));
    if let Some(most) = size("most_bytes")? {
        spec.most_bytes = most;
    }
    if let Some(parallel) = size("parallel")? {
        spec.parallel = parallel;
    }
    spec.check()?;
    Ok(spec)
}

/// A value is not repeated: it may be a secret.
fn wrong(key: &str, why: &str) -> Error {
    let about = TOOLBOX_KEYS.iter().find(|(name, _)| key.split('.').next() == Some(*name));
    let error = Error::invalid(format!("has a {key} that cannot be: {why}"));
    match about {
        Some((name, about)) => error.hint(format!("{name} is {about}")),
        None => error,
    }
}

fn text(table: &Table, key: &str) -> Result<Option<String>> {
    let read = |value: &toml::Value| {
        value.as_str().map(str::to_owned).ok_or_else(|| wrong(key, "it is no text"))
    };
    table.get(key).map(read).transpose()
}

fn number(table: &Table, key: &str) -> Result<Option<u64>> {
    let read = |value: &toml::Value| {
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| wrong(key, "it is no whole number"))
    };
    table.get(key).map(read).transpose()
}

fn words(table: &Table, key: &str) -> Result<Vec<String>> {
    let Some(value) = table.get(key) else { return Ok(Vec::new()) };
    let words = value.as_array().ok_or_else(|| wrong(key, "it is no list"))?;
    let word = |value: &toml::Value| value.as_str().map(str::to_owned);
    words
        .iter()
        .map(word)
        .collect::<Option<_>>()
        .ok_or_else(|| wrong(key, "it has what is no text"))
}

fn texts(table: &Table, key: &str) -> Result<BTreeMap<String, SpecText>> {
    let Some(value) = table.get(key) else { return Ok(BTreeMap::new()) };
    let given = value.as_table().ok_or_else(|| wrong(key, "it is no table"))?;
    let read = |(name, value): (&String, &toml::Value)| {
        Ok((name.clone(), secret_text(&format!("{key}.{name}"), value)?))
    };
    given.iter().map(read).collect()
}

fn secret_text(key: &str, value: &toml::Value) -> Result<SpecText> {
    let named = |table: &Table| {
        Some(table.get("secret")?.as_str()?.to_owned()).filter(|_| table.len() == 1)
    };
    match (value.as_str(), value.as_table().and_then(named)) {
        (Some(text), _) => Ok(SpecText::Plain(text.to_owned())),
        (None, Some(name)) => {
            name.parse().map(SpecText::Secret).map_err(|error: Error| wrong(key, &error.message))
        }
        (None, None) => Err(wrong(key, "it is neither a text nor `{ secret = \"NAME\" }`")),
    }
}

/// Sets the file that servers are imported from.
///
/// # Errors
/// Why it cannot be that one: where a relative path leads depends on who calls.
pub(crate) fn set_import(config: &mut Config, text: &str) -> Result<(), String> {
    if !text.is_empty() && !Path::new(text).is_absolute() {
        return Err("it is no path from the root".to_owned());
    }
    config.toolbox.import = PathBuf::from(text);
    Ok(())
}

#[cfg(test)]
#[path = "config_toolbox_tests.rs"]
mod config_toolbox_tests;
