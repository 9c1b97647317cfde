//! The end of what an engine has of cells.

use std::time::Duration;

use bollard::errors::Error as DockerError;
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use hotcell_model::Result;
use tokio::time::{Instant, sleep};

use crate::docker_host::DockerHost;
use crate::failure::{CONFLICT, NOT_FOUND, status};

/// An engine that needs longer to remove something hangs.
const GONE_WITHIN: Duration = Duration::from_secs(60);
const APART: Duration = Duration::from_millis(20);

/// What came of a try to remove something.
pub(crate) enum Tried {
    Gone,
    /// The engine or somebody else is at it.
    Again,
    Failed(DockerError),
}

/// How long it is tried to remove something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience(Instant);

impl Patience {
    pub(crate) fn begin() -> Self {
        Self(Instant::now() + GONE_WITHIN)
    }

    /// Judges a try, and waits before another one.
    pub(crate) async fn judge(self, tried: Result<(), DockerError>) -> Tried {
        match tried {
            Ok(()) => Tried::Gone,
            Err(error) if status(&error) == Some(NOT_FOUND) => Tried::Gone,
            Err(error) if status(&error) == Some(CONFLICT) && Instant::now() < self.0 => {
                sleep(APART).await;
                Tried::Again
            }
            Err(error) => Tried::Failed(error),
        }
    }
}

/// Ends and removes a container, and waits until it is gone; one that is not there is no error.
pub(crate) async fn remove_container(host: &DockerHost, container: &str) -> Result<()> {
    let patience = Patience::begin();
    loop {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let tried = host.docker.remove_container(container, Some(options)).await;
        match patience.judge(tried).await {
            Tried::Gone => return Ok(()),
            Tried::Again => {}
            Tried::Failed(error) => {
                return Err(host.failed(&format!("remove the container {container}"), &error));
            }
        }
    }
}
