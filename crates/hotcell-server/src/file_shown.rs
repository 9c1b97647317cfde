//! What callers of every front are shown of files.

use std::ops::Range;
use std::string::FromUtf8Error;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{
    BatchOutcome, BatchResult, Error, FileContent, FileEntries, FileEntry, FileKind, FileNames,
    FileResult, Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::file_asked::Encoding;

/// A file or a part of it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FileContent")]
pub(crate) struct ContentShown {
    pub(crate) path: String,
    pub(crate) content: String,
    /// utf8 or base64
    pub(crate) encoding: &'static str,
    pub(crate) etag: String,
    pub(crate) size: u64,
    pub(crate) mime_type: String,
    pub(crate) offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_line: Option<u64>,
    pub(crate) truncated: bool,
    /// pass it as offset to go on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_offset: Option<u64>,
}

pub(crate) const UTF8: &str = "utf8";
pub(crate) const BASE64: &str = "base64";

impl ContentShown {
    /// Content in an encoding. Text begins and ends between characters. Where secrets are hidden the
    /// content is shorter or longer than what was read.
    pub(crate) fn new(read: FileContent, content: Vec<u8>, encoding: Encoding) -> Self {
        let mut offset = read.offset;
        let mut next_offset = read.offset + read.bytes;
        let as_base64 = |content: &[u8]| (BASE64_STANDARD.encode(content), BASE64);
        let (shown, encoding) = match encoding {
            Encoding::Base64 => as_base64(&content),
            Encoding::Auto | Encoding::Utf8 => {
                let cut_off = if offset > 0 { cut_head(&content) } else { 0 };
                let rest = &content[cut_off..];
                let whole = if read.truncated { whole_characters(rest) } else { rest };
                let left = (rest.len() - whole.len()) as u64;
                let whole = cut_off..cut_off + whole.len();
                match text_in(content, whole) {
                    Ok(text) => {
                        offset += cut_off as u64;
                        next_offset -= left;
                        match encoding == Encoding::Auto && is_binary(&text) {
                            true => as_base64(text.as_bytes()),
                            false => (text, UTF8),
                        }
                    }
                    Err(content) if encoding == Encoding::Utf8 => {
                        (String::from_utf8_lossy(&content).into_owned(), UTF8)
                    }
                    Err(content) => as_base64(&content),
                }
            }
        };
        Self {
            path: read.path,
            content: shown,
            encoding,
            etag: read.etag.into(),
            size: read.size,
            mime_type: read.mime_type,
            offset,
            first_line: read.first_line,
            last_line: read.last_line,
            truncated: read.truncated,
            next_offset: read.truncated.then_some(next_offset),
        }
    }

    /// The same with so many characters of base64 at most; the rest is read from `next_offset` on.
    pub(crate) fn with_base64_of(mut self, most_chars: usize) -> Self {
        if self.encoding == BASE64 && self.content.len() > most_chars {
            // Four characters are three bytes.
            let groups = most_chars / 4;
            self.content.truncate(4 * groups);
            self.truncated = true;
            self.next_offset = Some(self.offset + 3 * groups as u64);
        }
        self
    }

    /// As JSON, without a copy of the content.
    pub(crate) fn into_value(mut self) -> Value {
        let content = std::mem::take(&mut self.content);
        let mut value = serde_json::to_value(&self).unwrap_or_default();
        value["content"] = Value::String(content);
        value
    }
}

/// Whether so much of a text is control characters that base64 is the smaller form in JSON.
fn is_binary(text: &str) -> bool {
    let is_escaped = |byte: &u8| byte.is_ascii_control() && !b"\n\r\t\x7f".contains(byte);
    5 * text.bytes().filter(is_escaped).count() > text.len()
}

/// A part of some content as text, which takes over all of it; or the content as it was.
fn text_in(mut content: Vec<u8>, part: Range<usize>) -> Result<String, Vec<u8>> {
    if part != (0..content.len()) {
        if std::str::from_utf8(&content[part.clone()]).is_err() {
            return Err(content);
        }
        content.truncate(part.end);
        content.drain(..part.start);
    }
    String::from_utf8(content).map_err(FromUtf8Error::into_bytes)
}

/// What is left of a character that was cut, at the beginning; nothing unless the rest goes on
/// after it.
fn cut_head(bytes: &[u8]) -> usize {
    let cut = bytes.iter().take_while(|byte| (0x80..0xC0).contains(*byte)).count();
    if cut <= 3 && cut < bytes.len() { cut } else { 0 }
}

/// Without a character that is cut at the end, unless nothing were left.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            &bytes[..error.valid_up_to()]
        }
        Ok(_) | Err(_) => bytes,
    }
}

