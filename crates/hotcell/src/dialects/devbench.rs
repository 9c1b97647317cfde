//! The variables of MCP DevBench.

use std::net::IpAddr;
use std::path::PathBuf;

use hotcell_model::{Error, LIMITS, Result};
use hotcell_native::DockerCredentials;

use super::{Means, Variable, whole};
use crate::config::Config;
use crate::config_keys::list;
use crate::environment::Secret;
use crate::values::{ListenAt, listen_at};

/// What containers of the original had, and what it logged.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("images.allow", "docker.io/*,ghcr.io/*"),
    ("docker.image", "python:3.11-slim"),
    ("pool.images", "python:3.11-slim"),
    ("limits.memory_mb", "512"),
    ("limits.cpus", "1"),
    ("limits.pids", "256"),
    ("max_running", "4"),
    ("log", "info"),
    ("log_format", "json"),
    // The original has no tenants, and its issuers know nothing of our scopes.
    ("auth.oidc.tenant", "main"),
    ("auth.oidc.scopes", "role"),
];

const DAY_S: u64 = 24 * 3600;
const MOST_DAYS: u64 = LIMITS.max_seconds / DAY_S;
const PORT: u16 = 8000;
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

pub(super) const PROOF: &str = "set MCP_BEARER_TOKEN, or MCP_OAUTH_CONFIG_URL to the issuer of \
                                tokens, and leave MCP_AUTH_MODE out; or serve on 127.0.0.1";

/// How clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Transport {
    #[default]
    StreamableHttp,
    Stdio,
}

/// How callers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthMode {
    None,
    Bearer,
    Oidc,
}

/// What the variables say that no key does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BenchConfig {
    transport: Transport,
    host: Option<String>,
    port: Option<u16>,
    auth: Option<AuthMode>,
    token: Option<Secret>,
    base_url: Option<String>,
    /// What Docker's tools keep as `config.json`.
    pub(crate) docker_config: Option<Secret>,
}

