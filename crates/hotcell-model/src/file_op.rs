//! What can be done with the files of a cell.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{CellRef, Error, Etag, Result};

/// One thing to do with files. Paths are the cell's; a relative one is below `/workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOp {
    /// Reads a file or a part of it; answered with content.
    Read(FileRead),
    /// Writes a whole file; takes content.
    Write(FileWrite),
    /// Replaces text in a file.
    Edit(FileEdit),
    /// Lists a directory.
    List(FileList),
    /// Shows one file or directory.
    Stat(FileStat),
    /// Removes a file or a directory.
    Delete(FileDelete),
    /// Makes a directory.
    MakeDirectory(FileMakeDirectory),
    /// Moves a file or a directory.
    Move(FileMove),
    /// Copies a file or a directory.
    Copy(FileMove),
    /// Looks for text or names.
    Search(FileSearch),
    /// Does several things, all or none; takes and is answered with the content of its parts, one
    /// after another.
    Batch(FileBatch),
    /// Packs files; answered with the archive as content.
    Export(FileExport),
    /// Unpacks an archive; takes it as content.
    Import(FileImport),
    /// Tells of changes below a directory until nobody listens any more, as lines of content.
    Watch(FileWatch),
}

impl FileOp {
    /// What it is called in the ledger.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Edit(_) => "edit",
            Self::List(_) => "list",
            Self::Stat(_) => "stat",
            Self::Delete(_) => "delete",
            Self::MakeDirectory(_) => "make_directory",
            Self::Move(_) => "move",
            Self::Copy(_) => "copy",
            Self::Search(_) => "search",
            Self::Batch(_) => "batch",
            Self::Export(_) => "export",
            Self::Import(_) => "import",
            Self::Watch(_) => "watch",
        }
    }

    /// Whether the cell may have more on disk afterwards.
    #[must_use]
    pub fn lets_grow(&self) -> bool {
        match self {
            Self::Write(_)
            | Self::Edit(_)
            | Self::MakeDirectory(_)
            | Self::Copy(_)
            | Self::Import(_) => true,
            Self::Batch(batch) => batch.operations.iter().any(|part| part.op.lets_grow()),
            Self::Read(_)
            | Self::List(_)
            | Self::Stat(_)
            | Self::Delete(_)
            | Self::Move(_)
            | Self::Search(_)
            | Self::Export(_)
            | Self::Watch(_) => false,
        }
    }

    /// Whether it changes nothing, so that it may be done twice.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        match self {
            Self::Read(_)
            | Self::List(_)
            | Self::Stat(_)
            | Self::Search(_)
            | Self::Export(_)
            | Self::Watch(_) => true,
            Self::Write(_)
            | Self::Edit(_)
            | Self::Delete(_)
            | Self::MakeDirectory(_)
            | Self::Move(_)
            | Self::Copy(_)
            | Self::Batch(_)
            | Self::Import(_) => false,
        }
    }
}

/// Reads a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileRead {
    /// Which.
    pub path: String,
    /// The first byte that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many bytes are wanted at most; all of them when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Only these lines, instead of an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineRange>,
    /// What must be so.
    #[serde(default, skip_serializing_if = "Precondition::is_none")]
    pub precondition: Precondition,
}

/// Some lines of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// The first, counted from 1.
    pub first: u64,
    /// The last; to the end when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

impl FromStr for LineRange {
    type Err = Error;

    /// Reads `10-20`, `10-` or `10`.
    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| *number > 0);
        let range = match text.split_once('-') {
            None => number(text).map(|line| Self { first: line, last: Some(line) }),
            Some((first, "")) => number(first).map(|first| Self { first, last: None }),
            Some((first, last)) => number(first).and_then(|first| {
                let last = number(last).filter(|last| *last >= first)?;
                Some(Self { first, last: Some(last) })
            }),
        };
        range.ok_or_else(|| {
            Error::argument("lines", "10-20, 10- or 10", format_args!("{text:?}"))
                .hint("lines are counted from 1")
        })
    }
}

/// What must be so for a change to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Precondition {
    /// The file is there and has this etag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<EtagMatch>,
    /// The file is not there, or has another etag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_none_match: Option<EtagMatch>,
}

impl Precondition {
    /// Whether nothing must be so.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Which etags are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EtagMatch {
    /// Any: `*`.
    Any,
    /// One.
    Etag(Etag),
}

/// Writes a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileWrite {
    /// Which.
    pub path: String,
    /// Its permission bits; those it has, or 0644, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Whether missing directories above it are made.
    pub create_parents: bool,
    /// What must be so.
    #[serde(default)]
    pub precondition: Precondition,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextEdit {
    /// The text to be replaced; it must stand in the file exactly once, unless `replace_all`.
    pub old: String,
    /// What takes its place.
    pub new: String,
    /// Whether every place is meant.
    #[serde(default)]
    pub replace_all: bool,
}

/// Replaces text in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileEdit {
    /// Which.
    pub path: String,
    /// The replacements, one after another.
    pub edits: Vec<TextEdit>,
    /// What must be so.
    #[serde(default)]
    pub precondition: Precondition,
    /// Whether only to show what would change.
    pub dry_run: bool,
}

/// Lists a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileList {
    /// Which.
    pub path: String,
    /// Whether everything below it is listed.
    pub recursive: bool,
    /// Only paths, relative to the directory, that this pattern matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// How many at most.
    pub limit: u32,
    /// Where the page before this one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether only names are told, for which nothing has to be looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names_only: bool,
    /// Whether files are looked into to tell what they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mime_types: bool,
    /// How large a page may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<PageRoom>,
}

