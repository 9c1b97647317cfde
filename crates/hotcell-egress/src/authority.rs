//! The authority of one cell: it stands for the hosts that get a secret as a header, so that what
//! the cell sends them can be added to. The cell trusts its certificate; its key stays outside.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_model::{Error, HostName, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Clocks differ, and jump.
const BEFORE: Duration = DAY;
const AUTHORITY_FOR: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
const LEAF_FOR: Duration = Duration::from_secs(90 * 24 * 3600);
/// When a certificate for a name is made anew.
const LEAF_KEPT: Duration = DAY;
/// Longer ones are cut into lines.
const LINE: usize = 64;

/// An authority as it is written down on the host's side. The key is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorityFile {
    /// What it is called in its certificate.
    pub name: String,
    /// Its certificate, in PEM.
    pub certificate: String,
    key: String,
}

impl fmt::Debug for AuthorityFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorityFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl AuthorityFile {
    /// A new one, which can stand for these hosts and what is below them, for no other name and for
    /// no address.
    ///
    /// # Errors
    /// `unavailable` when it cannot be made.
    pub fn make(name: &str, hosts: &[HostName]) -> Result<Self> {
        let made = || -> std::result::Result<Self, rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut params = authority_params(name);
            let permitted = hosts.iter().map(|host| GeneralSubtree::DnsName(host.to_string()));
            params.name_constraints = Some(NameConstraints {
                permitted_subtrees: permitted.collect(),
                // What says nothing of addresses allows them all.
                excluded_subtrees: vec![
                    GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([0; 4], 0)),
                    GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix([0; 16], 0)),
                ],
            });
            let certificate = params.self_signed(&key)?;
            Ok(Self {
                name: name.to_owned(),
                certificate: pem(certificate.der()),
                key: STANDARD.encode(key.serialized_der()),
            })
        };
        made().map_err(|error| {
            Error::unavailable(format!("cannot make the authority of the cell: {error}"))
        })
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = called(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_for(&mut params, AUTHORITY_FOR);
    params
}

fn called(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn valid_for(params: &mut CertificateParams, time: Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(BEFORE);
    params.not_after = date_time_ymd(1970, 1, 1) + now + time;
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(LINE.min(rest.len()));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// An authority at work.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    leaf_key: KeyPair,
    made: Mutex<HashMap<HostName, (Instant, Arc<ServerConfig>)>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    pub(crate) fn open(file: &AuthorityFile) -> std::result::Result<Self, String> {
        use rustls::pki_types::pem::PemObject;
        let wrong = |error: &dyn fmt::Display| format!("the cell's authority is damaged: {error}");
        let key = STANDARD.decode(&file.key).map_err(|error| wrong(&error))?;
        let key = KeyPair::try_from(key).map_err(|error| wrong(&error))?;
        let certificate = CertificateDer::from_pem_slice(file.certificate.as_bytes())
            .map_err(|error| wrong(&error))?;
        Ok(Self {
            issuer: Issuer::new(authority_params(&file.name), key),
            certificate,
            leaf_key: KeyPair::generate().map_err(|error| wrong(&error))?,
            made: Mutex::default(),
        })
    }

    /// How a host is stood for, with a certificate that is made for its name.
    pub(crate) fn stand_for(
        &self,
        host: &HostName,
    ) -> std::result::Result<Arc<ServerConfig>, String> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, config)) = made.get(host)
            && at.elapsed() < LEAF_KEPT
        {
            return Ok(Arc::clone(config));
        }
        let wrong = |error: &dyn fmt::Display| format!("no certificate for {host}: {error}");
        let mut params =
            CertificateParams::new(vec![host.to_string()]).map_err(|error| wrong(&error))?;
        params.distinguished_name = called(&format!("{host} (hotcell)"));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, LEAF_FOR);
        let leaf = params.signed_by(&self.leaf_key, &self.issuer).map_err(|error| wrong(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let key = provider.key_provider.load_private_key(key).map_err(|error| wrong(&error))?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let certified = Arc::new(CertifiedKey::new(chain, key));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(OneHost { host: host.clone(), certified }));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        made.insert(host.clone(), (Instant::now(), Arc::clone(&config)));
        Ok(config)
    }
}

/// Stands for one host, and for no other that a client names.
#[derive(Debug)]
struct OneHost {
    host: HostName,
    certified: Arc<CertifiedKey>,
}

impl ResolvesServerCert for OneHost {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_meant =
            hello.server_name().is_none_or(|name| name.eq_ignore_ascii_case(self.host.as_str()));
        is_meant.then(|| Arc::clone(&self.certified))
    }
}
