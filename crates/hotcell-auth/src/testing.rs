//! Keys that sign, and an issuer that answers over HTTP on this machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hotcell_model::{Role, Tenant, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::algorithm::Algorithm;
use crate::settings::{OidcSettings, RoleRule, ScopeRule, TenantRule};

pub(crate) const AUDIENCE: &str = "https://cells.example.org/mcp";

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

/// A key of an issuer.
pub(crate) struct Signer {
    id: &'static str,
    pair: Pair,
}

impl Signer {
    pub(crate) fn ed25519(id: &'static str) -> Self {
        let bytes = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id, pair: Pair::Ed25519(Ed25519KeyPair::from_pkcs8(bytes.as_ref()).unwrap()) }
    }

    pub(crate) fn p256(id: &'static str) -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let bytes = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(kind, bytes.as_ref(), &random).unwrap();
        Self { id, pair: Pair::P256(pair) }
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Ed25519(_) => "EdDSA",
            Pair::P256(_) => "ES256",
        }
    }

    /// Its public half.
    pub(crate) fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Ed25519(pair) => json!({
                "kty": "OKP", "crv": "Ed25519", "kid": self.id, "use": "sig",
                "x": encode(pair.public_key()),
            }),
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "x": encode(x), "y": encode(y) })
            }
        }
    }

    /// A token with this head and these claims.
    pub(crate) fn sign_as(&self, head: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
        let signature = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
            Pair::P256(pair) => {
                pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec()
            }
        };
        format!("{signed}.{}", encode(signature))
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let head = json!({ "alg": self.algorithm(), "kid": self.id, "typ": "at+jwt" });
        self.sign_as(&head, claims)
    }
}

pub(crate) fn settings(issuer: &str) -> OidcSettings {
    OidcSettings {
        issuer: issuer.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        jwks_url: None,
        algorithms: Algorithm::ALL.to_vec(),
        leeway: Duration::from_secs(30),
        principal_claim: "sub".to_owned(),
        tenant: TenantRule::Fixed(Tenant::default()),
        role: RoleRule::Fixed(Role::Agent),
        scopes: ScopeRule::Claimed,
        scope_prefix: "hotcell:".to_owned(),
        required_scopes: Vec::new(),
        keys_kept: Duration::from_secs(300),
        resource: None,
        ca_file: None,
        nameservers: Vec::new(),
    }
}

/// Claims that are in order now.
pub(crate) fn claims(issuer: &str) -> Value {
    let now = Timestamp::now().0 / 1000;
    json!({
        "iss": issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "nbf": now, "exp": now + 300,
        "scope": "openid hotcell:read hotcell:run",
    })
}

/// An issuer that describes itself and shows its keys.
pub(crate) struct TestIssuer {
    pub(crate) url: String,
    keys: Arc<Mutex<Value>>,
    asked: Arc<Mutex<u32>>,
    serving: JoinSet<()>,
}

impl TestIssuer {
    pub(crate) async fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (shown, asked) = (Arc::new(Mutex::new(json!([]))), Arc::new(Mutex::new(0)));
        let mut serving = JoinSet::new();
        serving.spawn(answer(listener, url.clone(), Arc::clone(&shown), Arc::clone(&asked)));
        let issuer = Self { url, keys: shown, asked, serving };
        issuer.show(keys);
        issuer
    }

    /// Shows these keys from now on.
    pub(crate) fn show(&self, keys: &[&Signer]) {
        *self.keys.lock().unwrap() = keys.iter().map(|key| key.jwk()).collect();
    }

    /// How often its keys were asked for.
    pub(crate) fn asked(&self) -> u32 {
        *self.asked.lock().unwrap()
    }

    pub(crate) async fn stop(&mut self) {
        self.serving.shutdown().await;
    }
}

async fn answer(
    listener: TcpListener,
    url: String,
    keys: Arc<Mutex<Value>>,
    asked: Arc<Mutex<u32>>,
) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let body = match head.split(' ').nth(1).unwrap() {
            "/.well-known/openid-configuration" => {
                json!({ "issuer": url, "jwks_uri": format!("{url}/keys") }).to_string()
            }
            "/keys" => {
                *asked.lock().unwrap() += 1;
                json!({ "keys": *keys.lock().unwrap() }).to_string()
            }
            _ => String::new(),
        };
        let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}
