//! The public keys of an issuer, as of RFC 7517 and 8037.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

use crate::algorithm::Algorithm;

/// Keys of one issuer that are looked at.
const MOST_KEYS: usize = 64;
/// A point of a curve that is written whole begins with this.
const WHOLE_POINT: u8 = 4;

/// What a public key is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A public key with which an issuer's signatures are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Jwk {
    id: Option<String>,
    /// The one algorithm that it is for, if its issuer says so.
    only_for: Option<String>,
    material: Material,
}

#[derive(Debug, Deserialize)]
struct Written {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WrittenSet {
    keys: Vec<Value>,
}

/// The keys of a set that can check signatures; those that cannot, or are not understood, are left
/// out, as the RFC says.
pub(crate) fn read_set(bytes: &[u8]) -> Result<Vec<Jwk>, String> {
    let set: WrittenSet =
        serde_json::from_slice(bytes).map_err(|error| format!("it is no set of keys: {error}"))?;
    Ok(set.keys.into_iter().take(MOST_KEYS).filter_map(read).collect())
}

fn read(written: Value) -> Option<Jwk> {
    let written: Written = serde_json::from_value(written).ok()?;
    let is_for_signatures = written.used_for.as_deref().is_none_or(|used| used == "sig")
        && written.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
    if !is_for_signatures {
        return None;
    }
    let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
    let point = |length: usize| {
        let (x, y) = (bytes(&written.x)?, bytes(&written.y)?);
        (x.len() == length && y.len() == length).then(|| [vec![WHOLE_POINT], x, y].concat())
    };
    let material = match (written.kty.as_str(), written.crv.as_deref()) {
        ("RSA", _) => Material::Rsa { n: plain(bytes(&written.n)?), e: plain(bytes(&written.e)?) },
        ("EC", Some("P-256")) => Material::P256(point(32)?),
        ("EC", Some("P-384")) => Material::P384(point(48)?),
        ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&written.x)?),
        // Also `oct`: a shared secret is no public key.
        (_, _) => return None,
    };
    Some(Jwk { id: written.kid, only_for: written.alg, material })
}

/// A number without zeros before it.
fn plain(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|byte| *byte == 0).collect()
}

impl Jwk {
    /// Whether it is the key of this name.
    pub(crate) fn is_named(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// Whether it can check signatures of this kind. A key is of one kind whatever a token says:
    /// so a public key is never taken for a shared secret.
    pub(crate) fn is_for(&self, algorithm: Algorithm) -> bool {
        let fits = match (algorithm, &self.material) {
            (
                Algorithm::Rs256
                | Algorithm::Rs384
                | Algorithm::Rs512
                | Algorithm::Ps256
                | Algorithm::Ps384
                | Algorithm::Ps512,
                Material::Rsa { .. },
            )
            | (Algorithm::Es256, Material::P256(_))
            | (Algorithm::Es384, Material::P384(_))
            | (Algorithm::EdDsa, Material::Ed25519(_)) => true,
            (_, _) => false,
        };
        let own_name = |only: &str| {
            only == algorithm.as_str() || (algorithm == Algorithm::EdDsa && only == "Ed25519")
        };
        fits && self.only_for.as_deref().is_none_or(own_name)
    }

    /// Whether this is its signature under a message.
    pub(crate) fn signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.is_for(algorithm) {
            return false;
        }
        match &self.material {
            Material::Rsa { n, e } => rsa(algorithm).is_some_and(|parameters| {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }),
            Material::P256(point) => check(&ECDSA_P256_SHA256_FIXED, point, message, signature),
            Material::P384(point) => check(&ECDSA_P384_SHA384_FIXED, point, message, signature),
            Material::Ed25519(key) => check(&ED25519, key, message, signature),
        }
    }
}

fn check(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
}

/// Keys of fewer than 2,048 bits are refused with it.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
        Algorithm::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
        Algorithm::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}
