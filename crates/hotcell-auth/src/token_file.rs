//! Tokens in one file, of which only digests are kept.
//!
//! A token has 256 random bits, so nobody guesses one from its SHA-256: a slow hash, which makes
//! guessing passwords dear, would make nothing dearer here but each request.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_model::{
    AccessToken, Error, Result, Timestamp, TokenCreate, TokenCreated, TokenId, TokenName,
    TokenStore, TokenText,
};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::digest::{base32, hex, sha256};

const FILE: &str = "tokens.json";
const LOCK: &str = "tokens.lock";
/// The format that this version reads and writes.
const FORMAT: u32 = 1;
const SECRET_BYTES: usize = 32;
/// Tokens that there may be: each request looks through them.
const MOST: usize = 10_000;
/// What was read is believed this long at most, also if the file looks unchanged.
const BELIEVED: Duration = Duration::from_secs(1);
/// Uses are noted this coarsely: a file is written for it.
const USE_NOTED_MS: u64 = 10 * 60 * 1000;

/// One token as it lies in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    about: AccessToken,
    /// The SHA-256 of its secret part, in hexadecimal digits.
    sha256: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    version: u32,
    tokens: Vec<Kept>,
}

/// Which file was read: one that is replaced is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What was read, when, and from which file.
#[derive(Debug, Clone)]
struct Known {
    stamp: Option<Stamp>,
    read: Instant,
    tokens: Arc<Vec<Kept>>,
}

/// Tokens in a state directory.
#[derive(Debug)]
pub struct FileTokenStore {
    directory: PathBuf,
    known: Mutex<Option<Known>>,
    /// Uses that are not noted yet.
    used: Mutex<HashMap<TokenId, Timestamp>>,
}

