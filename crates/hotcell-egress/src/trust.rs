//! Whom the host trusts: what is said to a host with a secret in it is said to that host alone.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Where systems keep the certificates that they trust, all in one file.
pub const BUNDLES: [&str; 6] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "etc/ssl/ca-bundle.pem",
    "etc/pki/tls/cacert.pem",
    "etc/ssl/cert.pem",
];

/// The certificates of whom the host trusts, or why they cannot be had.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    roots: Vec<CertificateDer<'static>>,
    lacking: Option<String>,
}

impl Trust {
    /// What the host trusts, and those of a file besides.
    #[must_use]
    pub fn of_host(besides: Option<&Path>) -> Self {
        let mut trust = Self::default();
        let bundle =
            BUNDLES.iter().map(|path| Path::new("/").join(path)).find(|path| path.is_file());
        match (&bundle, besides) {
            (None, None) => {
                trust.lacking = Some("this machine has no file of trusted certificates".to_owned())
            }
            (bundle, besides) => {
                let files: Vec<PathBuf> =
                    bundle.iter().cloned().chain(besides.map(Path::to_owned)).collect();
                for file in files {
                    match read(&file) {
                        Ok(roots) => trust.roots.extend(roots),
                        Err(why) => trust.lacking = Some(why),
                    }
                }
            }
        }
        trust
    }

    /// Those of a file and nobody else.
    #[must_use]
    pub fn of_file(file: &Path) -> Self {
        match read(file) {
            Ok(roots) => Self { roots, lacking: None },
            Err(why) => Self { roots: Vec::new(), lacking: Some(why) },
        }
    }

    /// The text of what the host trusts, and of a file besides.
    ///
    /// # Errors
    /// A file that is there cannot be read.
    pub fn text_of_host(besides: Option<&Path>) -> io::Result<String> {
        let bundles = BUNDLES.iter().map(|path| Path::new("/").join(path));
        let bundle = bundles.into_iter().find(|path| path.is_file());
        let mut text = String::new();
        for file in bundle.iter().map(PathBuf::as_path).chain(besides) {
            text.push_str(&std::fs::read_to_string(file)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// How hosts are spoken to, by HTTP/1.1 over TLS.
    ///
    /// # Errors
    /// Why it cannot be found out whom to trust.
    pub fn client(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(why) = &self.lacking {
            return Err(why.clone());
        }
        let mut roots = RootCertStore::empty();
        // A bundle may have one that is not understood, and needs not be.
        roots.add_parsable_certificates(self.roots.iter().cloned());
        let wrong = |error: &dyn fmt::Display| format!("cannot speak TLS: {error}");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn fmt::Display| {
        format!("cannot read certificates in {}: {error}", file.display())
    };
    let text = std::fs::read(file).map_err(|error| wrong(&error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong(&"there are none")),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(&error)),
    }
}
