//! The workspaces of containers. Nothing outside of them is read or written, wherever links lead.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_model::{
    BatchOutcome, BatchPart, BatchResult, Compression, Error, EtagMatch, FileBatch, FileCall,
    FileContent, FileDelete, FileDone, FileEntries, FileEntry, FileExport, FileImport, FileKind,
    FileList, FileMove, FileOp, FileRead, FileResult, FileScope, FileStat, FileWrite, FileWritten,
    FilesPacked, Precondition,
};
use serde_json::{Value, json};

use super::cells::container;
use super::errors::{About, Refused};
use super::inputs::{Encoding, Operation, OperationType};
use super::{Answered, Bench, inputs};
use crate::tool::answer;

const WORKSPACE: &str = "/workspace";
const LISTED_AT_ONCE: u32 = 10_000;
/// What is listed at most.
const MOST_LISTED: usize = 100_000;

/// A path of the workspace. What names lead to is looked at where the files are.
fn inside(path: &str) -> Result<String, Refused> {
    let mut names: Vec<&str> = Vec::new();
    let from = if path.starts_with('/') { "" } else { WORKSPACE };
    for name in from.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    match names.first() {
        Some(&"workspace") if !path.is_empty() => Ok(format!("/{}", names.join("/"))),
        Some(_) | None => Err(Refused::outside(path)),
    }
}

fn decoded(content: String, encoding: Encoding) -> Result<Vec<u8>, Refused> {
    match encoding {
        Encoding::Text => Ok(content.into_bytes()),
        Encoding::Base64 => STANDARD
            .decode(content.split_ascii_whitespace().collect::<String>())
            .map_err(|error| Error::invalid(format!("content is no base64: {error}")).into()),
    }
}

/// Content as text if it can be, and how it is written.
fn encoded(content: Vec<u8>, encoding: Encoding) -> (String, &'static str) {
    let text = match encoding {
        Encoding::Text => String::from_utf8(content),
        Encoding::Base64 => return (STANDARD.encode(content), "base64"),
    };
    match text {
        // As text each NUL would be six characters of JSON.
        Ok(text) if text.contains('\0') => (STANDARD.encode(text), "base64"),
        Ok(text) => (text, "utf-8"),
        Err(binary) => (STANDARD.encode(binary.as_bytes()), "base64"),
    }
}

fn if_match(etag: Option<&str>) -> Result<Precondition, Refused> {
    let if_match = match etag {
        None => None,
        Some("*") => Some(EtagMatch::Any),
        // What is no etag is that of no file.
        Some(etag) => match etag.parse() {
            Ok(etag) => Some(EtagMatch::Etag(etag)),
            Err(_) => return Err(Error::conflict(format!("No file has the etag {etag}")).into()),
        },
    };
    Ok(Precondition { if_match, if_none_match: None })
}

impl Bench {
    /// Does something with the files of a container.
    async fn files(
        &self,
        name: &str,
        op: impl Into<FileOp>,
        content: Vec<u8>,
    ) -> Result<FileDone, Refused> {
        let cell = container(name)?;
        let most_content = self.settings.file_bytes;
        if content.len() as u64 > most_content {
            return Err(About::Files.refused()(FileCall::too_much_content(most_content)));
        }
        let scope = FileScope::Workspace;
        let call = FileCall { scope, content, most_content, ..FileCall::new(cell, op.into()) };
        match self.asking.ask(call).await {
            Ok(done) => Ok(done),
            Err(error) => {
                let refused = About::Files.refused()(error);
                Err(self.in_container(name, refused).await)
            }
        }
    }

    pub(super) async fn fs_read(&self, input: inputs::FsRead) -> Answered {
        let read = FileRead { path: inside(&input.path)?, ..FileRead::default() };
        let done = self.files(&input.container_id, read, Vec::new()).await?;
        let file = FileContent::try_from(done.result)?;
        let (content, encoding) = encoded(done.content, input.encoding);
        Ok(answer(&json!({
            "content": content,
            "etag": file.etag,
            "size": file.size,
            "mime_type": file.mime_type,
            "encoding": encoding,
            "mtime": file.modified,
        })))
    }

    pub(super) async fn fs_write(&self, input: inputs::FsWrite) -> Answered {
        let write = FileWrite {
            path: inside(&input.path)?,
            mode: input.mode,
            create_parents: input.create_parents,
            precondition: if_match(input.if_match_etag.as_deref())?,
        };
        let content = decoded(input.content, input.encoding)?;
        let done = self.files(&input.container_id, write, content).await?;
        let FileWritten { etag, size, .. } = FileWritten::try_from(done.result)?;
        Ok(answer(&json!({ "path": input.path, "etag": etag, "size": size })))
    }

