//! Whom a client that trusts a cell's authority believes, and whom it does not.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_model::HostName;
use rcgen::{CertificateParams, DistinguishedName, DnType, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::authority::{Authority, AuthorityFile};
use crate::intercept::why_not_inside;

fn host(name: &str) -> HostName {
    name.parse().unwrap()
}

fn trusting(file: &AuthorityFile) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(file.certificate.as_bytes()).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// What both sides make of a handshake.
async fn handshake(
    file: &AuthorityFile,
    stands_for: &str,
    asked: &str,
    client: ClientConfig,
) -> (io::Result<()>, io::Result<()>) {
    let authority = Authority::open(file).unwrap();
    let server = TlsAcceptor::from(authority.stand_for(&host(stands_for)).unwrap());
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from(asked.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::new(client));
    let connecting = async {
        let mut connected = connector.connect(name, theirs).await?;
        tokio::io::AsyncWriteExt::write_all(&mut connected, b"x").await?;
        Ok(connected)
    };
    let (connected, accepted) = tokio::join!(connecting, server.accept(ours));
    (connected.map(drop), accepted.map(drop))
}

#[tokio::test]
async fn a_client_that_trusts_it_believes_it_for_its_hosts_alone() {
    let file = AuthorityFile::make("hotcell c_1", &[host("a.test"), host("b.test")]).unwrap();
    for name in ["a.test", "b.test"] {
        let (connected, accepted) = handshake(&file, name, name, trusting(&file)).await;
        accepted.unwrap();
        connected.unwrap();
    }
    // One that would stand for a host it was not made for is not believed.
    let (connected, _) = handshake(&file, "other.test", "other.test", trusting(&file)).await;
    assert!(connected.unwrap_err().to_string().contains("certificate"));
    // Another cell's is not.
    let other = AuthorityFile::make("hotcell c_2", &[host("a.test")]).unwrap();
    let (connected, accepted) = handshake(&file, "a.test", "a.test", trusting(&other)).await;
    connected.unwrap_err();
    let why = why_not_inside(&accepted.unwrap_err(), &host("a.test"));
    assert!(why.contains("refused the certificate") && why.contains("pins"), "{why}");
    // What is written down is the same authority.
    let stored: AuthorityFile =
        serde_json::from_str(&serde_json::to_string(&file).unwrap()).unwrap();
    handshake(&stored, "a.test", "a.test", trusting(&file)).await.0.unwrap();
    assert!(!format!("{file:?}").contains("key"));
}

#[tokio::test]
async fn it_stands_for_no_other_name_and_speaks_nothing_but_http_1() {
    let file = AuthorityFile::make("hotcell c_1", &[host("a.test"), host("b.test")]).unwrap();
    let (connected, accepted) = handshake(&file, "a.test", "b.test", trusting(&file)).await;
    connected.unwrap_err();
    let why = why_not_inside(&accepted.unwrap_err(), &host("a.test"));
    assert!(why.contains("another name"), "{why}");
    let mut two = trusting(&file);
    two.alpn_protocols = vec![b"h2".to_vec()];
    let (connected, accepted) = handshake(&file, "a.test", "a.test", two).await;
    connected.unwrap_err();
    let why = why_not_inside(&accepted.unwrap_err(), &host("a.test"));
    assert!(why.contains("HTTP/1.1"), "{why}");
}

/// What a client that trusts an authority makes of whoever has its key and stands for a name.
async fn with_the_key(file: &AuthorityFile, name: &str) -> io::Result<()> {
    let stored = serde_json::to_value(file).unwrap();
    let key = STANDARD.decode(stored["key"].as_str().unwrap()).unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, file.name.as_str());
    let issuer = Issuer::new(authority, KeyPair::try_from(key).unwrap());
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
    let leaf_key = PrivatePkcs8KeyDer::from(leaf_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], leaf_key.into())
        .unwrap();
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let connector = TlsConnector::from(Arc::new(trusting(file)));
    let connecting = connector.connect(ServerName::try_from(name.to_owned()).unwrap(), theirs);
    let acceptor = TlsAcceptor::from(Arc::new(server));
    tokio::join!(connecting, acceptor.accept(ours)).0.map(drop)
}

#[tokio::test]
async fn whoever_has_its_key_can_stand_for_no_address_and_no_other_name() {
    let file = AuthorityFile::make("hotcell c_1", &[host("a.test")]).unwrap();
    for name in ["a.test", "below.a.test"] {
        with_the_key(&file, name).await.unwrap();
    }
    for name in ["other.test", "nota.test", "127.0.0.1", "10.0.0.1", "::1", "2001:db8::1"] {
        let refused = with_the_key(&file, name).await.unwrap_err().to_string();
        assert!(refused.contains("NameConstraint"), "{name}: {refused}");
    }
}
