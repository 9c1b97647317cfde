//! What is left of changes that were only begun.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hotcell_model::CellId;
use rustix::fs::{Mode, OFlags};

use super::journal::{Bytes, Content, Journal, Move, Site, recover, slot_name};
use super::stamps::Stamps;
use crate::paths::CellPaths;

fn bytes(path: &str) -> Bytes {
    Bytes::of(Path::new(path))
}

/// Begins some changes and does the first ones.
fn interrupted_after(done: usize) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let (project, state) = (place.path().join("project"), place.path().join("state"));
    fs::create_dir(&project).unwrap();
    fs::create_dir(&state).unwrap();
    fs::write(project.join("old"), "old").unwrap();
    fs::write(project.join("gone"), "gone").unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&project, flags, Mode::empty()).unwrap();
    let site = Site::make(&root, &CellId::from_random(1)).unwrap();
    let staging = fs::read_dir(&project).unwrap().flatten().map(|entry| entry.path());
    let staging = staging.into_iter().find(|path| path.is_dir()).unwrap();
    let staged = |slot: usize| {
        fs::write(staging.join(slot_name(slot)), "new").unwrap();
        fs::metadata(staging.join(slot_name(slot))).unwrap().ino()
    };
    let make = |path: &str| Move::Make { path: bytes(path), mode: 0o755, uid: 0, gid: 0 };
    let moves = vec![
        Move::Take { path: bytes("gone"), slot: 0, was: None },
        make("d"),
        make("d/e"),
        Move::Swap { slot: 1, inode: staged(1), path: bytes("old"), new: None, was: None },
        Move::Put { slot: 2, inode: staged(2), path: bytes("d/e/f"), new: None },
        Move::Put { slot: 3, inode: staged(3), path: bytes("top"), new: None },
    ];
    let inode = Some(fs::metadata(&project).unwrap().ino());
    let journal =
        Journal { moves, done: false, touched: Vec::new(), sound: Vec::new(), root: inode };
    journal.save(&CellPaths::at(state.clone())).unwrap();
    site.mark().unwrap();
    for step in &journal.moves[..done] {
        site.perform(step).unwrap();
    }
    place
}

/// Begins some changes, does the first ones, lets somebody else come in between, and undoes them.
fn undo_after(done: usize, between: impl FnOnce(&Path)) -> tempfile::TempDir {
    let place = interrupted_after(done);
    between(&place.path().join("project"));
    recover_in(&place).unwrap();
    assert!(!CellPaths::at(place.path().join("state")).apply_journal().exists());
    place
}

fn recover_in(place: &tempfile::TempDir) -> std::io::Result<()> {
    let paths = CellPaths::at(place.path().join("state"));
    recover(&paths, &CellId::from_random(1), &place.path().join("project"))
}

/// What the user writes to files between the exchange and its end, and what is known of them then.
fn stamps_after(ending: Ending, between: impl FnOnce(&Path)) -> (tempfile::TempDir, Stamps) {
    let place = tempfile::tempdir().unwrap();
    let (project, state) = (place.path().join("project"), place.path().join("state"));
    fs::create_dir(&project).unwrap();
    fs::create_dir(&state).unwrap();
    let paths = CellPaths::at(state);
    for name in ["swapped", "kept", "gone", "back"] {
        fs::write(project.join(name), "old").unwrap();
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&project, flags, Mode::empty()).unwrap();
    let site = Site::make(&root, &CellId::from_random(1)).unwrap();
    let staged = |slot: usize| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(&site.staging, slot_name(slot), flags, mode).unwrap();
        Content::of(&rustix::fs::fstat(file).unwrap())
    };
    let was = |path: &str| {
        Some(Content::of(&crate::tree::look(&root, Path::new(path)).unwrap().unwrap()))
    };
    let swap = |slot: usize, path: &str| {
        let new = staged(slot);
        let inode = new.inode();
        Move::Swap { slot, inode, path: bytes(path), new: Some(new), was: was(path) }
    };
    let moves = vec![
        Move::Take { path: bytes("gone"), slot: 0, was: was("gone") },
        Move::Take { path: bytes("back"), slot: 1, was: was("back") },
        swap(2, "swapped"),
        swap(3, "kept"),
    ];
    let touched: Vec<_> = ["gone", "back", "swapped", "kept"].map(bytes).into();
    let journal = Journal {
        moves,
        done: ending == Ending::Done,
        touched: touched.clone(),
        sound: touched,
        root: None,
    };
    journal.save(&paths).unwrap();
    for step in &journal.moves {
        site.perform(step).unwrap();
    }
    between(&project);
    site.finish(&journal, &paths).unwrap();
    (place, Stamps::load(&paths).unwrap())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Done,
    Undone,
}

fn holds(place: &tempfile::TempDir, stamps: &Stamps, path: &str) -> bool {
    let stat = rustix::fs::lstat(place.path().join("project").join(path)).unwrap();
    stamps.holds(Path::new(path), &stat)
}

