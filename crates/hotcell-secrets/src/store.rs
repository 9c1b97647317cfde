//! Where secrets are had from.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hotcell_model::{
    Error, Result, Secret, SecretName, SecretSource, SecretStore, SecretValue, Tenant, Timestamp,
};
use rustix::fs::{FlockOperation, flock};

use crate::image::leave_no_image;
use crate::key::KeyFile;
use crate::sealed::{All, Closed, Kept, open, seal};

/// A secret whose value is not kept here.
#[derive(Debug, Clone)]
pub enum ElsewhereSource {
    /// A variable, and its value where it is set.
    Env {
        /// The variable's name.
        variable: String,
        /// Its value.
        value: Option<SecretValue>,
    },
    /// A file that holds the value, with or without a newline at its end.
    File(PathBuf),
}

/// Secrets in a directory, and those that the operator has elsewhere.
#[derive(Debug)]
pub struct SealedStore {
    directory: PathBuf,
    key_file: PathBuf,
    elsewhere: BTreeMap<SecretName, ElsewhereSource>,
}

impl SealedStore {
    /// Secrets in this directory, which is made when the first one is set, as its key is.
    #[must_use]
    pub fn new(
        directory: PathBuf,
        key_file: PathBuf,
        elsewhere: BTreeMap<SecretName, ElsewhereSource>,
    ) -> Self {
        let has_value = |source: &ElsewhereSource| match source {
            ElsewhereSource::Env { value, .. } => value.is_some(),
            ElsewhereSource::File(_) => false,
        };
        if elsewhere.values().any(has_value) {
            leave_no_image();
        }
        Self { directory, key_file, elsewhere }
    }

    fn file(&self) -> PathBuf {
        self.directory.join("secrets.sealed")
    }

    fn key(&self) -> KeyFile<'_> {
        KeyFile {
            path: &self.key_file,
            setting: "secrets.key_file",
            if_seen: "set the secrets anew",
        }
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Error {
        Error::unavailable(format!("cannot {what} {}: {error}", self.file().display()))
            .hint("check the state directory with `hotcell doctor`")
    }

    /// Everything that is kept; nothing when nothing ever was.
    fn read(&self) -> Result<All> {
        let bytes = match fs::read(self.file()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(All::new()),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let (file, key_file) = (self.file(), self.key_file.display());
        let file = file.display();
        leave_no_image();
        let key = self.key().find()?.ok_or_else(|| {
            Error::unavailable(format!("the key of {file} is not at {key_file}"))
                .hint("bring the key file back, or name it with secrets.key_file")
        })?;
        open(&key, &bytes).map_err(|closed| match closed {
            Closed::Key => Error::unavailable(format!(
                "{file} cannot be opened with the key in {key_file}: it was sealed with another key, \
                 or is damaged"
            ))
            .hint("bring the right key file back; or remove the file and set the secrets anew"),
            Closed::Format => Error::unavailable(format!("{file} is of a format that is not known here"))
                .hint("use the hotcell version that wrote it"),
        })
    }

    /// Changes what is kept, while nobody else does.
    fn change<T>(&self, change: impl FnOnce(&mut All) -> Result<T>) -> Result<T> {
        leave_no_image();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| self.failed("make the directory of", &error))?;
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let changed = change(&mut all)?;
        let key = match self.key().find()? {
            Some(key) => key,
            None => self.key().make()?,
        };
        self.replace(&seal(&key, &all)?).map_err(|error| self.failed("write", &error))?;
        Ok(changed)
    }

    fn lock(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let locked = options.open(self.directory.join("lock")).and_then(|file| {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| self.failed("lock", &error))
    }

    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        let fresh = self.directory.join("secrets.new");
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, self.file())?;
        File::open(&self.directory)?.sync_all()
    }

    /// What the settings say of where secrets come from is about those of the tenant `main`.
    fn elsewhere_of(
        &self,
        tenant: &Tenant,
    ) -> impl Iterator<Item = (&SecretName, &ElsewhereSource)> {
        let is_theirs = tenant.is_default();
        self.elsewhere.iter().filter(move |_| is_theirs)
    }

    fn find_elsewhere(&self, tenant: &Tenant, name: &SecretName) -> Option<&ElsewhereSource> {
        self.elsewhere.get(name).filter(|_| tenant.is_default())
    }

    fn refuse_elsewhere(&self, tenant: &Tenant, name: &SecretName) -> Result<()> {
        match self.find_elsewhere(tenant, name).is_some() {
            true => {
                Err(Error::conflict(format!("the settings say where secret {name} comes from"))
                    .hint(format!("take [secrets.{name}] out of the configuration first")))
            }
            false => Ok(()),
        }
    }
}

