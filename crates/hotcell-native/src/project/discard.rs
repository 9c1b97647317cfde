//! Takes things out of what a cell wrote to its project, so that it sees the host's again.
//!
//! Only what the cell writes to now can be changed: layers below it belong to checkpoints. Whatever
//! links the cell made there, none is followed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat, fgetxattr, renameat};

use crate::removal::remove_tree;
use crate::tree;

/// What a cell wrote to its project.
#[derive(Debug)]
pub(super) struct Written {
    /// What it writes to now.
    upper: OwnedFd,
    /// What it wrote before, and does not change any more.
    frozen: Vec<OwnedFd>,
    /// Where what is taken out goes first.
    taken: PathBuf,
}

impl Written {
    /// By the directories that it lies in, the topmost first.
    pub(super) fn open(layers: &[PathBuf]) -> io::Result<Self> {
        let open = |path: &PathBuf| -> io::Result<OwnedFd> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(path, flags, Mode::empty())?)
        };
        let (upper, frozen) = layers.split_first().ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            upper: open(upper)?,
            frozen: frozen.iter().map(open).collect::<io::Result<_>>()?,
            taken: upper.with_file_name("taken"),
        })
    }

    /// Takes out whatever is as the host has it by now, of what was applied, and returns it.
    /// `differing` are the paths that are not.
    pub(super) fn let_go_of_applied(
        &self,
        applied: &BTreeSet<PathBuf>,
        differing: &BTreeSet<PathBuf>,
    ) -> io::Result<Vec<PathBuf>> {
        let mut to_take = Vec::new();
        self.find_equal(&self.upper, Path::new(""), applied, differing, &mut to_take)?;
        self.take_out(&to_take)?;
        Ok(to_take)
    }

    fn find_equal(
        &self,
        directory: &OwnedFd,
        below: &Path,
        applied: &BTreeSet<PathBuf>,
        differing: &BTreeSet<PathBuf>,
        to_take: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        for entry in Dir::read_from(directory)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            let path = below.join(&name);
            if name == "." || name == ".." || !has_in(applied, &path) {
                continue;
            }
            let Some(stat) = tree::look_in(directory, &name)? else { continue };
            if !has_in(differing, &path) && !self.is_in_frozen(&path)? {
                to_take.push(path);
            } else if is_directory(&stat) {
                let inside = tree::directory(directory, Path::new(&name))?;
                if !hides_the_hosts(&inside) {
                    self.find_equal(&inside, &path, applied, differing, to_take)?;
                }
            }
        }
        Ok(())
    }

    /// Takes out these paths, whatever they are.
    pub(super) fn discard(&self, paths: &[PathBuf]) -> Result<()> {
        let failed = |error: io::Error| {
            Error::unavailable(format!("cannot discard what the cell wrote: {error}"))
        };
        let mut to_take: Vec<PathBuf> = Vec::new();
        for path in paths {
            if self.is_in_frozen(path).map_err(failed)? {
                return Err(Error::conflict(format!(
                    "{} is part of a checkpoint and cannot be discarded by itself",
                    path.display()
                ))
                .hint("discard everything, without a path, or restore another checkpoint"));
            }
            if let Some(hiding) = hiding(&self.upper, path).map_err(failed)? {
                return Err(Error::conflict(format!(
                    "{} is in a directory that the cell made anew, or removed",
                    path.display()
                ))
                .hint(format!("discard {} as a whole", hiding.display())));
            }
            if tree::look(&self.upper, path).map_err(failed)?.is_some() {
                to_take.push(path.clone());
            }
        }
        self.take_out(&to_take).map_err(failed)
    }

    /// Each path goes in one step.
    fn take_out(&self, paths: &[PathBuf]) -> io::Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        remove_tree(&self.taken)?;
        fs::create_dir(&self.taken)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let taken = rustix::fs::open(&self.taken, flags, Mode::empty())?;
        for (number, path) in paths.iter().enumerate() {
            let (above, name) = match tree::parent(&self.upper, path) {
                // A path that is in another one is gone with it.
                Err(error) if tree::is_absent(&error) => continue,
                found => found?,
            };
            match renameat(&above, name, &taken, number.to_string()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        remove_tree(&self.taken)
    }

    /// Whether a layer below has a word in what is seen at a path.
    fn is_in_frozen(&self, path: &Path) -> io::Result<bool> {
        for layer in &self.frozen {
            if hiding(layer, path)?.is_some() || tree::look(layer, path)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a set has a path, or something in it. What is in a directory sorts right after it.
fn has_in(set: &BTreeSet<PathBuf>, path: &Path) -> bool {
    set.range(path.to_owned()..).next().is_some_and(|next| next.starts_with(path))
}

/// What a path is in that lets nothing of the host's through, the nearest to the top.
fn hiding(layer: &OwnedFd, path: &Path) -> io::Result<Option<PathBuf>> {
    let mut above: Vec<&Path> =
        path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
    above.reverse();
    for above in above {
        match tree::look(layer, above)? {
            None => return Ok(None),
            Some(stat) if !is_directory(&stat) => return Ok(Some(above.to_owned())),
            Some(_) if hides_the_hosts(&tree::directory(layer, above)?) => {
                return Ok(Some(above.to_owned()));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Whether a directory of what a cell wrote lets nothing through, or something of another name.
pub(super) fn hides_the_hosts(directory: &OwnedFd) -> bool {
    let marks = [
        "trusted.overlay.opaque",
        "trusted.overlay.redirect",
        "user.overlay.opaque",
        "user.overlay.redirect",
    ];
    marks.iter().any(|mark| fgetxattr(directory, *mark, &mut [0; 4096]).is_ok())
}
