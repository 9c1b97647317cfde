//! Files for a container of another machine, as an archive.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bollard::query_parameters::UploadToContainerOptionsBuilder;
use bytes::Bytes;
use futures_util::stream;
use hotcell_model::{Error, Result};

use crate::docker_host::DockerHost;

const BLOCK: usize = 512;
const PIECE_BYTES: usize = 256 << 10;

/// Small files that go together.
pub(super) struct Bundle {
    archive: tar::Builder<Vec<u8>>,
    paths: Vec<String>,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle").finish_non_exhaustive()
    }
}

impl Bundle {
    pub(super) fn new() -> Self {
        let mut archive = tar::Builder::new(Vec::new());
        archive.follow_symlinks(false);
        Self { archive, paths: Vec::new() }
    }

    /// A directory; whoever may look into it says its mode.
    pub(super) fn directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        let mut header = header(0, mode);
        self.paths.push(path.to_owned());
        header.set_entry_type(tar::EntryType::Directory);
        self.archive.append_data(&mut header, format!("{path}/"), io::empty())
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let mut header = header(bytes.len() as u64, mode);
        self.paths.push(path.to_owned());
        self.archive.append_data(&mut header, path, bytes)
    }

    /// A file of this machine, if it is there.
    pub(super) fn file_of(&mut self, path: &str, mode: u32, from: &Path) -> io::Result<()> {
        match fs::read(from) {
            Ok(bytes) => self.file(path, mode, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A directory of this machine with all that is in it, for everybody to read.
    pub(super) fn tree(&mut self, path: &str, from: &Path) -> io::Result<()> {
        self.directory(path, 0o755)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let name = format!("{path}/{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.tree(&name, &entry.path())?;
            } else if kind.is_symlink() {
                let mut header = header(0, 0o777);
                header.set_entry_type(tar::EntryType::Symlink);
                self.paths.push(name.clone());
                self.archive.append_link(&mut header, &name, fs::read_link(entry.path())?)?;
            } else if kind.is_file() {
                let mode = entry.metadata()?.permissions().mode() & 0o111 | 0o644;
                self.file_of(&name, mode, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Every path in it.
    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Sends it to a directory of a container.
    pub(super) async fn send(self, host: &DockerHost, container: &str, to: &str) -> Result<()> {
        let archive = self.archive.into_inner().map_err(|error| {
            Error::internal(format!("cannot make an archive in memory: {error}"))
        })?;
        let options = UploadToContainerOptionsBuilder::default().path(to).build();
        let archive = bollard::body_full(archive.into());
        let sent = host.docker.upload_to_container(container, Some(options), archive).await;
        sent.map_err(|error| host.failed("copy files for a cell", &error))
    }
}

fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

/// Sends one large file to a directory of a container, without having it in memory.
pub(super) async fn send_file(
    host: &DockerHost,
    container: &str,
    (to, name): (&str, &str),
    from: File,
    mode: u32,
) -> Result<()> {
    let failed = |error: io::Error| Error::unavailable(format!("cannot read {name}: {error}"));
    let size = from.metadata().map_err(failed)?.len();
    let mut header = header(size, mode);
    header.set_path(name).map_err(failed)?;
    header.set_cksum();
    let head = Bytes::copy_from_slice(header.as_bytes());
    let padding = size.next_multiple_of(BLOCK as u64) - size + 2 * BLOCK as u64;
    let parts = stream::unfold(Parts { head: Some(head), from: Some(from), padding }, next_part);
    let options = UploadToContainerOptionsBuilder::default().path(to).build();
    let body = bollard::body_try_stream(parts);
    let sent = host.docker.upload_to_container(container, Some(options), body).await;
    sent.map_err(|error| host.failed("copy the program for cells", &error))
}

struct Parts {
    head: Option<Bytes>,
    from: Option<File>,
    padding: u64,
}

async fn next_part(mut parts: Parts) -> Option<(io::Result<Bytes>, Parts)> {
    if let Some(head) = parts.head.take() {
        return Some((Ok(head), parts));
    }
    if let Some(from) = &mut parts.from {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        match from.take(PIECE_BYTES as u64).read_to_end(&mut piece) {
            Ok(0) => parts.from = None,
            Ok(_) => return Some((Ok(piece.into()), parts)),
            Err(error) => return Some((Err(error), parts)),
        }
    }
    let padding = usize::try_from(std::mem::take(&mut parts.padding)).ok()?;
    (padding > 0).then(|| (Ok(vec![0; padding].into()), parts))
}
