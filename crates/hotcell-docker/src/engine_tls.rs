//! TLS towards an engine: whom it must be signed by, and who we are to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use hotcell_egress::Trust;
use hotcell_model::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// What is spoken by the files of a directory as `DOCKER_CERT_PATH` has it: only an engine that
/// `ca.pem` vouches for is trusted.
pub(crate) fn by_files(directory: &Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for root in certificates(&directory.join("ca.pem"))? {
        roots.add(root).map_err(|error| unusable(&directory.join("ca.pem"), &error))?;
    }
    let ours = certificates(&directory.join("cert.pem"))?;
    let key_file = directory.join("key.pem");
    let key = PrivateKeyDer::from_pem_slice(&content(&key_file)?)
        .map_err(|error| unusable(&key_file, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(directory, &error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(ours, key)
        .map_err(|error| unusable(&key_file, &error))?;
    Ok(Arc::new(config))
}

/// What is spoken with any site.
pub(crate) fn of_host() -> Result<Arc<ClientConfig>> {
    Trust::of_host(None).client().map_err(Error::unavailable)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = content(file)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(file, &"there is no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(file, &error)),
    }
}

fn content(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, why: &dyn fmt::Display) -> Error {
    Error::unavailable(format!(
        "cannot speak TLS with the Docker engine by {}: {why}",
        file.display()
    ))
    .hint("the directory has ca.pem, cert.pem and key.pem, as for `docker --tlsverify`")
}
