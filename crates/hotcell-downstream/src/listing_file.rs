//! Lists of tools on disk, so that a server need not be started to know what it offers.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::listing::{Listing, MOST_TOOLS};
use crate::spec::{ServerName, ServerSpec, hex_digest};

const FORMAT: u32 = 1;
/// What is longer was not written here.
const MOST_BYTES: u64 = 64 << 20;

/// The file of one server's list.
#[derive(Debug, Clone)]
pub(crate) struct ListingFile {
    directory: PathBuf,
    name: ServerName,
    spec: String,
}

#[derive(Serialize, Deserialize)]
struct Kept<'a> {
    format: u32,
    name: &'a str,
    /// The declaration that it is the list of.
    spec: &'a str,
    #[serde(default)]
    about: Option<String>,
    tools: Vec<Value>,
}

impl ListingFile {
    pub(crate) fn new(directory: PathBuf, name: &ServerName, spec: &ServerSpec) -> Self {
        Self { directory, name: name.clone(), spec: spec.digest() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.json", hex_digest(&[self.name.as_str()])))
    }

    /// The list as it was kept for this declaration. What cannot be read is not there.
    pub(crate) fn load(&self) -> Option<Listing> {
        let mut text = String::new();
        File::open(self.path()).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let kept: Kept<'_> = serde_json::from_str(&text).ok()?;
        let is_of_this =
            kept.format == FORMAT && kept.name == self.name.as_str() && kept.spec == self.spec;
        (is_of_this && kept.tools.len() <= MOST_TOOLS)
            .then(|| Listing { about: kept.about, tools: kept.tools.into() })
    }

    /// Keeps a list, whole or not at all.
    pub(crate) fn store(&self, listing: &Listing) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let kept = Kept {
            format: FORMAT,
            name: self.name.as_str(),
            spec: &self.spec,
            about: listing.about.clone(),
            tools: listing.tools.to_vec(),
        };
        // Of many processes that write it each has a file of its own, and the last one counts.
        let fresh = self.path().with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&fresh);
        let written = || {
            let mut file =
                OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
            file.write_all(&serde_json::to_vec(&kept)?)?;
            file.sync_all()?;
            fs::rename(&fresh, self.path())
        };
        written().inspect_err(|_| {
            let _ = fs::remove_file(&fresh);
        })
    }
}
