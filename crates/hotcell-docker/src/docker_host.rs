//! A Docker engine, and the way to it.

use std::time::Duration;

use bollard::models::SystemInfo;
use bollard::{API_DEFAULT_VERSION, Docker};
use hotcell_model::{Error, Result};
use tokio::time::timeout;

use crate::engine_address::{EngineAddress, EngineSettings};
use crate::engine_dial;
use crate::failure::failed;
use crate::podman::is_podman;

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
    id: String,
    /// Whether it is Podman.
    pub(crate) is_podman: bool,
    /// What it is called and where it is, for people.
    pub(crate) address: String,
    settings: EngineSettings,
}

impl DockerHost {
    /// Connects to an engine, wherever it is.
    pub(crate) async fn connect(settings: &EngineSettings) -> Result<Self> {
        let address = settings.shown();
        let fault = |what: &str, error: &bollard::errors::Error| failed(what, &address, error);
        let docker = match &settings.address {
            EngineAddress::Unix { path } => Docker::connect_with_unix(
                &path.display().to_string(),
                ANSWERS_WITHIN.as_secs(),
                API_DEFAULT_VERSION,
            )
            .map_err(|error| fault("connect", &error))?,
            EngineAddress::Tcp { .. } | EngineAddress::Https { .. } | EngineAddress::Ssh { .. } => {
                engine_dial::client(settings, ANSWERS_WITHIN.as_secs())?
            }
        };
        let greet = async {
            // Engines refuse versions that are newer than they are.
            let negotiated = docker.negotiate_version().await;
            let docker = negotiated.map_err(|error| fault("connect", &error))?;
            let asked = tokio::join!(docker.info(), docker.version());
            let info = asked.0.map_err(|error| fault("ask what it can do", &error))?;
            let version = asked.1.map_err(|error| fault("ask what it is", &error))?;
            Ok::<_, Error>((docker, info, version))
        };
        let (docker, info, version) = match timeout(GREETS_WITHIN, greet).await {
            Ok(greeted) => greeted?,
            Err(_) => return Err(silent(&address, GREETS_WITHIN)),
        };
        let is_podman = is_podman(&version);
        let id = match is_podman {
            // It calls itself something else each time it is asked.
            true => format!("podman at {}", data(&info)),
            false => info.id.clone().unwrap_or_default(),
        };
        Ok(Self { docker, info, id, is_podman, address, settings: settings.clone() })
    }

    /// What the engine calls itself, for ever.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Where it has its data, in its own words.
    pub(crate) fn data(&self) -> String {
        data(&self.info)
    }

    /// What was said of it.
    pub(crate) fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// What the configuration calls it.
    pub(crate) fn name(&self) -> &str {
        &self.settings.name
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

fn data(info: &SystemInfo) -> String {
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}:{}", said(&info.name), said(&info.docker_root_dir))
}

/// The error for an engine that does not answer.
pub(crate) fn silent(address: &str, within: Duration) -> Error {
    Error::unavailable(format!(
        "the Docker engine {address} does not answer within {} s",
        within.as_secs()
    ))
    .hint("look at the engine; cells that run go on without it")
}
