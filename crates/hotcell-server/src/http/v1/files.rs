//! `/v1/cells/{cell}/files` and what else is done with single files.

use axum::response::Response;
use hotcell_model::{
    Error, ErrorCode, FILE_CONTENT_BYTES, FileCall, FileDelete, FileDeleted, FileDone, FileEdited,
    FileEntry, FileList, FileMatches, FileOp, FileSearch, FileStat, FileWrite, FileWritten,
    Precondition,
};
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::asked::Nothing;
use super::{Answer, Call, download, ok, upload};
use crate::file_asked::{
    Batch, BatchFiles, EditFile, ListFiles, SearchFiles, ShowFile, mode, precondition, yes,
};
use crate::file_shown::{BatchShown, EntryShown, ListShown};
use crate::http::answer::{Refusal, json};

/// How a file is put.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PutFile {
    /// Its permission bits in octal; those it has, or 644, when left out.
    mode: Option<String>,
    /// Make missing directories above it.
    #[serde(default = "yes")]
    create_parents: bool,
    /// Also content that has what stands for a secret, `[REDACTED:…]`; for operators.
    #[serde(default)]
    raw: bool,
}

/// How something is removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveFile {
    /// Also a directory that holds something.
    #[serde(default)]
    recursive: bool,
}

pub(super) async fn list(call: Call) -> Answer {
    let asked: ListFiles = call.query()?;
    ok(&ListShown::try_from(call.files(FileList::from(asked)).await?.result)?)
}

pub(super) async fn stat(call: Call) -> Answer {
    let ShowFile { path } = call.query()?;
    let entry: FileEntry = call.files(FileStat { path }).await?.result.try_into()?;
    ok(&EntryShown::from(entry))
}

pub(super) async fn read(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    download::file(call).await
}

pub(super) async fn write(mut call: Call) -> Answer {
    let PutFile { mode: bits, create_parents, raw } = call.query()?;
    if raw {
        call.see_raw()?;
    }
    let precondition = call.precondition()?;
    let conditional = precondition != Precondition::default();
    let op = FileWrite {
        path: call.path.clone(),
        mode: bits.as_deref().map(mode).transpose()?,
        create_parents,
        precondition,
    };
    let content = call.take_content();
    let sent = upload::send(&call, op.into(), content).await;
    let written: FileWritten = sent.map_err(|refusal| unmet(refusal, conditional))?.try_into()?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = json(status, &written);
    set_etag(&mut response, written.etag.as_str());
    Ok(response)
}

pub(super) async fn delete(call: Call) -> Answer {
    let RemoveFile { recursive } = call.query()?;
    let precondition = call.precondition()?;
    let conditional = precondition != Precondition::default();
    let op = FileDelete { path: call.path.clone(), recursive, precondition };
    let done = call.files(op).await.map_err(|error| unmet(error.into(), conditional))?;
    let deleted: FileDeleted = done.result.try_into()?;
    ok(&deleted)
}

pub(super) async fn edit(call: Call) -> Answer {
    let asked: EditFile = call.body()?;
    let edited: FileEdited = call.files(asked.op()?).await?.result.try_into()?;
    ok(&edited)
}

pub(super) async fn search(call: Call) -> Answer {
    let asked: SearchFiles = call.body()?;
    let found: FileMatches = call.files(FileSearch::from(asked)).await?.result.try_into()?;
    ok(&found)
}

pub(super) async fn batch(call: Call) -> Answer {
    let asked: BatchFiles = call.body()?;
    let Batch { op, content, encodings, .. } = asked.op(FILE_CONTENT_BYTES, FILE_CONTENT_BYTES)?;
    let request = FileCall { content, ..FileCall::new(call.cell()?, op.into()) };
    let done = call.ask(request).await?;
    ok(&BatchShown::new(done.result.try_into()?, &done.content, &encodings))
}

impl Call {
    /// Does something with files that takes no content.
    pub(super) async fn files(&self, op: impl Into<FileOp>) -> Result<FileDone, Error> {
        self.ask(FileCall::new(self.cell()?, op.into())).await
    }

    /// What must be so for a change, by the headers.
    fn precondition(&self) -> Result<Precondition, Error> {
        precondition(self.condition(&IF_MATCH)?, self.condition(&IF_NONE_MATCH)?)
    }

    fn condition(&self, name: &HeaderName) -> Result<Option<&str>, Error> {
        let Some(value) = self.head.headers.get(name) else { return Ok(None) };
        let text = value.to_str().map_err(|_| {
            Error::invalid(format!("the header {name} is {value:?}, which is no etag"))
        })?;
        Ok(Some(text.trim()))
    }
}

/// A conflict is what was to be prevented, where the request has a condition.
fn unmet(refusal: Refusal, conditional: bool) -> Refusal {
    if conditional && refusal.error.code == ErrorCode::Conflict {
        return Refusal::new(StatusCode::PRECONDITION_FAILED, refusal.error);
    }
    refusal
}

pub(super) fn set_etag(response: &mut Response, etag: &str) {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{etag}\"")) {
        response.headers_mut().insert(ETAG, value);
    }
}
