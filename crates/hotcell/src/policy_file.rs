//! The rules in force: a profile and the operator's file, read again whenever the file changes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_engine::Policies;
use hotcell_model::{Error, Result};
use hotcell_policy::{AllowedLines, Policy, PolicyError};

use crate::own_file;

/// A larger file is no file of rules.
const MOST_BYTES: u64 = 1 << 20;

/// A profile and a file of rules.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    profile: String,
    /// None when there are no rules but the profile's.
    path: Option<PathBuf>,
    /// The command lines that may be run, whatever the rules allow.
    lines: AllowedLines,
    read: Mutex<Read>,
}

/// What was read last.
#[derive(Debug)]
struct Read {
    /// The rules of the file, as far as they could be used.
    text: Option<String>,
    policy: Arc<Policy>,
    /// The state of the file that was looked at last, whether or not it could be used.
    seen: Option<Seen>,
}

/// By what a changed file is told from the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl PolicyFile {
    /// Reads the rules.
    ///
    /// # Errors
    /// `invalid` when the profile is not known, or the file cannot be read, can be written by others, or is
    /// not right.
    pub(crate) fn open(profile: &str, path: &Path, lines: AllowedLines) -> Result<Self> {
        let path = (!path.as_os_str().is_empty()).then(|| path.to_owned());
        let (seen, text) = match &path {
            Some(path) => {
                let (seen, text) = read(path).map_err(|error| unreadable(path, &error))?;
                (Some(seen), Some(text))
            }
            None => (None, None),
        };
        let policy = Policy::parse(text.as_deref(), profile).map_err(|error| unusable(&error))?;
        let policy = policy.with_lines(lines.clone());
        let read = Read { text, policy: Arc::new(policy), seen };
        Ok(Self { profile: profile.to_owned(), path, lines, read: Mutex::new(read) })
    }

    /// Looks at the file again, whether or not it seems to have changed.
    pub(crate) fn reload(&self) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).seen = None;
        self.in_force();
    }

    fn look(&self, path: &Path, kept: &mut Read) {
        let now = fs::metadata(path).map(|found| Seen::of(&found)).ok();
        if now == kept.seen && now.is_some() {
            return;
        }
        let was_missing = kept.seen.is_none();
        kept.seen = now;
        let told = match read(path) {
            Ok((seen, text)) => match Policy::parse(Some(&text), &self.profile) {
                Ok(policy) => {
                    let policy = policy.with_lines(self.lines.clone());
                    *kept = Read { text: Some(text), policy: Arc::new(policy), seen: Some(seen) };
                    tracing::info!(file = %path.display(), "the policy was read again");
                    return;
                }
                Err(error) => error.to_string(),
            },
            // It is told once that it is not there.
            Err(_) if now.is_none() && was_missing => return,
            Err(error) => error.to_string(),
        };
        tracing::error!(
            file = %path.display(),
            error = told,
            "the policy cannot be read, so the rules from before stay in force"
        );
    }
}

impl Policies for PolicyFile {
    fn in_force(&self) -> Arc<Policy> {
        let mut kept = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &self.path {
            self.look(path, &mut kept);
        }
        Arc::clone(&kept.policy)
    }

    fn by_profile(&self, profile: &str) -> std::result::Result<Policy, PolicyError> {
        self.in_force();
        let kept = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let policy = Policy::parse(kept.text.as_deref(), profile)?;
        Ok(policy.with_lines(self.lines.clone()))
    }
}

impl Seen {
    fn of(found: &fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

fn read(path: &Path) -> io::Result<(Seen, String)> {
    let (found, text) = own_file::read(path, MOST_BYTES)?;
    Ok((Seen::of(&found), text))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::invalid(format!("cannot read the policy {}: {error}", path.display()))
        .hint("policy.file names a file of rules; leave it out to have those of the profile alone")
}

pub(crate) fn unusable(error: &PolicyError) -> Error {
    Error::invalid(error.to_string()).hint(error.hint())
}
