//! The engines of the configuration, each connected to when it is first needed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hotcell_model::{Error, Result};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::docker_host::{DockerHost, silent};
use crate::engine_address::EngineSettings;
use crate::paths::Placed;

/// How long an engine that could not be reached is left alone at least, and one that answered is taken
/// to. One that was waited for is left alone for longer.
const REMEMBERED_FOR: Duration = Duration::from_secs(3);
const LEFT_ALONE_AT_MOST: Duration = Duration::from_secs(30);
/// An engine that can be used answers within this.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// One engine, and how far we have got with it.
#[derive(Debug)]
pub(crate) struct Engine {
    settings: EngineSettings,
    way: Mutex<Way>,
}

#[derive(Debug, Default)]
struct Way {
    host: Option<Arc<DockerHost>>,
    /// What came of looking for it last, and until when that is believed.
    looked: Option<(Instant, Result<()>)>,
}

impl Way {
    fn remembered(&self) -> Option<&Result<()>> {
        let (until, came) = self.looked.as_ref()?;
        (Instant::now() < *until).then_some(came)
    }

    /// Remembers what came of a look that was begun then.
    fn remember(&mut self, begun: Instant, came: Result<()>) {
        let waited = if came.is_err() { begun.elapsed() * 2 } else { Duration::ZERO };
        let believed = waited.clamp(REMEMBERED_FOR, LEFT_ALONE_AT_MOST);
        self.looked = Some((Instant::now() + believed, came));
    }
}

impl Engine {
    fn new(settings: EngineSettings) -> Self {
        Self { settings, way: Mutex::default() }
    }

    /// What was said of it.
    pub(crate) fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// What the configuration calls it.
    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// The engine, connected to. Whoever asks while another one waits for it waits, too.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub(crate) async fn host(&self) -> Result<Arc<DockerHost>> {
        let mut way = self.way.lock().await;
        if let Some(host) = &way.host {
            return Ok(Arc::clone(host));
        }
        if let Some(Err(error)) = way.remembered() {
            return Err(error.clone());
        }
        let begun = Instant::now();
        let connected = DockerHost::connect(&self.settings).await.map(Arc::new);
        let came = connected.as_ref().map(drop).map_err(Clone::clone);
        way.remember(begun, came);
        way.host = connected.as_ref().ok().map(Arc::clone);
        connected
    }

    /// The engine, if it answers now or did so a moment ago.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub(crate) async fn reach(&self) -> Result<Arc<DockerHost>> {
        let host = self.host().await?;
        let mut way = self.way.lock().await;
        if let Some(came) = way.remembered() {
            return came.clone().map(|()| host);
        }
        let begun = Instant::now();
        let came = match timeout(ANSWERS_WITHIN, host.docker.ping()).await {
            Ok(answered) => {
                answered.map(drop).map_err(|error| host.failed("be asked anything", &error))
            }
            Err(_) => Err(silent(&host.address, ANSWERS_WITHIN)),
        };
        way.remember(begun, came.clone());
        if came.is_err() {
            // Whatever answers there next says anew what it is.
            way.host = None;
        }
        came.map(|()| host)
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Engines {
    known: Result<Vec<Engine>>,
}

impl Engines {
    /// Those of the configuration, or what is wrong with it.
    pub(crate) fn new(settings: Result<Vec<EngineSettings>>) -> Self {
        Self { known: settings.map(|all| all.into_iter().map(Engine::new).collect()) }
    }

    /// Each of them, in the order of the configuration.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub(crate) fn all(&self) -> Result<&[Engine]> {
        self.known.as_deref().map_err(Clone::clone)
    }

    /// The engine of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Engine> {
        self.known.as_ref().ok()?.iter().find(|engine| engine.name() == name)
    }

    /// The engine that a cell is at.
    ///
    /// # Errors
    /// `unavailable` where it cannot be reached or the configuration names it no more. The cell is
    /// there all the same.
    pub(crate) async fn of(&self, placed: &Placed) -> Result<Arc<DockerHost>> {
        self.engine_of(placed).await?.host().await.map_err(|error| kept(placed, error))
    }

    /// The engine that a cell is at, if it answers now or did so a moment ago.
    ///
    /// # Errors
    /// As for [`Engines::of`].
    pub(crate) async fn reach(&self, placed: &Placed) -> Result<Arc<DockerHost>> {
        self.engine_of(placed).await?.reach().await.map_err(|error| kept(placed, error))
    }

    /// By the name that it had, or else by what it says it is: names change.
    async fn engine_of(&self, placed: &Placed) -> Result<&Engine> {
        let all = self.all()?;
        if let Some(named) = placed.engine_name.as_deref().and_then(|name| self.find(name)) {
            match named.host().await {
                Ok(host) if host.id() != placed.engine => {}
                // A copy of its machine calls itself the same: the one that has its data is meant.
                Ok(host) if !is_it(&host, placed) && self.has(placed).await => {}
                // What cannot be asked what it is, is what it was called.
                Ok(_) | Err(_) => return Ok(named),
            }
        }
        let mut found = Vec::new();
        let mut unreached = None;
        for (engine, host) in all.iter().zip(join_all(all.iter().map(Engine::host)).await) {
            match host {
                Ok(host) if is_it(&host, placed) => found.push(engine),
                Ok(_) => {}
                Err(error) => unreached = unreached.or(Some(error)),
            }
        }
        match (found.as_slice(), unreached) {
            ([engine], _) => Ok(engine),
            ([], Some(error)) => Err(kept(placed, error)),
            ([], None) | ([_, _, ..], _) => Err(self.elsewhere(placed, all)),
        }
    }

    /// Whether some engine of the configuration is the one of a cell, with its data.
    async fn has(&self, placed: &Placed) -> bool {
        let Ok(all) = self.all() else { return false };
        let hosts = join_all(all.iter().map(Engine::host)).await;
        hosts.into_iter().flatten().any(|host| is_it(&host, placed))
    }

    fn elsewhere(&self, placed: &Placed, all: &[Engine]) -> Error {
        let cell = &placed.spec.id;
        let there: Vec<String> = all.iter().map(|engine| engine.settings().shown()).collect();
        let named = placed.engine_name.as_deref().unwrap_or(EngineSettings::DEFAULT);
        let message = match (named == EngineSettings::DEFAULT, self.find(named)) {
            (false, None) => format!(
                "the cell {cell} is at the Docker engine {named}, another Docker engine than those \
                 that the configuration names: {}",
                there.join(", ")
            ),
            (true, _) | (false, Some(_)) => format!(
                "the cell {cell} is at another Docker engine than the one at {}",
                there.join(" or ")
            ),
        };
        Error::unavailable(message)
            .hint("name the engine that it was made at: docker.host, DOCKER_HOST or docker.engines")
    }
}

/// Whether an engine is the one of a cell, whatever it is called now.
fn is_it(host: &DockerHost, placed: &Placed) -> bool {
    let has_data = placed.engine_data.as_ref().is_none_or(|data| *data == host.data());
    host.id() == placed.engine && has_data
}

fn kept(placed: &Placed, error: Error) -> Error {
    let message = format!("{}; the cell {} is kept", error.message, placed.spec.id);
    Error { message, ..error }
}
