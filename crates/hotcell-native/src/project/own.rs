//! Whether one of Hotcell's own files lies in a directory, under whatever name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::diagnose::find_lying;

/// A path has no more links than this, as for the kernel.
const MOST_LINKS: usize = 40;

/// Whether who can write to `dir` (by its one true name) can change what `file` names: the file itself, a
/// directory above it, or a link on the way to it.
pub(super) fn lies_in(dir: &Path, file: &Path) -> bool {
    let host = Path::new("/");
    let within = find_lying(host, dir);
    let identity = fs::metadata(dir).map(|found| (found.dev(), found.ino())).ok();
    places(file).iter().any(|place| {
        place.starts_with(dir)
            || within
                .as_ref()
                .zip(find_lying(host, place))
                .is_some_and(|(within, place)| place.is_in(within))
            || identity.is_some_and(|identity| {
                place.ancestors().any(|above| {
                    fs::metadata(above).is_ok_and(|found| (found.dev(), found.ino()) == identity)
                })
            })
    })
}

/// The true name of what a path leads to, and those of all links on the way. What is not there has the name
/// it would have.
fn places(file: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut at = PathBuf::from("/");
    let mut rest: Vec<PathBuf> = parts(file);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        match fs::read_link(&next) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                found.push(next);
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                rest.extend(parts(&target));
            }
            Ok(_) | Err(_) => at = next,
        }
    }
    found.push(at);
    found
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<PathBuf> = named.collect();
    parts.reverse();
    parts
}
