//! What callers of every front may ask of files, as they write it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{
    BatchPart, Compression, Error, EtagMatch, FileBatch, FileDelete, FileEdit, FileExport,
    FileImport, FileList, FileMakeDirectory, FileMove, FileOp, FileRead, FileSearch, FileWrite,
    Precondition, Result, SearchIn, TextEdit,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// How content is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    /// As text if it is text.
    #[default]
    Auto,
    /// As text; what is none becomes `�`.
    Utf8,
    /// As base64.
    Base64,
}

/// How content is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GivenEncoding {
    /// As text.
    #[default]
    Utf8,
    /// As base64.
    Base64,
}

impl GivenEncoding {
    /// The bytes of content.
    ///
    /// # Errors
    /// `invalid` for what is no base64.
    pub(crate) fn decode(self, content: String) -> Result<Vec<u8>> {
        match self {
            Self::Utf8 => Ok(content.into_bytes()),
            Self::Base64 => from_base64("content", &content),
        }
    }
}

/// So much of a wrong value is quoted.
const MOST_QUOTED: usize = 40;

/// The bytes of what is given as base64; line breaks in it do no harm.
pub(crate) fn from_base64(name: &str, text: &str) -> Result<Vec<u8>> {
    let decode = |text: &str| BASE64_STANDARD.decode(text);
    let decoded = if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        decode(&text.split_ascii_whitespace().collect::<String>())
    } else {
        decode(text)
    };
    decoded.map_err(|error| {
        let shown: String = text.chars().take(MOST_QUOTED).collect();
        Error::invalid(format!("{name} is not base64: {error} in {shown:?}"))
            .hint("encode it with the alphabet of RFC 4648, with padding, such as \"aGVsbG8=\"; or leave encoding out")
    })
}

/// A file to read.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFile {
    pub(crate) path: String,
    /// first byte
    offset: Option<u64>,
    /// most bytes
    #[schemars(range(min = 1))]
    pub(crate) limit: Option<u64>,
    /// such as 10-20, 10- or 10
    lines: Option<String>,
    /// default auto
    #[serde(default)]
    pub(crate) encoding: Encoding,
}

impl ReadFile {
    /// Whether all of a file is wanted that has the name of a picture.
    pub(crate) fn names_picture(&self) -> bool {
        const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];
        let name = self.path.to_ascii_lowercase();
        let is_whole = self.offset.is_none() && self.limit.is_none() && self.lines.is_none();
        is_whole
            && self.encoding == Encoding::Auto
            && ENDINGS.iter().any(|ending| name.ends_with(ending))
    }

    /// The request, with this limit unless one is given, and none above the bound.
    pub(crate) fn op(self, usual: u64, most: u64) -> Result<FileRead> {
        if self.limit == Some(0) {
            return Err(Error::argument("limit", "at least 1 byte", 0)
                .hint("use fs_stat to see a file's size and etag alone"));
        }
        if let Some(limit) = self.limit
            && limit > most
        {
            return Err(Error::limit_exceeded(format!(
                "limit must be at most {most} bytes, not {limit}"
            ))
            .hint("read part after part, with offset and limit"));
        }
        Ok(FileRead {
            path: self.path,
            offset: self.offset,
            limit: Some(self.limit.unwrap_or(usual).min(most)),
            lines: self.lines.as_deref().map(str::parse).transpose()?,
            ..FileRead::default()
        })
    }
}

/// A file to write.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFile {
    path: String,
    content: String,
    /// default utf8
    #[serde(default)]
    encoding: GivenEncoding,
    /// octal, such as 755
    mode: Option<String>,
    /// default true
    #[serde(default = "yes")]
    create_parents: bool,
    /// the etag it must have
    if_match: Option<String>,
    /// *: only if it is not there
    if_none_match: Option<String>,
}

impl WriteFile {
    /// The request and its content.
    pub(crate) fn op(self, most: u64) -> Result<(FileWrite, Vec<u8>)> {
        let content = self.encoding.decode(self.content)?;
        if content.len() as u64 > most {
            return Err(Error::limit_exceeded(format!(
                "content must be at most {most} bytes, not {}",
                content.len()
            ))
            .hint("make the file by a command, or send it as a stream over HTTP"));
        }
        let op = FileWrite {
            path: self.path,
            mode: self.mode.as_deref().map(mode).transpose()?,
            create_parents: self.create_parents,
            precondition: precondition(self.if_match.as_deref(), self.if_none_match.as_deref())?,
        };
        Ok((op, content))
    }
}

