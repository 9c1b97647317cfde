//! Certificates that the programs of a cell are to trust: files that nobody in it can change.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat};
use rustix::mount::MountAttrFlags;

use crate::mounts::{Depth, attach, fresh, make_read_only};
use crate::{Step, StepError};

/// Where they are.
pub const TRUSTED_PLACE: &str = "/dev/hotcell";
/// The certificate of the cell's own authority.
pub const OWN_CERTIFICATE: &str = "/dev/hotcell/authority.pem";
/// All that the cell trusts otherwise, and that certificate.
pub const BUNDLE: &str = "/dev/hotcell/bundle.pem";

const DIRECTORY: &str = "dev/hotcell";
/// A bundle has a quarter of it; what is longer is none.
const MOST_BYTES: u64 = 4 << 20;
const OPTIONS: [(&str, &str); 3] = [("size", "8388608"), ("nr_inodes", "8"), ("mode", "755")];

/// What a cell is to trust besides.
#[derive(Debug, Clone, Copy)]
pub struct Trusted<'a> {
    /// The certificate of its authority, in PEM.
    pub certificate: &'a str,
    /// Where a bundle may lie in the cell, without the first `/`; the first that is there counts.
    pub bundles: &'a [&'a str],
}

/// Puts the files into `/dev` of the new root, which is the current directory.
pub(crate) fn put(trusted: &Trusted<'_>) -> Result<(), StepError> {
    let name = || format!("make /{DIRECTORY}");
    let mut bundle = trusted.bundles.iter().find_map(|path| read(path).ok()).unwrap_or_default();
    if !bundle.is_empty() && bundle.last() != Some(&b'\n') {
        bundle.push(b'\n');
    }
    bundle.extend_from_slice(trusted.certificate.as_bytes());
    rustix::fs::mkdir(DIRECTORY, Mode::from_raw_mode(0o755)).step(name)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fresh("tmpfs", &OPTIONS, attributes)?;
    attach(mount.as_fd(), Path::new(DIRECTORY))?;
    write(BUNDLE, &bundle).step(name)?;
    write(OWN_CERTIFICATE, trusted.certificate.as_bytes()).step(name)?;
    make_read_only(mount.as_fd(), Depth::This).step(name)
}

/// A file of the new root. The cell may have put anything in its place: no link leads out of the
/// root, and nothing but a file is read.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?);
    let status = fstat(&file)?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if !is_file || u64::try_from(status.st_size).is_ok_and(|size| size > MOST_BYTES) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write(path: &str, bytes: &[u8]) -> io::Result<()> {
    let relative = path.trim_start_matches('/');
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let file = rustix::fs::openat(CWD, relative, flags, mode)?;
    rustix::fs::fchmod(&file, mode)?;
    File::from(file).write_all(bytes)
}
