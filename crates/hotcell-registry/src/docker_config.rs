//! Credentials as Docker's own tools keep them: `config.json`, and programs that keep them elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_model::{Error, Result};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::credentials::Credentials;

/// What Docker calls its own registry in that file.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";
const DOCKER_IO: &str = "docker.io";
/// A program that asks somebody is not waited for for ever.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
const MOST_BYTES: u64 = 1 << 20;
/// What a program says as user where the password is a token of the registry.
const TOKEN_USER: &str = "<token>";

/// A secret of ours that stands in the environment.
const OWN_TOKEN: &str = "HOTCELL_HTTP_TOKEN";

/// Where credentials are.
#[derive(Clone, Default)]
pub struct DockerConfig {
    /// The directory of `config.json`.
    pub directory: Option<PathBuf>,
    /// The text of such a file, which then counts instead.
    pub text: Option<String>,
}

impl fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerConfig").field("directory", &self.directory).finish_non_exhaustive()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

impl File {
    /// The program that keeps the credentials for a registry.
    fn helper(&self, key: &str, registry: &str) -> Option<&str> {
        let helpers = [self.cred_helpers.get(key), self.cred_helpers.get(registry)];
        let helpers = helpers.into_iter().chain([self.creds_store.as_ref()]).flatten();
        helpers.map(String::as_str).find(|helper| !helper.is_empty())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    username: String,
    secret: String,
}

impl DockerConfig {
    /// Credentials for a registry; none where nobody has any.
    ///
    /// # Errors
    /// The file cannot be understood, or the program that has them fails.
    pub async fn credentials(&self, registry: &str) -> Result<Option<Credentials>> {
        let Some(file) = self.read()? else { return Ok(None) };
        let key = if registry == DOCKER_IO { DOCKER_HUB } else { registry };
        if let Some(helper) = file.helper(key, registry)
            && let Some(found) = self.ask(helper, key).await?
        {
            return Ok(Some(found));
        }
        let is_meant = |name: &str| name == key || host_of(name) == registry;
        let entry = file.auths.iter().find(|(name, _)| is_meant(name)).map(|(_, entry)| entry);
        entry.map_or(Ok(None), |entry| entry.read(registry))
    }

    /// Checks that a text can be understood.
    ///
    /// # Errors
    /// `invalid`; the message does not hold any of it.
    pub fn check(text: &str) -> Result<()> {
        understood(text.as_bytes(), "the text").map(drop)
    }

    fn read(&self) -> Result<Option<File>> {
        if let Some(text) = &self.text {
            return understood(text.as_bytes(), "what was given").map(Some);
        }
        let Some(directory) = &self.directory else { return Ok(None) };
        let path = directory.join("config.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                return Err(Error::unavailable(message));
            }
        };
        understood(&text, &path.display().to_string()).map(Some)
    }

    /// Asks the program that keeps credentials.
    #[expect(
        clippy::disallowed_methods,
        reason = "credentials are had from a program of their own"
    )]
    async fn ask(&self, helper: &str, key: &str) -> Result<Option<Credentials>> {
        let name = format!("docker-credential-{helper}");
        let failed = |why: String| {
            Error::unavailable(format!("{name}, which keeps credentials, failed: {why}"))
                .hint("run it by hand, or log in anew with `docker login`")
        };
        if !helper.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Err(failed("that is no name of a program".to_owned()));
        }
        let mut command = tokio::process::Command::new(&name);
        command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // It has the environment that it has with Docker, and nothing that is for us alone.
        command.env_remove(OWN_TOKEN).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let asking = async {
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(key.as_bytes()).await?;
            }
            let mut told = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                stdout.take(MOST_BYTES).read_to_end(&mut told).await?;
            }
            io::Result::Ok((child.wait().await?, told))
        };
        let (status, told) = match timeout(ANSWERS_WITHIN, asking).await {
            Ok(asked) => asked.map_err(|error| failed(error.to_string()))?,
            Err(_) => return Err(failed("it did not answer in time".to_owned())),
        };
        if !status.success() {
            let said = String::from_utf8_lossy(&told);
            if said.contains("credentials not found") {
                return Ok(None);
            }
            return Err(failed(format!("it ended with {status}")));
        }
        let told: Told = serde_json::from_slice(&told)
            .map_err(|_| failed("its answer cannot be understood".to_owned()))?;
        Ok(Some(match told.username == TOKEN_USER {
            true => Credentials::Token(told.secret),
            false => Credentials::Password { user: told.username, password: told.secret },
        }))
    }
}

fn understood(text: &[u8], name: &str) -> Result<File> {
    serde_json::from_slice(text).map_err(|error| {
        // Not in the words of the parser, which quote what they stumble over.
        let (line, column) = (error.line(), error.column());
        Error::invalid(format!(
            "{name} is no configuration of Docker: line {line}, column {column}"
        ))
    })
}

/// The host of a key that may be an address.
fn host_of(key: &str) -> &str {
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    bare.split('/').next().unwrap_or(bare)
}

impl Entry {
    fn read(&self, registry: &str) -> Result<Option<Credentials>> {
        if let Some(token) = self.identitytoken.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Some(Credentials::Token(token.clone())));
        }
        let Some(auth) = self.auth.as_ref().filter(|auth| !auth.is_empty()) else {
            return Ok(None);
        };
        let decoded = STANDARD.decode(auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        let (user, password) = pair.ok_or_else(|| {
            Error::invalid(format!("the credentials for {registry} cannot be understood"))
                .hint("log in anew with `docker login`")
        })?;
        let (user, password) = (user.to_owned(), password.trim_end_matches('\0').to_owned());
        Ok(Some(Credentials::Password { user, password }))
    }
}
