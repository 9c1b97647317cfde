//! Several changes at once, all or none.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;

use hotcell_model::{
    BatchOutcome, BatchPart, BatchResult, Error, FileBatch, FileOp, FileResult, FileStat,
    Precondition, Result,
};

use crate::changes::{copy_to, delete, make_directory, move_to};
use crate::conversation::Conversation;
use crate::edit::edit;
use crate::etag::{etag_of, require};
use crate::list::stat;
use crate::path::CellPath;
use crate::read::read;
use crate::settled::Ticks;
use crate::tree::{Links, Parents, Tree};
use crate::undo::{NoUndo, Undo, UndoLog};
use crate::write::write;

const MOST_OPERATIONS: usize = 1000;

/// What a batch works with.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) ticks: &'a Ticks,
    pub(crate) conversation: &'a Conversation,
}

/// Does all of a batch, or none of it.
pub(crate) fn batch(bench: &Bench<'_>, request: &FileBatch, log: &mut File) -> Result<BatchResult> {
    if request.operations.is_empty() || request.operations.len() > MOST_OPERATIONS {
        let count = request.operations.len();
        return Err(Error::invalid(format!("a batch cannot have {count} operations"))
            .hint(format!("give 1 to {MOST_OPERATIONS}")));
    }
    let mut content = bench.conversation.content();
    if !request.atomic {
        let each = |part: &BatchPart| bench.part(part, &mut content, &mut NoUndo);
        let outcomes = request.operations.iter().map(each).map(outcome).collect();
        return Ok(BatchResult { outcomes, rolled_back: false });
    }
    let mut outcomes: Vec<BatchOutcome> =
        request.operations.iter().map(|_| BatchOutcome::NotDone).collect();
    if let Some((at, error)) = bench.failed_precondition(&request.operations) {
        outcomes[at] = BatchOutcome::Failed(error);
        return Ok(BatchResult { outcomes, rolled_back: true });
    }
    let mut undo = UndoLog::begin(bench.tree, log)?;
    for (at, part) in request.operations.iter().enumerate() {
        match bench.part(part, &mut content, &mut undo) {
            Ok(done) => outcomes[at] = outcome(Ok(done)),
            Err(error) => {
                undo.roll_back()?;
                outcomes[..at].fill(BatchOutcome::NotDone);
                outcomes[at] = BatchOutcome::Failed(error);
                return Ok(BatchResult { outcomes, rolled_back: true });
            }
        }
    }
    undo.commit()?;
    Ok(BatchResult { outcomes, rolled_back: false })
}

fn outcome(done: Result<(FileResult, u64)>) -> BatchOutcome {
    match done {
        Ok((result, content_bytes)) => {
            BatchOutcome::Done { result: Box::new(result), content_bytes }
        }
        Err(error) => BatchOutcome::Failed(error),
    }
}

impl Bench<'_> {
    /// Does one thing of a batch; what came of it, and how much content it sent.
    fn part(
        &self,
        part: &BatchPart,
        content: &mut dyn Read,
        undo: &mut dyn Undo,
    ) -> Result<(FileResult, u64)> {
        let Self { tree, ticks, conversation } = self;
        let result = match &part.op {
            FileOp::Read(request) => {
                let read = read(tree, ticks, request, conversation)?;
                let bytes = read.bytes;
                return Ok((FileResult::Content(read), bytes));
            }
            FileOp::Write(request) => {
                let mut own = content.take(part.content_bytes);
                let written = write(tree, request, &mut own, undo);
                // What a failed write left must not go into the next one.
                let _ = std::io::copy(&mut own, &mut std::io::sink());
                FileResult::Written(written?)
            }
            FileOp::Edit(request) => FileResult::Edited(edit(tree, ticks, request, undo)?),
            FileOp::Delete(request) => FileResult::Deleted(delete(tree, request, undo)?),
            FileOp::MakeDirectory(request) => {
                FileResult::Placed(make_directory(tree, request, undo)?)
            }
            FileOp::Move(request) => FileResult::Placed(move_to(tree, request, undo)?),
            FileOp::Copy(request) => FileResult::Placed(copy_to(tree, request, undo)?),
            FileOp::Stat(request) => FileResult::Entry(stat(tree, ticks, request)?),
            FileOp::List(_)
            | FileOp::Search(_)
            | FileOp::Batch(_)
            | FileOp::Export(_)
            | FileOp::Import(_)
            | FileOp::Watch(_) => {
                return Err(Error::invalid("a batch cannot list, search, pack or watch")
                    .hint("use read, write, edit, delete, mkdir, move, copy and stat"));
            }
        };
        Ok((result, 0))
    }

    /// The first operation whose precondition does not hold, of those that are about files which
    /// no operation before them changes.
    fn failed_precondition(&self, parts: &[BatchPart]) -> Option<(usize, Error)> {
        let mut changed = BTreeSet::new();
        for (at, part) in parts.iter().enumerate() {
            if let Some((path, precondition)) = precondition(&part.op)
                && let Ok(path) = CellPath::parse(path)
                && !path.as_path().ancestors().any(|above| changed.contains(above))
                && let Err(error) = self.check(&path, precondition)
            {
                return Some((at, error));
            }
            let paths = changed_paths(&part.op).into_iter().flatten();
            changed.extend(paths.map(|path| path.as_path().to_owned()));
        }
        None
    }

    fn check(&self, path: &CellPath, precondition: &Precondition) -> Result<()> {
        if *precondition == Precondition::default() {
            return Ok(());
        }
        let found = match self.tree.slot(path, Parents::Expected, Links::Followed) {
            Ok(slot) => slot.stat()?,
            Err(error) if error.code == hotcell_model::ErrorCode::NotFound => None,
            Err(error) => return Err(error),
        };
        require(path, precondition, found.as_ref().map(etag_of).as_ref())
    }
}

fn precondition(op: &FileOp) -> Option<(&str, &Precondition)> {
    match op {
        FileOp::Write(op) => Some((&op.path, &op.precondition)),
        FileOp::Edit(op) => Some((&op.path, &op.precondition)),
        FileOp::Delete(op) => Some((&op.path, &op.precondition)),
        FileOp::Read(_)
        | FileOp::List(_)
        | FileOp::Stat(_)
        | FileOp::MakeDirectory(_)
        | FileOp::Move(_)
        | FileOp::Copy(_)
        | FileOp::Search(_)
        | FileOp::Batch(_)
        | FileOp::Export(_)
        | FileOp::Import(_)
        | FileOp::Watch(_) => None,
    }
}

fn changed_paths(op: &FileOp) -> [Option<CellPath>; 2] {
    let parse = |path: &str| CellPath::parse(path).ok();
    match op {
        FileOp::Write(op) => [parse(&op.path), None],
        FileOp::Edit(op) => [parse(&op.path), None],
        FileOp::Delete(op) => [parse(&op.path), None],
        FileOp::MakeDirectory(op) => [parse(&op.path), None],
        FileOp::Move(op) => [parse(&op.from), parse(&op.to)],
        FileOp::Copy(op) => [parse(&op.to), None],
        FileOp::Read(_)
        | FileOp::List(_)
        | FileOp::Stat(FileStat { .. })
        | FileOp::Search(_)
        | FileOp::Batch(_)
        | FileOp::Export(_)
        | FileOp::Import(_)
        | FileOp::Watch(_) => [None, None],
    }
}
