//! Pulling an image.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, TryStreamExt};
use hotcell_egress::HostClient;
use hotcell_images::{
    Descriptor, ImageConfig, MOST_CONFIG_BYTES, ManifestOrIndex, Platform, check_image, choose,
    digest_of,
};
use hotcell_model::{Digest, Error, ImageName, PullProgress, PullWatch, Result};
use http::header::CONTENT_TYPE;
use tokio::time::interval;

use crate::blob;
use crate::docker_config::DockerConfig;
use crate::layout::Layout;
use crate::session::Session;

const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";
const MOST_MANIFEST_BYTES: usize = 4 << 20;
/// Beyond any real image: of one layer as it is stored, and of all of them.
const MOST_LAYER_BYTES: u64 = 64 << 30;
const MOST_IMAGE_BYTES: u64 = 256 << 30;
/// What stays free on the disk that an image is pulled to.
const LEFT_FREE: u64 = 64 << 20;
/// How often a list may lead to another one.
const DEEPEST: usize = 4;
/// Layers that come at once.
const AT_ONCE: usize = 4;
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// What pulling is told.
#[derive(Debug, Clone, Default)]
pub struct RegistrySettings {
    /// Where credentials are.
    pub docker: DockerConfig,
    /// Who is asked for addresses; those of the host where there are none.
    pub nameservers: Vec<SocketAddr>,
    /// Certificates that are trusted besides the host's.
    pub ca_file: Option<PathBuf>,
}

/// Registries.
#[derive(Debug)]
pub struct Registries {
    client: HostClient,
    docker: DockerConfig,
}

/// What a name stands for on one kind of machine.
struct Found {
    descriptor: Descriptor,
    bytes: Bytes,
}

impl Registries {
    /// Registries, by these settings.
    #[must_use]
    pub fn new(settings: RegistrySettings) -> Self {
        let client = HostClient::new(&settings.nameservers, settings.ca_file.as_deref());
        Self { client, docker: settings.docker }
    }

    /// Pulls an image into a directory, which is a layout of it once that is done; what has come of it
    /// before is kept. Layers that `has` knows, by what they are once unpacked, are left out.
    ///
    /// # Errors
    /// Why not; what has come stays for the next try.
    pub async fn pull(
        &self,
        name: &ImageName,
        platform: &Platform,
        directory: &Path,
        has: &(dyn Fn(&Digest) -> bool + Send + Sync),
        watch: &dyn PullWatch,
    ) -> Result<Digest> {
        let layout = Layout(directory);
        layout.prepare()?;
        let session = Session::new(&self.client, &self.docker, name);
        let found = find(&session, name, platform).await?;
        let ManifestOrIndex::Manifest(manifest) = ManifestOrIndex::parse(&found.bytes)? else {
            return Err(session.failed("its lists lead to one another"));
        };
        if manifest.config.size > MOST_CONFIG_BYTES {
            return Err(session.failed("its description is longer than any real one"));
        }
        let come = AtomicU64::new(0);
        blob::fetch(&session, &layout, &manifest.config, &come).await?;
        let config = std::fs::read(layout.blob(&manifest.config.digest))
            .map_err(|error| layout.failed(&error))?;
        let config = ImageConfig::parse(&config)?;
        check_image(&manifest, &config, platform)?;
        let mut needed: Vec<&Descriptor> = Vec::new();
        for (layer, unpacked) in manifest.layers.iter().zip(&config.rootfs.diff_ids) {
            // The same one may be there twice.
            if !has(unpacked) && needed.iter().all(|other| other.digest != layer.digest) {
                needed.push(layer);
            }
        }
        let of_bytes = manifest.config.size + sum(&session, &needed)?;
        check_room(&layout, &needed)?;
        let told = || {
            watch.told(&PullProgress {
                name: name.clone(),
                bytes: come.load(Ordering::Relaxed),
                of_bytes,
            });
        };
        let fetching = stream::iter(needed.into_iter().map(Ok))
            .try_for_each_concurrent(AT_ONCE, |layer| blob::fetch(&session, &layout, layer, &come));
        let mut ticks = interval(TOLD_EVERY);
        let mut fetching = std::pin::pin!(fetching);
        loop {
            tokio::select! {
                fetched = &mut fetching => break fetched?,
                _ = ticks.tick() => told(),
            }
        }
        told();
        layout.write(&found.descriptor.digest, &found.bytes)?;
        layout.finish(&found.descriptor)?;
        Ok(found.descriptor.digest)
    }
}

/// What layers take as they are stored.
fn sum(session: &Session<'_>, layers: &[&Descriptor]) -> Result<u64> {
    let mut all = 0_u64;
    for layer in layers {
        all = all.saturating_add(layer.size);
        if layer.size > MOST_LAYER_BYTES || all > MOST_IMAGE_BYTES {
            return Err(Error::limit_exceeded(
                session.failed("it is larger than an image may be").message,
            ));
        }
    }
    Ok(all)
}

/// Whether there is room for what has not come yet.
fn check_room(layout: &Layout<'_>, layers: &[&Descriptor]) -> Result<()> {
    let there = |layer: &&Descriptor| {
        let found = [layout.blob(&layer.digest), layout.partial(&layer.digest)];
        found.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|it| it.len()).sum::<u64>()
    };
    let missing: u64 = layers.iter().map(|it| it.size.saturating_sub(there(it))).sum();
    let disk = rustix::fs::statvfs(layout.0).map_err(|errno| layout.failed(&errno.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    match missing.saturating_add(LEFT_FREE) <= free {
        true => Ok(()),
        false => Err(layout.failed(&std::io::ErrorKind::StorageFull.into())),
    }
}

/// Finds the image that a name stands for, through lists for several kinds of machines.
async fn find(session: &Session<'_>, name: &ImageName, platform: &Platform) -> Result<Found> {
    let mut reference = match (name.digest(), name.tag()) {
        (Some(digest), _) => digest.to_string(),
        (None, tag) => tag.unwrap_or("latest").to_owned(),
    };
    let mut said = name.digest().cloned();
    for _ in 0..DEEPEST {
        let answer = session.get(&format!("manifests/{reference}"), MANIFESTS, 0).await?;
        let kind = answer.response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.map(|kind| kind.split(';').next().unwrap_or(kind).trim().to_owned());
        let bytes = session.whole(answer, MOST_MANIFEST_BYTES).await?;
        let digest = digest_of(&bytes);
        if let Some(said) = said.filter(|said| *said != digest) {
            return Err(session.failed(&format!("what came as {said} is {digest}")));
        }
        match ManifestOrIndex::parse(&bytes)? {
            ManifestOrIndex::Manifest(_) => {
                let descriptor = Descriptor {
                    media_type: kind.unwrap_or_default(),
                    digest,
                    size: bytes.len() as u64,
                    platform: None,
                    annotations: BTreeMap::new(),
                };
                return Ok(Found { descriptor, bytes });
            }
            ManifestOrIndex::Index(list) => {
                let chosen = choose(&list, platform)?;
                reference = chosen.digest.to_string();
                said = Some(chosen.digest.clone());
            }
        }
    }
    Err(Error::invalid(format!("the lists of {name} lead to one another")))
}