/// A file or directory.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FileEntry")]
pub(crate) struct EntryShown {
    pub(crate) path: String,
    /// file, directory, symlink or other
    pub(crate) kind: &'static str,
    pub(crate) size: u64,
    /// octal
    pub(crate) mode: String,
    #[schemars(with = "String")]
    modified: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
    /// of a symlink
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
}

impl From<FileEntry> for EntryShown {
    fn from(entry: FileEntry) -> Self {
        Self {
            path: entry.path,
            kind: match entry.kind {
                FileKind::File => "file",
                FileKind::Directory => "directory",
                FileKind::Symlink => "symlink",
                FileKind::Other => "other",
            },
            size: entry.size,
            mode: format!("{:o}", entry.mode),
            modified: entry.modified,
            etag: entry.etag.map(String::from),
            mime_type: entry.mime_type,
            target: entry.target,
        }
    }
}

/// Part of a directory.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FileEntries")]
pub(crate) struct EntriesShown {
    pub(crate) entries: Vec<EntryShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

impl From<FileEntries> for EntriesShown {
    fn from(found: FileEntries) -> Self {
        Self {
            entries: found.entries.into_iter().map(Into::into).collect(),
            next_cursor: found.next_cursor,
        }
    }
}

/// Part of a directory, as it was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "FileListing")]
pub(crate) enum ListShown {
    Entries(EntriesShown),
    Names(FileNames),
}

impl TryFrom<FileResult> for ListShown {
    type Error = Error;

    /// Fails for the result of another request.
    fn try_from(result: FileResult) -> Result<Self, Error> {
        if let FileResult::Names(names) = result {
            return Ok(Self::Names(names));
        }
        FileEntries::try_from(result).map(|found| Self::Entries(found.into()))
    }
}

impl ListShown {
    /// What to pass to see the next page.
    pub(crate) fn next_cursor(&self) -> Option<&str> {
        match self {
            Self::Entries(page) => page.next_cursor.as_deref(),
            Self::Names(page) => page.next_cursor.as_deref(),
        }
    }
}

/// A batch was done or undone.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FileBatchResult")]
pub(crate) struct BatchShown {
    /// One for each operation.
    pub(crate) results: Vec<PartShown>,
    /// Whether everything was undone because one thing failed.
    pub(crate) rolled_back: bool,
}

/// How one thing of a batch came out.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FileBatchPart")]
pub(crate) struct PartShown {
    /// done, failed or not_done
    pub(crate) status: &'static str,
    /// What came of it, as when it is done alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
}

impl BatchShown {
    /// What came of a batch, with the content of its reads.
    pub(crate) fn new(batch: BatchResult, content: &[u8], encodings: &[Encoding]) -> Self {
        let mut at = 0;
        let mut encodings = encodings.iter();
        let part = |outcome| {
            let encoding = encodings.next().copied().unwrap_or_default();
            match outcome {
                BatchOutcome::Done { result, content_bytes } => {
                    let end = usize::try_from(content_bytes).map_or(content.len(), |own| at + own);
                    let own = content.get(at..end).unwrap_or_default();
                    at = end;
                    let result = Some(shown(*result, own, encoding));
                    PartShown { status: "done", result, error: None }
                }
                BatchOutcome::Failed(error) => {
                    PartShown { status: "failed", result: None, error: Some(error) }
                }
                BatchOutcome::NotDone => {
                    PartShown { status: "not_done", result: None, error: None }
                }
            }
        };
        let results = batch.outcomes.into_iter().map(part).collect();
        Self { results, rolled_back: batch.rolled_back }
    }
}

fn shown(result: FileResult, content: &[u8], encoding: Encoding) -> Value {
    let shown = match result {
        FileResult::Content(read) => {
            Ok(ContentShown::new(read, content.to_vec(), encoding).into_value())
        }
        FileResult::Written(written) => serde_json::to_value(written),
        FileResult::Edited(edited) => serde_json::to_value(edited),
        FileResult::Deleted(deleted) => serde_json::to_value(deleted),
        FileResult::Placed(placed) => serde_json::to_value(placed),
        FileResult::Entry(entry) => serde_json::to_value(EntryShown::from(entry)),
        FileResult::Entries(entries) => serde_json::to_value(EntriesShown::from(entries)),
        FileResult::Names(names) => serde_json::to_value(names),
        FileResult::Matches(matches) => serde_json::to_value(matches),
        FileResult::Exported(packed) | FileResult::Imported(packed) => serde_json::to_value(packed),
        FileResult::Batch(_) | FileResult::Watched => Ok(Value::Null),
    };
    shown.unwrap_or_default()
}
