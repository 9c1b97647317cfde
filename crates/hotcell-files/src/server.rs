//! The process that serves the files of a cell: frames come in, each is worked on by a thread.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use hotcell_link::{DataHead, FileAsk, Frame, FrameKind, Tell, decode};
use hotcell_model::{Error, FileOp, FileResult, FileScope, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::batch::Ready;
use crate::changes::{copy_to, delete, make_directory, move_to};
use crate::conversation::{Conversation, Out};
use crate::edit::edit;
use crate::export::export;
use crate::import::{sweep, unpack};
use crate::list::{list, stat};
use crate::read::read;
use crate::search::search;
use crate::settled::Ticks;
use crate::tree::{Roots, Tree};
use crate::undo::{MadeParents, NoUndo, UndoLog, recover};
use crate::unpacked::Bounds;
use crate::watch::watch;
use crate::write::stage;

/// How often it is told that something is being done, also when that has nothing to say.
const TELL_EVERY: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 64 * 1024;
/// What is being done at the same time.
const MOST_CONVERSATIONS: usize = 64;
/// What of it may be watches: they end only when they are told to, and the kernel allows a user
/// few of them.
const MOST_WATCHES: usize = 16;
/// Enough for directories as deep as they are followed; what is not used costs nothing.
pub(crate) const STACK_BYTES: usize = 16 << 20;
/// Descriptors for directories that are open at the same time, one in another.
const MOST_DESCRIPTORS: u64 = 65_536;

/// Everything that work on files needs.
#[derive(Debug)]
struct Site {
    tree: Tree,
    /// What lies below `/workspace`, and nothing else.
    workspace: Tree,
    ticks: Ticks,
    /// Held while files are changed, so that a look before a change still holds at the change.
    changes: Mutex<File>,
    watches: AtomicUsize,
}

/// A watch that is counted.
struct Watching<'a>(&'a AtomicUsize);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Site {
    fn changing(&self) -> MutexGuard<'_, File> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change that takes several steps, all of them or none.
    fn wholly<T>(
        &self,
        tree: &Tree,
        change: impl FnOnce(&mut UndoLog<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut log = self.changing();
        let mut undo = UndoLog::begin(tree, &mut log)?;
        match change(&mut undo) {
            Ok(done) => undo.commit().map(|()| done),
            Err(error) => undo.roll_back().and(Err(error)),
        }
    }

    /// Counts a watch; so many that nothing else could be done are refused.
    fn watching(&self) -> Result<Watching<'_>> {
        let watching = Watching(&self.watches);
        if self.watches.fetch_add(1, Ordering::Relaxed) >= MOST_WATCHES {
            return Err(Error::limit_exceeded(format!(
                "{MOST_WATCHES} other watches of the cell's files are under way"
            ))
            .hint("end one of them"));
        }
        Ok(watching)
    }

    fn work(&self, ask: &FileAsk, conversation: &Conversation) -> Result<FileResult> {
        let ticks = &self.ticks;
        let tree = match ask.scope {
            FileScope::Cell => &self.tree,
            FileScope::Workspace => &self.workspace,
        };
        Ok(match &ask.op {
            FileOp::Read(request) => {
                FileResult::Content(read(tree, ticks, request, &mut &*conversation)?)
            }
            FileOp::Write(request) => {
                // Others need not wait for a slow sender.
                let mut content = conversation.content();
                let mut parents = MadeParents::default();
                let staged = stage(tree, request, &mut content, &mut parents);
                let _changing = self.changing();
                let written = staged.and_then(|ready| ready.place(tree, request, &mut parents));
                if written.is_err() {
                    parents.take_back();
                }
                FileResult::Written(written?)
            }
            FileOp::Edit(request) => {
                let _changing = self.changing();
                FileResult::Edited(edit(tree, ticks, request, &mut NoUndo)?)
            }
            FileOp::List(request) => list(tree, ticks, request, conversation)?,
            FileOp::Stat(request) => FileResult::Entry(stat(tree, ticks, request)?),
            FileOp::Delete(request) => {
                let _changing = self.changing();
                FileResult::Deleted(delete(tree, request, &mut NoUndo)?)
            }
            FileOp::MakeDirectory(request) => {
                let _changing = self.changing();
                FileResult::Placed(make_directory(tree, request, &mut NoUndo)?)
            }
            FileOp::Move(request) => {
                FileResult::Placed(self.wholly(tree, |undo| move_to(tree, request, undo))?)
            }
            FileOp::Copy(request) => {
                FileResult::Placed(self.wholly(tree, |undo| copy_to(tree, request, undo))?)
            }
            FileOp::Batch(request) => {
                // Others wait neither for a slow sender nor for a slow reader.
                let mut ready = Ready::new(tree, request, conversation)?;
                let done = ready.work(tree, ticks, request, &mut self.changing())?;
                ready.send(conversation)?;
                FileResult::Batch(done)
            }
            FileOp::Search(request) => FileResult::Matches(search(tree, request, conversation)?),
            FileOp::Export(request) => FileResult::Exported(export(tree, request, conversation)?),
            FileOp::Import(request) => {
                // Others need not wait for a slow sender.
                let ready = unpack(tree, request, conversation, Bounds::default())?;
                FileResult::Imported(ready.place(tree, conversation, &mut self.changing())?)
            }
            FileOp::Watch(request) => {
                let _watching = self.watching()?;
                watch(tree, request, conversation)?;
                FileResult::Watched
            }
        })
    }
}

