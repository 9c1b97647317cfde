//! Tests of what is told of the records, and in which order.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use crate::changes::Changes;
use crate::copying::Copy;
use crate::frame::{Frame, Head, PIECE_BYTES};
use crate::held;
use crate::outbox::Outbox;

struct Both {
    far: TempDir,
    near: TempDir,
}

impl Both {
    fn new() -> Self {
        let both = Self { far: tempdir(), near: tempdir() };
        for place in [&both.far, &both.near] {
            fs::create_dir_all(place.path().join("records/log")).expect("made");
        }
        both
    }

    fn far(&self, file: &str) -> std::path::PathBuf {
        self.far.path().join("records").join(file)
    }

    fn near(&self, file: &str) -> std::path::PathBuf {
        self.near.path().join("records").join(file)
    }

    fn begin(&self) -> (Changes, Copy) {
        let have = held::describe(&self.near.path().join("records")).expect("held");
        let told = vec!["ready.json".to_owned()];
        let records = self.far.path().join("records");
        let changes = Changes::begin(&records, self.far.path(), told, "over.json".to_owned(), have);
        let copy = Copy::open(&self.near.path().join("records"), self.near.path());
        (changes.expect("begun"), copy.expect("opened"))
    }

    /// What both have, by name.
    fn assert_same(&self) {
        assert_eq!(
            content(&self.near.path().join("records")),
            content(&self.far.path().join("records"))
        );
    }
}

fn tempdir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn content(records: &Path) -> HashMap<String, Vec<u8>> {
    let opened = fs::File::open(records).expect("opened");
    let read = |name: &str| {
        let path = records.join(name);
        match fs::read_link(&path) {
            Ok(target) => target.to_string_lossy().into_owned().into_bytes(),
            Err(_) => fs::read(path).expect("read"),
        }
    };
    let files = held::list(&opened).expect("listed");
    files.iter().map(|(file, _)| (file.to_string(), read(file.as_str()))).collect()
}

/// Copies until nothing is left; every frame that it took.
fn copy_all(changes: &mut Changes, copy: &mut Copy) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        while let Some(frame) = changes.next().expect("looked") {
            apply(copy, &frame);
            frames.push(frame);
        }
        if changes.is_quiet() {
            return frames;
        }
    }
}

fn apply(copy: &mut Copy, frame: &Frame) {
    let applied = match &frame.head {
        Head::Write { file, offset } => copy.write(file, *offset, &frame.payload),
        Head::Link { file, target } => copy.link(file, target),
        Head::Moved { from, to } => copy.rename(from, to),
        Head::Gone { file } => copy.remove(file),
        Head::Alive => Ok(()),
        Head::Put { file } => copy.put(file, &frame.payload),
        Head::Have
        | Head::Begin
        | Head::Caught
        | Head::Open { .. }
        | Head::Data { .. }
        | Head::Grant { .. }
        | Head::End { .. }
        | Head::Forgotten
        | Head::Over => panic!("{frame:?} is no change"),
    };
    applied.expect("applied");
}

fn append(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("opened");
    file.write_all(bytes).expect("written");
}

#[test]
fn a_copy_is_what_the_records_are_and_only_what_is_new_is_sent() {
    let both = Both::new();
    append(&both.far("journal"), b"one\n");
    append(&both.far("log/e_1.0001"), &vec![7; 3 * PIECE_BYTES + 5]);
    symlink("1.2.3", both.far("log/e_2.gap")).expect("linked");
    append(&both.far("files.undo"), b"private");
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);
    both.assert_same();
    assert!(!both.near("files.undo").exists());

    append(&both.far("journal"), b"two\n");
    append(&both.far("log/e_1.0001"), b"more");
    append(&both.far("log/e_3.0001"), b"");
    fs::remove_file(both.far("log/e_2.gap")).expect("removed");
    let frames = copy_all(&mut changes, &mut copy);
    both.assert_same();
    let sent: usize = frames.iter().map(|frame| frame.payload.len()).sum();
    assert_eq!(sent, 8, "{frames:?}");

    drop((changes, copy));
    append(&both.far("journal"), b"three\n");
    let (mut changes, mut copy) = both.begin();
    let frames = copy_all(&mut changes, &mut copy);
    both.assert_same();
    let sent: usize = frames.iter().map(|frame| frame.payload.len()).sum();
    assert_eq!(sent, 6, "another stream goes on where the first one ended: {frames:?}");
}

#[test]
fn the_journal_never_speaks_of_output_that_was_not_sent() {
    let both = Both::new();
    append(&both.far("journal"), b"begun\n");
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);

    append(&both.far("log/e_1.0001"), b"early");
    append(&both.far("journal"), b"early ended\n");
    let first = changes.next().expect("looked").expect("a change");
    apply(&mut copy, &first);
    // While that round goes on: this entry has to wait until its output was sent.
    append(&both.far("log/e_2.0001"), b"late");
    append(&both.far("journal"), b"late ended\n");
    while let Some(frame) = changes.next().expect("looked") {
        apply(&mut copy, &frame);
    }
    let journal = fs::read_to_string(both.near("journal")).expect("read");
    assert_eq!(journal, "begun\nearly ended\n");
    assert_eq!(fs::read(both.near("log/e_1.0001")).expect("read"), b"early");
    copy_all(&mut changes, &mut copy);
    both.assert_same();
}

