//! Several layers as one that shows the same.
//!
//! Files are linked, not copied: layers are not written to, and a file that is still in another
//! layer takes no room a second time. What the kernel's overlay makes of removed names, of opaque
//! and of renamed directories is followed to the letter (`fs/overlayfs/namei.c`).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hotcell_jail::StepError;
use hotcell_jail::ids::IdLayout;
use hotcell_jail::namespace_work::{Namespace, work_in};
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::copy_layer::{copy_attributes, copy_entry};

/// Layers that are to become one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Merge {
    /// Their directories, the topmost first.
    pub(crate) sources: Vec<PathBuf>,
    /// What is below them.
    pub(crate) below: Vec<PathBuf>,
    /// An empty directory.
    pub(crate) target: PathBuf,
}

/// Makes the layers one. Given up when they are no longer wanted.
pub(crate) fn merge_layers(
    merge: &Merge,
    ids: &IdLayout,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(), StepError> {
    let (namespace, marks) = match ids {
        IdLayout::Private { .. } => (Namespace::Own, Marks::TRUSTED),
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
            (Namespace::New(ids), Marks::USER)
        }
    };
    let layers: Vec<&PathBuf> = merge.sources.iter().chain(&merge.below).collect();
    let root = Merged {
        stack: (0..layers.len()).map(|layer| (layer, PathBuf::new())).collect(),
        below: (!merge.below.is_empty()).then(|| PathBuf::from("/")),
    };
    let merging = Merging { layers, sources: merge.sources.len(), marks, is_wanted };
    let work = || {
        if let Namespace::New(_) = namespace {
            // Nothing goes on in the layer when nobody is left who names it.
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        }
        merging.directory(&root, &merge.target).map(|()| 0)
    };
    work_in(namespace, work).map(drop)
}

/// How an overlay marks what is special, by who made it.
#[derive(Debug, Clone, Copy)]
struct Marks {
    prefix: &'static str,
    /// Whether renamed directories are followed.
    redirects: bool,
}

impl Marks {
    const TRUSTED: Self = Self { prefix: "trusted.overlay.", redirects: true };
    const USER: Self = Self { prefix: "user.overlay.", redirects: false };

    fn find(self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; 8192];
        match lgetxattr(path, format!("{}{name}", self.prefix), &mut value) {
            Ok(length) => {
                value.truncate(length);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn set(self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        Ok(lsetxattr(path, format!("{}{name}", self.prefix), value, XattrFlags::empty())?)
    }

    /// Whether an attribute is the overlay's own. What a program in the cell calls the same has
    /// the word twice.
    fn is_own(self, attribute: &OsStr) -> bool {
        let rest = attribute.as_bytes().strip_prefix(self.prefix.as_bytes());
        rest.is_some_and(|rest| !rest.starts_with(b"overlay."))
    }
}

/// A directory as the layers show it together.
#[derive(Debug)]
struct Merged {
    /// In which layers it is, and where, the topmost first; also in those below.
    stack: Vec<(usize, PathBuf)>,
    /// Where it is looked for in those below; `None` if it is not there.
    below: Option<PathBuf>,
}

/// What a name stands for.
enum Found {
    /// It was removed.
    Nothing {
        whiteout: PathBuf,
    },
    /// No directory.
    File(PathBuf),
    Directory(Merged),
}

/// A name that is looked for from layer to layer, as `struct ovl_lookup_data` has it.
struct Lookup {
    /// One name, or a whole path from the root.
    name: PathBuf,
    stop: bool,
    is_directory: bool,
    whiteout: Option<PathBuf>,
}

struct Merging<'a> {
    /// All layers, the topmost first.
    layers: Vec<&'a PathBuf>,
    /// How many of them become one.
    sources: usize,
    marks: Marks,
    is_wanted: &'a dyn Fn() -> bool,
}

impl Merging<'_> {
    fn directory(&self, merged: &Merged, target: &Path) -> io::Result<()> {
        if !(self.is_wanted)() {
            return Err(io::Error::other("the cell's layers are others by now"));
        }
        let mut names = BTreeSet::new();
        let in_sources = |(layer, _): &&(usize, PathBuf)| *layer < self.sources;
        for (layer, path) in merged.stack.iter().filter(in_sources) {
            for entry in fs::read_dir(self.layers[*layer].join(path))? {
                names.insert(entry?.file_name());
            }
        }
        for name in names {
            let place = target.join(&name);
            match self.look_up(merged, &name)? {
                Some(Found::File(file)) => self.link(&file, &place)?,
                // Where nothing shows through there is nothing to hide.
                Some(Found::Nothing { whiteout }) if merged.below.is_some() => {
                    self.link(&whiteout, &place)?;
                }
                Some(Found::Directory(child)) => {
                    fs::create_dir(&place)?;
                    self.directory(&child, &place)?;
                    self.mark(merged, &name, &child, &place)?;
                }
                Some(Found::Nothing { .. }) | None => {}
            }
        }
        if let Some((layer, path)) = merged.stack.first() {
            let is_own = |name: &OsStr| self.marks.is_own(name);
            copy_attributes(&self.layers[*layer].join(path), target, &|name| !is_own(name))?;
        }
        Ok(())
    }

