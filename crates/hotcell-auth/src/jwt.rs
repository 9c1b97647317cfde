//! A token as its issuer wrote it: head, claims and signature, as of RFC 7515 and 7519.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::jwk::Jwk;

/// Longer ones are not looked at.
const MOST_BYTES: usize = 16 * 1024;
/// Kinds of tokens that are for resource servers; many issuers name none, or the general one.
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

#[derive(Debug, Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Also one that is `null` is one.
    #[serde(default, deserialize_with = "given")]
    crit: bool,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// What a token says, of which nothing is known to be true yet.
#[derive(Debug)]
pub(crate) struct Unverified<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

/// What its issuer said.
pub(crate) type Claims = Map<String, Value>;

/// Whether a text can be such a token at all.
pub(crate) fn looks_like(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes().filter(|byte| *byte == b'.').count() == 2 && text.bytes().all(plain)
}

impl<'a> Unverified<'a> {
    /// Reads what stands before the signature, as far as is needed to check that.
    pub(crate) fn read(text: &'a str, allowed: &[Algorithm]) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("it is longer than {MOST_BYTES} bytes"));
        }
        let (signed, signature) = text.rsplit_once('.').ok_or("it has no signature")?;
        let (head, claims) = signed.split_once('.').ok_or("it has no claims")?;
        if claims.contains('.') {
            return Err("it has more than three parts".to_owned());
        }
        let head: Head = serde_json::from_slice(&decode("head", head)?)
            .map_err(|error| format!("its head is not understood: {error}"))?;
        // The list decides, and `none` and shared secrets can stand in none.
        let algorithm = allowed.iter().find(|one| one.as_str() == head.alg).copied();
        let algorithm = algorithm.ok_or_else(|| {
            format!("it is signed with {:?}, which is not allowed", cut(&head.alg))
        })?;
        if head.crit {
            return Err("it has extensions that must be understood".to_owned());
        }
        if let Some(kind) = &head.typ {
            let kind = kind.to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            if !TYPES.contains(&kind) {
                return Err(format!("it is a {:?}, which is for something else", cut(kind)));
            }
        }
        let signature = decode("signature", signature)?;
        Ok(Self { algorithm, key_id: head.kid, signed, claims, signature })
    }

    /// Its claims, if this key signed them.
    pub(crate) fn verify(&self, key: &Jwk) -> Result<Claims, String> {
        if !key.signed(self.algorithm, self.signed.as_bytes(), &self.signature) {
            return Err("its signature is wrong".to_owned());
        }
        serde_json::from_slice(&decode("claims", self.claims)?)
            .map_err(|error| format!("its claims are not understood: {error}"))
    }
}

fn decode(what: &str, text: &str) -> Result<Vec<u8>, String> {
    URL_SAFE_NO_PAD.decode(text).map_err(|error| format!("its {what} cannot be decoded: {error}"))
}

/// So much of what a stranger wrote is put into a log.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}