pub(super) const VARIABLES: &[Variable] = &[
    Variable {
        name: "MCP_ALLOWED_REGISTRIES",
        means: Means::Key("images.allow", |text| {
            let below = |registry: &String| format!("{}/*", registry.trim_end_matches('/'));
            let registries: Vec<String> = list(text).iter().map(below).collect();
            match registries.is_empty() {
                true => Err("it names no registry".to_owned()),
                false => Ok(registries.join(",")),
            }
        }),
    },
    Variable {
        name: "MCP_ALLOWED_IMAGES",
        means: Means::Key("images.allow", |text| match list(text).is_empty() {
            true => Err("it names no image".to_owned()),
            false => as_it_is(text),
        }),
    },
    Variable {
        name: "MCP_STATE_DB",
        means: Means::Key("state_dir", |text| {
            let beside = PathBuf::from(database_path(text)?).with_extension("hotcell");
            Ok(beside.display().to_string())
        }),
    },
    Variable {
        name: "MCP_DRAIN_GRACE_S",
        means: Means::Key("http.drain_s", |text| seconds(text, 0, DAY_S)),
    },
    Variable {
        name: "MCP_TRANSIENT_GC_DAYS",
        means: Means::Key("default_ttl_s", |text| {
            Ok((whole(text, 1, MOST_DAYS)? * DAY_S).to_string())
        }),
    },
    Variable { name: "MCP_DOCKER_HOST", means: Means::Key("docker.host", as_it_is) },
    Variable { name: "MCP_DOCKER_CERT_PATH", means: Means::Key("docker.tls_dir", as_it_is) },
    Variable { name: "MCP_LOG_LEVEL", means: Means::Key("log", log_level) },
    Variable {
        name: "MCP_LOG_FORMAT",
        means: Means::Key("log_format", |text| match text.trim().to_ascii_lowercase().as_str() {
            format @ ("json" | "text") => Ok(format.to_owned()),
            _ => Err("it is none of json, text".to_owned()),
        }),
    },
    Variable {
        name: "MCP_HOST",
        means: Means::Own(|dialect, text| {
            let host = text.trim();
            match host == "localhost" || host.parse::<IpAddr>().is_ok() {
                true => dialect.bench.host = Some(host.to_owned()),
                false => return Err("it is no address such as 127.0.0.1 or localhost".to_owned()),
            }
            Ok(())
        }),
    },
    Variable {
        name: "MCP_PORT",
        means: Means::Own(|dialect, text| {
            let port = whole(text, 0, u64::from(u16::MAX))?;
            dialect.bench.port = u16::try_from(port).ok();
            Ok(())
        }),
    },
    Variable { name: "MCP_PATH", means: Means::Key("http.path", as_it_is) },
    Variable {
        name: "MCP_TRANSPORT_MODE",
        means: Means::Own(|dialect, text| {
            dialect.bench.transport = match text.trim() {
                "streamable-http" => Transport::StreamableHttp,
                "stdio" => Transport::Stdio,
                "sse" => {
                    return Err(
                        "HTTP+SSE is deprecated and not served; use streamable-http, which \
                                clients of today speak at the same address"
                            .to_owned(),
                    );
                }
                _ => return Err("it is none of streamable-http, stdio".to_owned()),
            };
            Ok(())
        }),
    },
    // The image that is kept warm is that of cells that name none.
    Variable { name: "MCP_DEFAULT_IMAGE_ALIAS", means: Means::Key("docker.image", as_it_is) },
    Variable { name: "MCP_DEFAULT_IMAGE_ALIAS", means: Means::Key("pool.images", as_it_is) },
    Variable {
        name: "MCP_WARM_POOL_ENABLED",
        means: Means::Key("pool.size", |text| {
            Ok(if yes_or_no(text)? { "1" } else { "0" }.to_owned())
        }),
    },
    Variable {
        name: "MCP_CONTAINER_MEMORY_LIMIT",
        means: Means::Key("limits.memory_mb", as_it_is),
    },
    Variable { name: "MCP_CONTAINER_CPU_LIMIT", means: Means::Key("limits.cpus", as_it_is) },
    Variable { name: "MCP_CONTAINER_PID_LIMIT", means: Means::Key("limits.pids", as_it_is) },
    Variable { name: "MCP_MAX_CONCURRENT_EXECS", means: Means::Key("max_running", as_it_is) },
    Variable { name: "MCP_MAX_FILE_SIZE", means: Means::Key("file_mb", as_it_is) },
    Variable {
        name: "MCP_AUTH_MODE",
        means: Means::Own(|dialect, text| {
            dialect.bench.auth = Some(match text.trim() {
                "none" => AuthMode::None,
                "bearer" => AuthMode::Bearer,
                "oidc" => AuthMode::Oidc,
                "oauth" => return Err("it was never served; use oidc".to_owned()),
                _ => return Err("it is none of none, bearer, oidc".to_owned()),
            });
            Ok(())
        }),
    },
    Variable { name: "MCP_AUTH_BEARER_TOKEN", means: Means::Own(take_token) },
    Variable { name: "MCP_BEARER_TOKEN", means: Means::Own(take_token) },
    Variable {
        name: "MCP_OAUTH_CONFIG_URL",
        means: Means::Key("auth.oidc.issuer", |text| {
            let issuer = text.trim();
            Ok(issuer.strip_suffix(WELL_KNOWN).unwrap_or(issuer).to_owned())
        }),
    },
    // Tokens are for the client that asked for them, unless another audience is named.
    Variable { name: "MCP_OAUTH_CLIENT_ID", means: Means::Key("auth.oidc.audience", as_it_is) },
    Variable { name: "MCP_OAUTH_AUDIENCE", means: Means::Key("auth.oidc.audience", as_it_is) },
    Variable {
        name: "MCP_OAUTH_REQUIRED_SCOPES",
        means: Means::Key("auth.oidc.required_scopes", as_it_is),
    },
    Variable {
        name: "MCP_OAUTH_BASE_URL",
        means: Means::Own(|dialect, text| {
            dialect.bench.base_url = Some(text.trim().trim_end_matches('/').to_owned());
            Ok(())
        }),
    },
    Variable {
        name: "MCP_DOCKER_CONFIG_JSON",
        means: Means::Own(|dialect, text| {
            dialect.bench.docker_config = Some(Secret(text.to_owned()));
            Ok(())
        }),
    },
];

