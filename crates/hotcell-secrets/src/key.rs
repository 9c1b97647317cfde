//! The key file.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use hotcell_model::{Error, Result};
use rustix::process::geteuid;

pub(crate) const KEY_BYTES: usize = 32;
/// Whoever else may read the key can open the secrets.
const OTHERS: u32 = 0o077;

/// A file that holds a key of 32 bytes, and what is said of it where it cannot be used.
#[derive(Debug, Clone, Copy)]
pub struct KeyFile<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// The setting that names it.
    pub setting: &'static str,
    /// What to do if others have read it.
    pub if_seen: &'static str,
}

impl KeyFile<'_> {
    /// Reads the key; none when there is no such file.
    ///
    /// # Errors
    /// `denied` when others can read it, `invalid` when it holds no key, `unavailable` when it cannot
    /// be read.
    pub fn find(&self) -> Result<Option<[u8; KEY_BYTES]>> {
        let Self { path, setting, if_seen } = *self;
        let shown = path.display();
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Error::unavailable(format!(
                    "cannot open the key file {shown}: {error}"
                ))
                .hint(format!("{setting} names the file")));
            }
        };
        let unreadable =
            |error| Error::unavailable(format!("cannot read the key file {shown}: {error}"));
        let found = file.metadata().map_err(unreadable)?;
        let (owner, own) = (found.uid(), geteuid().as_raw());
        if owner != own && owner != 0 {
            return Err(Error::denied(format!(
                "the key file {shown} belongs to user {owner}, who can read it; this is user {own}"
            ))
            .hint(format!("`chown {own} {shown}`; if others have read it, {if_seen}")));
        }
        if found.mode() & OTHERS != 0 {
            return Err(Error::denied(format!("others may read the key file {shown}"))
                .hint(format!("`chmod 600 {shown}`; if others have read it, {if_seen}")));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unreadable)?;
        decode(text.trim()).map(Some).ok_or_else(|| {
            Error::invalid(format!("the key file {shown} holds no key"))
                .hint("it has 64 hexadecimal digits; a new one is made where there is none")
        })
    }

    /// Makes a key where there is none. Of several who do so at once one wins, and all have its key:
    /// the file is there whole or not at all.
    ///
    /// # Errors
    /// `unavailable` when the file cannot be made.
    pub fn make(&self) -> Result<[u8; KEY_BYTES]> {
        let Self { path, setting, .. } = *self;
        let failed = |error: std::io::Error| {
            Error::unavailable(format!("cannot make the key file {}: {error}", path.display()))
                .hint(format!("{setting} names the file"))
        };
        let mut key = [0; KEY_BYTES];
        random(&mut key)?;
        let directory = match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            Some(_) | None => Path::new("."),
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let mut tail = [0; 8];
        random(&mut tail)?;
        let draft = directory.join(format!(".key-{}", encode(&tail)));
        let linked = write_new(&draft, &key).and_then(|()| fs::hard_link(&draft, path));
        // One that was not made needs not be removed.
        let _ = fs::remove_file(&draft);
        match linked {
            Ok(()) => {
                File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
                Ok(key)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.find()?.ok_or_else(|| failed(error))
            }
            Err(error) => Err(failed(error)),
        }
    }
}

fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes)
        .map_err(|error| Error::unavailable(format!("the kernel gave no random bytes: {error}")))
}

fn write_new(path: &Path, key: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{}\n", encode(key)).as_bytes())?;
    file.sync_all()
}

fn encode(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}
