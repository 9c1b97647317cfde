//! What of the files of a cell is shown to whoever must not see secrets.

use hotcell_masking::REACH_BEFORE;
use hotcell_model::{
    BatchOutcome, CellRef, Error, FileBatch, FileCall, FileContent, FileDone, FileOp, FileRead,
    FileResult, Result,
};

use crate::files::call_once;
use crate::glass::Glass;
use crate::site::Site;

/// How much is read after a part of a file, to tell what its end is.
const AHEAD_BYTES: u64 = 8 * 1024;
/// How often a file is read again that changes between two reads.
const ATTEMPTS: u32 = 3;

/// Hides secrets in what came of doing something with files.
pub(crate) async fn cover(
    site: &Site,
    cell: &CellRef,
    glass: &Glass,
    op: &FileOp,
    done: &mut FileDone,
) -> Result<()> {
    let FileDone { result, content } = done;
    if let (FileResult::Batch(batch), FileOp::Batch(FileBatch { operations, .. })) =
        (&mut *result, op)
    {
        let all = std::mem::take(content);
        let mut rest = all.as_slice();
        for (outcome, part) in batch.outcomes.iter_mut().zip(operations) {
            let BatchOutcome::Done { result, content_bytes } = outcome else { continue };
            let own = usize::try_from(*content_bytes).unwrap_or(usize::MAX).min(rest.len());
            let (own, after) = rest.split_at(own);
            rest = after;
            let mut own = own.to_vec();
            cover_one(site, cell, glass, &part.op, result, &mut own).await?;
            *content_bytes = own.len() as u64;
            content.extend_from_slice(&own);
        }
        return Ok(());
    }
    cover_one(site, cell, glass, op, result, content).await
}

async fn cover_one(
    site: &Site,
    cell: &CellRef,
    glass: &Glass,
    op: &FileOp,
    result: &mut FileResult,
    content: &mut Vec<u8>,
) -> Result<()> {
    match result {
        FileResult::Content(read) if is_text(content) => {
            *content = cover_content(site, cell, glass, op, read, content).await?;
        }
        FileResult::Edited(edited) => edited.diff = glass.changes(&edited.diff),
        FileResult::Matches(found) => found.matches.iter_mut().for_each(|one| glass.found(one)),
        FileResult::Content(_)
        | FileResult::Written(_)
        | FileResult::Entries(_)
        | FileResult::Names(_)
        | FileResult::Entry(_)
        | FileResult::Deleted(_)
        | FileResult::Placed(_)
        | FileResult::Batch(_)
        | FileResult::Exported(_)
        | FileResult::Imported(_)
        | FileResult::Watched => {}
    }
    Ok(())
}

/// Whether content is text; what is not carries data as it is. A part of a text may begin and end
/// within a character.
pub(crate) fn is_text(content: &[u8]) -> bool {
    let cut = content.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
    let valid = match std::str::from_utf8(&content[cut..]) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    valid && !content.contains(&0)
}

/// A part of a file is shown as it is shown in the whole: what is around it is read, too.
async fn cover_content(
    site: &Site,
    cell: &CellRef,
    glass: &Glass,
    op: &FileOp,
    read: &mut FileContent,
    content: &[u8],
) -> Result<Vec<u8>> {
    let mut content = content.to_vec();
    for _ in 0..ATTEMPTS {
        let reach = read.offset.min(REACH_BEFORE as u64);
        let before = around(site, cell, read, read.offset - reach, reach).await?;
        let end = read.offset + read.bytes;
        let ahead = if end < read.size { AHEAD_BYTES } else { 0 };
        let after = around(site, cell, read, end, ahead).await?;
        if let (Some(before), Some(after)) = (before, after) {
            return Ok(glass.part(&before, &content, &after));
        }
        // It was changed meanwhile.
        let FileDone { result, content: again } =
            call_once(site, &FileCall::new(cell.clone(), op.clone())).await?;
        (*read, content) = (result.try_into()?, again);
    }
    Err(Error::unavailable(format!("{} changes all the time", read.path))
        .hint("read it again when nothing writes to it, or read all of it at once"))
}

/// A part of the same file; `None` if it has changed.
async fn around(
    site: &Site,
    cell: &CellRef,
    of: &FileContent,
    offset: u64,
    bytes: u64,
) -> Result<Option<Vec<u8>>> {
    if bytes == 0 {
        return Ok(Some(Vec::new()));
    }
    let (offset, limit) = (Some(offset), Some(bytes));
    let read = FileRead { path: of.path.clone(), offset, limit, ..FileRead::default() };
    let done = call_once(site, &FileCall::new(cell.clone(), read.into())).await?;
    let about: FileContent = done.result.try_into()?;
    Ok((about.etag == of.etag).then_some(done.content))
}
