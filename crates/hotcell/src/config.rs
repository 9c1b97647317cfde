//! The configuration: one table of keys, one typed struct, and where each value came from.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hotcell_engine::{Admission, CodeSettings, PoolSettings, TenantTable};
use hotcell_model::{
    Error, ImageRules, NetRule, RequestedLimits, RequiredIsolation, Result, SecretGrant,
    SecretName, SessionBounds, Tenant, Workspace,
};
use hotcell_native::EgressSettings;
use hotcell_server::{ClientRules, Collector};
use serde_json::Value;

use crate::auth_config::AuthConfig;
use crate::config_keys::{KEYS, Key};
use crate::config_tenants;
use crate::config_toolbox::ToolboxConfig;
use crate::dialects::{DialectConfig, DialectName};
use crate::driver_keys::DockerConfig;
use crate::engine_keys;
use crate::environment::Environment;
use crate::ledger_keys::LedgerConfig;
use crate::own_file;
use crate::upkeep_keys::UpkeepConfig;

/// A larger file is no configuration.
const MOST_BYTES: u64 = 1 << 20;

/// Whether cells are put into cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// Wherever the machine lets us.
    Auto,
    /// Never.
    Off,
}

/// How lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What the server over HTTP is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HttpConfig {
    /// Where MCP is spoken.
    pub(crate) path: String,
    /// The file that holds the token; empty for none.
    pub(crate) token_file: PathBuf,
    /// Names under which the server is reached beside those of this machine.
    pub(crate) allowed_hosts: Vec<String>,
    /// Origins whose pages may call.
    pub(crate) allowed_origins: Vec<String>,
    /// Seconds that calls under way may take at the end.
    pub(crate) drain_s: u64,
    /// Connections at once.
    pub(crate) max_connections: u32,
    /// Sessions at once.
    pub(crate) max_sessions: u32,
    /// The largest upload, in MiB.
    pub(crate) max_upload_mb: u64,
}

/// Where a secret comes from that is not kept by hotcell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecretPlace {
    /// A variable.
    Env(String),
    /// A file.
    File(PathBuf),
}

/// What is said of secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SecretsConfig {
    /// The key file; empty for the usual one.
    pub(crate) key_file: PathBuf,
    /// Those that agents may have cells granted.
    pub(crate) allowed: Vec<SecretGrant>,
    /// Those that come from elsewhere.
    pub(crate) elsewhere: BTreeMap<SecretName, SecretPlace>,
}

/// Which clients may put an approval before the person at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AskClient {
    /// None.
    Never,
    /// Those on standard input and output.
    #[default]
    Local,
    /// Those over HTTP, too.
    Always,
}

impl AskClient {
    /// As it stands in the configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Local => "local",
            Self::Always => "always",
        }
    }
}

impl FromStr for AskClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" | "false" => Ok(Self::Never),
            "local" | "true" => Ok(Self::Local),
            "always" => Ok(Self::Always),
            _ => Err(format!("{text:?} is none of never, local, always")),
        }
    }
}

/// By which rules agents are judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PolicyConfig {
    /// The profile.
    pub(crate) profile: String,
    /// The operator's own rules; empty for none.
    pub(crate) file: PathBuf,
    /// Patterns of the command lines that may be run; empty for all.
    pub(crate) lines: String,
    /// Seconds that an approval is waited for.
    pub(crate) ask_within_s: u64,
    /// Whether the person at a client may approve.
    pub(crate) ask_client: AskClient,
}

