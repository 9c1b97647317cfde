//! Taking images, and cells that begin with them.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use hotcell_images::{ImageConfig, ImageSource, LayerSource, OpenedImage, Platform, digest_of};
use hotcell_jail::mounts::Lower;
use hotcell_model::{
    CellSpec, Digest, Error, ErrorCode, HOST_IMAGE, Image, ImageImport, ImageList, ImageName,
    ImagePull, Images, Result, Timestamp,
};
use hotcell_place::add_image_env;
use hotcell_registry::Registries;
use tokio::runtime::Runtime;

use crate::driver::{Native, NativeDriver};
use crate::flatten::most_layers;
use crate::image_store::{ImageStore, StoredImage, Taking, VERSION, failed, ids_of_images};
use crate::order::{Outcome, Task};
use crate::paths::CellPaths;
use crate::pull_place::PullPlace;
use crate::unpack::{LayerOrder, UnpackedTo, find_whole};
use crate::way::Way;

/// What a cell shows of an image.
#[derive(Debug)]
pub(crate) struct ShownImage {
    /// The topmost first.
    pub(crate) lowers: Vec<Lower>,
    /// What its content is called by.
    pub(crate) digest: Digest,
    /// To be held until the cell is written down: then it names them.
    _kept: Taking,
}

#[async_trait]
impl Images for NativeDriver {
    async fn import(&self, request: &ImageImport) -> Result<Image> {
        let request = request.clone();
        self.blocking(move |native| native.import_image(&request)).await
    }

    async fn pull(&self, request: &ImagePull) -> Result<Image> {
        let name = request.name.clone();
        self.blocking(move |native| native.pull_image(name)).await
    }

    async fn list(&self) -> Result<ImageList> {
        self.blocking(|native| {
            let stored = ImageStore::new(&native.paths).all()?;
            Ok(ImageList { images: stored.into_iter().map(|stored| stored.image).collect() })
        })
        .await
    }

    async fn remove(&self, name: &ImageName) -> Result<Image> {
        let name = name.clone();
        self.blocking(move |native| native.remove_image(&name)).await
    }
}

impl Native {
    fn import_image(&self, request: &ImageImport) -> Result<Image> {
        self.take_image(&request.path, |opened| name_of(request, opened))
    }