#[test]
fn what_is_cut_written_over_or_another_file_is_sent_anew() {
    let both = Both::new();
    append(&both.far("journal"), b"whole\ntor");
    append(&both.far("log/e_1.0001"), b"aaaabbbb");
    append(&both.far("network.jsonl"), b"old and long");
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);

    let journal = fs::OpenOptions::new().write(true).open(both.far("journal")).expect("opened");
    journal.set_len(6).expect("cut");
    append(&both.far("journal"), b"again\n");
    fs::write(both.far("log/e_1.0001"), b"aaaaXXXXcc").expect("written over");
    fs::rename(both.far("network.jsonl"), both.far("network.1.jsonl")).expect("renamed");
    append(&both.far("network.jsonl"), b"new and longer than the old");
    let before = fs::metadata(both.near("network.jsonl")).expect("there").ino();
    copy_all(&mut changes, &mut copy);
    both.assert_same();
    let after = fs::metadata(both.near("network.1.jsonl")).expect("there").ino();
    assert_eq!(before, after, "readers know a file that was renamed");
}

#[test]
fn where_the_kernel_tells_nothing_everything_is_looked_at() {
    let both = Both::new();
    append(&both.far("journal"), b"one\n");
    let (mut changes, mut copy) = both.begin();
    changes.watch_nothing();
    copy_all(&mut changes, &mut copy);
    both.assert_same();
    append(&both.far("journal"), b"two\n");
    append(&both.far("log/e_1.0001"), b"output");
    copy_all(&mut changes, &mut copy);
    both.assert_same();
    fs::remove_file(both.far("log/e_1.0001")).expect("removed");
    fs::write(both.far.path().join("over.json"), b"{}").expect("written");
    copy_all(&mut changes, &mut copy);
    both.assert_same();
    assert!(changes.is_over());
}

#[test]
fn output_that_was_let_go_of_here_is_let_go_of_there() {
    let both = Both::new();
    append(&both.far("log/e_1.0001"), b"output");
    append(&both.far("log/e_2.0001"), b"output");
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);
    drop((changes, copy));

    fs::remove_file(both.near("log/e_1.0001")).expect("removed");
    symlink("1.6.6", both.near("log/e_1.gap")).expect("linked");
    // What is only missing is no word that it is not wanted.
    fs::remove_file(both.near("log/e_2.0001")).expect("removed");
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);
    both.assert_same();
    assert!(!both.far("log/e_1.0001").exists());
    assert!(both.far("log/e_2.0001").exists());
}

#[test]
fn more_events_than_the_kernel_keeps_lose_nothing() {
    let both = Both::new();
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("read");
    let most: usize = most.trim().parse().expect("a number");
    // Two events a file that are told apart by their names.
    for number in 0..most.min(20_000) / 2 + 10 {
        append(&both.far(&format!("log/e_{number}.0001")), b"x");
    }
    append(&both.far("log/e_1.0001"), b"y");
    copy_all(&mut changes, &mut copy);
    both.assert_same();
}

#[test]
fn the_end_is_told_after_everything() {
    let both = Both::new();
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);
    assert!(!changes.is_over());
    append(&both.far("journal"), b"closed\n");
    fs::write(both.far.path().join("over.json"), b"{}").expect("written");
    copy_all(&mut changes, &mut copy);
    assert!(changes.is_over());
    both.assert_same();
}

#[test]
fn output_with_a_gap_is_not_let_go_of() {
    let both = Both::new();
    append(&both.far("log/e_1.0001"), b"what a full disk took");
    symlink("1.6.6", both.far("log/e_1.gap")).expect("linked");
    append(&both.far("log/e_2.0001"), b"output");
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);
    fs::remove_file(both.near("log/e_2.0001")).expect("removed");
    symlink("1.6.6", both.near("log/e_2.gap")).expect("linked");
    let links = held::bare_links(&both.near.path().join("records")).expect("looked");
    changes.forget_forgotten(&links).expect("forgotten");
    copy_all(&mut changes, &mut copy);
    both.assert_same();
    assert!(both.far("log/e_1.0001").exists(), "it is wanted");
    assert!(!both.far("log/e_2.0001").exists(), "it is not");
}

/// What the journal grew by after a round had begun, of which no event is left to tell.
#[tokio::test]
async fn what_a_frame_did_not_wait_for_is_told_after_it() {
    let both = Both::new();
    let (mut changes, mut copy) = both.begin();
    copy_all(&mut changes, &mut copy);
    append(&both.far("journal"), b"early\n");
    changes.begin_round_at(0);
    let (near, far) = tokio::io::duplex(1 << 20);
    let outbox = Outbox::new(far);
    outbox.tell_changes_first(changes).await;
    outbox.send(Frame::bare(Head::Caught)).await.expect("sent");
    let woken = tokio::time::timeout(std::time::Duration::from_secs(10), outbox.wake.notified());
    woken.await.expect("whoever tells changes is told that there are more");
    outbox.send_changes().await.expect("sent");
    drop((outbox, near));
}