/// The effective configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// Where cells, logs and the index are kept.
    pub(crate) state_dir: PathBuf,
    /// What is logged to stderr.
    pub(crate) log: String,
    /// Whose cells are worked on.
    pub(crate) tenant: Tenant,
    /// What is said of tenants.
    pub(crate) tenants: TenantTable,
    /// The driver of new cells.
    pub(crate) driver: String,
    /// Seconds without an exec after which a persistent cell falls asleep.
    pub(crate) sleep_after_s: u64,
    /// Seconds that a held cell waits for another holder.
    pub(crate) orphan_grace_s: u64,
    /// Seconds that a spawned cell lasts unless told.
    pub(crate) default_ttl_s: u64,
    /// Seconds that logs outlive their cell.
    pub(crate) log_keep_s: u64,
    /// For how long things are kept that are over.
    pub(crate) upkeep: UpkeepConfig,
    /// Cells that a server makes ahead of need.
    pub(crate) pool: PoolSettings,
    /// The limits of cells whose requests name none.
    pub(crate) usual_limits: RequestedLimits,
    /// Execs that run at once in a cell.
    pub(crate) max_running: u32,
    /// Output kept per exec, in MiB.
    pub(crate) output_mb: u64,
    /// Content of files per call of a tool, in MiB.
    pub(crate) file_mb: u64,
    /// What all cells may have together.
    pub(crate) admission: Admission,
    /// Whether native cells are put into cgroups.
    pub(crate) cgroups: Cgroups,
    /// What native cells must be isolated by at least.
    pub(crate) required: RequiredIsolation,
    /// What is said of the driver docker.
    pub(crate) docker: DockerConfig,
    /// Which images cells may begin with.
    pub(crate) images: ImageRules,
    /// The program whose verdict on images counts; empty for none.
    pub(crate) image_scan: PathBuf,
    /// How lines of the log look.
    pub(crate) log_format: LogFormat,
    /// What the server over HTTP is told.
    pub(crate) http: HttpConfig,
    /// How MCP clients are served.
    pub(crate) client_rules: ClientRules,
    /// Who may call over HTTP.
    pub(crate) auth: AuthConfig,
    /// Where a server sends traces, if anywhere.
    pub(crate) otlp: Option<Collector>,
    /// Whether commands of agents may be root in their cells.
    pub(crate) agents_as_root: bool,
    /// Whether what has the form of a secret is masked for agents.
    pub(crate) redact_shapes: bool,
    /// Names whose values are masked, beyond those that are known.
    pub(crate) redact_names: Vec<String>,
    /// Directories of the host that agents may ask for as workspaces.
    pub(crate) workspaces: Vec<Workspace>,
    /// Names that the cells of agents may reach.
    pub(crate) allow: Vec<NetRule>,
    /// How cells reach names.
    pub(crate) egress: EgressSettings,
    /// What is said of secrets.
    pub(crate) secrets: SecretsConfig,
    /// By which rules agents are judged.
    pub(crate) policy: PolicyConfig,
    /// What is said of the ledger.
    pub(crate) ledger: LedgerConfig,
    /// What sessions of code may take up in a cell.
    pub(crate) sessions: SessionBounds,
    /// What is said of runs of code.
    pub(crate) code: CodeSettings,
    /// What is said of servers whose tools code may call.
    pub(crate) toolbox: ToolboxConfig,
    /// What is said of the dialect.
    pub(crate) dialect: DialectConfig,
    /// Where a configuration was looked for, and may be looked for again.
    files: Vec<PathBuf>,
    origins: Vec<Origin>,
    /// Where it is said what holds for tenants, and which servers there are.
    tables_origin: Origin,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(&'static str),
    /// A flag on the command line.
    Flag(&'static str),
    /// The server whose place is taken.
    Dialect,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
            Self::Dialect => f.write_str("--dialect"),
        }
    }
}

/// What the command line says about the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    /// `--config`.
    pub(crate) file: Option<PathBuf>,
    /// `--state-dir`.
    pub(crate) state_dir: Option<PathBuf>,
    /// `--log`.
    pub(crate) log: Option<String>,
    /// `--log-format`.
    pub(crate) log_format: Option<String>,
    /// `--tenant`.
    pub(crate) tenant: Option<String>,
    /// `--dialect` of a server.
    pub(crate) dialect: DialectName,
}

/// Where the keys that have flags stand in the table.
const STATE_DIR: usize = 0;
const LOG: usize = 1;
const LOG_FORMAT: usize = 2;
const TENANT: usize = 3;

