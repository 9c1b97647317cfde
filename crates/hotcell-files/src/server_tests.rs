//! Tests of the whole process: frames in, frames out.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use hotcell_link::{
    DATA_BYTES, DataHead, FileAsk, Frame, FrameKind, MAX_FRAME_BYTES, Tell, UPLOAD_WINDOW, decode,
    encode,
};
use hotcell_model::{
    ErrorCode, FileEntries, FileOp, FileRead, FileResult, FileScope, FileStat, FileWatch,
    FileWrite, Result,
};

use crate::conversation::{Conversation, Out};
use crate::server::serve;
use crate::tree::Roots;

/// A served root, and the one who asks.
struct Served {
    directory: tempfile::TempDir,
    log: File,
    stream: UnixStream,
    received: Vec<u8>,
    server: Option<JoinHandle<Result<()>>>,
}

impl Served {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("workspace")).unwrap();
        let log = tempfile::tempfile().unwrap();
        let (stream, theirs) = UnixStream::pair().unwrap();
        let (root, undo_log) = (directory.path().to_owned(), log.try_clone().unwrap());
        let server = thread::spawn(move || serve(theirs, undo_log, &root, Roots::default()));
        Self { directory, log, stream, received: Vec::new(), server: Some(server) }
    }

    fn send<T: serde::Serialize>(&mut self, kind: FrameKind, channel: u32, head: &T, blob: &[u8]) {
        let mut bytes = Vec::new();
        encode(kind, channel, &serde_json::to_vec(head).unwrap(), blob, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn ask(&mut self, channel: u32, op: impl Into<FileOp>) {
        self.ask_within(FileScope::Cell, channel, op);
    }

    fn ask_within(&mut self, scope: FileScope, channel: u32, op: impl Into<FileOp>) {
        let ask = FileAsk { op: op.into(), scope, window: 1 << 20 };
        self.send(FrameKind::File, channel, &ask, &[]);
    }

    /// The next frame; `None` at the end.
    fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((length, frame)) = decode(&self.received).unwrap() {
                self.received.drain(..length);
                return frame;
            }
            let mut buffer = vec![0; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
            }
        }
    }

    /// The answer on a channel; content that comes before it is given too.
    fn answer(&mut self, channel: u32) -> (Tell, Vec<u8>) {
        let mut content = Vec::new();
        loop {
            let frame = self.next().expect("the server is there");
            if frame.channel != channel {
                continue;
            }
            if frame.kind == FrameKind::Tell {
                return (frame.head().unwrap(), content);
            }
            if frame.kind == FrameKind::Data {
                content.extend(frame.blob);
            }
        }
    }

    fn failure(&mut self, channel: u32) -> ErrorCode {
        match self.answer(channel).0 {
            Tell::Failed(error) => error.code,
            other @ (Tell::Done
            | Tell::Started(_)
            | Tell::Cancelled(_)
            | Tell::Stats(_)
            | Tell::InputState(_)
            | Tell::File(_)) => panic!("{other:?}"),
        }
    }

    fn end(mut self) {
        self.stream.shutdown(Shutdown::Both).unwrap();
        self.server.take().unwrap().join().unwrap().unwrap();
        assert_eq!(self.log.metadata().unwrap().len(), 0);
    }
}

fn watch_of(path: &str) -> FileWatch {
    FileWatch { path: path.to_owned() }
}

fn read_of(path: &str) -> FileRead {
    FileRead { path: path.to_owned(), ..FileRead::default() }
}

#[test]
fn what_is_asked_is_done() {
    let mut served = Served::new();
    let write = FileWrite { path: "d/f".into(), create_parents: true, ..FileWrite::default() };
    served.ask(1, write);
    served.send(FrameKind::Data, 1, &DataHead { last: false }, b"wor");
    served.send(FrameKind::Data, 1, &DataHead { last: true }, b"ds");
    assert!(matches!(served.answer(1).0, Tell::File(_)));
    served.ask(2, read_of("d/f"));
    assert_eq!(served.answer(2).1, b"words");
    served.ask(3, read_of("missing"));
    assert_eq!(served.failure(3), ErrorCode::NotFound);
    served.send(FrameKind::File, 4, &"nonsense", &[]);
    assert_eq!(served.failure(4), ErrorCode::Unsupported);
    assert!(served.directory.path().join("workspace/d/f").exists());
    served.end();
}

#[test]
fn a_read_past_the_end_states_the_size_of_the_file() {
    let mut served = Served::new();
    std::fs::write(served.directory.path().join("workspace/f"), b"words").unwrap();
    for (channel, offset, read) in [(1, 5, &b""[..]), (2, 1_000_000, b""), (3, 4, b"s")] {
        served.ask(channel, FileRead { offset: Some(offset), ..read_of("f") });
        let (Tell::File(result), content) = served.answer(channel) else { panic!("no result") };
        let FileResult::Content(part) = *result else { panic!("{result:?}") };
        assert_eq!((part.size, part.truncated, content.as_slice()), (5, false, read));
    }
    served.end();
}

