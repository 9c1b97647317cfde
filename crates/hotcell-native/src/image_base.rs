//! What a cell has besides the files of its image: where Hotcell puts things, and who its execs are.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hotcell_images::digest_of;
use hotcell_jail::ids::EXEC_ID;
use hotcell_jail::mounts::{Layer, Lower, LowerIds, Upper};
use hotcell_place::{ACCOUNTS, Accounts};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fgetxattr, openat, openat2};
use rustix::io::Errno;

use crate::base::{give_to_execs, make_once};

/// Directories that lie upon those of an image, and their modes.
const DIRECTORIES: [(&str, u32); 10] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("home/cell", 0o755),
    ("proc", 0o755),
    ("run", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("tools", 0o755),
    ("workspace", 0o755),
];
/// Files that an image cannot know.
const WRITTEN: [(&str, &str); 3] = [
    ("etc/hosts", "127.0.0.1 localhost cell\n::1 localhost cell\n"),
    ("etc/hostname", "cell\n"),
    ("etc/resolv.conf", "nameserver 127.64.0.1\n"),
];
/// Far beyond any real one.
const MOST_NAMES_BYTES: u64 = 1 << 20;

/// The one layer of a cell on an image, with writes going below `files`.
pub(crate) fn image_layer(bases: &Path, image: &[Lower], files: &Path) -> io::Result<Layer> {
    let names: Vec<String> = ACCOUNTS.iter().map(|it| names(image, *it)).collect();
    // Images whose names are the same have the same above them.
    let content = digest_of(format!("1\0{}", names.join("\0")).as_bytes());
    let base =
        make_once(bases, &format!("image-{}", &content.hex()[..16]), |base| make(base, &names))?;
    let mut lowers = vec![Lower { path: base, ids: LowerIds::Image }];
    lowers.extend_from_slice(image);
    let files = files.join("root");
    let upper = Upper { data: files.join("data"), work: files.join("work") };
    Ok(Layer { target: PathBuf::from("/"), lowers, upper: Some(upper), shared: None })
}

fn make(base: &Path, names: &[String]) -> io::Result<()> {
    for (name, mode) in DIRECTORIES {
        let path = base.join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    let names = ACCOUNTS.iter().map(|it| it.path).zip(names.iter().map(String::as_str));
    for (name, text) in WRITTEN.into_iter().chain(names) {
        let path = base.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    give_to_execs(base)
}

/// Who is who in an image, and who execs are if it does not say.
fn names(image: &[Lower], accounts: Accounts) -> String {
    let looks = image.iter().map(|lower| look(&lower.path, accounts.path));
    let found = match looks.into_iter().find(|look| !matches!(look, Look::Absent)) {
        Some(Look::Text(text)) => Some(text),
        Some(Look::Hidden | Look::Absent) | None => None,
    };
    accounts.with_cell(found, (EXEC_ID, EXEC_ID))
}

/// What a layer has of a small file.
enum Look {
    /// Its content.
    Text(String),
    /// Something else, or nothing, and what layers below have does not count.
    Hidden,
    /// Nothing.
    Absent,
}

/// Looks for a small file of a layer. Whoever made the layer is not trusted: no link is followed.
fn look(layer: &Path, path: &str) -> Look {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(layer) = openat(CWD, layer, flags, Mode::empty()) else { return Look::Hidden };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let open = |path: &str, flags| openat2(layer.as_fd(), path, flags, Mode::empty(), resolve);
    let file = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC).map(fs::File::from);
    match file {
        Ok(file) if file.metadata().is_ok_and(|it| it.is_file()) => {
            let mut bytes = Vec::new();
            match file.take(MOST_NAMES_BYTES).read_to_end(&mut bytes) {
                Ok(_) => Look::Text(String::from_utf8_lossy(&bytes).into_owned()),
                Err(_) => Look::Hidden,
            }
        }
        Err(Errno::NOENT) if !is_opaque(open("etc", OFlags::RDONLY | OFlags::DIRECTORY).ok()) => {
            Look::Absent
        }
        Ok(_) | Err(_) => Look::Hidden,
    }
}

/// Whether a directory shows nothing of layers below.
fn is_opaque(directory: Option<OwnedFd>) -> bool {
    let marked = |name: &str| {
        let mut value = [0; 1];
        directory.as_ref().is_some_and(|it| fgetxattr(it, name, &mut value) == Ok(1))
    };
    marked("trusted.overlay.opaque") || marked("user.overlay.opaque")
}