    pub(super) async fn fs_delete(&self, input: inputs::FsDelete) -> Answered {
        let recursive = input.recursive;
        let delete = FileDelete { path: inside(&input.path)?, recursive, ..FileDelete::default() };
        self.files(&input.container_id, delete, Vec::new()).await?;
        Ok(answer(&json!({ "status": "deleted", "path": input.path })))
    }

    pub(super) async fn fs_stat(&self, input: inputs::FsStat) -> Answered {
        let stat = FileStat { path: inside(&input.path)? };
        let done = self.files(&input.container_id, stat, Vec::new()).await?;
        Ok(answer(&entry(&FileEntry::try_from(done.result)?)))
    }

    pub(super) async fn fs_list(&self, input: inputs::FsList) -> Answered {
        let path = inside(&input.path)?;
        let mut entries: Vec<Value> = Vec::new();
        let mut cursor = None;
        loop {
            let list = FileList {
                path: path.clone(),
                recursive: input.recursive,
                limit: LISTED_AT_ONCE,
                cursor,
                mime_types: true,
                ..FileList::default()
            };
            let done = self.files(&input.container_id, list, Vec::new()).await?;
            let page = FileEntries::try_from(done.result)?;
            entries.extend(page.entries.iter().map(entry));
            cursor = page.next_cursor;
            if cursor.is_none() || entries.len() >= MOST_LISTED {
                let mut told = json!({ "path": input.path, "entries": entries });
                if cursor.is_some() {
                    told["truncated"] = true.into();
                }
                return Ok(answer(&told));
            }
        }
    }

