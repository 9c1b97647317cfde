//! Images of the engine.

use bollard::auth::DockerCredentials;
use bollard::errors::Error as DockerError;
use bollard::models::ImageInspect;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use hotcell_model::{Error, ImageName, Result};
use hotcell_registry::{Credentials, DockerConfig};

use crate::docker_host::DockerHost;
use crate::failure::{NOT_FOUND, status};

/// More volumes than an image names.
const MOST_VOLUMES: usize = 16;

/// An image that the engine has.
#[derive(Debug)]
pub(crate) struct FoundImage {
    /// What its content is called by: whatever its name means later, this stays.
    pub(crate) id: String,
    /// The variables that it says programs in it have.
    pub(crate) env: Vec<String>,
    /// Where it says that its programs write.
    pub(crate) volumes: Vec<String>,
}

/// The image of this name; the engine is told to get it where it has none.
pub(crate) async fn find_or_pull(
    host: &DockerHost,
    name: &str,
    config: &DockerConfig,
) -> Result<FoundImage> {
    if let Some(found) = find(host, name).await? {
        return Ok(found);
    }
    pull(host, name, config).await?;
    find(host, name).await?.ok_or_else(|| {
        Error::unavailable(format!("the Docker engine pulled {name:?} and does not have it"))
    })
}

/// Sees to it that the engine has the image of a cell that was made before: somebody may have removed
/// it. Another one that has its name by now is not it.
pub(crate) async fn ensure(
    host: &DockerHost,
    name: &str,
    id: &str,
    config: &DockerConfig,
) -> Result<()> {
    if find(host, id).await?.is_some() {
        return Ok(());
    }
    let gone = |why: &str| {
        Error::unavailable(format!(
            "the image that the cell began with, {name:?} as {id}, was removed from the Docker \
             engine, {why}"
        ))
        .hint("bring it back, such as by `docker load`; the cell is kept")
    };
    match find_or_pull(host, name, config).await {
        Ok(found) if found.id == id => Ok(()),
        Ok(found) => Err(gone(&format!("and that name means {} now", found.id))),
        Err(error) => Err(gone(&format!("and it cannot be had again: {}", error.message))),
    }
}

async fn find(host: &DockerHost, name: &str) -> Result<Option<FoundImage>> {
    match host.docker.inspect_image(name).await {
        Ok(image) => described(name, image).map(Some),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
        Err(error) => Err(host.failed(&format!("look at the image {name:?}"), &error)),
    }
}

fn described(name: &str, image: ImageInspect) -> Result<FoundImage> {
    let id = image.id.ok_or_else(|| {
        Error::unavailable(format!("the Docker engine does not say what the image {name:?} is"))
    })?;
    let config = image.config.unwrap_or_default();
    let volumes = config.volumes.unwrap_or_default();
    if volumes.len() > MOST_VOLUMES {
        return Err(Error::unsupported(format!(
            "the image {name:?} names {} volumes, and {MOST_VOLUMES} are the most",
            volumes.len()
        )));
    }
    let is_plain = |path: &String| path.starts_with('/') && !path.contains([',', ':', '\\']);
    let volumes = volumes.into_iter().filter(is_plain).collect();
    Ok(FoundImage { id, env: config.env.unwrap_or_default(), volumes })
}

/// What the engine is to show to the registry of an image.
async fn credentials(name: &str, config: &DockerConfig) -> Result<Option<DockerCredentials>> {
    let image: ImageName = name.parse()?;
    let registry = image.registry();
    let shown = config.credentials(registry).await?.map(|found| {
        let serveraddress = Some(registry.to_owned());
        match found {
            Credentials::Password { user, password } => DockerCredentials {
                username: Some(user),
                password: Some(password),
                serveraddress,
                ..DockerCredentials::default()
            },
            Credentials::Token(token) => DockerCredentials {
                identitytoken: Some(token),
                serveraddress,
                ..DockerCredentials::default()
            },
        }
    });
    Ok(shown)
}

async fn pull(host: &DockerHost, name: &str, config: &DockerConfig) -> Result<()> {
    tracing::info!(image = name, "the Docker engine pulls an image");
    let options = CreateImageOptionsBuilder::default().from_image(&tagged(name)).build();
    let shown = credentials(name, config).await?;
    let mut progress = std::pin::pin!(host.docker.create_image(Some(options), None, shown));
    while let Some(step) = progress.next().await {
        step.map_err(|error| {
            let message =
                format!("the Docker engine has no image {name:?} and cannot pull it: {error}");
            let is_absent = status(&error) == Some(NOT_FOUND)
                || matches!(error, DockerError::DockerStreamError { .. });
            let failed = match is_absent {
                true => Error::not_found(message),
                false => Error::unavailable(message),
            };
            failed.hint("give it one with `docker load`, `docker import` or `docker pull`")
        })?;
    }
    Ok(())
}

/// A name without a tag means all of them to an engine.
fn tagged(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if name.contains('@') || last.contains(':') {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_tag_means_the_latest() {
        let cases = [
            ("debian", "debian:latest"),
            ("debian:12", "debian:12"),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
            ("localhost:5000/a/b:1", "localhost:5000/a/b:1"),
            ("a/b@sha256:00", "a/b@sha256:00"),
        ];
        for (name, expected) in cases {
            assert_eq!(tagged(name), expected);
        }
    }
}
