//! The operations on the files of cells, in the same form as the others.

use hotcell_model::{FileDeleted, FileEdited, FileMatches, FileWritten, FilesPacked};
use http::Method;

use super::table::{Operation, Shown, reference, whole};
use super::{archives, files};
use crate::file_asked::{
    BatchFiles, EditFile, ExportFiles, ImportFiles, ListFiles, SearchFiles, ShowFile,
};
use crate::file_shown::{BatchShown, EntryShown, ListShown};

pub(super) const FILE_OPERATIONS: &[Operation] = &[
    Operation {
        method: Method::GET,
        path: "/v1/cells/{cell}/files",
        name: "listFiles",
        about: "List a directory.",
        query: Some(whole::<ListFiles>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<ListShown>),
        answer: |call| Box::pin(files::list(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/cells/{cell}/files/{*path}",
        name: "readFile",
        about: "Read a file. Takes Range, If-Range, If-Match and If-None-Match; HEAD shows the \
                headers alone.",
        query: None,
        body: None,
        statuses: &[200, 206, 304],
        shown: Shown::Bytes(&["*/*"]),
        answer: |call| Box::pin(files::read(call)),
    },
    Operation {
        method: Method::PUT,
        path: "/v1/cells/{cell}/files/{*path}",
        name: "writeFile",
        about: "Write a file, at once or not at all; 201 when it was not there. Takes If-Match \
                and If-None-Match.",
        query: Some(whole::<files::PutFile>),
        body: None,
        statuses: &[200, 201],
        shown: Shown::Json(reference::<FileWritten>),
        answer: |call| Box::pin(files::write(call)),
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/cells/{cell}/files/{*path}",
        name: "deleteFile",
        about: "Delete a file or a directory. Takes If-Match.",
        query: Some(whole::<files::RemoveFile>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<FileDeleted>),
        answer: |call| Box::pin(files::delete(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/cells/{cell}/stat",
        name: "statFile",
        about: "Show one file, directory or link.",
        query: Some(whole::<ShowFile>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<EntryShown>),
        answer: |call| Box::pin(files::stat(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/cells/{cell}/edit",
        name: "editFile",
        about: "Replace text in a file.",
        query: None,
        body: Some(reference::<EditFile>),
        statuses: &[200],
        shown: Shown::Json(reference::<FileEdited>),
        answer: |call| Box::pin(files::edit(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/cells/{cell}/search",
        name: "searchFiles",
        about: "Search lines of files, or their names.",
        query: None,
        body: Some(reference::<SearchFiles>),
        statuses: &[200],
        shown: Shown::Json(reference::<FileMatches>),
        answer: |call| Box::pin(files::search(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/cells/{cell}/batch",
        name: "batchFiles",
        about: "Do several things with files, all or none.",
        query: None,
        body: Some(reference::<BatchFiles>),
        statuses: &[200],
        shown: Shown::Json(reference::<BatchShown>),
        answer: |call| Box::pin(files::batch(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/cells/{cell}/archive",
        name: "exportFiles",
        about: "Pack files into a tar archive.",
        query: Some(whole::<ExportFiles>),
        body: None,
        statuses: &[200],
        shown: Shown::Bytes(&["application/x-tar", "application/gzip", "application/zstd"]),
        answer: |call| Box::pin(archives::export(call)),
    },
    Operation {
        method: Method::PUT,
        path: "/v1/cells/{cell}/archive",
        name: "importFiles",
        about: "Unpack a tar archive, plain or compressed by gzip or zstd, into a directory.",
        query: Some(whole::<ImportFiles>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<FilesPacked>),
        answer: |call| Box::pin(archives::import(call)),
    },
];