    /// Pulls an image and takes it. What comes is written and checked here, so that nobody else of this
    /// process waits for the disk.
    fn pull_image(&self, name: ImageName) -> Result<Image> {
        self.check_own_root()?;
        let place = PullPlace::hold(ImageStore::new(&self.paths).pull(&name))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| Error::unavailable(format!("cannot pull an image: {error}")))?;
        let taken = match self.pull_once(&runtime, &name, &place) {
            // A layer that was here went before it could be used.
            Err(error) if error.code == ErrorCode::NotFound && place.is_layout() => {
                self.pull_once(&runtime, &name, &place)
            }
            pulled => pulled,
        };
        place.leave(&taken);
        taken
    }

    fn pull_once(&self, runtime: &Runtime, name: &ImageName, place: &PullPlace) -> Result<Image> {
        let store = ImageStore::new(&self.paths);
        // Whoever scans an image sees all of it.
        let has = |layer: &Digest| {
            self.settings.scan.is_none() && find_whole(&store.layer(layer)).is_some()
        };
        let registries = Registries::new(self.settings.registries.clone());
        let watch = &*self.settings.pull_watch;
        let platform = Platform::own();
        let pulling = registries.pull(name, &platform, &place.path, &has, watch);
        runtime.block_on(pulling)?;
        self.take_image(&place.path, |_| Ok(name.clone()))
    }

    fn check_own_root(&self) -> Result<()> {
        match self.way()? {
            Way::InNamespaces => Ok(()),
            Way::OnHost => Err(Error::unsupported("cells have no root of their own here")
                .hint("see what this machine lacks with `hotcell doctor`")),
        }
    }

    fn take_image(
        &self,
        path: &Path,
        named: impl FnOnce(&OpenedImage) -> Result<ImageName>,
    ) -> Result<Image> {
        self.check_own_root()?;
        let store = ImageStore::new(&self.paths);
        let at = |error: io::Error| failed("write to", &self.paths.images(), &error);
        let _taking = store.taking().map_err(at)?;
        let source = ImageSource::open(path, &self.paths.images())?;
        let mut opened = source.image(&Platform::own())?;
        let name = named(&opened)?;
        if let Some(scan) = &self.settings.scan {
            let digest = opened.digest.as_ref().map(ToString::to_string).unwrap_or_default();
            scan.check(&name.to_string(), &digest, Some(path))?;
        }
        let mut layers = Vec::new();
        let mut bytes = 0;
        for layer in &opened.layers {
            let unpacked = self.take_layer(&store, layer)?;
            layers.push(unpacked.digest);
            bytes += unpacked.bytes;
        }
        let (digest, config) = (opened.digest.take(), opened.config.take());
        let config = config.unwrap_or_else(|| ImageConfig::of_root(layers.clone()));
        let digest = digest.unwrap_or_else(|| {
            let all: Vec<String> = layers.iter().map(ToString::to_string).collect();
            digest_of(all.join("\n").as_bytes())
        });
        let image = Image {
            name,
            digest,
            platform: config.platform.to_string(),
            layers: layers.len(),
            bytes,
            since: Timestamp::now(),
        };
        let stored = StoredImage { version: VERSION, image: image.clone(), config };
        store.write(&stored).map_err(at)?;
        Ok(image)
    }

    /// Makes a layer a directory, unless it is one already.
    fn take_layer(&self, store: &ImageStore<'_>, layer: &LayerSource) -> Result<UnpackedTo> {
        let known = layer.unpacked.as_ref().and_then(|digest| find_whole(&store.layer(digest)));
        if let Some(unpacked) = known {
            return Ok(unpacked);
        }
        let order = LayerOrder {
            place: layer.place.clone(),
            packed: layer.packed.clone(),
            unpacked: layer.unpacked.clone(),
            target: store.new_layer()?,
            ids: ids_of_images(),
        };
        match self.order_about_images(Task::Unpack(Box::new(order)))? {
            Outcome::Unpacked(unpacked) => Ok(unpacked),
            Outcome::Failed(error) => Err(error),
            Outcome::Ready(_)
            | Outcome::Done
            | Outcome::Project(_)
            | Outcome::Probed(_)
            | Outcome::Compared { .. } => Err(Error::internal("the keeper unpacked nothing")),
        }
    }

    /// What a new cell shows of its image; `None` for the host's programs. What the image says of the
    /// environment is put where the cell says nothing.
    pub(crate) fn image_of(&self, spec: &mut CellSpec) -> Result<Option<ShownImage>> {
        if spec.image == HOST_IMAGE {
            return Ok(None);
        }
        let store = ImageStore::new(&self.paths);
        let at = |error: io::Error| failed("look into", &self.paths.images(), &error);
        let kept = store.taking().map_err(at)?;
        let stored = store.find(&spec.image.parse()?)?;
        let lowers = store.lowers(&stored);
        if let Some(missing) = lowers.iter().find(|lower| !lower.path.is_dir()) {
            return Err(Error::unavailable(format!(
                "a layer of the image {} is gone: {}",
                spec.image,
                missing.path.display()
            ))
            .hint("take the image again with `hotcell image import`"));
        }
        if lowers.len() > most_layers() {
            return Err(Error::unsupported(format!(
                "the image {} has {} layers, and this kernel shows {} at most",
                spec.image,
                lowers.len(),
                most_layers()
            ))
            .hint("use Linux 6.5 or later, or an image of fewer layers"));
        }
        add_image_env(&mut spec.env, &stored.config.config.env);
        store.note_use(&stored);
        Ok(Some(ShownImage { lowers, digest: stored.image.digest, _kept: kept }))
    }

    fn order_about_images(&self, task: Task) -> Result<Outcome> {
        // As deep as the directory of a cell.
        self.order(&CellPaths::at(self.paths.images().join("layers")), task)
    }

    fn remove_image(&self, name: &ImageName) -> Result<Image> {
        let store = ImageStore::new(&self.paths);
        let stored = store.find(name)?;
        let path = store.description(&stored.image.name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &path, &error));
            }
            Ok(()) | Err(_) => {}
        }
        match self.order_about_images(Task::CollectImages { ids: ids_of_images() })? {
            Outcome::Failed(error) => Err(error),
            Outcome::Done
            | Outcome::Unpacked(_)
            | Outcome::Ready(_)
            | Outcome::Project(_)
            | Outcome::Probed(_)
            | Outcome::Compared { .. } => Ok(stored.image),
        }
    }
}

fn name_of(request: &ImageImport, opened: &OpenedImage) -> Result<ImageName> {
    let Some(name) = request.name.as_ref().or(opened.name.as_ref()) else {
        return Err(Error::invalid(format!(
            "{} does not say what the image is called",
            request.path.display()
        ))
        .hint("say it with --name"));
    };
    if name.digest().is_some() {
        return Err(Error::invalid(format!("{name} names content, which nobody can choose"))
            .hint("leave out @ and what follows it"));
    }
    Ok(name.clone())
}
