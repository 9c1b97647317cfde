//! Removes what no cell, image or checkpoint needs.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hotcell_keeper::walk;
use hotcell_model::{CellId, Collectable, Error, ImageName, Remains, Removed, Result, Thrift};

use crate::description::{Description, unreadable};
use crate::driver::Native;
use crate::image_store::{ImageStore, StoredImage, ids_of_images};
use crate::layer_store::LayerStore;
use crate::order::{Outcome, Task};
use crate::paths::CellPaths;
use crate::pull_place::forgotten_pulls;

impl Native {
    /// Every directory of a cell, whether or not it can be used.
    pub(crate) fn remains(&self) -> Result<Remains> {
        let mut remains = Remains::default();
        for cell in self.cell_directories()? {
            let paths = self.paths.cell(&cell);
            match paths.describe() {
                Description::Whole(_) | Description::None => remains.cells.push(cell),
                Description::Unreadable { error, .. } => {
                    remains.unreadable.push((cell, unreadable(&paths, &error)));
                }
            }
        }
        Ok(remains)
    }

    fn cell_directories(&self) -> Result<Vec<CellId>> {
        let directory = self.paths.cells();
        let at = |error: io::Error| failed("list", &directory, &error);
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(at)?,
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>().map_err(at)?;
        Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    pub(crate) fn collect_unneeded(&self, thrift: &Thrift) -> Result<Vec<Removed>> {
        let images = self.collect_images(thrift)?;
        let (layers, left) = self.collect_layers(thrift)?;
        let pulls = self.collect_pulls(thrift)?;
        let temporary = Removed {
            kind: Collectable::Temporary,
            count: left.count + pulls.count,
            bytes: left.bytes + pulls.bytes,
        };
        Ok(vec![images, layers, temporary])
    }

    /// Forgets images that no cell began with and nobody has used for as long as that. Their layers are
    /// counted with those that nothing names.
    fn collect_images(&self, thrift: &Thrift) -> Result<Removed> {
        let mut removed = Removed { kind: Collectable::Images, count: 0, bytes: 0 };
        let Some(keep_s) = thrift.image_keep_s else { return Ok(removed) };
        let store = ImageStore::new(&self.paths);
        let Some(in_use) = self.images_in_use()? else { return Ok(removed) };
        for StoredImage { image, .. } in store.all()? {
            let is_used = in_use.iter().any(|name| store.is_meant(&image, name));
            let rested = store.used_at(&image.name).and_then(|at| at.elapsed().ok());
            if is_used || rested.is_none_or(|rested| rested < Duration::from_secs(keep_s)) {
                continue;
            }
            removed.count += 1;
            if !thrift.dry_run {
                // Its layers are named by nothing then, and go with those.
                let path = store.description(&image.name);
                std::fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
            }
        }
        Ok(removed)
    }

    /// The images that cells began with; `None` if that is not known of every cell.
    fn images_in_use(&self) -> Result<Option<Vec<ImageName>>> {
        let mut names = Vec::new();
        for cell in self.cell_directories()? {
            let placed = match self.paths.cell(&cell).describe() {
                // A cell keeps the image it began with.
                Description::Whole(placed)
                | Description::Unreadable { previous: Some(placed), .. } => placed,
                Description::None => continue,
                Description::Unreadable { previous: None, .. } => return Ok(None),
            };
            names.extend(placed.spec.image.parse::<ImageName>());
        }
        Ok(Some(names))
    }

    /// Layers that nothing names, and what imports that were killed have left.
    fn collect_layers(&self, thrift: &Thrift) -> Result<(Removed, Removed)> {
        let at = |error: io::Error| failed("look into", self.paths.root(), &error);
        let (of_images, left) = ImageStore::new(&self.paths).unnamed_if_free().map_err(at)?;
        let of_cells = LayerStore::new(&self.paths).unnamed().map_err(at)?;
        let layers: BTreeSet<PathBuf> = of_images.into_iter().chain(of_cells).collect();
        let layers = Removed {
            kind: Collectable::Layers,
            count: layers.len() as u64,
            bytes: layers.iter().map(|layer| bytes_in(layer)).sum(),
        };
        let left = Removed {
            kind: Collectable::Temporary,
            count: left.len() as u64,
            bytes: left.iter().map(|file| bytes_in(file)).sum(),
        };
        if !thrift.dry_run && layers.count + left.count > 0 {
            self.collect_unnamed()?;
        }
        Ok((layers, left))
    }

    /// Removes layers of cells and images that nothing names.
    pub(crate) fn collect_unnamed(&self) -> Result<()> {
        let task = Task::CollectUnnamed { ids: ids_of_images() };
        match self.order(&CellPaths::at(self.paths.images().join("layers")), task)? {
            Outcome::Failed(error) => Err(error),
            Outcome::Done
            | Outcome::Unpacked(_)
            | Outcome::Ready(_)
            | Outcome::Project(_)
            | Outcome::Probed(_)
            | Outcome::Compared { .. } => Ok(()),
        }
    }

    fn collect_pulls(&self, thrift: &Thrift) -> Result<Removed> {
        let mut removed = Removed { kind: Collectable::Temporary, count: 0, bytes: 0 };
        let pulls = self.paths.images().join("pulls");
        for pull in forgotten_pulls(&pulls) {
            removed.count += 1;
            removed.bytes += bytes_in(pull.path());
            if !thrift.dry_run {
                pull.remove()
                    .map_err(|error| failed("remove what was pulled to", &pulls, &error))?;
            }
        }
        Ok(removed)
    }
}

impl ImageStore<'_> {
    /// When an image was last taken or used for a cell.
    fn used_at(&self, name: &ImageName) -> Option<SystemTime> {
        std::fs::metadata(self.description(name)).and_then(|it| it.modified()).ok()
    }
}

/// What a file or a directory has on disk, as far as it can be seen.
fn bytes_in(path: &Path) -> u64 {
    const BLOCK: u64 = 512;
    let own =
        std::fs::symlink_metadata(path).map_or(0, |it| std::os::unix::fs::MetadataExt::blocks(&it));
    let mut blocks = own;
    let _ = walk(path, |found| blocks += u64::try_from(found.st_blocks).unwrap_or(0));
    blocks * BLOCK
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot {what} {}: {error}", path.display()))
}
