//! What the tests of this crate share: a root of their own and somebody to talk to.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};
use std::thread;

use hotcell_link::{DATA_BYTES, DataHead, FrameKind, UPLOAD_WINDOW, data_cost, decode};

use crate::conversation::{Conversation, Out};
use crate::settled::Ticks;
use crate::tree::{Roots, Tree};

/// A cell's root in a directory of its own, with `/workspace` and `/tmp` in it.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    pub(crate) tree: Tree,
    pub(crate) ticks: Ticks,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(Roots::default())
    }

    pub(crate) fn with(roots: Roots) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["workspace", "tmp", "etc"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let tree = Tree::open(directory.path(), roots).unwrap();
        Self { directory, tree, ticks: Ticks::default() }
    }

    /// Where a path of the cell lies on this machine.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join("workspace").join(path.trim_start_matches('/'))
    }

    /// Where the cell's root lies on this machine.
    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Puts a file into `/workspace`.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Does something in a conversation; what came of it, and what was sent.
pub(crate) fn talk<T>(content: &[u8], work: impl FnOnce(&Conversation) -> T) -> (T, Vec<u8>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let conversation = Conversation::new(7, 256 * 1024, Out::new(ours.try_clone().unwrap()));
    let (room, widened) = (Mutex::new(Some(i64::from(UPLOAD_WINDOW))), Condvar::new());
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            receive(theirs, &conversation, |credit| {
                let mut room = room.lock().unwrap();
                *room = credit.and_then(|credit| room.map(|room| room + i64::from(credit)));
                widened.notify_all();
            })
        });
        scope.spawn(|| {
            for piece in content.chunks(DATA_BYTES) {
                let cost = i64::from(data_cost(piece.len()));
                let mut room = room.lock().unwrap();
                while room.is_some_and(|room| room < cost) {
                    room = widened.wait(room).unwrap();
                }
                let Some(left) = room.as_mut() else { return };
                *left -= cost;
                drop(room);
                conversation.receive(DataHead { last: false }, piece.to_vec());
            }
            conversation.receive(DataHead { last: true }, Vec::new());
        });
        let done = work(&conversation);
        ours.shutdown(Shutdown::Both).unwrap();
        (done, receiver.join().unwrap())
    })
}

fn receive(
    mut stream: UnixStream,
    conversation: &Conversation,
    credited: impl Fn(Option<u32>),
) -> Vec<u8> {
    let (mut received, mut content) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        while let Some((length, frame)) = decode(&received).unwrap() {
            received.drain(..length);
            let frame = frame.unwrap();
            if frame.kind == FrameKind::Data {
                conversation.add_credit(data_cost(frame.blob.len()));
                content.extend(frame.blob);
            } else {
                assert_eq!(frame.kind, FrameKind::Credit);
                credited(Some(frame.head().unwrap()));
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => received.extend_from_slice(&buffer[..length]),
        }
    }
    credited(None);
    content
}

/// All that is below a directory, with what each file holds and where each link leads.
pub(crate) fn state(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            let shown = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                left.push(path.clone());
                "directory".to_owned()
            } else if kind.is_file() {
                let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                format!("{:o} {content}", kind.permissions().mode() & 0o7777)
            } else {
                "other".to_owned()
            };
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), shown);
        }
    }
    found
}