    pub(super) async fn fs_batch(&self, input: inputs::FsBatch) -> Answered {
        let mut content = Vec::new();
        let mut operations = Vec::new();
        let asked: Vec<(&'static str, String, Encoding)> = input
            .operations
            .iter()
            .map(|one| (one.op_type.as_str(), one.path.clone(), one.encoding))
            .collect();
        for operation in input.operations {
            let (op, own) = part(operation)?;
            operations.push(BatchPart { op, content_bytes: own.len() as u64 });
            content.extend(own);
        }
        let batch = FileBatch { operations, atomic: true };
        let done = self.files(&input.container_id, batch, content).await?;
        let BatchResult { outcomes, rolled_back } = BatchResult::try_from(done.result)?;
        let mut rest = done.content.as_slice();
        let mut failed = None;
        let mut results: Vec<Value> = Vec::new();
        for ((op_type, path, encoding), outcome) in asked.into_iter().zip(outcomes) {
            let (data, error) = match outcome {
                BatchOutcome::Done { result, content_bytes } => {
                    let own = usize::try_from(content_bytes).unwrap_or(usize::MAX).min(rest.len());
                    let (own, after) = rest.split_at(own);
                    rest = after;
                    (done_part(&result, own, encoding), None)
                }
                BatchOutcome::Failed(error) => {
                    failed = failed.or_else(|| Some(error.message.clone()));
                    (Value::Null, Some(error.message))
                }
                BatchOutcome::NotDone => (Value::Null, Some("not done, or undone".to_owned())),
            };
            results.push(json!({
                "success": error.is_none(),
                "op_type": op_type,
                "path": path,
                "data": data,
                "error": error,
            }));
        }
        Ok(answer(&json!({
            "success": failed.is_none(),
            "results": results,
            "rollback_performed": rolled_back,
            "error": failed,
        })))
    }

    pub(super) async fn fs_tar_read(&self, input: inputs::FsTarRead) -> Answered {
        let export = FileExport {
            path: inside(&input.path)?,
            include: input.include_globs,
            exclude: input.exclude_globs,
            compression: if input.compress { Compression::Gzip } else { Compression::None },
        };
        let done = self.files(&input.container_id, export, Vec::new()).await?;
        let packed = FilesPacked::try_from(done.result)?;
        Ok(answer(&json!({
            "content": STANDARD.encode(&done.content),
            "encoding": "base64",
            "size": done.content.len(),
            "files": packed.files,
        })))
    }

    pub(super) async fn fs_tar_write(&self, input: inputs::FsTarWrite) -> Answered {
        let import = FileImport {
            path: inside(&input.dest)?,
            include: input.include_globs,
            exclude: input.exclude_globs,
        };
        let content = decoded(input.content, Encoding::Base64)?;
        let done = self.files(&input.container_id, import, content).await;
        let done = done.map_err(Refused::in_archive)?;
        let packed = FilesPacked::try_from(done.result)?;
        Ok(answer(&json!({ "files_created": packed.files, "bytes_written": packed.bytes })))
    }
}

/// One operation of a batch, and what it writes.
fn part(operation: Operation) -> Result<(FileOp, Vec<u8>), Refused> {
    let Operation { op_type, path, content, encoding, dest_path, if_match_etag } = operation;
    let path = inside(&path)?;
    let precondition = if_match(if_match_etag.as_deref())?;
    let missing = |what: &str| {
        Error::invalid(format!("Input validation error: {} needs {what}", op_type.as_str()))
    };
    let moved = |dest_path: Option<String>| -> Result<FileMove, Refused> {
        let to = inside(&dest_path.ok_or_else(|| missing("dest_path"))?)?;
        let precondition = precondition.clone();
        Ok(FileMove { from: path.clone(), to, overwrite: true, precondition })
    };
    Ok(match op_type {
        OperationType::Read => {
            (FileRead { path, precondition, ..FileRead::default() }.into(), Vec::new())
        }
        OperationType::Write => {
            let content = decoded(content.ok_or_else(|| missing("content"))?, encoding)?;
            let write = FileWrite { path, mode: None, create_parents: true, precondition };
            (write.into(), content)
        }
        OperationType::Delete => {
            (FileDelete { path, recursive: true, precondition }.into(), Vec::new())
        }
        OperationType::Move => (FileOp::Move(moved(dest_path)?), Vec::new()),
        OperationType::Copy => (FileOp::Copy(moved(dest_path)?), Vec::new()),
    })
}

fn done_part(result: &FileResult, content: &[u8], encoding: Encoding) -> Value {
    match result {
        FileResult::Content(file) => {
            let (content, encoding) = encoded(content.to_vec(), encoding);
            json!({ "content": content, "encoding": encoding, "etag": file.etag, "size": file.size })
        }
        FileResult::Written(file) => json!({ "etag": file.etag, "size": file.size }),
        FileResult::Placed(file) => json!({ "path": file.path, "etag": file.etag }),
        FileResult::Deleted(deleted) => json!({ "removed": deleted.removed }),
        FileResult::Edited(_)
        | FileResult::Entries(_)
        | FileResult::Names(_)
        | FileResult::Entry(_)
        | FileResult::Matches(_)
        | FileResult::Batch(_)
        | FileResult::Exported(_)
        | FileResult::Imported(_)
        | FileResult::Watched => Value::Null,
    }
}

fn entry(entry: &FileEntry) -> Value {
    json!({
        "path": entry.path,
        "size": entry.size,
        "is_dir": entry.kind == FileKind::Directory,
        "permissions": format!("{:o}", entry.mode & 0o7777),
        "mtime": entry.modified,
        // A directory has none.
        "etag": entry.etag.as_ref().map(ToString::to_string).unwrap_or_default(),
        "mime_type": entry.mime_type,
        "type": entry.kind,
        "mode": entry.mode & 0o7777,
    })
}

#[cfg(test)]
mod tests {
    use super::{Encoding, encoded, inside};

    #[test]
    fn paths_stay_in_the_workspace() {
        let cases = [
            ("/workspace", Some("/workspace")),
            ("/workspace/", Some("/workspace")),
            ("a/b", Some("/workspace/a/b")),
            ("./a", Some("/workspace/a")),
            ("/workspace/a/../b", Some("/workspace/b")),
            ("..", None),
            ("/workspaceevil", None),
            ("/workspace/../etc/passwd", None),
            ("../workspace/a", Some("/workspace/a")),
            ("/etc/passwd", None),
            ("/", None),
            ("", None),
        ];
        for (path, expected) in cases {
            assert_eq!(inside(path).ok().as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_text_is_base64() {
        assert_eq!(encoded(b"a".to_vec(), Encoding::Text), ("a".to_owned(), "utf-8"));
        assert_eq!(encoded(b"\xff".to_vec(), Encoding::Text), ("/w==".to_owned(), "base64"));
        assert_eq!(encoded(b"a\0".to_vec(), Encoding::Text), ("YQA=".to_owned(), "base64"));
        assert_eq!(encoded(b"a".to_vec(), Encoding::Base64), ("YQ==".to_owned(), "base64"));
    }
}
