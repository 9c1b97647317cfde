//! Tests against somebody in the cell who changes directories into links meanwhile.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hotcell_model::{
    FileDelete, FileEntries, FileImport, FileList, FileMakeDirectory, FileMove, FileRead,
    FileSearch, FileWrite, SearchIn,
};

use crate::changes::{copy_to, delete, make_directory, move_to};
use crate::import::unpack;
use crate::list::list;
use crate::read::read;
use crate::search::search;
use crate::testing::{Place, state, talk};
use crate::tree::Roots;
use crate::undo::NoUndo;
use crate::unpacked::Bounds;
use crate::write::write;

const ROUNDS: usize = 2000;
const SECRET: &str = "secret";

/// A place with narrowed roots, and beside them a directory that nothing may be known of.
fn guarded() -> Place {
    let roots = vec!["/workspace".into()];
    let place = Place::with(Roots { writable: roots.clone(), readable: roots });
    place.put("d/f", "inside");
    fs::write(place.root().join("etc/f"), SECRET).unwrap();
    fs::write(place.root().join("etc/only_outside"), SECRET).unwrap();
    place
}

/// Swaps `d` for a link to the outside and back for as long as the work goes on.
fn while_swapped<T>(place: &Place, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let (directory, link) = (place.at("d"), place.at("link"));
    symlink(place.root().join("etc"), &link).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                exchange(&directory, &link);
                exchange(&directory, &link);
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap()
    })
}

fn exchange(one: &Path, other: &Path) {
    let (at, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
    rustix::fs::renameat_with(at, one, at, other, flags).unwrap();
}

fn outside(place: &Place) -> std::collections::BTreeMap<std::path::PathBuf, String> {
    state(&place.root().join("etc"))
}

#[test]
fn plain_calls_do_escape() {
    // The control: what the others show to be impossible is possible by paths alone.
    let place = guarded();
    let before = outside(&place);
    let (read, written) = while_swapped(&place, || {
        let (mut read, mut written) = (false, false);
        for round in 0..ROUNDS * 50 {
            read |= fs::read_to_string(place.at("d/f")).is_ok_and(|text| text == SECRET);
            let _ = fs::write(place.at(&format!("d/n{}", round % 10)), "x");
            written |= round % 100 == 0 && outside(&place) != before;
            if read && written {
                break;
            }
        }
        (read, written)
    });
    assert!(read && written);
}

#[test]
fn nothing_outside_is_ever_written() {
    let place = guarded();
    let before = outside(&place);
    while_swapped(&place, || {
        let tree = &place.tree;
        for round in 0..ROUNDS {
            let path = format!("d/n{}", round % 10);
            let request =
                FileWrite { path: path.clone(), create_parents: true, ..FileWrite::default() };
            let _ = write(tree, &request, &mut &b"x"[..], &mut NoUndo);
            let request = FileMakeDirectory { path: format!("{path}m/e"), create_parents: true };
            let _ = make_directory(tree, &request, &mut NoUndo);
            let moved = FileMove {
                from: path.clone(),
                to: format!("{path}moved"),
                overwrite: true,
                ..FileMove::default()
            };
            let _ = move_to(tree, &moved, &mut NoUndo);
            let copied = FileMove {
                from: "d".into(),
                to: format!("copy{}", round % 10),
                overwrite: true,
                ..FileMove::default()
            };
            let _ = copy_to(tree, &copied, &mut NoUndo);
            for path in [format!("{path}m"), "d/f".to_owned(), copied.to] {
                let request = FileDelete { path, recursive: true, ..FileDelete::default() };
                let _ = delete(tree, &request, &mut NoUndo);
            }
            assert_eq!(outside(&place), before);
        }
    });
}

#[test]
fn with_narrowed_roots_nothing_outside_is_ever_read() {
    let place = guarded();
    let mut found = 0;
    while_swapped(&place, || {
        let tree = &place.tree;
        // Whoever swaps may not have come to it for as long as all rounds take.
        let patience = Instant::now() + Duration::from_secs(20);
        let mut rounds = 0;
        while rounds < ROUNDS || (found == 0 && Instant::now() < patience) {
            rounds += 1;
            let request = FileRead { path: "d/f".into(), ..FileRead::default() };
            let mut content = Vec::new();
            if read(tree, &place.ticks, &request, &mut content).is_ok() {
                found += 1;
            }
            assert!(content.is_empty() || content == b"inside");
        }
        let wanted = FileSearch {
            path: ".".into(),
            pattern: "inside|secret".into(),
            within: SearchIn::Content,
            literal: false,
            ignore_case: false,
            glob: None,
            include_ignored: true,
            context_lines: 0,
            limit: 100,
            cursor: None,
            early: false,
        };
        for _ in 0..ROUNDS / 10 {
            let (matches, _) = talk(&[], |conversation| search(tree, &wanted, conversation));
            for found in matches.unwrap().matches {
                assert_eq!(found.text.as_deref(), Some("inside"));
            }
            let request =
                FileList { path: ".".into(), recursive: true, limit: 100, ..FileList::default() };
            let (listed, _) =
                talk(&[], |conversation| list(tree, &place.ticks, &request, conversation));
            let page = listed.and_then(FileEntries::try_from);
            for entry in page.map(|page| page.entries).unwrap_or_default() {
                assert!(!entry.path.ends_with("/only_outside"), "{entry:?}");
            }
        }
    });
    assert!(found > 0, "nothing was read at all");
}

#[test]
fn an_archive_is_unpacked_inside_or_not_at_all() {
    let place = guarded();
    let before = outside(&place);
    let source = Place::new();
    source.put("n/x", "new");
    source.put("y", "new");
    let request = hotcell_model::FileExport { path: ".".into(), ..Default::default() };
    let (_, archive) =
        talk(&[], |conversation| crate::export::export(&source.tree, &request, conversation));
    while_swapped(&place, || {
        for _ in 0..ROUNDS / 10 {
            let mut log = tempfile::tempfile().unwrap();
            let request = FileImport { path: "d".into(), ..FileImport::default() };
            let _ = talk(&archive, |conversation| {
                unpack(&place.tree, &request, conversation, Bounds::default())?.place(
                    &place.tree,
                    conversation,
                    &mut log,
                )
            });
            assert_eq!(outside(&place), before);
        }
    });
    let left = state(&place.at(""));
    assert!(
        left.keys().all(|path| !path.to_string_lossy().contains(".hotcell-import-")),
        "{left:?}"
    );
}

#[test]
fn deep_directories_are_followed_or_refused() {
    // With the stack that the threads of the server have.
    let work = || {
        let place = Place::new();
        let (flags, mode) = (rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
        let mut at = rustix::fs::open(place.at(""), flags, mode).unwrap();
        for _ in 0..2500 {
            rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::from_raw_mode(0o700)).unwrap();
            at = rustix::fs::openat(&at, "d", flags, mode).unwrap();
        }
        let request = FileMove {
            from: "d".into(),
            to: "copy".into(),
            overwrite: false,
            ..FileMove::default()
        };
        copy_to(&place.tree, &request, &mut NoUndo).unwrap_err();
        let request =
            FileList { path: ".".into(), recursive: true, limit: 10_000, ..FileList::default() };
        let _ = talk(&[], |conversation| list(&place.tree, &place.ticks, &request, conversation));
        let request = FileDelete { path: "d".into(), recursive: true, ..FileDelete::default() };
        delete(&place.tree, &request, &mut NoUndo).unwrap_err();
    };
    let stack = crate::server::STACK_BYTES;
    thread::Builder::new().stack_size(stack).spawn(work).unwrap().join().unwrap();
}