impl SecretStore for SealedStore {
    fn set(&self, tenant: &Tenant, name: &SecretName, value: &SecretValue) -> Result<Secret> {
        self.refuse_elsewhere(tenant, name)?;
        let set_at = Timestamp::now();
        self.change(|all| {
            let kept = Kept { value: value.expose().to_owned(), set_at };
            all.insert(place(tenant, name), kept);
            Ok(Secret { name: name.clone(), source: SecretSource::Stored, set_at: Some(set_at) })
        })
    }

    fn list(&self, tenant: &Tenant) -> Result<Vec<Secret>> {
        let mut listed: BTreeMap<SecretName, Secret> = BTreeMap::new();
        for (place, kept) in self.read()? {
            let Some(name) = name_at(tenant, &place) else { continue };
            let name: SecretName = name.parse()?;
            let set_at = Some(kept.set_at);
            listed.insert(name.clone(), Secret { name, source: SecretSource::Stored, set_at });
        }
        for (name, source) in self.elsewhere_of(tenant) {
            let source = match source {
                ElsewhereSource::Env { .. } => SecretSource::Env,
                ElsewhereSource::File(_) => SecretSource::File,
            };
            listed.insert(name.clone(), Secret { name: name.clone(), source, set_at: None });
        }
        Ok(listed.into_values().collect())
    }

    fn remove(&self, tenant: &Tenant, name: &SecretName) -> Result<Secret> {
        self.refuse_elsewhere(tenant, name)?;
        self.change(|all| {
            let kept = all.remove(&place(tenant, name)).ok_or_else(|| absent(name))?;
            let set_at = Some(kept.set_at);
            Ok(Secret { name: name.clone(), source: SecretSource::Stored, set_at })
        })
    }

    fn resolve(&self, tenant: &Tenant, name: &SecretName) -> Result<SecretValue> {
        match self.find_elsewhere(tenant, name) {
            Some(ElsewhereSource::Env { variable, value }) => value.clone().ok_or_else(|| {
                Error::unavailable(format!(
                    "secret {name} comes from the variable {variable}, which is not set here"
                ))
                .hint("set it where hotcell is started")
            }),
            Some(ElsewhereSource::File(path)) => from_file(name, path),
            None => {
                let kept = self.read()?.remove(&place(tenant, name)).ok_or_else(|| absent(name))?;
                SecretValue::new(kept.value.into_bytes())
            }
        }
    }
}

/// Where a secret is kept. The names of the tenant `main` stand alone, as they did when there was no
/// other; no name has a slash in it.
fn place(tenant: &Tenant, name: &SecretName) -> String {
    if tenant.is_default() { name.to_string() } else { format!("{tenant}/{name}") }
}

/// The name of what is kept there, if it is this tenant's.
fn name_at<'a>(tenant: &Tenant, place: &'a str) -> Option<&'a str> {
    match place.split_once('/') {
        None => tenant.is_default().then_some(place),
        Some((owner, name)) => (owner == tenant.as_str()).then_some(name),
    }
}

fn from_file(name: &SecretName, path: &Path) -> Result<SecretValue> {
    leave_no_image();
    let mut bytes = fs::read(path).map_err(|error| {
        let path = path.display();
        Error::unavailable(format!(
            "secret {name} comes from {path}, which cannot be read: {error}"
        ))
    })?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    SecretValue::new(bytes)
}

fn absent(name: &SecretName) -> Error {
    Error::not_found(format!("there is no secret {name}"))
        .hint(format!("set it with `hotcell secret set {name}`"))
}