    /// Says where a directory goes on below, unless it is where it would be looked for.
    fn mark(&self, parent: &Merged, name: &OsStr, child: &Merged, place: &Path) -> io::Result<()> {
        let expected = parent.below.as_ref().map(|below| below.join(name));
        match &child.below {
            None if expected.is_some() => self.marks.set(place, "opaque", b"y"),
            Some(below) if expected.as_ref() != Some(below) => {
                self.marks.set(place, "redirect", below.as_os_str().as_bytes())
            }
            None | Some(_) => Ok(()),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.marks.find(from, "metacopy")?.is_some() {
            return Err(io::Error::other(format!("{} has its content elsewhere", from.display())));
        }
        match fs::hard_link(from, to) {
            // It has as many names as a file can have.
            Err(error) if error.kind() == io::ErrorKind::TooManyLinks => copy_entry(from, to),
            linked => linked,
        }
    }

    /// As `ovl_lookup` does it for layers that are not written to.
    fn look_up(&self, parent: &Merged, name: &OsStr) -> io::Result<Option<Found>> {
        let mut lookup =
            Lookup { name: PathBuf::from(name), stop: false, is_directory: false, whiteout: None };
        let mut stack = Vec::new();
        let mut places = parent.stack.clone();
        let mut next = 0;
        // Under which name it is looked for below.
        let mut told_below = None;
        while !lookup.stop
            && let Some((layer, base)) = places.get(next).cloned()
        {
            next += 1;
            if layer >= self.sources {
                told_below.get_or_insert_with(|| lookup.name.clone());
            }
            let was_absolute = lookup.name.is_absolute();
            let found = self.look_up_in(layer, &base, &mut lookup)?;
            if let Some(path) = found {
                if !lookup.is_directory {
                    return Ok(Some(Found::File(self.layers[layer].join(path))));
                }
                stack.push((layer, path));
            }
            // From then on every layer is looked at from its root.
            if lookup.name.is_absolute() && !was_absolute {
                places = (layer + 1..self.layers.len()).map(|at| (at, PathBuf::new())).collect();
                next = 0;
            }
        }
        if stack.is_empty() {
            return Ok(lookup.whiteout.map(|whiteout| Found::Nothing { whiteout }));
        }
        let is_below = stack.iter().any(|(layer, _)| *layer >= self.sources);
        let below = told_below.filter(|_| is_below).and_then(|name| {
            if name.is_absolute() { Some(name) } else { Some(parent.below.as_ref()?.join(name)) }
        });
        Ok(Some(Found::Directory(Merged { stack, below })))
    }

    /// As `ovl_lookup_layer` does it: one name below `base`, or a path from the layer's root.
    fn look_up_in(
        &self,
        layer: usize,
        base: &Path,
        lookup: &mut Lookup,
    ) -> io::Result<Option<PathBuf>> {
        let Ok(path) = lookup.name.strip_prefix("/").map(Path::to_owned) else {
            let at = base.join(&lookup.name);
            return self.look_up_one(layer, at, Path::new(""), Path::new(""), lookup);
        };
        let mut names: Vec<OsString> = path.iter().map(OsStr::to_owned).collect();
        let mut at = PathBuf::new();
        while !names.is_empty() {
            let name = names.remove(0);
            let rest: PathBuf = names.iter().collect();
            // A mark on the way changes what comes before, for the layers that follow.
            let before = lookup.name.ancestors().nth(names.len() + 1);
            let before = before.unwrap_or(Path::new("/")).to_owned();
            match self.look_up_one(layer, at.join(&name), &before, &rest, lookup)? {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// As `ovl_lookup_single` does it. `before` and `rest` are what surrounds the name in a path.
    fn look_up_one(
        &self,
        layer: usize,
        at: PathBuf,
        before: &Path,
        rest: &Path,
        lookup: &mut Lookup,
    ) -> io::Result<Option<PathBuf>> {
        let is_last = rest.as_os_str().is_empty();
        let real = self.layers[layer].join(&at);
        let metadata = match fs::symlink_metadata(&real) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        if is_whiteout(&metadata) {
            lookup.stop = true;
            lookup.whiteout.get_or_insert(real);
            return Ok(None);
        }
        if !metadata.is_dir() {
            lookup.stop = true;
            let hides = lookup.is_directory || !is_last;
            return Ok((!hides).then_some(at));
        }
        if is_last {
            lookup.is_directory = true;
        }
        match self.marks.find(&real, "opaque")?.as_deref() {
            Some(b"y") => {
                lookup.stop = true;
                return Ok(Some(at));
            }
            Some(b"x") => {
                return Err(io::Error::other(format!(
                    "{} marks what was removed in another way",
                    real.display()
                )));
            }
            Some(_) | None => {}
        }
        if self.marks.redirects
            && let Some(redirect) = self.marks.find(&real, "redirect")?
        {
            let redirect = PathBuf::from(OsString::from_vec(redirect));
            if redirect.is_absolute() {
                lookup.stop = false;
            }
            let told = before.join(redirect);
            lookup.name = if is_last { told } else { told.join(rest) };
        }
        Ok(Some(at))
    }
}

/// A device of these numbers is how an overlay marks what was removed.
fn is_whiteout(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == 0
}

#[cfg(test)]
#[path = "merge_layers_tests.rs"]
mod tests;