/// Text to replace in a file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditFile {
    path: String,
    edits: Vec<Replacement>,
    if_match: Option<String>,
    /// only show the diff
    #[serde(default)]
    dry_run: bool,
}

/// One replacement.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replacement {
    /// must be in the file exactly once
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

impl EditFile {
    /// The request.
    pub(crate) fn op(self) -> Result<FileEdit> {
        let edit = |edit: Replacement| TextEdit {
            old: edit.old,
            new: edit.new,
            replace_all: edit.replace_all,
        };
        Ok(FileEdit {
            path: self.path,
            edits: self.edits.into_iter().map(edit).collect(),
            precondition: precondition(self.if_match.as_deref(), None)?,
            dry_run: self.dry_run,
        })
    }
}

/// A directory to list.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFiles {
    #[serde(default = "here")]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) recursive: bool,
    /// such as **/*.rs
    pub(crate) glob: Option<String>,
    #[serde(default = "most_entries")]
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
    /// only names
    #[serde(default)]
    pub(crate) names_only: bool,
}

impl From<ListFiles> for FileList {
    fn from(asked: ListFiles) -> Self {
        Self {
            path: asked.path,
            recursive: asked.recursive,
            glob: asked.glob,
            limit: asked.limit,
            cursor: asked.cursor,
            names_only: asked.names_only,
            ..Self::default()
        }
    }
}

/// A file or directory to show.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowFile {
    pub(crate) path: String,
}

/// What to remove.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteFile {
    path: String,
    #[serde(default)]
    recursive: bool,
    if_match: Option<String>,
}

impl DeleteFile {
    /// The request.
    pub(crate) fn op(self) -> Result<FileDelete> {
        Ok(FileDelete {
            path: self.path,
            recursive: self.recursive,
            precondition: precondition(self.if_match.as_deref(), None)?,
        })
    }
}

/// What to move or copy, and where.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveFile {
    path: String,
    /// Its new path; not the directory to put it into.
    to: String,
    /// Whether a file that is there may be replaced.
    #[serde(default)]
    overwrite: bool,
}

impl From<MoveFile> for FileMove {
    fn from(asked: MoveFile) -> Self {
        let MoveFile { path: from, to, overwrite } = asked;
        Self { from, to, overwrite, ..Self::default() }
    }
}

/// A directory to make.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeDirectory {
    path: String,
    #[serde(default = "yes")]
    create_parents: bool,
}

/// Where to look.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SearchIn")]
enum Within {
    #[default]
    Content,
    Names,
}

/// What to look for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchFiles {
    /// default .
    #[serde(default = "here")]
    path: String,
    /// regular expression
    pattern: String,
    /// default content
    #[serde(default, rename = "in")]
    within: Within,
    /// pattern is plain text
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    ignore_case: bool,
    glob: Option<String>,
    /// also hidden and .gitignored files
    #[serde(default)]
    include_ignored: bool,
    /// default 0, at most 100
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    context_lines: u32,
    /// default 100, at most 10000
    #[serde(default = "most_matches")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u32,
    /// a next_cursor
    cursor: Option<String>,
}

impl From<SearchFiles> for FileSearch {
    fn from(asked: SearchFiles) -> Self {
        Self {
            path: asked.path,
            pattern: asked.pattern,
            within: match asked.within {
                Within::Content => SearchIn::Content,
                Within::Names => SearchIn::Names,
            },
            literal: asked.literal,
            ignore_case: asked.ignore_case,
            glob: asked.glob,
            include_ignored: asked.include_ignored,
            context_lines: asked.context_lines,
            limit: asked.limit,
            cursor: asked.cursor,
            early: false,
        }
    }
}

/// Files to pack.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportFiles {
    #[serde(default = "here")]
    pub(crate) path: String,
    /// globs
    #[serde(default)]
    pub(crate) include: Vec<String>,
    #[serde(default)]
    pub(crate) exclude: Vec<String>,
    #[serde(default)]
    pub(crate) compression: Compression,
}

impl From<ExportFiles> for FileExport {
    fn from(asked: ExportFiles) -> Self {
        Self {
            path: asked.path,
            include: asked.include,
            exclude: asked.exclude,
            compression: asked.compression,
        }
    }
}

