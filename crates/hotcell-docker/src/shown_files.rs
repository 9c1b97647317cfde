//! Small files that a container is shown instead of its image's: how names are found, and whom to
//! trust.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hotcell_jail::trusted::{BUNDLE, OWN_CERTIFICATE};
use hotcell_keeper::find_certificate;

use crate::paths::CellPaths;

/// What each says, whatever a cell may reach: nobody answers where nothing may be reached.
const TEXTS: [(&str, &str); 2] = [
    ("hosts", "127.0.0.1 localhost cell\n::1 localhost cell\n"),
    ("resolv.conf", "nameserver 127.64.0.1\n"),
];

/// Writes those that tell how names are found; each with where it is seen.
pub(crate) fn write_names(paths: &CellPaths) -> io::Result<Vec<(PathBuf, String)>> {
    for (name, text) in TEXTS {
        write(&paths.root().join(name), text.as_bytes())?;
    }
    Ok(names().map(|(name, target)| (paths.root().join(name), target)).collect())
}

/// What they are called, each with where it is seen.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, String)> {
    TEXTS.iter().map(|(name, _)| (*name, format!("/etc/{name}")))
}

/// Writes whom a cell is to trust: the bundle of its image, and the certificate of its own authority.
pub(crate) fn write_trust(paths: &CellPaths, bundle: Option<String>) -> io::Result<()> {
    let Some(certificate) = find_certificate(paths.kept())? else { return Ok(()) };
    let directory = paths.trust();
    fs::create_dir_all(&directory)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    let mut all = bundle.unwrap_or_default();
    if !all.is_empty() && !all.ends_with('\n') {
        all.push('\n');
    }
    all.push_str(&certificate);
    for (path, text) in [(BUNDLE, &all), (OWN_CERTIFICATE, &certificate)] {
        let name = Path::new(path).file_name().unwrap_or_default();
        write(&directory.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Whoever the container's user is on this side can read it.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(file, bytes)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o644))
}
