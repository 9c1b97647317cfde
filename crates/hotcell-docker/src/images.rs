//! Images of the engine.

use bollard::models::ImageInspect;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use hotcell_model::{Error, Result};

use crate::docker_host::DockerHost;
use crate::failure::{NOT_FOUND, status};

/// An image that the engine has.
#[derive(Debug)]
pub(crate) struct FoundImage {
    /// What its content is called by: whatever its name means later, this stays.
    pub(crate) id: String,
    /// The variables that it says programs in it have.
    pub(crate) env: Vec<String>,
}

/// The image of this name; the engine is told to get it where it has none.
pub(crate) async fn find_or_pull(host: &DockerHost, name: &str) -> Result<FoundImage> {
    if let Some(found) = find(host, name).await? {
        return Ok(found);
    }
    pull(host, name).await?;
    find(host, name).await?.ok_or_else(|| {
        Error::unavailable(format!("the Docker engine pulled {name:?} and does not have it"))
    })
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
    let env = image.config.and_then(|config| config.env).unwrap_or_default();
    Ok(FoundImage { id, env })
}

async fn pull(host: &DockerHost, name: &str) -> Result<()> {
    tracing::info!(image = name, "the Docker engine pulls an image");
    let options = CreateImageOptionsBuilder::default().from_image(&tagged(name)).build();
    let mut progress = std::pin::pin!(host.docker.create_image(Some(options), None, None));
    while let Some(step) = progress.next().await {
        step.map_err(|error| {
            Error::not_found(format!(
                "the Docker engine has no image {name:?} and cannot pull it: {error}"
            ))
            .hint("give it one with `docker load`, `docker import` or `docker pull`")
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
