//! Keeps what stands for a secret from taking its place in a file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_masking::marker::{MarkerScan, markers};
use hotcell_model::{
    CellRef, Error, FileBatch, FileCall, FileEdit, FileOp, FileRead, FileWrite, Result,
};

use crate::files::call_once;
use crate::site::Site;

/// What is read of a file to tell which markers it has.
const MOST_BYTES: u64 = 32 << 20;

type Counts = BTreeMap<Vec<u8>, u64>;

/// Refuses to put a marker into a file that has not as many of it. Fails with a conflict.
pub(crate) async fn check(site: &Site, request: &FileCall) -> Result<()> {
    match &request.op {
        FileOp::Write(write) => check_write(site, &request.cell, write, &request.content).await,
        FileOp::Edit(edit) => check_edit(edit),
        FileOp::Batch(FileBatch { operations, .. }) => {
            let mut rest = request.content.as_slice();
            for part in operations {
                let own = usize::try_from(part.content_bytes).unwrap_or(usize::MAX);
                let (content, after) = rest.split_at(own.min(rest.len()));
                rest = after;
                match &part.op {
                    FileOp::Write(write) => {
                        check_write(site, &request.cell, write, content).await?;
                    }
                    FileOp::Edit(edit) => check_edit(edit)?,
                    FileOp::Read(_)
                    | FileOp::List(_)
                    | FileOp::Stat(_)
                    | FileOp::Delete(_)
                    | FileOp::MakeDirectory(_)
                    | FileOp::Move(_)
                    | FileOp::Copy(_)
                    | FileOp::Search(_)
                    | FileOp::Batch(_)
                    | FileOp::Export(_)
                    | FileOp::Import(_)
                    | FileOp::Watch(_) => {}
                }
            }
            Ok(())
        }
        FileOp::Read(_)
        | FileOp::List(_)
        | FileOp::Stat(_)
        | FileOp::Delete(_)
        | FileOp::MakeDirectory(_)
        | FileOp::Move(_)
        | FileOp::Copy(_)
        | FileOp::Search(_)
        | FileOp::Export(_)
        | FileOp::Import(_)
        | FileOp::Watch(_) => Ok(()),
    }
}

async fn check_write(site: &Site, cell: &CellRef, write: &FileWrite, content: &[u8]) -> Result<()> {
    let new = markers(content);
    if new.is_empty() {
        return Ok(());
    }
    compare(&write.path, &new, &existing(site, cell, &write.path).await)
}

/// An edit puts no more markers into a file than it takes out: what it matches is really there.
fn check_edit(edit: &FileEdit) -> Result<()> {
    for replacement in &edit.edits {
        let new = markers(replacement.new.as_bytes());
        compare(&edit.path, &new, &markers(replacement.old.as_bytes()))?;
    }
    Ok(())
}

/// The markers that a file has; none if it cannot be read.
async fn existing(site: &Site, cell: &CellRef, path: &str) -> Counts {
    let read = FileRead { path: path.to_owned(), ..FileRead::default() };
    let call = FileCall { most_content: MOST_BYTES, ..FileCall::new(cell.clone(), read.into()) };
    let done = Box::pin(call_once(site, &call)).await;
    done.map(|done| markers(&done.content)).unwrap_or_default()
}

fn compare(path: &str, new: &Counts, old: &Counts) -> Result<()> {
    let is_more =
        |(marker, count): &(&Vec<u8>, &u64)| **count > old.get(*marker).copied().unwrap_or(0);
    let Some((marker, _)) = new.iter().find(is_more) else { return Ok(()) };
    let marker = String::from_utf8_lossy(marker);
    Err(Error::conflict(format!(
        "{path} would get {marker}, which only stands for a secret that is not shown"
    ))
    .hint(
        "the file has the real value: change what is around it with an edit, which matches what is \
         really there; to write such a text on purpose, do it with a command",
    ))
}

/// The same for content that comes piece by piece.
#[derive(Debug)]
pub(crate) struct MarkerGuard {
    site: Arc<Site>,
    cell: CellRef,
    path: String,
    scan: Mutex<(MarkerScan, Counts)>,
    existing: tokio::sync::OnceCell<Counts>,
}

impl MarkerGuard {
    /// For what is written to this path.
    pub(crate) fn new(site: &Arc<Site>, cell: &CellRef, path: &str) -> Self {
        Self {
            site: Arc::clone(site),
            cell: cell.clone(),
            path: path.to_owned(),
            scan: Mutex::default(),
            existing: tokio::sync::OnceCell::new(),
        }
    }

    /// Looks at the next piece, before it is sent.
    pub(crate) async fn check(&self, piece: &[u8]) -> Result<()> {
        let counts = {
            let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
            let (scan, counts) = &mut *scan;
            let new = scan.feed(piece);
            if new.is_empty() {
                return Ok(());
            }
            for (marker, count) in new {
                *counts.entry(marker).or_default() += count;
            }
            counts.clone()
        };
        let read = || existing(&self.site, &self.cell, &self.path);
        compare(&self.path, &counts, self.existing.get_or_init(read).await)
    }
}
