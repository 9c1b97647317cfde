//! Takes things out of what a cell wrote to its project, so that it sees the host's again.
//!
//! Only what the cell writes to now can be changed: layers below it belong to checkpoints.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_jail::ids::IdLayout;
use hotcell_model::{Error, Result};
use rustix::fs::lgetxattr;

use crate::removal::remove_files;

/// What a cell wrote to its project.
#[derive(Debug)]
pub(super) struct Written<'a> {
    /// What it writes to now.
    pub(super) upper: &'a Path,
    /// What it wrote before, and does not change any more.
    pub(super) frozen: &'a [PathBuf],
    pub(super) ids: &'a IdLayout,
}

impl Written<'_> {
    /// Takes out whatever is as the host has it by now, of what was applied. `differing` are the
    /// paths that are not.
    pub(super) fn let_go_of_applied(
        &self,
        applied: &[PathBuf],
        differing: &[PathBuf],
    ) -> io::Result<()> {
        let mut to_take = Vec::new();
        self.find_equal(Path::new(""), applied, differing, &mut to_take)?;
        self.take_out(&to_take)
    }

    fn find_equal(
        &self,
        below: &Path,
        applied: &[PathBuf],
        differing: &[PathBuf],
        to_take: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(self.upper.join(below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if !applied.iter().any(|applied| applied.starts_with(&path)) {
                continue;
            }
            let is_equal = !differing.iter().any(|other| other.starts_with(&path));
            if is_equal && !self.is_in_frozen(&path) {
                to_take.push(path);
            } else if entry.file_type()?.is_dir() && !hides_the_hosts(&entry.path()) {
                self.find_equal(&path, applied, differing, to_take)?;
            }
        }
        Ok(())
    }

    /// Takes out these paths, whatever they are.
    pub(super) fn discard(&self, paths: &[PathBuf]) -> Result<()> {
        let mut to_take: Vec<PathBuf> = Vec::new();
        for path in paths {
            if self.is_in_frozen(path) {
                return Err(Error::conflict(format!(
                    "{} is part of a checkpoint and cannot be discarded by itself",
                    path.display()
                ))
                .hint("discard everything, without a path, or restore another checkpoint"));
            }
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            let hiding = above.filter(|above| hides_the_hosts(&self.upper.join(above)));
            if let Some(hiding) = hiding.last() {
                return Err(Error::conflict(format!(
                    "{} is in a directory that the cell made anew",
                    path.display()
                ))
                .hint(format!("discard {} as a whole", hiding.display())));
            }
            if self.upper.join(path).symlink_metadata().is_ok() {
                to_take.push(path.clone());
            }
        }
        self.take_out(&to_take).map_err(|error| {
            Error::unavailable(format!("cannot discard what the cell wrote: {error}"))
        })
    }

    /// Each path goes in one step.
    fn take_out(&self, paths: &[PathBuf]) -> io::Result<()> {
        let Some(files) = self.upper.parent().filter(|_| !paths.is_empty()) else { return Ok(()) };
        let taken = files.join("taken");
        remove_files(&taken, self.ids).map_err(io::Error::other)?;
        fs::create_dir(&taken)?;
        for (number, path) in paths.iter().enumerate() {
            match fs::rename(self.upper.join(path), taken.join(number.to_string())) {
                // A path that is in another one is gone with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        remove_files(&taken, self.ids).map_err(io::Error::other)
    }

    /// Whether a layer below has a word in what is seen at a path.
    fn is_in_frozen(&self, path: &Path) -> bool {
        self.frozen.iter().any(|layer| {
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            let is_hidden = above.map(|above| layer.join(above)).any(|above| {
                let found = above.symlink_metadata();
                found.is_ok_and(|found| !found.is_dir() || hides_the_hosts(&above))
            });
            is_hidden || layer.join(path).symlink_metadata().is_ok()
        })
    }
}

/// Whether a directory of what a cell wrote lets nothing through, or something of another name.
fn hides_the_hosts(directory: &Path) -> bool {
    let marks = [
        "trusted.overlay.opaque",
        "trusted.overlay.redirect",
        "user.overlay.opaque",
        "user.overlay.redirect",
    ];
    marks.iter().any(|mark| lgetxattr(directory, *mark, &mut [0; 4096]).is_ok())
}
