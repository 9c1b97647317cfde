//! Tests of watching.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::thread;

use hotcell_link::{FrameKind, decode};
use hotcell_model::{ErrorCode, FileWatch};

use crate::conversation::{Conversation, Out};
use crate::testing::Place;
use crate::watch::watch;

/// The lines that a watch tells, as they come.
struct Lines {
    stream: BufReader<UnixStream>,
    received: Vec<u8>,
}

impl Lines {
    /// The next line: a path below the workspace, and what happened.
    fn next(&mut self) -> (String, String) {
        loop {
            if let Some((length, frame)) = decode(&self.received).unwrap() {
                self.received.drain(..length);
                let frame = frame.unwrap();
                assert_eq!(frame.kind, FrameKind::Data);
                let line: serde_json::Value = serde_json::from_slice(&frame.blob).unwrap();
                let field = |name: &str| line[name].as_str().unwrap().to_owned();
                let path = field("path");
                let path = path.strip_prefix("/workspace").unwrap().trim_start_matches('/');
                return (path.to_owned(), field("change"));
            }
            let bytes = self.stream.fill_buf().unwrap();
            assert!(!bytes.is_empty(), "the watch ended");
            self.received.extend_from_slice(bytes);
            let length = bytes.len();
            self.stream.consume(length);
        }
    }

    /// Waits until this line comes; the paths of those before it.
    fn until(&mut self, path: &str, change: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let (other, what) = self.next();
            if (other.as_str(), what.as_str()) == (path, change) {
                return before;
            }
            before.push(other);
        }
    }
}

fn watching(place: &Place, path: &str, work: impl FnOnce(&mut Lines)) -> hotcell_model::Result<()> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let conversation = Conversation::new(1, u32::MAX, Out::new(ours));
    let request = FileWatch { path: path.to_owned() };
    thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&place.tree, &request, &conversation));
        let mut lines = Lines { stream: BufReader::new(theirs), received: Vec::new() };
        assert_eq!(lines.next().1, "watching");
        // A test that fails must not wait for the watch.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut lines)));
        if ended.is_err() {
            conversation.end();
        }
        ended.unwrap();
        conversation.end();
        watch.join().unwrap()
    })
}

#[test]
fn changes_are_told() {
    let place = Place::new();
    place.put("there/old", "1");
    let ended = watching(&place, ".", |lines| {
        place.put("new", "1");
        lines.until("new", "created");
        place.put("there/old", "2");
        lines.until("there/old", "modified");
        fs::rename(place.at("new"), place.at("there/moved")).unwrap();
        lines.until("new", "deleted");
        lines.until("there/moved", "moved");
        fs::remove_file(place.at("there/old")).unwrap();
        lines.until("there/old", "deleted");
    });
    assert_eq!(ended.unwrap_err().code, ErrorCode::Cancelled);
}

#[test]
fn what_is_in_new_directories_is_told_too() {
    let place = Place::new();
    let outside = place.root().join("tmp/tree");
    fs::create_dir_all(outside.join("in")).unwrap();
    fs::write(outside.join("in/f"), "1").unwrap();
    let _ = watching(&place, ".", |lines| {
        fs::create_dir_all(place.at("a/b")).unwrap();
        lines.until("a/b", "created");
        place.put("a/b/f", "1");
        lines.until("a/b/f", "created");
        fs::rename(&outside, place.at("tree")).unwrap();
        lines.until("tree/in/f", "created");
        place.put("tree/in/g", "1");
        lines.until("tree/in/g", "created");
        // Where a directory was moved to counts, and no longer where it was.
        fs::rename(place.at("a/b"), place.at("c")).unwrap();
        lines.until("c/f", "created");
        place.put("c/f", "2");
        lines.until("c/f", "modified");
    });
}

#[test]
fn no_link_is_followed_and_a_directory_that_goes_ends_the_watch() {
    let place = Place::new();
    fs::create_dir(place.at("d")).unwrap();
    symlink("/etc", place.at("d/out")).unwrap();
    symlink("..", place.at("d/up")).unwrap();
    let ended = watching(&place, "d", |lines| {
        place.put("beside", "1");
        fs::write(place.root().join("etc/x"), "1").unwrap();
        place.put("d/f", "1");
        assert_eq!(lines.until("d/f", "created"), [] as [&str; 0]);
        fs::remove_dir_all(place.at("d")).unwrap();
        lines.until("d", "deleted");
    });
    // It ended by itself, or was told to right after.
    assert!(ended.is_ok() || ended.unwrap_err().code == ErrorCode::Cancelled);
}
