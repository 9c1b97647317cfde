//! `fs_export`, `fs_import`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{
    CellRef, Compression, Error, FileCall, FileExport, FileImport, FileResult, FilesPacked, Reply,
    Result,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file_tool::{answer, asked, call, input, request};
use super::schema;
use super::text::SHOWN_BYTES;
use super::tool::{Effect, ToolBounds, ToolKind};
use crate::file_asked::{from_base64, here};
use crate::toolsets::Toolset;
use hotcell_dialects::{Outcome, Question};

/// The largest archive that is part of a result by default: as base64 it fits into a text.
const ARCHIVE_BYTES: u64 = SHOWN_BYTES as u64 / 4 * 3;
/// What stands in a query as it is.
const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "fs_export",
        toolset: Toolset::Fs,
        about: "Pack files into a tar archive: base64, or a link to a larger one.",
        found_by: "download files, tar, zip, archive a directory",
        effect: Effect::Reads,
        example: r#"{"path": "dist", "compression": "gzip"}"#,
        input: input::<Export>,
        output: schema::output::<Exported>,
        call: export,
    },
    ToolKind {
        name: "fs_import",
        toolset: Toolset::Fs,
        about: "Unpack a base64 tar archive into a directory.",
        found_by: "upload files, untar, unpack an archive",
        effect: Effect::Replaces,
        example: r#"{"path": "vendor", "archive": "H4sIAAAAAAACA8tIzcnJ1yupKGGgHTAAAjMTEzANBOg0SBaJDRI3NzMwZVAwYKADKC0uSSwCWskwMkEGKP65GEbBKBgFo2AUjDAAAAmyFwwACAAA"}"#,
        input: input::<Import>,
        output: schema::output::<Imported>,
        call: import,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Export {
    /// default .
    #[serde(default = "here")]
    path: String,
    /// globs
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    /// default gzip
    #[serde(default)]
    compression: Compression,
    /// the most in the result, default 24576
    #[serde(default = "archive_bytes")]
    max_bytes: u64,
}

fn archive_bytes() -> u64 {
    ARCHIVE_BYTES
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct Exported {
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<String>,
    /// GET it, with your token
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

fn export(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, asked): (_, Export) = asked(arguments)?;
    let most = asked.max_bytes.min(bounds.content_bytes);
    let op = FileExport {
        path: asked.path,
        include: asked.include,
        exclude: asked.exclude,
        compression: asked.compression,
    };
    let query = query(&cell, &op);
    let request = FileCall { most_content: most, ..request(cell, op, bounds) };
    let show = move |outcome: Outcome| {
        let done = match (outcome.reply, outcome.site) {
            (Ok(Reply::FileDone(done)), _) => done,
            (Err(error), Some(site)) if error == FileCall::too_much_content(most) => {
                let url = format!("{site}{query}");
                let text = format!("the archive is larger than {most} bytes; GET it at {url}");
                let view = Exported { url: Some(url), ..Exported::default() };
                return answer(&view, text).ok_or_else(other);
            }
            (Err(error), None) if error == FileCall::too_much_content(most) => {
                return Err(Error::limit_exceeded(format!(
                    "the archive is larger than {most} bytes"
                ))
                .hint(
                    "pack less with include and exclude, read files in parts with fs_read \
                     (encoding base64, offset, limit), raise max_bytes, or ask the user to run \
                     the command hotcell cp CELL:PATH DIR",
                ));
            }
            (Err(error), _) => return Err(error),
            (Ok(_), _) => return Err(other()),
        };
        let FileResult::Exported(packed) = done.result else { return Err(other()) };
        let archive = BASE64_STANDARD.encode(&done.content);
        let size = done.content.len();
        let packed_into = counted(&packed);
        let text =
            format!("packed {packed_into} into an archive of {size} bytes, base64:\n{archive}");
        let view = Exported {
            archive: Some(archive),
            url: None,
            files: Some(packed.files),
            bytes: Some(packed.bytes),
        };
        answer(&view, text).ok_or_else(other)
    };
    Ok(Question { request: request.into(), show: Some(Box::new(show)) })
}

fn other() -> Error {
    Error::internal("the reply to another request came")
}

/// Where the same archive is over HTTP.
fn query(cell: &CellRef, op: &FileExport) -> String {
    let encode = |text: &str| utf8_percent_encode(text, QUERY).to_string();
    let compression = match op.compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    };
    let mut query =
        format!("/v1/cells/{cell}/archive?path={}&compression={compression}", encode(&op.path));
    for pattern in &op.include {
        query.push_str(&format!("&include={}", encode(pattern)));
    }
    for pattern in &op.exclude {
        query.push_str(&format!("&exclude={}", encode(pattern)));
    }
    query
}

fn counted(packed: &FilesPacked) -> String {
    format!("{} files and {} directories", packed.files, packed.directories)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Import {
    /// default .
    #[serde(default = "here")]
    path: String,
    /// base64; tar, plain, gzip or zstd
    archive: String,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Imported {
    files: u64,
    directories: u64,
    links: u64,
    bytes: u64,
}

fn import(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let (cell, asked): (_, Import) = asked(arguments)?;
    let content = from_base64("archive", &asked.archive)?;
    let op = FileImport { path: asked.path, include: asked.include, exclude: asked.exclude };
    let request = FileCall { content, ..request(cell, op, bounds) };
    Ok(call(request, |done| {
        let FileResult::Imported(packed) = done.result else { return None };
        let view = Imported {
            files: packed.files,
            directories: packed.directories,
            links: packed.links,
            bytes: packed.bytes,
        };
        answer(&view, format!("unpacked {}", counted(&packed)))
    }))
}