impl FileTokenStore {
    /// The tokens of this state directory; the file is made with the first one.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self { directory: state_dir.to_owned(), known: Mutex::default(), used: Mutex::default() }
    }

    /// Whether a token was ever made here, also if all of them were revoked since.
    ///
    /// # Errors
    /// `unavailable` when it cannot be found out.
    pub fn is_used(&self) -> Result<bool> {
        self.file().try_exists().map_err(|error| self.failed("look for", &error))
    }

    fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> Error {
        Error::unavailable(format!("cannot {what} {}: {error}", self.file().display()))
            .hint("check the state directory with `hotcell doctor`")
    }

    /// The file as it is now.
    fn read(&self) -> Result<(Option<Stamp>, Contents)> {
        let mut file = match File::open(self.file()) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok((None, Contents::default()));
            }
            Err(error) => return Err(self.failed("read", &error)),
        };
        let metadata = file.metadata().map_err(|error| self.failed("read", &error))?;
        let mut text = String::new();
        io::Read::read_to_string(&mut file, &mut text)
            .map_err(|error| self.failed("read", &error))?;
        let contents: Contents =
            serde_json::from_str(&text).map_err(|error| self.failed("understand", &error))?;
        if contents.version != FORMAT {
            let other =
                format!("it has format {}, and this hotcell knows {FORMAT}", contents.version);
            return Err(self.failed("understand", &other).hint("use the hotcell that wrote it"));
        }
        Ok((Some(Stamp::of(&metadata)), contents))
    }

    /// The tokens, looked up again if the file was replaced, and each second.
    fn tokens(&self) -> Result<Arc<Vec<Kept>>> {
        let stamp = match fs::metadata(self.file()) {
            Ok(metadata) => Some(Stamp::of(&metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(self.failed("look at", &error)),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.is_believed(stamp)) {
            return Ok(Arc::clone(&known.tokens));
        }
        // Before it is read: what is replaced meanwhile is then seen the next time.
        let read = Instant::now();
        *known = None;
        let (stamp, contents) = self.read()?;
        let tokens = Arc::new(contents.tokens);
        *known = Some(Known { stamp, read, tokens: Arc::clone(&tokens) });
        Ok(tokens)
    }

    /// Changes what is kept, while nobody else does.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Kept>) -> Result<T>) -> Result<T> {
        let _lock = self.lock()?;
        let (_, mut contents) = self.read()?;
        let changed = change(&mut contents.tokens)?;
        contents.version = FORMAT;
        let bytes =
            serde_json::to_vec_pretty(&contents).map_err(|error| self.failed("write", &error))?;
        self.replace(&bytes).map_err(|error| self.failed("write", &error))?;
        Ok(changed)
    }

    fn lock(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let locked = options.open(self.directory.join(LOCK)).and_then(|file| {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| self.failed("lock", &error))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let fresh = self.directory.join("tokens.new");
        // One that somebody left who was killed is no longer of use.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, self.file())?;
        File::open(&self.directory)?.sync_all()
    }
}

impl Known {
    fn is_believed(&self, stamp: Option<Stamp>) -> bool {
        self.stamp == stamp && self.read.elapsed() < BELIEVED
    }
}

impl TokenStore for FileTokenStore {
    fn create(&self, request: &TokenCreate) -> Result<TokenCreated> {
        let scopes = request.granted()?;
        if request.name.as_ref().is_some_and(|name| name.as_str().parse::<TokenId>().is_ok()) {
            return Err(Error::invalid("a token's name cannot look like the id of one")
                .hint("choose a longer or shorter name"));
        }
        let mut secret = [0; SECRET_BYTES];
        let no_random = |error: getrandom::Error| {
            Error::unavailable(format!("the kernel gave no random bytes: {error}"))
        };
        getrandom::fill(&mut secret).map_err(no_random)?;
        let secret = base32(&secret);
        let bits = getrandom::u64().map_err(no_random)?;
        self.change(|tokens| {
            if tokens.len() >= MOST {
                return Err(Error::limit_exceeded(format!("there are {MOST} tokens"))
                    .hint("revoke some that are over or not used: `hotcell token list`"));
            }
            let mut bits = bits;
            let mut id = TokenId::from_random(bits);
            while tokens.iter().any(|kept| kept.about.id == id) {
                bits = bits.wrapping_add(1);
                id = TokenId::from_random(bits);
            }
            let name = request.name.clone().unwrap_or_else(|| TokenName::from(&id));
            if tokens.iter().any(|kept| kept.about.name == name) {
                return Err(Error::conflict(format!("there is a token {name}")).hint(format!(
                    "choose another name, or end that one with `hotcell token revoke {name}`"
                )));
            }
            let text = format!("{}{id}_{secret}", TokenText::PREFIX);
            let about = AccessToken {
                id,
                name,
                tenant: request.tenant.clone(),
                role: request.role,
                scopes,
                created_at: Timestamp::now(),
                expires_at: request.expires_at,
                last_used_at: None,
            };
            let sha256 = hex(&sha256(secret.as_bytes()));
            tokens.push(Kept { about: about.clone(), sha256 });
            Ok(TokenCreated { about, token: TokenText::new(text) })
        })
    }

    fn list(&self) -> Result<Vec<AccessToken>> {
        let (_, contents) = self.read()?;
        Ok(contents.tokens.into_iter().map(|kept| kept.about).collect())
    }

    fn revoke(&self, token: &TokenName) -> Result<AccessToken> {
        // Nothing is written, not even the lock, where no token ever was.
        let absent = || {
            Error::not_found(format!("there is no token {token}"))
                .hint("list tokens with `hotcell token list`")
        };
        if !self.is_used()? {
            return Err(absent());
        }
        self.change(|tokens| {
            let is_meant =
                |kept: &Kept| kept.about.id.as_str() == token.as_str() || kept.about.name == *token;
            let at = tokens.iter().position(is_meant).ok_or_else(absent)?;
            Ok(tokens.remove(at).about)
        })
    }

    fn recognise(&self, text: &str) -> Result<Option<AccessToken>> {
        let tokens = self.tokens()?;
        let parts = text.strip_prefix(TokenText::PREFIX).and_then(|rest| rest.split_once('_'));
        let (id, secret) = parts.unwrap_or_default();
        let given = hex(&sha256(secret.as_bytes()));
        let kept = tokens.iter().find(|kept| kept.about.id.as_str() == id);
        // A digest of nothing in the place of the one that is not there: the same work is done.
        let nobody = "0".repeat(2 * SECRET_BYTES);
        let expected = kept.map_or(&nobody, |kept| &kept.sha256);
        let is_right: bool = expected.as_bytes().ct_eq(given.as_bytes()).into();
        let now = Timestamp::now();
        let found = kept.filter(|kept| is_right && !kept.about.is_over(now));
        let Some(kept) = found else { return Ok(None) };
        let noted = kept.about.last_used_at.unwrap_or_default();
        if now.0.saturating_sub(noted.0) >= USE_NOTED_MS {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.insert(kept.about.id.clone(), now);
        }
        Ok(Some(kept.about.clone()))
    }

    fn is_live(&self, token: &TokenId) -> Result<bool> {
        let now = Timestamp::now();
        let tokens = self.tokens()?;
        Ok(tokens.iter().any(|kept| kept.about.id == *token && !kept.about.is_over(now)))
    }
    fn note_uses(&self) -> Result<()> {
        let used = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *used)
        };
        if used.is_empty() {
            return Ok(());
        }
        self.change(|tokens| {
            for kept in tokens {
                if let Some(at) = used.get(&kept.about.id) {
                    kept.about.last_used_at = Some(*at);
                }
            }
            Ok(())
        })
    }
}