/// How large a page of a listing may be, whatever the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRoom {
    /// Paths and link targets as JSON, with `per_entry` for each entry.
    pub bytes: u64,
    /// What an entry takes beside its path and target.
    pub per_entry: u64,
}

/// Shows one file or directory; of a link, the link itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileStat {
    /// Which.
    pub path: String,
}

/// Removes a file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileDelete {
    /// Which.
    pub path: String,
    /// Whether a directory may hold anything.
    pub recursive: bool,
    /// What must be so.
    #[serde(default)]
    pub precondition: Precondition,
}

/// Makes a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileMakeDirectory {
    /// Which. One that is there is left as it is.
    pub path: String,
    /// Whether missing directories above it are made.
    pub create_parents: bool,
}

/// Moves or copies a file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileMove {
    /// Which.
    pub from: String,
    /// Its new path; not the directory to put it into.
    pub to: String,
    /// Whether a file that is there may be replaced.
    pub overwrite: bool,
    /// What must be so of what is moved or copied.
    #[serde(default, skip_serializing_if = "Precondition::is_none")]
    pub precondition: Precondition,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchIn {
    /// Lines of files.
    #[default]
    Content,
    /// Paths of files.
    Names,
}

/// Looks for text or names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSearch {
    /// A directory or a file.
    pub path: String,
    /// A regular expression.
    pub pattern: String,
    /// Where to look.
    #[serde(default)]
    pub within: SearchIn,
    /// Whether the pattern is plain text.
    #[serde(default)]
    pub literal: bool,
    /// Whether upper and lower case count as the same.
    #[serde(default)]
    pub ignore_case: bool,
    /// Only files whose path, relative to `path`, this pattern matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Whether files that `.gitignore` names, and hidden ones, are looked at too.
    #[serde(default)]
    pub include_ignored: bool,
    /// Lines shown before and after each match.
    pub context_lines: u32,
    /// How many matches at most.
    pub limit: u32,
    /// Only matches after this: the `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether matches are told at once as well, in the order in which they are found: each as a
    /// line of content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early: bool,
}

/// Does several things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBatch {
    /// What, in this order.
    pub operations: Vec<BatchPart>,
    /// Whether all is undone when one thing fails; otherwise the rest is done all the same.
    pub atomic: bool,
}

/// One thing of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPart {
    /// What to do: read, write, edit, delete, make a directory, move or copy.
    pub op: FileOp,
    /// How much of the batch's content belongs to it.
    #[serde(default)]
    pub content_bytes: u64,
}

/// How an archive is compressed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    None,
    /// By gzip.
    #[default]
    Gzip,
    /// By zstd.
    Zstd,
}

/// Packs files into a tar archive.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileExport {
    /// A directory, whose content is packed, or a file.
    pub path: String,
    /// Only paths, relative to `path`, that one of these patterns matches; all when empty.
    #[serde(default)]
    pub include: Vec<String>,
    /// No paths that one of these patterns matches.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// How the archive is compressed.
    #[serde(default)]
    pub compression: Compression,
}

/// Unpacks a tar archive; how it is compressed is seen from its first bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileImport {
    /// The directory to unpack into; it is made if it is missing.
    pub path: String,
    /// Only entries that one of these patterns matches; all when empty.
    #[serde(default)]
    pub include: Vec<String>,
    /// No entries that one of these patterns matches.
    #[serde(default)]
    pub exclude: Vec<String>,
}

/// Tells of changes below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileWatch {
    /// Which.
    pub path: String,
}

/// Which files of a cell are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileScope {
    /// All that it can see.
    #[default]
    Cell,
    /// Those below `/workspace`, wherever links lead.
    Workspace,
}

impl FileScope {
    /// Whether all files are meant.
    #[must_use]
    pub fn is_cell(&self) -> bool {
        *self == Self::Cell
    }
}

/// Does something with the files of a cell, with all its content at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCall {
    /// Of which cell.
    pub cell: CellRef,
    /// What.
    pub op: FileOp,
    /// Which files may be touched.
    pub scope: FileScope,
    /// What it takes.
    pub content: Vec<u8>,
    /// How much content the answer holds at most; beyond it the call fails.
    pub most_content: u64,
}

impl FileCall {
    /// A call that takes no content.
    #[must_use]
    pub fn new(cell: impl Into<CellRef>, op: FileOp) -> Self {
        Self {
            cell: cell.into(),
            op,
            scope: FileScope::Cell,
            content: Vec::new(),
            most_content: FILE_CONTENT_BYTES,
        }
    }

    /// Why a call fails whose answer would hold more content than it may.
    #[must_use]
    pub fn too_much_content(most_content: u64) -> Error {
        Error::limit_exceeded(format!("there are more than {most_content} bytes of content"))
            .hint("ask for a part of it, or fetch it as a stream over HTTP")
    }
}

/// How much content a call is answered with at most unless told.
pub const FILE_CONTENT_BYTES: u64 = 100 << 20;

/// Does something with the files of a cell, with its content as it comes; answered by a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStream {
    /// Of which cell.
    pub cell: CellRef,
    /// What.
    pub op: FileOp,
}

macro_rules! ops {
    ($($name:ident => $variant:ident),* $(,)?) => {
        $(
            impl From<$name> for FileOp {
                fn from(op: $name) -> Self {
                    Self::$variant(op)
                }
            }
        )*
    };
}

ops! {
    FileRead => Read,
    FileWrite => Write,
    FileEdit => Edit,
    FileList => List,
    FileStat => Stat,
    FileDelete => Delete,
    FileMakeDirectory => MakeDirectory,
    FileSearch => Search,
    FileBatch => Batch,
    FileExport => Export,
    FileImport => Import,
    FileWatch => Watch,
}