impl Config {
    /// The configuration that follows from defaults, file, environment and flags, in this order.
    ///
    /// # Errors
    /// `invalid` for an unknown key or a bad value, with its name and place.
    pub(crate) fn load(environment: &Environment, overrides: &Overrides) -> Result<Self> {
        let mut config = Self {
            state_dir: PathBuf::new(),
            log: String::new(),
            tenant: Tenant::default(),
            tenants: TenantTable::default(),
            driver: String::new(),
            sleep_after_s: 0,
            orphan_grace_s: 0,
            default_ttl_s: 0,
            log_keep_s: 0,
            upkeep: UpkeepConfig::default(),
            pool: PoolSettings::default(),
            usual_limits: RequestedLimits::default(),
            max_running: 0,
            output_mb: 0,
            file_mb: 0,
            admission: Admission::default(),
            cgroups: Cgroups::Auto,
            required: RequiredIsolation::default(),
            docker: DockerConfig::default(),
            images: ImageRules::default(),
            image_scan: PathBuf::new(),
            log_format: LogFormat::default(),
            http: HttpConfig::default(),
            auth: AuthConfig::default(),
            otlp: None,
            agents_as_root: true,
            redact_shapes: true,
            redact_names: Vec::new(),
            client_rules: ClientRules::default(),
            workspaces: Vec::new(),
            allow: Vec::new(),
            egress: EgressSettings::default(),
            secrets: SecretsConfig::default(),
            policy: PolicyConfig::default(),
            ledger: LedgerConfig::default(),
            sessions: SessionBounds::default(),
            code: CodeSettings::default(),
            toolbox: ToolboxConfig::default(),
            dialect: DialectConfig { name: overrides.dialect, ..DialectConfig::default() },
            files: overrides.file.iter().cloned().chain(usual_files(environment)).collect(),
            origins: vec![Origin::Default; KEYS.len()],
            tables_origin: Origin::Default,
        };
        for key in KEYS {
            (key.set)(&mut config, key.default).map_err(|problem| {
                Error::internal(format!("the default of {} is wrong: {problem}", key.name))
            })?;
        }
        for (name, value) in overrides.dialect.defaults() {
            config.apply(position(name)?, value, Origin::Dialect)?;
        }
        if let Some((path, text)) = find_file(environment, overrides)? {
            config.tables_origin = Origin::File(path.clone());
            for (name, value) in read_file(&path, &text, &mut config.toolbox)? {
                if config.take_secret_place(&name, &value)?
                    || config_tenants::take(&mut config.tenants, &name, &value)?
                    || engine_keys::take(&mut config.docker.engines, &name, &value)?
                {
                    continue;
                }
                let at = KEYS.iter().position(|key| key.name == name).ok_or_else(|| {
                    unknown(&name, &format!("the key {name:?} in {}", path.display()), |key| {
                        key.name
                    })
                })?;
                config.apply(at, &value, Origin::File(path.clone()))?;
            }
        }
        overrides.dialect.take(&mut config, environment)?;
        for (name, value) in &environment.settings {
            let at = KEYS.iter().position(|key| key.variable == name).ok_or_else(|| {
                unknown(name, &format!("the variable {name}"), |key| key.variable)
            })?;
            config.apply(at, value, Origin::Variable(KEYS[at].variable))?;
        }
        if let Some(log) = &overrides.log {
            config.apply(LOG, log, Origin::Flag("--log"))?;
        }
        if let Some(format) = &overrides.log_format {
            config.apply(LOG_FORMAT, format, Origin::Flag("--log-format"))?;
        }
        if let Some(tenant) = &overrides.tenant {
            config.apply(TENANT, tenant, Origin::Flag("--tenant"))?;
        }
        config.settle_state_dir(environment, overrides)?;
        engine_keys::check(&config)?;
        Ok(config)
    }