impl BenchConfig {
    /// Where to listen; nowhere where clients start the server.
    pub(super) fn listen_at(&self) -> Result<Option<ListenAt>> {
        match self.transport {
            Transport::Stdio => Ok(None),
            Transport::StreamableHttp => {
                let host = self.host.as_deref().unwrap_or("127.0.0.1");
                let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
                let port = self.port.unwrap_or(PORT);
                let at = listen_at(&format!("{host}:{port}")).map_err(Error::invalid)?;
                Ok(Some(at))
            }
        }
    }

    /// The token that opens the server.
    pub(super) fn token(&self) -> Option<&Secret> {
        match self.auth {
            Some(AuthMode::Bearer) | None => self.token.as_ref(),
            Some(AuthMode::None | AuthMode::Oidc) => None,
        }
    }
}

/// What follows from several variables together.
pub(super) fn settle(config: &mut Config) -> Result<()> {
    const MODE: &str = "MCP_AUTH_MODE";
    let needs = |mode: &str, variable: &str| {
        Err(Error::invalid(format!("{MODE} is {mode}, which needs {variable}")))
    };
    let bench = config.dialect.bench.clone();
    match bench.auth {
        None => {}
        Some(AuthMode::None) => config.say("http.auth", "none", MODE)?,
        Some(AuthMode::Bearer) if bench.token.is_none() => {
            return needs("bearer", "MCP_BEARER_TOKEN");
        }
        Some(AuthMode::Oidc) if !config.auth.oidc.is_named() => {
            return needs("oidc", "MCP_OAUTH_CONFIG_URL");
        }
        Some(AuthMode::Bearer | AuthMode::Oidc) => config.say("http.auth", "required", MODE)?,
    }
    if let Some(base) = &bench.base_url {
        let resource = format!("{base}{}", config.http.path);
        config.say("auth.oidc.resource", &resource, "MCP_OAUTH_BASE_URL")?;
    }
    if let Some(Secret(text)) = &bench.docker_config {
        DockerCredentials::check(text).map_err(|error| Error {
            message: format!("MCP_DOCKER_CONFIG_JSON: {}", error.message),
            ..error
        })?;
    }
    Ok(())
}

fn take_token(dialect: &mut super::DialectConfig, text: &str) -> Result<(), String> {
    dialect.bench.token = Some(Secret(text.to_owned()));
    Ok(())
}

/// The file of a database, which may be said as SQLAlchemy does.
fn database_path(text: &str) -> Result<&str, String> {
    let text = text.trim();
    let path = text.strip_prefix("sqlite:///").unwrap_or(text);
    match path.contains("://") || matches!(path, "" | ":memory:") {
        true => {
            Err("it is neither a path nor sqlite:///PATH, and no other database is used; what \
                     is to be kept lies in a directory beside that path"
                .to_owned())
        }
        false => Ok(path),
    }
}

fn as_it_is(text: &str) -> Result<String, String> {
    Ok(text.trim().to_owned())
}

fn seconds(text: &str, least: u64, most: u64) -> Result<String, String> {
    whole(text, least, most).map(|seconds| seconds.to_string())
}

/// The names that Python has for levels.
fn log_level(text: &str) -> Result<String, String> {
    let level = match text.trim().to_ascii_uppercase().as_str() {
        "DEBUG" => "debug",
        "INFO" => "info",
        "WARNING" | "WARN" => "warn",
        "ERROR" | "CRITICAL" => "error",
        _ => return Err("it is none of DEBUG, INFO, WARNING, ERROR, CRITICAL".to_owned()),
    };
    Ok(level.to_owned())
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "t" | "y" => Ok(true),
        "false" | "0" | "no" | "off" | "f" | "n" => Ok(false),
        _ => Err("it is neither true nor false".to_owned()),
    }
}
