//! The end of containers.

use std::time::Duration;

use bollard::query_parameters::RemoveContainerOptionsBuilder;
use hotcell_model::{Error, Result};
use tokio::time::{sleep, timeout};

use crate::docker_host::DockerHost;
use crate::failure::{CONFLICT, NOT_FOUND, status};

/// An engine that needs longer to remove something hangs.
const GONE_WITHIN: Duration = Duration::from_secs(60);
const APART: Duration = Duration::from_millis(20);

/// Ends and removes a container, and waits until it is gone; one that is not there is no error.
pub(crate) async fn remove_container(host: &DockerHost, container: &str) -> Result<()> {
    let removing = async {
        loop {
            let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
            match host.docker.remove_container(container, Some(options)).await {
                Ok(()) => return Ok(()),
                Err(error) if status(&error) == Some(NOT_FOUND) => return Ok(()),
                // One that ended is removed by the engine itself, or by somebody else.
                Err(error) if status(&error) == Some(CONFLICT) => sleep(APART).await,
                Err(error) => {
                    return Err(host.failed(&format!("remove the container {container}"), &error));
                }
            }
        }
    };
    timeout(GONE_WITHIN, removing).await.unwrap_or_else(|_| {
        Err(Error::unavailable(format!(
            "the Docker engine did not remove the container {container} within {} s",
            GONE_WITHIN.as_secs()
        )))
    })
}