#[test]
fn what_is_given_up_leaves_no_directory() {
    let mut served = Served::new();
    let write = |path: &str| FileWrite {
        path: path.to_owned(),
        create_parents: true,
        ..FileWrite::default()
    };
    let workspace = served.directory.path().join("workspace");
    for (channel, path) in [(1, "made/for/one"), (2, "made/for/two")] {
        served.ask(channel, write(path));
        served.send(FrameKind::Data, channel, &DataHead { last: false }, b"half");
        while !workspace.join("made/for").exists() {
            std::thread::yield_now();
        }
    }
    // The second is under way; where it goes was made for the first.
    served.ask(3, FileStat { path: "made/for".into() });
    served.answer(3);
    served.send(FrameKind::Forget, 1, &(), &[]);
    assert_eq!(served.failure(1), ErrorCode::Cancelled);
    served.send(FrameKind::Data, 2, &DataHead { last: true }, b" and half");
    assert!(matches!(served.answer(2).0, Tell::File(_)));
    assert_eq!(std::fs::read(workspace.join("made/for/two")).unwrap(), b"half and half");
    served.ask(4, write("gone/with/it"));
    served.send(FrameKind::Data, 4, &DataHead { last: false }, b"half");
    while !workspace.join("gone/with").exists() {
        std::thread::yield_now();
    }
    served.send(FrameKind::Forget, 4, &(), &[]);
    assert_eq!(served.failure(4), ErrorCode::Cancelled);
    assert!(!workspace.join("gone").exists());
    served.end();
}

#[test]
fn watches_leave_room_for_others_and_go_when_they_are_forgotten() {
    let mut served = Served::new();
    let most = 16;
    for channel in 1..=most {
        served.ask(channel, watch_of("."));
    }
    let mut begun = 0;
    while begun < most {
        begun += u32::from(served.next().unwrap().kind == FrameKind::Data);
    }
    served.ask(100, watch_of("."));
    assert_eq!(served.failure(100), ErrorCode::LimitExceeded);
    served.ask(101, FileStat { path: ".".into() });
    assert!(matches!(served.answer(101).0, Tell::File(_)));
    served.send(FrameKind::Forget, 1, &(), &[]);
    // The place is free as soon as its thread has seen it.
    for channel in 200.. {
        served.ask(channel, watch_of("."));
        if served.next().unwrap().kind == FrameKind::Data {
            break;
        }
    }
    served.end();
}

#[test]
fn what_is_no_frame_ends_the_process() {
    let mut served = Served::new();
    served.stream.write_all(&[0xff; 64]).unwrap();
    served.server.take().unwrap().join().unwrap().unwrap();
    assert_eq!(served.next(), None);
}

#[test]
fn who_sends_more_than_was_asked_for_is_refused() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let conversation = Conversation::new(1, 0, Out::new(ours));
    let piece = vec![0; DATA_BYTES];
    let allowed = UPLOAD_WINDOW as usize / (DATA_BYTES + 64);
    for _ in 0..allowed {
        conversation.receive(DataHead { last: false }, piece.clone());
    }
    assert!(conversation.next_piece(&mut 0).is_ok());
    for _ in 0..1000 {
        conversation.receive(DataHead { last: false }, piece.clone());
    }
    assert_eq!(conversation.next_piece(&mut 0).unwrap_err().code, ErrorCode::Invalid);
    let mut content = Vec::new();
    conversation.content().read_to_end(&mut content).unwrap_err();
}

#[test]
fn an_answer_that_is_too_long_is_told_as_such() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let conversation = Conversation::new(1, 0, Out::new(ours));
    let cursor = Some("x".repeat(MAX_FRAME_BYTES));
    let answer = FileResult::Entries(FileEntries { entries: Vec::new(), next_cursor: cursor });
    conversation.answer(&Tell::File(Box::new(answer)));
    drop(conversation);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).unwrap();
    let (_, frame) = decode(&bytes).unwrap().unwrap();
    let tell: Tell = frame.unwrap().head().unwrap();
    assert!(matches!(tell, Tell::Failed(error) if error.code == ErrorCode::LimitExceeded));
}

#[test]
fn what_is_for_the_workspace_stays_there() {
    let mut served = Served::new();
    let root = served.directory.path().to_owned();
    for (path, content) in [("workspace/a", "inside"), ("secret", "outside")] {
        fs::write(root.join(path), content).unwrap();
    }
    for (link, target) in [("back", "/workspace/a"), ("away", "/secret"), ("up", "../secret")] {
        std::os::unix::fs::symlink(target, root.join("workspace").join(link)).unwrap();
    }
    let cases = [
        ("/workspace/a", Some("inside")),
        ("/workspace/back", Some("inside")),
        ("/workspace/away", None),
        ("/workspace/up", None),
        ("/secret", None),
        ("/workspace/../secret", None),
    ];
    for (channel, (path, expected)) in (1..).zip(cases) {
        let read = FileRead { path: path.to_owned(), ..FileRead::default() };
        served.ask_within(FileScope::Workspace, channel, read);
        let (tell, content) = served.answer(channel);
        match (expected, tell) {
            (Some(expected), Tell::File(_)) => assert_eq!(content, expected.as_bytes(), "{path}"),
            (None, Tell::Failed(error)) => assert_eq!(error.code, ErrorCode::Denied, "{path}"),
            (_, tell) => panic!("{path}: {tell:?}"),
        }
    }
    served.ask(20, FileRead { path: "/secret".to_owned(), ..FileRead::default() });
    assert_eq!(served.answer(20).1, b"outside");
}
