//! What comes of doing something with files.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Timestamp};

/// What changes whenever the content of a file does. It is the same wherever the file is shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct Etag(String);

impl Etag {
    /// An etag of this value.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }

    /// The etag as it stands on the wire, without quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Etag {
    type Err = Error;

    /// Also takes the quotes of an HTTP header.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        if is_bare_etag(bare) {
            Ok(Self(bare.to_owned()))
        } else {
            Err(Error::invalid(format!("`{text}` is no etag"))
                .hint("pass an etag as a read, write, stat or list gave it"))
        }
    }
}

fn is_bare_etag(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl TryFrom<String> for Etag {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        if is_bare_etag(&text) { Ok(Self(text)) } else { text.parse() }
    }
}

impl From<Etag> for String {
    fn from(etag: Etag) -> Self {
        etag.0
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What comes of a [`crate::FileOp`]; content comes beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileResult {
    /// A file was read.
    Content(FileContent),
    /// A file was written.
    Written(FileWritten),
    /// Text was replaced.
    Edited(FileEdited),
    /// A directory was listed.
    Entries(FileEntries),
    /// The names in a directory.
    Names(FileNames),
    /// One file or directory.
    Entry(FileEntry),
    /// A file or directory was removed.
    Deleted(FileDeleted),
    /// A directory was made, or something was moved or copied.
    Placed(FilePlaced),
    /// What was found.
    Matches(FileMatches),
    /// A batch was done or undone.
    Batch(BatchResult),
    /// Files were packed.
    Exported(FilesPacked),
    /// An archive was unpacked.
    Imported(FilesPacked),
    /// The watch has ended.
    Watched,
}

/// A file or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileContent {
    /// Which.
    pub path: String,
    /// Its etag.
    pub etag: Etag,
    /// The size of the whole file.
    pub size: u64,
    /// What it is, by its content and name.
    pub mime_type: String,
    /// When it was last changed.
    pub modified: Timestamp,
    /// Where the content that was read begins.
    pub offset: u64,
    /// How many bytes of content were read.
    pub bytes: u64,
    /// The number of the first line that was read, when lines were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_line: Option<u64>,
    /// The number of the last line that was read, when lines were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u64>,
    /// Whether there is more after it.
    pub truncated: bool,
}

/// A file was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileWritten {
    /// Which.
    pub path: String,
    /// Its etag now.
    pub etag: Etag,
    /// Its size.
    pub size: u64,
    /// Whether it was not there before.
    pub created: bool,
}

/// Text was replaced in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEdited {
    /// Which.
    pub path: String,
    /// Its etag now; of a dry run, the one it has.
    pub etag: Etag,
    /// Its size now, or as it would be.
    pub size: u64,
    /// How many places were replaced.
    pub replaced: u64,
    /// What changed, as a unified diff.
    pub diff: String,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device.
    Other,
}

/// One file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Its absolute path. Bytes that are no text are shown as `�`.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When it was last changed.
    pub modified: Timestamp,
    /// Its etag, if it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<Etag>,
    /// What it is by its name and, where one file is shown, its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Part of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntries {
    /// By path.
    pub entries: Vec<FileEntry>,
    /// What to pass to see the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The names of a part of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileNames {
    /// Paths relative to the directory, in their order; those of directories end in `/`.
    pub names: Vec<String>,
    /// What to pass to see the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Something was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDeleted {
    /// Which.
    pub path: String,
    /// How many files and directories are gone.
    pub removed: u64,
}

/// A directory was made, or something was moved or copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePlaced {
    /// Where it is now.
    pub path: String,
    /// Its etag, if it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<Etag>,
}

/// One line that was found, or one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMatch {
    /// In which file.
    pub path: String,
    /// The number of the line; none for a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The line; none for a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The lines before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The lines after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

impl FileMatch {
    /// Where the next page goes on when this is the last match of a page.
    #[must_use]
    pub fn cursor(&self) -> String {
        format!("{}:{}", self.line.unwrap_or(0), self.path)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMatches {
    /// By path, component by component, and line.
    pub matches: Vec<FileMatch>,
    /// How many files were looked at.
    pub files: u64,
    /// Whether there are more matches than were asked for.
    pub truncated: bool,
    /// Where the next page begins, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// How one thing of a batch came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchOutcome {
    /// It was done.
    Done {
        /// What came of it.
        result: Box<FileResult>,
        /// How much of the batch's content belongs to it.
        content_bytes: u64,
    },
    /// It failed.
    Failed(Error),
    /// It was not tried, or was undone.
    NotDone,
}

/// A batch was done or undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResult {
    /// One for each operation.
    pub outcomes: Vec<BatchOutcome>,
    /// Whether everything was undone because one thing failed.
    pub rolled_back: bool,
}

/// Files were packed or unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilesPacked {
    /// How many files.
    pub files: u64,
    /// How many directories.
    pub directories: u64,
    /// How many symbolic and hard links.
    pub links: u64,
    /// The size of all files.
    pub bytes: u64,
    /// The size of the archive.
    pub archive_bytes: u64,
}

/// What came of a [`crate::FileCall`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDone {
    /// What came of it.
    pub result: FileResult,
    /// Its content.
    pub content: Vec<u8>,
}

macro_rules! results {
    ($($name:ident <= $($variant:ident)|+),* $(,)?) => {
        $(
            impl TryFrom<FileResult> for $name {
                type Error = Error;

                /// Fails for the result of another request.
                fn try_from(result: FileResult) -> Result<Self, Error> {
                    match result {
                        $(FileResult::$variant(result))|+ => Ok(result),
                        _ => Err(Error::internal("files were answered with another result")),
                    }
                }
            }
        )*
    };
}

results! {
    FileContent <= Content,
    FileWritten <= Written,
    FileEdited <= Edited,
    FileEntries <= Entries,
    FileNames <= Names,
    FileEntry <= Entry,
    FileDeleted <= Deleted,
    FilePlaced <= Placed,
    FileMatches <= Matches,
    BatchResult <= Batch,
    FilesPacked <= Exported | Imported,
}