    /// Takes `secrets.NAME.env` and `secrets.NAME.file`; whether it was one of them.
    fn take_secret_place(&mut self, key: &str, value: &str) -> Result<bool> {
        let Some(rest) = key.strip_prefix("secrets.") else { return Ok(false) };
        let Some((name, kind)) = rest.rsplit_once('.') else { return Ok(false) };
        let place = match kind {
            "env" => SecretPlace::Env(value.to_owned()),
            "file" => SecretPlace::File(PathBuf::from(value)),
            _ => {
                return Err(Error::invalid(format!("the key {key:?} means nothing to hotcell"))
                    .hint(format!("[secrets.{name}] has env or file")));
            }
        };
        if self.secrets.elsewhere.insert(name.parse()?, place).is_some() {
            return Err(Error::invalid(format!("secret {name} comes from two places"))
                .hint(format!("[secrets.{name}] has env or file, not both")));
        }
        Ok(true)
    }

    /// Every key with its value and where that came from.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Cow<'static, str>, Value, &Origin)> {
        let keys = KEYS.iter().zip(&self.origins);
        let keys = keys.map(|(key, origin)| (key.name.into(), (key.get)(self), origin));
        let of_tables = config_tenants::entries(&self.tenants)
            .chain(engine_keys::entries(&self.docker.engines))
            .chain(self.toolbox.entries());
        keys.chain(of_tables.map(|(name, value)| (name.into(), value, &self.tables_origin)))
    }

    /// The files and directories that no cell may have: who can change one decides what agents may do.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        let named = [
            &self.state_dir,
            &self.policy.file,
            &self.ledger.key_file,
            &self.ledger.head_file,
            &self.secrets.key_file,
            &self.http.token_file,
            &self.toolbox.import,
        ];
        let named = named.into_iter().filter(|path| !path.as_os_str().is_empty());
        let all = named.chain(&self.files);
        all.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())).collect()
    }

    /// The configuration file that was read, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.tables_origin {
            Origin::File(path) => Some(path),
            Origin::Default | Origin::Variable(_) | Origin::Flag(_) | Origin::Dialect => None,
        }
    }

    /// Whether somebody said something of a key.
    pub(crate) fn is_said(&self, key: &str) -> bool {
        position(key).is_ok_and(|at| match &self.origins[at] {
            Origin::Default | Origin::Dialect => false,
            Origin::File(_) | Origin::Variable(_) | Origin::Flag(_) => true,
        })
    }

    /// Takes what a variable of a dialect says of a key.
    ///
    /// # Errors
    /// `invalid` for a bad value.
    pub(crate) fn say(&mut self, key: &str, value: &str, variable: &'static str) -> Result<()> {
        self.apply(position(key)?, value, Origin::Variable(variable))
    }

    fn apply(&mut self, at: usize, value: &str, origin: Origin) -> Result<()> {
        let key = &KEYS[at];
        (key.set)(self, value).map_err(|problem| {
            let place = match &origin {
                Origin::Default | Origin::Dialect => format!("the default of {}", key.name),
                Origin::File(path) => format!("{} in {}", key.name, path.display()),
                Origin::Variable(name) | Origin::Flag(name) => (*name).to_owned(),
            };
            Error::invalid(format!("{place} cannot be {value:?}: {problem}"))
                .hint(format!("{} is {}", key.name, key.about))
        })?;
        self.origins[at] = origin;
        Ok(())
    }

    /// Fills in the directory nobody named, and makes it absolute: keepers outlive our working
    /// directory.
    fn settle_state_dir(&mut self, environment: &Environment, overrides: &Overrides) -> Result<()> {
        if let Some(path) = &overrides.state_dir {
            self.state_dir.clone_from(path);
            self.origins[STATE_DIR] = Origin::Flag("--state-dir");
        }
        if self.origins[STATE_DIR] == Origin::Default {
            self.state_dir = default_state_dir(environment)?;
        }
        self.state_dir = std::path::absolute(&self.state_dir).map_err(|error| {
            let shown = self.state_dir.display();
            Error::invalid(format!("the state directory cannot be {shown:?}: {error}"))
                .hint("name a directory with HOTCELL_STATE_DIR or --state-dir")
        })?;
        Ok(())
    }
}