/// Where to unpack an archive, and what of it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportFiles {
    #[serde(default = "here")]
    path: String,
    /// globs
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
}

impl From<ImportFiles> for FileImport {
    fn from(asked: ImportFiles) -> Self {
        Self { path: asked.path, include: asked.include, exclude: asked.exclude }
    }
}

/// One thing of a batch.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "lowercase")]
#[schemars(rename = "FileOperation")]
pub(crate) enum Operation {
    /// Reads a file.
    Read(ReadFile),
    /// Writes a file.
    Write(WriteFile),
    /// Replaces text in a file.
    Edit(EditFile),
    /// Removes a file or a directory.
    Delete(DeleteFile),
    /// Moves a file or a directory.
    Move(MoveFile),
    /// Copies a file or a directory.
    Copy(MoveFile),
    /// Makes a directory.
    Mkdir(MakeDirectory),
}

/// Several things to do.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchFiles {
    operations: Vec<Operation>,
    /// all or none
    #[serde(default = "yes")]
    atomic: bool,
}

/// A batch as the engine takes it.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) op: FileBatch,
    /// What its writes write, one after another.
    pub(crate) content: Vec<u8>,
    /// How its parts show content.
    pub(crate) encodings: Vec<Encoding>,
    /// The places of the reads that say how much they want.
    pub(crate) bounded: Vec<usize>,
}

impl BatchFiles {
    /// The request; its reads share `usual` bytes unless they say how much they want.
    pub(crate) fn op(self, usual: u64, most: u64) -> Result<Batch> {
        const LEAST_EACH: u64 = 1024;
        let reads = self.operations.iter().filter(|one| matches!(one, Operation::Read(_))).count();
        let each = (usual / reads.max(1) as u64).max(LEAST_EACH);
        let mut content = Vec::new();
        let mut encodings = Vec::new();
        let mut bounded = Vec::new();
        let mut operations = Vec::new();
        for (place, operation) in self.operations.into_iter().enumerate() {
            let at = |error: Error| Error {
                message: format!("operations[{place}].{}", error.message),
                ..error
            };
            let mut encoding = Encoding::default();
            let mut content_bytes = 0;
            let op: FileOp = match operation {
                Operation::Read(asked) => {
                    encoding = asked.encoding;
                    bounded.extend(asked.limit.map(|_| place));
                    asked.op(each, most).map_err(at)?.into()
                }
                Operation::Write(asked) => {
                    let (op, own) = asked.op(most).map_err(at)?;
                    content_bytes = own.len() as u64;
                    content.extend(own);
                    op.into()
                }
                Operation::Edit(asked) => asked.op().map_err(at)?.into(),
                Operation::Delete(asked) => asked.op().map_err(at)?.into(),
                Operation::Move(asked) => FileOp::Move(asked.into()),
                Operation::Copy(asked) => FileOp::Copy(asked.into()),
                Operation::Mkdir(MakeDirectory { path, create_parents }) => {
                    FileMakeDirectory { path, create_parents }.into()
                }
            };
            encodings.push(encoding);
            operations.push(BatchPart { op, content_bytes });
        }
        let op = FileBatch { operations, atomic: self.atomic };
        Ok(Batch { op, content, encodings, bounded })
    }
}

/// Permission bits in octal.
pub(crate) fn mode(text: &str) -> Result<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(digits, 8).ok().filter(|mode| plain && *mode <= 0o7777).ok_or_else(|| {
        Error::argument("mode", "an octal number up to 7777", format!("{text:?}"))
            .hint("write it as for chmod, for example 644 or 755")
    })
}

/// What must be so for a change, as etags or `*`.
pub(crate) fn precondition(
    if_match: Option<&str>,
    if_none_match: Option<&str>,
) -> Result<Precondition> {
    let read = |name: &str, text: &str| match text {
        "*" => Ok(EtagMatch::Any),
        text => text.parse().map(EtagMatch::Etag).map_err(|_| {
            Error::invalid(format!("{name}: {text:?} is no etag"))
                .hint("take one from fs_read or fs_stat, or * for any")
        }),
    };
    Ok(Precondition {
        if_match: if_match.map(|text| read("if_match", text)).transpose()?,
        if_none_match: if_none_match.map(|text| read("if_none_match", text)).transpose()?,
    })
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn here() -> String {
    ".".to_owned()
}

fn most_entries() -> u32 {
    1000
}

fn most_matches() -> u32 {
    100
}