/// Serves files until the other end of the stream is closed. `undo_log` is kept between one such
/// process and the next: what one left unfinished, the next brings to an end first.
///
/// # Errors
/// The root cannot be opened, or what was left unfinished cannot be brought to an end.
pub fn serve(stream: UnixStream, mut undo_log: File, root: &Path, roots: Roots) -> Result<()> {
    allow_descriptors();
    let open = |roots| {
        Tree::open(root, roots)
            .map_err(|errno| Error::internal(format!("cannot open {}: {errno}", root.display())))
    };
    let (tree, workspace) = (open(roots)?, open(Roots::workspace())?);
    recover(&tree, &mut undo_log)?;
    sweep(&tree);
    let site = Site {
        tree,
        workspace,
        ticks: Ticks::default(),
        changes: Mutex::new(undo_log),
        watches: AtomicUsize::new(0),
    };
    let timed = stream.set_read_timeout(Some(TELL_EVERY));
    timed.map_err(|error| Error::internal(error.to_string()))?;
    let out = stream.try_clone().map_err(|error| Error::internal(error.to_string()))?;
    let server =
        Server { site: Arc::new(site), out: Out::new(out), under_way: UnderWay::default() };
    server.run(stream);
    Ok(())
}

/// Lets this process have as many descriptors as it may.
fn allow_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    let most = limits.maximum.unwrap_or(MOST_DESCRIPTORS).min(MOST_DESCRIPTORS);
    if limits.current.is_some_and(|current| current < most) {
        // With fewer, less can be done at the same time.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limits });
    }
}

struct Server {
    site: Arc<Site>,
    out: Out,
    under_way: UnderWay,
}

/// What is being done, by channel.
#[derive(Debug, Clone, Default)]
struct UnderWay(Arc<Mutex<HashMap<u32, Arc<Conversation>>>>);

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Conversation>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, channel: u32) -> Option<Arc<Conversation>> {
        self.lock().get(&channel).map(Arc::clone)
    }
}

impl Server {
    fn run(self, mut stream: UnixStream) {
        let mut received = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let mut taken = 0;
            let is_understood = loop {
                match decode(&received[taken..]) {
                    Ok(Some((length, frame))) => {
                        taken += length;
                        if let Some(frame) = frame {
                            self.take(frame);
                        }
                    }
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            if !is_understood {
                break;
            }
            received.drain(..taken);
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => received.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if !self.under_way.lock().is_empty() {
                        self.out.tell_alive();
                    }
                }
                Err(_) => break,
            }
        }
        for conversation in self.under_way.lock().values() {
            conversation.end();
        }
    }

    fn take(&self, frame: Frame) {
        let channel = frame.channel;
        match frame.kind {
            FrameKind::File => self.begin(&frame),
            FrameKind::Data => {
                if let (Some(conversation), Ok(head)) =
                    (self.under_way.find(channel), frame.head::<DataHead>())
                {
                    conversation.receive(head, frame.blob);
                }
            }
            FrameKind::Credit => {
                if let (Some(conversation), Ok(bytes)) =
                    (self.under_way.find(channel), frame.head())
                {
                    conversation.add_credit(bytes);
                }
            }
            FrameKind::Forget => {
                // It counts as under way until its thread has seen it.
                if let Some(conversation) = self.under_way.find(channel) {
                    conversation.end();
                }
            }
            FrameKind::Hello
            | FrameKind::Ask
            | FrameKind::Tell
            | FrameKind::Record
            | FrameKind::Ended
            | FrameKind::Activity => {}
        }
    }

    fn begin(&self, frame: &Frame) {
        let channel = frame.channel;
        let refuse = |window, error| {
            let conversation = Conversation::new(channel, window, self.out.clone());
            conversation.answer(&Tell::Failed(error));
        };
        let ask = match frame.head::<FileAsk>() {
            Ok(ask) => ask,
            Err(error) => {
                return refuse(
                    0,
                    Error::unsupported(format!(
                        "the cell's supervisor does not understand: {error}"
                    ))
                    .hint("the cell was made by another version of hotcell; spawn a new one"),
                );
            }
        };
        if self.under_way.lock().len() >= MOST_CONVERSATIONS {
            return refuse(
                0,
                Error::limit_exceeded(format!(
                    "{MOST_CONVERSATIONS} other things are being done with the cell's files"
                ))
                .hint("try again when some of them are done"),
            );
        }
        let conversation = Arc::new(Conversation::new(channel, ask.window, self.out.clone()));
        self.under_way.lock().insert(channel, Arc::clone(&conversation));
        let (site, under_way) = (Arc::clone(&self.site), self.under_way.clone());
        let worker = {
            let conversation = Arc::clone(&conversation);
            move || {
                let work = || site.work(&ask, &conversation);
                let tell = match catch_unwind(AssertUnwindSafe(work)) {
                    Ok(Ok(result)) => Tell::File(Box::new(result)),
                    Ok(Err(error)) => Tell::Failed(error),
                    Err(_) => Tell::Failed(Error::internal("work on the cell's files broke off")),
                };
                conversation.answer(&tell);
                under_way.lock().remove(&channel);
            }
        };
        if let Err(error) = thread::Builder::new().stack_size(STACK_BYTES).spawn(worker) {
            self.under_way.lock().remove(&channel);
            conversation.answer(&Tell::Failed(
                Error::unavailable(format!("cannot start a thread in the cell: {error}"))
                    .hint("end some of its processes, or raise its limit of them"),
            ));
        }
    }
}
