//! The image `host`: the programs of this machine, and of its configuration only what is safe.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hotcell_jail::ids::{EXEC_ID, IdLayout, Starter, starter};
use hotcell_jail::mounts::{Layer, Lower, LowerIds, Upper};

/// Directories of the host that hold programs. Where one is a link, the link is kept.
pub(crate) const PROGRAMS: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What of the host's `/etc` programs need and holds no secret.
pub(crate) const ETC: [&str; 40] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "default/locale",
    "dpkg",
    "emacs",
    "environment.d",
    "ethertypes",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mime.types",
    "nanorc",
    "os-release",
    "perl",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python3",
    "rpc",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
];

/// Files that are the same on every machine, so that they tell nothing of this one.
const WRITTEN: [(&str, &str); 8] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\n\
         cell:x:1000:1000:cell:/home/cell:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\ntty:x:5:\ncell:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost cell\n::1 localhost cell\n"),
    ("etc/hostname", "cell\n"),
    ("etc/resolv.conf", "nameserver 127.64.0.1\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/machine-id", ""),
    ("etc/shells", "/bin/sh\n/bin/bash\n"),
];

/// Directories of the base and their modes.
const DIRECTORIES: [(&str, u32); 19] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("home/cell", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("tools", 0o755),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
    ("workspace", 0o755),
];

/// Directories that belong to ordinary execs.
pub(crate) const EXEC_DIRECTORIES: [&str; 2] = ["/workspace", "/home/cell"];

/// Finds or makes the base below `bases`.
pub(crate) fn host_base(bases: &Path) -> io::Result<PathBuf> {
    make_once(bases, &format!("host-{:016x}", fingerprint()), make)
}

/// Finds or makes a directory below `bases`. Made in one step, so that no process sees half of it.
pub(crate) fn make_once(
    bases: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let base = bases.join(name);
    if base.is_dir() {
        return Ok(base);
    }
    // Two threads would write to the same directory.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if base.is_dir() {
        return Ok(base);
    }
    fs::create_dir_all(bases)?;
    let making = bases.join(format!("making-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&making);
    fs::create_dir(&making)?;
    fs::set_permissions(&making, fs::Permissions::from_mode(0o755))?;
    make(&making)?;
    match fs::rename(&making, &base) {
        Ok(()) => Ok(base),
        // Another process was quicker.
        Err(_) if base.is_dir() => {
            fs::remove_dir_all(&making)?;
            Ok(base)
        }
        Err(error) => Err(error),
    }
}

/// The layers of a cell on this base, with writes going below `files`.
pub(crate) fn layers(base: &Path, files: &Path, ids: &IdLayout) -> Vec<Layer> {
    let upper = |name: &str| Upper {
        data: files.join(name).join("data"),
        work: files.join(name).join("work"),
    };
    let mut layers = vec![Layer {
        target: PathBuf::from("/"),
        lowers: vec![Lower { path: base.to_owned(), ids: LowerIds::Image }],
        upper: Some(upper("root")),
        shared: None,
    }];
    for name in PROGRAMS {
        let host = Path::new("/").join(name);
        let is_directory = fs::symlink_metadata(&host).is_ok_and(|metadata| metadata.is_dir());
        if is_directory {
            // Without ids of its own nobody in the cell may write to what the host's root owns.
            let upper = match ids {
                IdLayout::Private { .. } => Some(upper(name)),
                IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
                    None
                }
            };
            let lowers = vec![Lower { path: host.clone(), ids: LowerIds::Image }];
            layers.push(Layer { target: host, lowers, upper, shared: None });
        }
    }
    layers
}

/// Makes the directories into which a cell's writes go, as the cell's own.
pub(crate) fn make_uppers(layers: &[Layer], ids: &IdLayout) -> io::Result<()> {
    for layer in layers {
        let Some(upper) = &layer.upper else { continue };
        // The top of a part has the owner of the directory for its writes.
        let is_for_execs = EXEC_DIRECTORIES.iter().any(|it| layer.target == Path::new(it));
        let top = if is_for_execs { ids.exec() } else { ids.supervisor() };
        for (directory, (uid, gid)) in [(&upper.data, top), (&upper.work, ids.supervisor())] {
            fs::create_dir_all(directory)?;
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
            chown(directory, Some(uid), Some(gid))?;
        }
    }
    Ok(())
}

/// Changes when what is copied from the host changes.
fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    3_u32.hash(&mut hasher); // The version of this file's lists.
    (starter() == Starter::Root).hash(&mut hasher); // Who has what is in it.
    for name in PROGRAMS {
        let path = Path::new("/").join(name);
        fs::read_link(&path).ok().hash(&mut hasher);
        path.is_dir().hash(&mut hasher);
    }
    for name in ETC {
        let path = Path::new("/etc").join(name);
        if let Ok(metadata) = fs::metadata(&path) {
            (name, metadata.mtime(), metadata.mtime_nsec(), metadata.size()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn make(base: &Path) -> io::Result<()> {
    for (name, mode) in DIRECTORIES {
        let path = base.join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    for name in PROGRAMS {
        let host = Path::new("/").join(name);
        if let Ok(target) = fs::read_link(&host) {
            symlink(target, base.join(name))?;
        } else if host.is_dir() {
            fs::create_dir(base.join(name))?;
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(0o755))?;
        }
    }
    for name in ETC {
        let from = Path::new("/etc").join(name);
        let to = base.join("etc").join(name);
        if from.symlink_metadata().is_ok() {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            copy(&from, &to)?;
        }
    }
    for (name, text) in WRITTEN {
        let path = base.join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    give_to_execs(base)
}

/// Gives execs the directories that are theirs.
pub(crate) fn give_to_execs(base: &Path) -> io::Result<()> {
    // Root of a user namespace need not have that id, and its cells have a map of their own.
    if starter() == Starter::Root {
        for directory in EXEC_DIRECTORIES {
            chown(base.join(&directory[1..]), Some(EXEC_ID), Some(EXEC_ID))?;
        }
    }
    Ok(())
}

/// Copies files, directories and links that everybody may read; the rest is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    let readable = |bit: u32| metadata.mode() & bit != 0;
    if metadata.is_symlink() {
        symlink(fs::read_link(from)?, to)
    } else if metadata.is_dir() && readable(0o005) {
        fs::create_dir_all(to)?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        Ok(())
    } else if metadata.is_file() && readable(0o004) {
        fs::copy(from, to)?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o644 | metadata.mode() & 0o111))
    } else {
        Ok(())
    }
}