fn position(name: &str) -> Result<usize> {
    let found = KEYS.iter().position(|key| key.name == name);
    found.ok_or_else(|| Error::internal(format!("there is no key {name}")))
}

fn default_state_dir(environment: &Environment) -> Result<PathBuf> {
    match (&environment.state_home, &environment.home) {
        (Some(state_home), _) => Ok(state_home.join("hotcell")),
        (None, Some(home)) => Ok(home.join(".local/state/hotcell")),
        (None, None) if environment.uid == 0 => Ok(PathBuf::from("/var/lib/hotcell")),
        (None, None) => {
            Err(Error::invalid("there is no place for the state directory: HOME is not set")
                .hint("name a directory with HOTCELL_STATE_DIR or --state-dir"))
        }
    }
}

/// The file to read: the one that was named, or the first that exists.
fn find_file(
    environment: &Environment,
    overrides: &Overrides,
) -> Result<Option<(PathBuf, String)>> {
    if let Some(path) = &overrides.file {
        let text = own_file::read(path, MOST_BYTES).map_err(|error| unreadable(path, &error))?.1;
        return Ok(Some((path.clone(), text)));
    }
    for path in usual_files(environment) {
        match own_file::read(&path, MOST_BYTES) {
            Ok((_, text)) => return Ok(Some((path, text))),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(None)
}

/// Where a configuration is looked for that nobody named.
fn usual_files(environment: &Environment) -> Vec<PathBuf> {
    let own = environment
        .config_home
        .clone()
        .or_else(|| environment.home.as_ref().map(|home| home.join(".config")))
        .map(|config| config.join("hotcell/hotcell.toml"));
    own.into_iter().chain([environment.machine_config.clone()]).collect()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::invalid(format!("cannot read the configuration file {}: {error}", path.display()))
        .hint("name another file with --config")
}

/// Every key of a file with its value as text; declared servers are taken as they are.
fn read_file(
    path: &Path,
    text: &str,
    toolbox: &mut ToolboxConfig,
) -> Result<Vec<(String, String)>> {
    let mut table: toml::Table = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let problem = error.message().trim_end_matches('.').replace('\n', "; ");
        Error::invalid(format!("{} is not TOML at line {line}: {problem}", path.display()))
    })?;
    toolbox.take(&mut table)?;
    let mut entries = Vec::new();
    flatten("", &table, &mut entries);
    Ok(entries)
}

fn flatten(prefix: &str, table: &toml::Table, entries: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{name}."), inner, entries),
            toml::Value::String(text) => entries.push((name, text.clone())),
            toml::Value::Array(items) if items.iter().all(toml::Value::is_str) => {
                let items: Vec<&str> = items.iter().filter_map(toml::Value::as_str).collect();
                entries.push((name, items.join(",")));
            }
            toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_)
            | toml::Value::Array(_) => entries.push((name, value.to_string())),
        }
    }
}

/// What a name is like that is not known: the rest of them is a long list.
fn unknown(asked: &str, what: &str, names: fn(&Key) -> &'static str) -> Error {
    let words = |name: &str| -> Vec<String> {
        let parts = name.to_lowercase();
        let parts = parts.split(['_', '.']).filter(|part| *part != "hotcell" && !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let wanted = words(asked);
    let likeness = |name: &str| words(name).iter().filter(|word| wanted.contains(word)).count();
    let mut known: Vec<&str> = KEYS.iter().map(names).collect();
    known.sort_by_key(|name| std::cmp::Reverse(likeness(name)));
    let alike: Vec<&str> = known.into_iter().filter(|it| likeness(it) > 0).take(3).collect();
    let all = "`hotcell config --help` lists all of them";
    Error::invalid(format!("{what} means nothing to hotcell")).hint(match alike.is_empty() {
        true => all.to_owned(),
        false => format!("there is {}; {all}", alike.join(", ")),
    })
}
