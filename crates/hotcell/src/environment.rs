//! The one reader of the process environment.
#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use hotcell_model::{Error, Result, SecretValue};

/// Text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What Hotcell takes from its environment; nothing else reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    /// Variables whose name begins with `HOTCELL_`, by name; empty ones are left out.
    pub(crate) settings: Vec<(String, String)>,
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub(crate) state_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub(crate) config_home: Option<PathBuf>,
    /// `PATH`: where programs are looked for.
    pub(crate) path: Option<OsString>,
    /// `CLAUDE_CONFIG_DIR`: where Claude Code keeps its settings.
    pub(crate) claude_config: Option<PathBuf>,
    /// `CODEX_HOME`: where Codex keeps its settings.
    pub(crate) codex_home: Option<PathBuf>,
    /// `GEMINI_CLI_HOME`: what Gemini CLI takes for the home directory.
    pub(crate) gemini_home: Option<PathBuf>,
    /// Where the machine's own configuration lies.
    pub(crate) machine_config: PathBuf,
    /// `LANG`: the language of the servers that are started.
    pub(crate) lang: Option<String>,
    /// `DOCKER_CONFIG`: where clients of Docker keep their settings.
    pub(crate) docker_config: Option<PathBuf>,
    /// What else `ssh` finds its user and its agent by.
    pub(crate) of_ssh: Vec<(String, String)>,
    /// `DOCKER_HOST`: where clients of Docker look for its engine.
    pub(crate) docker_host: Option<String>,
    /// `DOCKER_CERT_PATH`: where clients of Docker have their certificates.
    pub(crate) docker_cert_path: Option<PathBuf>,
    /// `DOCKER_TLS_VERIFY`: whether clients of Docker speak TLS.
    pub(crate) docker_tls: bool,
    /// `TERM`: what the terminal understands.
    pub(crate) term: Option<String>,
    /// `VISUAL`, or else `EDITOR`: with what a person edits text.
    pub(crate) editor: Option<OsString>,
    /// `HOTCELL_HTTP_TOKEN`: a secret, and so no key that is shown.
    pub(crate) http_token: Option<Secret>,
    /// Variables of servers that this one can take the place of; they may hold secrets.
    pub(crate) of_dialects: Vec<(String, Secret)>,
    /// The user that runs this process.
    pub(crate) uid: u32,
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// `invalid` when a variable of Hotcell is not text.
    pub(crate) fn read() -> Result<Self> {
        let uid = rustix::process::getuid().as_raw();
        Self::from_variables(std::env::vars_os(), uid)
    }

    /// The environment made of these variables.
    ///
    /// # Errors
    /// `invalid` when a variable of Hotcell is not text.
    pub(crate) fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        uid: u32,
    ) -> Result<Self> {
        let machine_config = PathBuf::from("/etc/hotcell/hotcell.toml");
        let mut environment = Self { machine_config, uid, ..Self::default() };
        let mut editor = None;
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|_| !value.is_empty()) else { continue };
            match name {
                "HOME" => environment.home = absolute(&value),
                "XDG_STATE_HOME" => environment.state_home = absolute(&value),
                "XDG_CONFIG_HOME" => environment.config_home = absolute(&value),
                "PATH" => environment.path = Some(value),
                "CLAUDE_CONFIG_DIR" => environment.claude_config = absolute(&value),
                "CODEX_HOME" => environment.codex_home = absolute(&value),
                "GEMINI_CLI_HOME" => environment.gemini_home = absolute(&value),
                "VISUAL" => environment.editor = Some(value),
                "EDITOR" => editor = Some(value),
                "LANG" => environment.lang = value.into_string().ok(),
                "DOCKER_CONFIG" => environment.docker_config = absolute(&value),
                "DOCKER_HOST" => environment.docker_host = value.into_string().ok(),
                "DOCKER_CERT_PATH" => environment.docker_cert_path = absolute(&value),
                "DOCKER_TLS_VERIFY" => environment.docker_tls = true,
                "SSH_AUTH_SOCK" | "USER" | "LOGNAME" | "XDG_RUNTIME_DIR" | "KRB5CCNAME" => {
                    let value = value.into_string().ok();
                    environment.of_ssh.extend(value.map(|value| (name.to_owned(), value)));
                }
                "TERM" => environment.term = value.into_string().ok(),
                "HOTCELL_HTTP_TOKEN" => {
                    let token = value
                        .into_string()
                        .map_err(|_| Error::invalid("HOTCELL_HTTP_TOKEN is not UTF-8"))?;
                    environment.http_token = Some(Secret(token));
                }
                _ if name.starts_with("MCP_") => {
                    // What is not text is told once somebody needs it.
                    let value = value.to_string_lossy().into_owned();
                    environment.of_dialects.push((name.to_owned(), Secret(value)));
                }
                _ if name.starts_with("HOTCELL_") && !is_foreign(name) => {
                    let value = value.into_string().map_err(|value| {
                        Error::invalid(format!("{name} is {value:?}, which is not UTF-8"))
                    })?;
                    environment.settings.push((name.to_owned(), value));
                }
                _ => {}
            }
        }
        environment.editor = environment.editor.or(editor);
        environment.settings.sort();
        Ok(environment)
    }
}

impl Environment {
    /// The variables that `ssh` has.
    pub(crate) fn ssh_variables(&self) -> Vec<(String, String)> {
        let home = self.home.as_ref().and_then(|home| home.to_str()).map(str::to_owned);
        let path = self.path.as_ref().and_then(|path| path.to_str()).map(str::to_owned);
        let known = [("HOME", home), ("PATH", path), ("LANG", self.lang.clone())];
        let known = known.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?)));
        known.chain(self.of_ssh.iter().cloned()).collect()
    }

    /// A variable of a server whose place is taken; none where it is not set or empty.
    ///
    /// # Errors
    /// `invalid` when it is not text.
    pub(crate) fn of_dialect(&self, variable: &str) -> Result<Option<String>> {
        let found = self.of_dialects.iter().find(|(name, _)| name == variable);
        match found {
            Some((name, Secret(value))) if value.contains(char::REPLACEMENT_CHARACTER) => {
                Err(Error::invalid(format!("{name} is not UTF-8")))
            }
            Some((_, Secret(value))) => Ok(Some(value.clone())),
            None => Ok(None),
        }
    }

    /// Where the certificates lie by which clients of Docker speak TLS, if they do.
    pub(crate) fn docker_certificates(&self) -> Option<PathBuf> {
        let usual = || self.home.as_ref().map(|home| home.join(".docker"));
        let of_clients = || self.docker_config.clone().or_else(usual).filter(|_| self.docker_tls);
        self.docker_cert_path.clone().or_else(of_clients)
    }

    /// The secret in a variable that the configuration names; none where it is not set.
    ///
    /// # Errors
    /// `invalid` when it can be nobody's secret.
    pub(crate) fn secret(&self, variable: &str) -> Result<Option<SecretValue>> {
        use std::os::unix::ffi::OsStringExt;
        let value = std::env::var_os(variable).filter(|value| !value.is_empty());
        value.map(|value| SecretValue::new(value.into_vec())).transpose()
    }
}

/// The base directory specification wants relative paths ignored.
fn absolute(value: &OsStr) -> Option<PathBuf> {
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// Variables that others set under our prefix: the tests' own, and those that Kubernetes gives to
/// every container beside a service named `hotcell`.
fn is_foreign(name: &str) -> bool {
    name == "HOTCELL_REQUIRE"
        || name == "HOTCELL_PORT"
        || name.starts_with("HOTCELL_PORT_")
        || name.starts_with("HOTCELL_SERVICE_")
}
