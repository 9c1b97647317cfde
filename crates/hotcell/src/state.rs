//! The state directory: made private, and refused where nothing can be kept safely.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use hotcell_model::{Error, Result};
use rustix::fs::{Access, AtFlags};

/// The format of the state directory that this version reads and writes.
const FORMAT: u32 = 1;
/// The file that says in which format a state directory is.
const FORMAT_FILE: &str = "version";

/// File systems on which locks, sockets or overlays do not work, by the magic of `statfs`.
const UNFIT: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x5346_414f, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0187, "autofs"),
];

/// Makes the state directory if need be and checks that it can be used.
///
/// # Errors
/// `denied` where it cannot be written or belongs to another user, `unsupported` on a network file
/// system, `conflict` when a newer version of Hotcell has written it.
pub(crate) fn prepare(dir: &Path, uid: u32) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| refused("make", dir, &error))?;
    let metadata = std::fs::metadata(dir).map_err(|error| refused("open", dir, &error))?;
    check_file_system(dir)?;
    check_owner(dir, &metadata, uid)?;
    if metadata.mode() & 0o077 != 0 {
        std::fs::set_permissions(dir, Permissions::from_mode(0o700))
            .map_err(|error| refused("make private", dir, &error))?;
        tracing::warn!(dir = %dir.display(), "the state directory was open to others; now it is 0700");
    }
    rustix::fs::accessat(
        rustix::fs::CWD,
        dir,
        Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
        AtFlags::empty(),
    )
    .map_err(|error| refused("write to", dir, &error.into()))?;
    check_format(dir)
}

fn check_file_system(dir: &Path) -> Result<()> {
    let stat = rustix::fs::statfs(dir).map_err(|error| refused("examine", dir, &error.into()))?;
    // The kernel's magics have 32 bits; the field is wider on some machines and signed on others.
    let magic = stat.f_type as u32;
    refuse_unfit(dir, magic)
}

pub(crate) fn refuse_unfit(dir: &Path, magic: u32) -> Result<()> {
    match UNFIT.iter().find(|(unfit, _)| *unfit == magic) {
        None => Ok(()),
        Some((_, name)) => Err(Error::unsupported(format!(
            "the state directory {} is on {name}, where locks and cells do not work",
            dir.display()
        ))
        .hint("name a directory on a local disk with HOTCELL_STATE_DIR or --state-dir")),
    }
}

fn check_owner(dir: &Path, metadata: &Metadata, uid: u32) -> Result<()> {
    if metadata.uid() == uid {
        return Ok(());
    }
    Err(Error::denied(format!(
        "the state directory {} belongs to uid {}, not to uid {uid} that runs hotcell",
        dir.display(),
        metadata.uid()
    ))
    .hint("name a directory of your own with HOTCELL_STATE_DIR or --state-dir"))
}

fn check_format(dir: &Path) -> Result<()> {
    let path = dir.join(FORMAT_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return write_format(dir, &path),
        Err(error) => return Err(refused("read the version of", dir, &error)),
    };
    match text.trim().parse::<u32>() {
        Ok(format) if format <= FORMAT => Ok(()),
        Ok(format) => Err(Error::conflict(format!(
            "the state directory {} has format {format} of a newer hotcell; this one knows {FORMAT}",
            dir.display()
        ))
        .hint("use the newer hotcell, or another directory with HOTCELL_STATE_DIR")),
        Err(_) => Err(Error::conflict(format!(
            "the file {} holds {:?} where the format of the state directory should be",
            path.display(),
            text.chars().take(40).collect::<String>()
        ))
        .hint(format!(
            "if {} is hotcell's, write {FORMAT} into that file; otherwise name another directory \
             with HOTCELL_STATE_DIR",
            dir.display()
        ))),
    }
}

/// Renamed into place, so that no process sees half of it; all that race write the same.
fn write_format(dir: &Path, path: &Path) -> Result<()> {
    let draft = dir.join(format!(".{FORMAT_FILE}.{}", std::process::id()));
    std::fs::write(&draft, format!("{FORMAT}\n"))
        .and_then(|()| std::fs::rename(&draft, path))
        .map_err(|error| refused("write to", dir, &error))
}

fn refused(what: &str, dir: &Path, error: &io::Error) -> Error {
    let message = format!("cannot {what} the state directory {}: {error}", dir.display());
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let error = if full { Error::limit_exceeded(message) } else { Error::denied(message) };
    error.hint("name a directory that you can write to with HOTCELL_STATE_DIR or --state-dir")
}
