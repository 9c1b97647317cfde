//! A Docker engine, and the way to it.

use std::path::PathBuf;
use std::time::Duration;

use bollard::models::SystemInfo;
use bollard::{API_DEFAULT_VERSION, Docker};
use hotcell_model::{Error, Result};
use tokio::time::timeout;

use crate::failure::failed;

/// Where an engine listens unless something else is said.
const USUAL: &str = "unix:///var/run/docker.sock";
/// An engine that does not answer within this is not there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);

/// The first question is a small one.
const GREETS_WITHIN: Duration = Duration::from_secs(20);

/// A Docker engine that answered.
#[derive(Debug)]
pub(crate) struct DockerHost {
    pub(crate) docker: Docker,
    /// What it said of itself.
    pub(crate) info: SystemInfo,
    /// Where it is, for people.
    pub(crate) address: String,
}

/// The address that is meant.
pub(crate) fn address(said: Option<&str>) -> String {
    said.filter(|said| !said.is_empty()).unwrap_or(USUAL).to_owned()
}

impl DockerHost {
    /// Connects to the engine of an address as `DOCKER_HOST` has it.
    pub(crate) async fn connect(address: Option<&str>) -> Result<Self> {
        let address = self::address(address);
        let path = socket_path(&address)?;
        let shown = path.display().to_string();
        let fault = |what: &str, error: &bollard::errors::Error| failed(what, &address, error);
        let docker =
            Docker::connect_with_unix(&shown, ANSWERS_WITHIN.as_secs(), API_DEFAULT_VERSION)
                .map_err(|error| fault("connect", &error))?;
        let greet = async {
            // Engines refuse versions that are newer than they are.
            let negotiated = docker.negotiate_version().await;
            let docker = negotiated.map_err(|error| fault("connect", &error))?;
            let info = docker.info().await.map_err(|error| fault("ask what it can do", &error))?;
            Ok::<_, Error>((docker, info))
        };
        let (docker, info) = match timeout(GREETS_WITHIN, greet).await {
            Ok(greeted) => greeted?,
            Err(_) => return Err(silent(&address, GREETS_WITHIN)),
        };
        Ok(Self { docker, info, address })
    }

    /// What the engine calls itself, for ever.
    pub(crate) fn id(&self) -> &str {
        self.info.id.as_deref().unwrap_or_default()
    }

    /// An error of this engine.
    pub(crate) fn failed(&self, what: &str, error: &bollard::errors::Error) -> Error {
        failed(what, &self.address, error)
    }

    /// Whether the engine says that it has a kind of protection.
    pub(crate) fn secures_by(&self, name: &str) -> bool {
        let options = self.info.security_options.iter().flatten();
        let mut named = options.filter_map(|option| option.split(',').next());
        named.any(|option| option == format!("name={name}"))
    }
}

/// The error for an engine that does not answer.
pub(crate) fn silent(address: &str, within: Duration) -> Error {
    Error::unavailable(format!(
        "the Docker engine {address} does not answer within {} s",
        within.as_secs()
    ))
    .hint("look at the engine; cells that run go on without it")
}

/// The socket of an address. What a cell writes down is read where it lies, so its engine has to be on
/// this machine.
fn socket_path(address: &str) -> Result<PathBuf> {
    match address.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') => Ok(path.into()),
        Some(("tcp" | "http" | "https" | "ssh", _)) => Err(Error::unsupported(format!(
            "the Docker engine {address} is reached over a network, and cells need one of this machine"
        ))
        .hint("set docker.host to the engine's socket, such as unix:///var/run/docker.sock")),
        Some(_) | None => Err(Error::invalid(format!("{address:?} is no address of a Docker engine"))
            .hint("write unix:///PATH/TO/docker.sock")),
    }
}
