//! Several changes at once, all or none.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use hotcell_model::{
    BatchOutcome, BatchPart, BatchResult, Error, FileBatch, FileOp, FileResult, FileStat,
    Precondition, Result,
};

use crate::changes::{copy_to, delete, make_directory, move_to};
use crate::conversation::Conversation;
use crate::edit::edit;
use crate::etag::{etag_of, require};
use crate::fault::Tried;
use crate::list::stat;
use crate::path::CellPath;
use crate::read::read;
use crate::settled::Ticks;
use crate::tree::{Links, Parents, Tree};
use crate::undo::{NoUndo, Undo, UndoLog};
use crate::write::write;

const MOST_OPERATIONS: usize = 1000;

/// All that differences show together.
const MOST_DIFF_BYTES: usize = 4 << 20;

/// A batch whose content has come.
#[derive(Debug)]
pub(crate) struct Ready {
    content: File,
    /// What was read, until it can be sent.
    read: File,
}

impl Ready {
    /// Takes all content in; no file is touched yet.
    pub(crate) fn new(
        tree: &Tree,
        request: &FileBatch,
        conversation: &Conversation,
    ) -> Result<Self> {
        if request.operations.is_empty() || request.operations.len() > MOST_OPERATIONS {
            let count = request.operations.len();
            let range = format!("1 to {MOST_OPERATIONS} items");
            return Err(Error::argument("operations", range, count));
        }
        let what = || "take the content of the batch".to_owned();
        let (mut content, read) = (tree.nameless()?, tree.nameless()?);
        let sizes = request.operations.iter().map(|part| part.content_bytes);
        let wanted = sizes.fold(0_u64, u64::saturating_add);
        if wanted > 0 {
            let most = wanted.saturating_add(1);
            let came =
                io::copy(&mut conversation.content().take(most), &mut content).tried(what)?;
            if came != wanted {
                return Err(Error::invalid(format!(
                    "the operations of the batch take {wanted} bytes of content, but {} came",
                    if came > wanted { "more".to_owned() } else { came.to_string() }
                ))
                .hint("send the content of all writes, one after another"));
            }
            content.rewind().tried(what)?;
        }
        Ok(Self { content, read })
    }

    /// Does all of a batch, or none of it.
    pub(crate) fn work(
        &mut self,
        tree: &Tree,
        ticks: &Ticks,
        request: &FileBatch,
        log: &mut File,
    ) -> Result<BatchResult> {
        let mut bench =
            Bench { tree, ticks, content: &mut self.content, read: &mut self.read, diff_bytes: 0 };
        if !request.atomic {
            let each = |part: &BatchPart| bench.part(part, &mut NoUndo);
            let outcomes = request.operations.iter().map(each).map(outcome).collect();
            return Ok(BatchResult { outcomes, rolled_back: false });
        }
        let mut outcomes: Vec<BatchOutcome> =
            request.operations.iter().map(|_| BatchOutcome::NotDone).collect();
        if let Some((at, error)) = bench.failed_precondition(&request.operations) {
            outcomes[at] = BatchOutcome::Failed(error);
            return Ok(BatchResult { outcomes, rolled_back: true });
        }
        let mut undo = UndoLog::begin(tree, log)?;
        for (at, part) in request.operations.iter().enumerate() {
            match bench.part(part, &mut undo) {
                Ok(done) => outcomes[at] = outcome(Ok(done)),
                Err(error) => {
                    undo.roll_back()?;
                    bench.read.set_len(0).tried(|| "take back what was read".to_owned())?;
                    outcomes[..at].fill(BatchOutcome::NotDone);
                    outcomes[at] = BatchOutcome::Failed(error);
                    return Ok(BatchResult { outcomes, rolled_back: true });
                }
            }
        }
        undo.commit()?;
        Ok(BatchResult { outcomes, rolled_back: false })
    }

    /// Sends what was read.
    pub(crate) fn send(mut self, conversation: &Conversation) -> Result<()> {
        let what = || "send what the batch read".to_owned();
        self.read.rewind().tried(what)?;
        let mut out = BufWriter::with_capacity(hotcell_link::DATA_BYTES, conversation);
        io::copy(&mut self.read, &mut out).tried(what)?;
        out.flush().tried(what)
    }
}

/// What the operations of a batch work with.
#[derive(Debug)]
struct Bench<'a> {
    tree: &'a Tree,
    ticks: &'a Ticks,
    content: &'a mut File,
    read: &'a mut File,
    diff_bytes: usize,
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
    fn part(&mut self, part: &BatchPart, undo: &mut dyn Undo) -> Result<(FileResult, u64)> {
        let Self { tree, ticks, .. } = *self;
        let result = match &part.op {
            FileOp::Read(request) => {
                let before =
                    self.read.stream_position().tried(|| "keep what was read".to_owned())?;
                let read = read(tree, ticks, request, self.read).inspect_err(|_| {
                    // What a failed read has left is nobody's.
                    let _ = self
                        .read
                        .set_len(before)
                        .and_then(|()| self.read.seek(SeekFrom::Start(before)));
                })?;
                let bytes = read.bytes;
                return Ok((FileResult::Content(read), bytes));
            }
            FileOp::Write(request) => {
                let mut own = (&mut *self.content).take(part.content_bytes);
                let written = write(tree, request, &mut own, undo);
                // What a failed write left must not go into the next one.
                let _ = io::copy(&mut own, &mut io::sink());
                FileResult::Written(written?)
            }
            FileOp::Edit(request) => {
                let mut edited = edit(tree, ticks, request, undo)?;
                self.diff_bytes += edited.diff.len();
                if self.diff_bytes > MOST_DIFF_BYTES {
                    edited.diff = "… the batch changes more than can be shown\n".to_owned();
                }
                FileResult::Edited(edited)
            }
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
            if let Some((path, links, precondition)) = precondition(&part.op)
                && let Ok(path) = CellPath::parse(path)
                && !path.as_path().ancestors().any(|above| changed.contains(above))
                && let Err(error) = self.check(&path, links, precondition)
            {
                return Some((at, error));
            }
            let paths = changed_paths(&part.op).into_iter().flatten();
            changed.extend(paths.map(|path| path.as_path().to_owned()));
        }
        None
    }

    fn check(&self, path: &CellPath, links: Links, precondition: &Precondition) -> Result<()> {
        if precondition.is_none() {
            return Ok(());
        }
        let found = match self.tree.slot(path, Parents::Expected, links) {
            Ok(slot) => slot.stat()?,
            Err(error) if error.code == hotcell_model::ErrorCode::NotFound => None,
            Err(error) => return Err(error),
        };
        require(path, precondition, found.as_ref().map(etag_of).as_ref())
    }
}

fn precondition(op: &FileOp) -> Option<(&str, Links, &Precondition)> {
    match op {
        FileOp::Write(op) => Some((&op.path, Links::Followed, &op.precondition)),
        FileOp::Edit(op) => Some((&op.path, Links::Followed, &op.precondition)),
        FileOp::Delete(op) => Some((&op.path, Links::Kept, &op.precondition)),
        FileOp::Move(op) | FileOp::Copy(op) => Some((&op.from, Links::Kept, &op.precondition)),
        // It need not lie where files may be changed, and looks by itself.
        FileOp::Read(_)
        | FileOp::List(_)
        | FileOp::Stat(_)
        | FileOp::MakeDirectory(_)
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
