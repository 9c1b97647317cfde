//! `hotcell cat`: files as they are.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{FileCall, FileContent, FileRead, FileStream};
use serde_json::json;

use crate::cell_path::CellPath;
use crate::errors::Failure;
use crate::file_args::Cat;
use crate::pieces;
use crate::session::Session;
use crate::show::{print, print_json};

/// Prints files, one after another.
pub(super) async fn cat(session: &Session, args: Cat) -> Result<u8, Failure> {
    for file in &args.files {
        session.look_for(&file.cell).await?;
        let read = FileRead { path: file.path.clone(), lines: args.lines, ..FileRead::default() };
        match args.json {
            true => show(session, file, read).await?,
            false => {
                let stream = FileStream { cell: file.cell.clone(), op: read.into() };
                pieces::receive(session, stream, async |piece| print(piece)).await?;
            }
        }
    }
    Ok(0)
}

async fn show(session: &Session, file: &CellPath, read: FileRead) -> Result<(), Failure> {
    let done = session.ask(FileCall::new(file.cell.clone(), read.into())).await?;
    let about: FileContent = done.result.try_into()?;
    let mut shown = json!(about);
    let (content, encoding) = match String::from_utf8(done.content) {
        Ok(text) => (text, "utf8"),
        Err(error) => (BASE64_STANDARD.encode(error.as_bytes()), "base64"),
    };
    shown["content"] = content.into();
    shown["encoding"] = encoding.into();
    print_json(&shown)
}