#[test]
fn what_the_user_writes_right_after_the_exchange_is_the_users() {
    let (place, stamps) = stamps_after(Ending::Done, |project| {
        fs::write(project.join("swapped"), "the user's").unwrap();
        fs::write(project.join("back"), "the user's").unwrap();
    });
    assert!(holds(&place, &stamps, "kept"), "what nobody else wrote to is the cell's own doing");
    assert!(!holds(&place, &stamps, "swapped"));
    assert!(!holds(&place, &stamps, "back"));
    assert_eq!(stamps.was_there(Path::new("gone")), Some(false));

    let (_place, stamps) = stamps_after(Ending::Done, |project| {
        fs::remove_file(project.join("swapped")).unwrap();
    });
    assert_eq!(stamps.was_there(Path::new("swapped")), Some(true), "the user removed it");
}

#[test]
fn what_the_user_wrote_before_it_was_undone_is_the_users() {
    let (place, stamps) = stamps_after(Ending::Undone, |project| {
        // As if the user had written to it before it was taken away.
        let staging = fs::read_dir(project).unwrap().flatten().map(|entry| entry.path());
        let staging = staging.into_iter().find(|path| path.is_dir()).unwrap();
        fs::write(staging.join("2"), "the user's").unwrap();
    });
    assert_eq!(fs::read_to_string(place.path().join("project/swapped")).unwrap(), "the user's");
    assert!(holds(&place, &stamps, "kept"));
    assert!(!holds(&place, &stamps, "swapped"));
}

#[test]
fn what_the_user_wrote_after_the_exchange_survives_an_undo() {
    let (place, stamps) = stamps_after(Ending::Undone, |project| {
        fs::write(project.join("swapped"), "the user's").unwrap();
        fs::write(project.join("back"), "the user's").unwrap();
    });
    for name in ["swapped", "back"] {
        let path = place.path().join("project").join(name);
        assert_eq!(fs::read_to_string(path).unwrap(), "the user's", "{name}");
    }
    let before = place.path().join("project/back.before-apply-1");
    assert_eq!(fs::read_to_string(before).unwrap(), "old", "it could have been added to");
    assert!(!holds(&place, &stamps, "swapped") && !holds(&place, &stamps, "back"));
    assert!(holds(&place, &stamps, "kept"), "what nobody wrote to is as it was");
}

#[test]
fn whatever_was_done_is_undone_and_what_was_not_is_left_alone() {
    for done in 0..=6 {
        let place = undo_after(done, |_| {});
        let project = place.path().join("project");
        let mut names: Vec<_> =
            fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["gone", "old"], "{done} steps were done");
        for name in ["gone", "old"] {
            assert_eq!(fs::read_to_string(project.join(name)).unwrap(), name, "{done} steps");
        }
    }
}

#[test]
fn a_file_that_somebody_else_made_meanwhile_stays() {
    for done in 0..=5 {
        let place = undo_after(done, |project| fs::write(project.join("top"), "mine").unwrap());
        let kept = fs::read_to_string(place.path().join("project/top")).unwrap();
        assert_eq!(kept, "mine", "{done} steps were done");
    }
}

#[test]
fn a_project_that_is_out_of_reach_keeps_its_files_and_its_journal() {
    let place = interrupted_after(6);
    let (project, unmounted) = (place.path().join("project"), place.path().join("disk"));
    fs::rename(&project, &unmounted).unwrap();
    // Neither a missing directory nor an empty mount point tells that all is over.
    recover_in(&place).unwrap();
    fs::create_dir(&project).unwrap();
    let error = recover_in(&place).unwrap_err();
    assert!(error.to_string().contains("mount the disk"), "{error}");
    assert!(!unmounted.join("gone").exists(), "it is still only in the staging directory");

    fs::remove_dir(&project).unwrap();
    fs::rename(&unmounted, &project).unwrap();
    recover_in(&place).unwrap();
    assert_eq!(fs::read_to_string(project.join("gone")).unwrap(), "gone");
    assert_eq!(fs::read_dir(&project).unwrap().count(), 2);
}

#[test]
fn replaced_files_are_not_removed_without_their_journal() {
    let place = interrupted_after(6);
    fs::remove_file(CellPaths::at(place.path().join("state")).apply_journal()).unwrap();
    let error = recover_in(&place).unwrap_err();
    assert!(error.to_string().contains("move them back by hand"), "{error}");
    let project = place.path().join("project");
    let staging = fs::read_dir(&project).unwrap().flatten().map(|entry| entry.path());
    let staging = staging.into_iter().find(|path| path.join("0").exists()).unwrap();
    assert_eq!(fs::read_to_string(staging.join("0")).unwrap(), "gone");
    assert!(fs::read_to_string(staging.join("UNFINISHED")).unwrap().contains("hotcell diff"));
}
