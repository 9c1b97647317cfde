//! The authority of a cell that uses secrets as headers, as it lies in the cell's directory: its
//! certificate for the cell, and its key for the carrier alone.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hotcell_egress::AuthorityFile;
use hotcell_model::{CellSpec, Error, HostName, Result, SecretForm};
use hotcell_place::read_json;

use crate::KeptPlace;

/// The hosts that requests of a cell get a secret for.
fn hosts(spec: &CellSpec) -> Vec<HostName> {
    let mut hosts: Vec<HostName> = spec
        .secrets
        .iter()
        .filter_map(|grant| match &grant.form {
            SecretForm::Header(form) => Some(form),
            SecretForm::Env { .. } => None,
        })
        .flat_map(|form| form.destinations.iter().map(|to| to.name.clone()))
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// Makes the authority of a cell that needs one and has none.
///
/// # Errors
/// It cannot be made or written down.
pub fn ensure_authority(place: KeptPlace<'_>, spec: &CellSpec) -> Result<()> {
    let hosts = hosts(spec);
    if hosts.is_empty() || place.certificate().exists() {
        return Ok(());
    }
    let made = AuthorityFile::make(&format!("hotcell {}", spec.id), &hosts)?;
    let failed = |error: io::Error| {
        let directory = place.directory().display();
        Error::unavailable(format!("cannot write the authority of {directory}: {error}"))
    };
    let key = serde_json::to_vec(&made).map_err(|error| failed(error.into()))?;
    // The certificate last: where it is, the key is.
    write_own(&place.authority(), &key).map_err(failed)?;
    write_own(&place.certificate(), made.certificate.as_bytes()).map_err(failed)
}

/// The certificate, for a cell that has an authority.
///
/// # Errors
/// It is there and cannot be read.
pub fn find_certificate(place: KeptPlace<'_>) -> io::Result<Option<String>> {
    match std::fs::read_to_string(place.certificate()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// The whole, for the carrier.
pub(crate) fn find(place: KeptPlace<'_>) -> io::Result<Option<AuthorityFile>> {
    read_json(&place.authority())
}

/// Writes what nobody but its owner may read, in one step.
fn write_own(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let _ = std::fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    std::fs::rename(&temporary, path)
}
