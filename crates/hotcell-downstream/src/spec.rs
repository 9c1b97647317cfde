//! How a server is declared.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hotcell_egress::is_loopback;
use hotcell_model::{Error, Result, SecretName};
use http::{HeaderName, Uri};

/// The name of a server, as code imports it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

impl ServerName {
    /// The longest name.
    pub const MAX_LENGTH: usize = 32;
    /// Names that stand for something else in code.
    pub const RESERVED: [&str; 2] = ["hotcell", "tools"];

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for ServerName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let allowed =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
        if !starts_well || text.len() > Self::MAX_LENGTH || !text.bytes().all(allowed) {
            return Err(Error::invalid(format!("{text:?} cannot be a server's name")).hint(
                "a name has 1 to 32 of the characters a-z 0-9 _ - and starts with a letter",
            ));
        }
        if Self::RESERVED.contains(&text) {
            return Err(Error::invalid(format!("{text:?} cannot be a server's name: it is taken"))
                .hint("code imports Hotcell's own tools by that name; choose another one"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A text of a declaration, or the secret that it is. Neither is ever shown.
#[derive(Clone, PartialEq, Eq)]
pub enum SpecText {
    /// It is written there.
    Plain(String),
    /// It is looked up when the server is started.
    Secret(SecretName),
}

impl fmt::Debug for SpecText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str("Plain(…)"),
            Self::Secret(name) => f.debug_tuple("Secret").field(name).finish(),
        }
    }
}

/// A server that is a program of this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioLaunch {
    /// Its path, or its name in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables besides `PATH`, `HOME` and `LANG`.
    pub env: BTreeMap<String, SpecText>,
    /// Where it runs.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for StdioLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments are no place for secrets, and people put them there all the same.
        f.debug_struct("StdioLaunch")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env)
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// A server at an address.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpLaunch {
    /// Where it is: `https`, or `http` on this machine.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, SpecText>,
    /// The token that it is shown.
    pub bearer: Option<SpecText>,
}

impl fmt::Debug for HttpLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query may have a key in it.
        let url = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("HttpLaunch")
            .field("url", &url)
            .field("headers", &self.headers)
            .field("bearer", &self.bearer)
            .finish()
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// It is started, and spoken to by its standard streams.
    Stdio(StdioLaunch),
    /// It is there, and spoken to by HTTP.
    Http(HttpLaunch),
}

/// A server as the operator declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// How it is reached.
    pub launch: Launch,
    /// Whether its annotations are taken for true.
    pub trust_annotations: bool,
    /// Whether its tools are called without approval, where no rule says otherwise.
    pub allow_tools: bool,
    /// How long a call, or a start, may take.
    pub timeout: Duration,
    /// The longest answer, in bytes.
    pub most_bytes: usize,
    /// So many calls are under way at once; others wait.
    pub parallel: usize,
    /// A server that nobody called for so long is ended.
    pub idle: Duration,
}

/// Headers that belong to the protocol.
const OWN_HEADERS: [&str; 8] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-session-id",
];

impl ServerSpec {
    /// How long a call may take unless it is said.
    pub const TIMEOUT: Duration = Duration::from_secs(60);
    /// How long an answer may be unless it is said.
    pub const MOST_BYTES: usize = 10_000_000;
    /// How many calls may be under way unless it is said.
    pub const PARALLEL: usize = 8;
    /// How long a server is kept unless it is said.
    pub const IDLE: Duration = Duration::from_secs(300);

    /// One with the usual bounds.
    #[must_use]
    pub fn new(launch: Launch) -> Self {
        Self {
            launch,
            trust_annotations: false,
            allow_tools: false,
            timeout: Self::TIMEOUT,
            most_bytes: Self::MOST_BYTES,
            parallel: Self::PARALLEL,
            idle: Self::IDLE,
        }
    }

    /// Checks what can be known before it is started.
    ///
    /// # Errors
    /// `invalid`, with the name of the key.
    pub fn check(&self) -> Result<()> {
        match &self.launch {
            Launch::Stdio(stdio) => stdio.check()?,
            Launch::Http(http) => http.check()?,
        }
        for (key, is_none) in [
            ("timeout_s", self.timeout.is_zero()),
            ("most_bytes", self.most_bytes == 0),
            ("parallel", self.parallel == 0),
            ("idle_s", self.idle.is_zero()),
        ] {
            if is_none {
                return Err(Error::invalid(format!("{key} is 0")).hint("it has to be 1 or more"));
            }
        }
        Ok(())
    }

    /// What tells this declaration from another one of the same name. Values of variables and
    /// headers are left out: they may be secrets, and a digest of one can be guessed.
    #[must_use]
    pub(crate) fn digest(&self) -> String {
        let mut parts: Vec<&str> = Vec::new();
        let cwd;
        match &self.launch {
            Launch::Stdio(stdio) => {
                parts.extend(["stdio", &stdio.command]);
                parts.extend(stdio.args.iter().map(String::as_str));
                parts.push("env");
                parts.extend(stdio.env.keys().map(String::as_str));
                cwd = stdio.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
                parts.extend(["cwd", cwd.as_deref().unwrap_or_default()]);
            }
            Launch::Http(http) => {
                parts.extend(["http", &http.url]);
                parts.extend(http.headers.keys().map(String::as_str));
            }
        }
        hex_digest(&parts)
    }
}

/// A digest of some texts, of which none can be taken for two.
pub(crate) fn hex_digest(parts: &[&str]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    context.finish().as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

impl StdioLaunch {
    fn check(&self) -> Result<()> {
        let nul = |text: &str| text.contains('\0');
        if self.command.is_empty() || nul(&self.command) || self.args.iter().any(|arg| nul(arg)) {
            return Err(Error::invalid("command is empty, or has a NUL byte in it or its args")
                .hint("write the program's name or path, and its arguments in `args`"));
        }
        for (name, value) in &self.env {
            let is_wrong = match value {
                SpecText::Plain(text) => nul(text),
                SpecText::Secret(_) => false,
            };
            if name.is_empty() || name.contains('=') || nul(name) || is_wrong {
                return Err(Error::invalid(format!("env.{name:?} cannot be a variable"))
                    .hint("a name has no `=`, and neither it nor its value a NUL byte"));
            }
        }
        Ok(())
    }
}

impl HttpLaunch {
    fn check(&self) -> Result<()> {
        // The address is not repeated as it is: it may have a key in its query.
        let wrong = |why: &str| {
            Err(Error::invalid(format!("url {why}"))
                .hint("write an https:// address; http:// is for this machine alone"))
        };
        let Ok(uri) = self.url.parse::<Uri>() else { return wrong("is no address") };
        let Some(authority) = uri.authority() else { return wrong("names no host") };
        if authority.as_str().contains('@') {
            return wrong("has a user in it");
        }
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_loopback(authority.host()) => {}
            Some(_) | None => return wrong("is not https"),
        }
        for name in self.headers.keys() {
            let parsed: Result<HeaderName, _> = name.parse();
            let why = match parsed {
                Err(_) => "is no name of a header",
                Ok(name) if OWN_HEADERS.contains(&name.as_str()) => "belongs to the protocol",
                Ok(_) => continue,
            };
            return Err(Error::invalid(format!("headers.{name:?} {why}"))
                .hint("a token goes into `bearer`"));
        }
        Ok(())
    }
}
