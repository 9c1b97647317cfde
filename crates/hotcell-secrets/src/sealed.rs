//! How secrets lie in their file: a line that names the format, a nonce, and all of them sealed.

use std::collections::BTreeMap;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key as CipherKey, XChaCha20Poly1305, XNonce};
use hotcell_model::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::key::KEY_BYTES;

/// The first line; the number is that of the format.
const HEAD: &[u8] = b"hotcell secrets 1\n";
const NONCE_BYTES: usize = 24;

/// One secret.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) value: String,
    pub(crate) set_at: Timestamp,
}

/// All of them by name.
pub(crate) type All = BTreeMap<String, Kept>;

/// Why a file cannot be opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It is of a format that is not known here.
    Format,
    /// It was sealed with another key, or changed since.
    Key,
}

/// Seals secrets.
pub(crate) fn seal(key: &[u8; KEY_BYTES], all: &All) -> Result<Vec<u8>> {
    let failed = || Error::internal("secrets cannot be sealed");
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce)
        .map_err(|error| Error::unavailable(format!("the kernel gave no random bytes: {error}")))?;
    let plain = serde_json::to_vec(all).map_err(|_| failed())?;
    let sealed = cipher(key)
        .encrypt(&XNonce::from(nonce), Payload { msg: &plain, aad: HEAD })
        .map_err(|_| failed())?;
    Ok([HEAD, &nonce, &sealed].concat())
}

/// Opens what was sealed.
pub(crate) fn open(key: &[u8; KEY_BYTES], file: &[u8]) -> Result<All, Closed> {
    let rest = file.strip_prefix(HEAD).ok_or(Closed::Format)?;
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(Closed::Key)?;
    let plain = cipher(key)
        .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: HEAD })
        .map_err(|_| Closed::Key)?;
    serde_json::from_slice(&plain).map_err(|_| Closed::Format)
}

fn cipher(key: &[u8; KEY_BYTES]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&CipherKey::from(*key))
}
