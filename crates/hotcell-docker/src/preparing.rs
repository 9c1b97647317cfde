//! What a new cell needs before its container can be made: volumes that are its user's, and a name for
//! that user.
//!
//! A new volume is root's, and nothing in a cell ever is. An archive says whose its directories are,
//! and a container that is never started is enough to unpack one, and to look into the image.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder,
    UploadToContainerOptionsBuilder,
};
use futures_util::StreamExt;
use hotcell_egress::BUNDLES;
use hotcell_model::{CellId, Error, Result};
use hotcell_place::ACCOUNTS;

use crate::docker_host::DockerHost;
use crate::failure::{NOT_FOUND, status};
use crate::labels;
use crate::paths::{CellPaths, Placed};
use crate::remote::BESIDE;
use crate::removal::remove_container;
use crate::shown_files::write_trust;
use crate::volumes::{self, PURPOSES, VOLUMES};

/// Where the volumes are seen by the container that is made to prepare them.
const PREPARED_AT: &str = "hotcell-volumes";
/// Far beyond any real file of users or certificates, with its head in the archive.
const MOST_BYTES: usize = 4 << 20;
/// Links that are followed in a row.
const MOST_LINKS: usize = 4;

/// The name of the container that is never started.
pub(crate) fn name(cell: &CellId) -> String {
    format!("hotcell-{cell}-volumes")
}

/// Makes all that. Whoever dies in the middle of it leaves what the next one uses.
pub(crate) async fn prepare(
    host: &DockerHost,
    placed: &Placed,
    paths: &CellPaths,
    state: &str,
) -> Result<()> {
    volumes::make(host, &placed.spec.id, state, &PURPOSES).await?;
    if placed.outpost {
        volumes::make(host, &placed.spec.id, state, &BESIDE).await?;
    }
    let container = name(&placed.spec.id);
    remove_container(host, &container).await?;
    let body = ContainerCreateBody {
        image: Some(placed.image.clone()),
        // Images without a command are images too; it is never started.
        entrypoint: Some(vec!["/never".to_owned()]),
        labels: Some(labels::of_cell(&placed.spec.id, state)),
        network_disabled: Some(true),
        host_config: Some(HostConfig {
            mounts: Some(volumes::mounts(&placed.spec.id, |purpose, _| {
                format!("/{PREPARED_AT}/{purpose}")
            })),
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(&container).build();
    let made = host.docker.create_container(Some(options), body).await;
    made.map_err(|error| host.failed("make a container", &error))?;
    let prepared = prepare_by(host, &container, placed, paths).await;
    let removed = remove_container(host, &container).await;
    prepared.and(removed)
}

async fn prepare_by(
    host: &DockerHost,
    container: &str,
    placed: &Placed,
    paths: &CellPaths,
) -> Result<()> {
    let archive = owned_directories(placed.user)
        .map_err(|error| Error::internal(format!("cannot make an archive in memory: {error}")))?;
    let options = UploadToContainerOptionsBuilder::default().path("/").build();
    let archive = bollard::body_full(archive.into());
    let given = host.docker.upload_to_container(container, Some(options), archive).await;
    given.map_err(|error| host.failed("give the volumes to the cell's user", &error))?;
    for accounts in ACCOUNTS {
        let found = match look(host, container, &Path::new("/").join(accounts.path)).await? {
            Looked::File(text) => Some(text),
            Looked::Link(_) | Looked::Nothing => None,
        };
        let text = accounts.with_cell(found, placed.user);
        let file = paths.accounts(accounts);
        let readable = fs::Permissions::from_mode(0o644);
        let written = fs::write(&file, text).and_then(|()| fs::set_permissions(&file, readable));
        written.map_err(|error| {
            Error::unavailable(format!("cannot write {}: {error}", file.display()))
        })?;
    }
    if paths.kept().certificate().exists() {
        let bundle = look_for_bundle(host, container).await?;
        write_trust(paths, bundle).map_err(|error| {
            Error::unavailable(format!("cannot write {}: {error}", paths.trust().display()))
        })?;
    }
    Ok(())
}

/// An archive of the volumes' directories, with nothing in them.
fn owned_directories((uid, gid): (u32, u32)) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (purpose, _) in VOLUMES {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_uid(uid.into());
        header.set_gid(gid.into());
        header.set_size(0);
        archive.append_data(&mut header, format!("{PREPARED_AT}/{purpose}/"), io::empty())?;
    }
    archive.into_inner()
}

/// The file of those that the image trusts, if it has one.
async fn look_for_bundle(host: &DockerHost, container: &str) -> Result<Option<String>> {
    for path in BUNDLES {
        let mut path = PathBuf::from("/").join(path);
        for _ in 0..MOST_LINKS {
            match look(host, container, &path).await? {
                Looked::File(text) => return Ok(Some(text)),
                // The engine looks for it in the container, wherever it leads.
                Looked::Link(to) => path = path.parent().unwrap_or(&path).join(to),
                Looked::Nothing => break,
            }
        }
    }
    Ok(None)
}

/// What is in an image at a path.
enum Looked {
    File(String),
    Link(PathBuf),
    /// Nothing, something else, or too much.
    Nothing,
}

/// Looks at a small file of the image.
async fn look(host: &DockerHost, container: &str, path: &Path) -> Result<Looked> {
    let path = path.to_string_lossy();
    let options = DownloadFromContainerOptionsBuilder::default().path(&path).build();
    let mut stream = std::pin::pin!(host.docker.download_from_container(container, Some(options)));
    let mut archive = Vec::new();
    while let Some(part) = stream.next().await {
        match part {
            Ok(part) => archive.extend_from_slice(&part),
            Err(error) if status(&error) == Some(NOT_FOUND) => return Ok(Looked::Nothing),
            // Links that lead round and round.
            Err(error) if error.to_string().contains("too many links") => {
                return Ok(Looked::Nothing);
            }
            Err(error) => return Err(host.failed("look into the image", &error)),
        }
        if archive.len() > MOST_BYTES {
            return Ok(Looked::Nothing);
        }
    }
    let read = || -> io::Result<Looked> {
        let mut archive = tar::Archive::new(archive.as_slice());
        let Some(entry) = archive.entries()?.next() else { return Ok(Looked::Nothing) };
        let entry = entry?;
        if entry.header().entry_type() == tar::EntryType::Symlink {
            let to = entry.link_name()?.map(|to| Looked::Link(to.into_owned()));
            return Ok(to.unwrap_or(Looked::Nothing));
        }
        if entry.header().entry_type() != tar::EntryType::Regular {
            return Ok(Looked::Nothing);
        }
        let mut text = Vec::new();
        entry.take(MOST_BYTES as u64).read_to_end(&mut text)?;
        Ok(Looked::File(String::from_utf8_lossy(&text).into_owned()))
    };
    // Whoever made the image is not trusted: what is no such file is as none.
    Ok(read().unwrap_or(Looked::Nothing))
}
