//! Tests of layers made one: the kernel shows the same with them as with what they were made of.

#![expect(clippy::disallowed_methods, reason = "mounts are made by programs of their own")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use hotcell_jail::ids::{IdLayout, Starter, starter};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, mknodat};

use super::{Merge, merge_layers};

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn name(&mut self) -> &'static str {
        ["a", "b", "c"][self.below(3)]
    }

    /// A path from the root, or one name.
    fn redirect(&mut self) -> String {
        match self.below(3) {
            0 => self.name().to_owned(),
            1 => format!("/{}", self.name()),
            _ => format!("/{}/{}", self.name(), self.name()),
        }
    }
}

/// A layer as an overlay may have left it, or stranger.
fn fill(numbers: &mut Numbers, directory: &Path, depth: usize, is_base: bool) -> Result<()> {
    let mark = |name: &str, value: &str| {
        let name = format!("trusted.overlay.{name}");
        lsetxattr(directory, name, value.as_bytes(), XattrFlags::empty())
    };
    for name in ["a", "b", "c"] {
        let path = directory.join(name);
        match numbers.below(if depth < 3 { 10 } else { 5 }) {
            0 | 1 => {}
            2 if !is_base => {
                mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o600), 0)?
            }
            2 | 3 => fs::write(&path, format!("{}", numbers.below(1 << 30)))?,
            4 => symlink(format!("{}", numbers.below(1 << 30)), &path)?,
            _ => {
                fs::create_dir(&path)?;
                fill(numbers, &path, depth + 1, is_base)?;
                let mode = [0o755, 0o700, 0o711][numbers.below(3)];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
        }
    }
    if depth > 0 && !is_base {
        match numbers.below(6) {
            0 => mark("opaque", "y")?,
            1 | 2 => mark("redirect", &numbers.redirect())?,
            _ => {}
        }
    }
    Ok(())
}

/// Everything that the kernel shows of some layers, the topmost first; and names of which it shows no
/// more than that.
fn seen_in(place: &Path, layers: &[PathBuf]) -> Result<(String, BTreeSet<String>)> {
    const LOOK: &str = "mount -t overlay overlay -o \"lowerdir=$1,redirect_dir=follow\" \"$2\" && cd \"$2\" && \
                        find . -printf '%p %y %m %U %T@ %l\\n' | sort && \
                        find . -type f -exec cksum {} + | sort";
    let view = place.join("view");
    fs::create_dir_all(&view)?;
    let layers: Vec<String> = layers.iter().map(|layer| layer.display().to_string()).collect();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", LOOK, "look", &layers.join(":")])
        .arg(&view)
        .output()
        .context("run unshare")?;
    let [seen, said] =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    ensure!(!seen.is_empty(), "the layers cannot be looked at: {said}");
    Ok((seen, said.lines().map(str::to_owned).collect()))
}

#[test]
fn the_kernel_shows_the_same_with_layers_that_became_one() -> Result<()> {
    if starter() != Starter::Root {
        let said = "skipped: layers made one: only root can set the marks of an overlay\n";
        return Ok(io::stderr().write_all(said.as_bytes())?);
    }
    let ids = IdLayout::Private { base: 1 << 20 };
    let mut paths = 0;
    for seed in 0..100 {
        let mut numbers = Numbers(seed);
        // In memory where that can be: a mount that goes waits for its disk.
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let layers: Vec<PathBuf> =
            (0..5).map(|number| place.path().join(format!("{number}"))).collect();
        for (number, layer) in layers.iter().enumerate() {
            fs::create_dir(layer)?;
            fill(&mut numbers, layer, 0, number == 4)?;
        }
        // Some of those above the last, wherever they are.
        let from = numbers.below(3);
        let to = from + 2 + numbers.below(3 - from);
        let target = place.path().join("merged");
        fs::create_dir(&target)?;
        let merge = Merge {
            sources: layers[from..to].to_vec(),
            below: layers[to..].to_vec(),
            target: target.clone(),
        };
        merge_layers(&merge, &ids, &|| true)?;
        let mut fewer = layers.clone();
        fewer.splice(from..to, [target]);
        let (before, names) =
            seen_in(place.path(), &layers).with_context(|| format!("seed {seed}"))?;
        let (after, names_after) =
            seen_in(place.path(), &fewer).with_context(|| format!("seed {seed}"))?;
        ensure!(before == after, "seed {seed}, {from} to {to}:\n{before}\n{after}");
        ensure!(names_after.is_subset(&names), "seed {seed}: {names_after:?} and not {names:?}");
        paths += before.lines().count();
    }
    ensure!(paths > 2000, "only {paths} paths were compared");
    Ok(())
}

#[test]
fn a_merge_that_nobody_wants_any_more_is_given_up() -> Result<()> {
    let place = tempfile::tempdir()?;
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source)?;
    fs::create_dir(&target)?;
    fs::write(source.join("f"), "x")?;
    let merge = Merge { sources: vec![source], below: Vec::new(), target: target.clone() };
    let ids = IdLayout::Private { base: 1 << 20 };
    assert!(merge_layers(&merge, &ids, &|| false).is_err());
    assert_eq!(fs::read_dir(target)?.count(), 0);
    Ok(())
}
