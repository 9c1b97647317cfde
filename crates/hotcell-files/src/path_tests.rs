//! Tests of paths, links, etags, lists and edits: what a caller may rely on.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Component;

use hotcell_model::{
    Etag, FileEdit, FileEdited, FileEntries, FileList, FileMakeDirectory, FileMove, FileStat,
    FileWrite, Result, TextEdit,
};
use proptest::prelude::*;

use crate::changes::{copy_to, make_directory, move_to};
use crate::edit::edit;
use crate::list::{list, stat};
use crate::path::CellPath;
use crate::testing::{Place, state, talk};
use crate::undo::NoUndo;
use crate::write::write;

fn any_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "l0", "l1", "l2", "d", "..", ".", ""]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    (
        prop::sample::select(vec!["", "/", "/workspace/", "/tmp/", "//"]),
        prop::collection::vec(part, 1..6),
    )
        .prop_map(|(start, parts)| format!("{start}{}", parts.join("/")))
}

proptest! {
    #[test]
    fn a_path_is_absolute_and_has_no_detours(text in prop_oneof![any::<String>(), any_path()]) {
        if let Ok(path) = CellPath::parse(&text) {
            let mut components = path.as_path().components();
            prop_assert_eq!(components.next(), Some(Component::RootDir));
            prop_assert!(components.all(|part| matches!(part, Component::Normal(_))));
            prop_assert_eq!(CellPath::parse(&path.to_string()).unwrap(), path);
        }
    }

    #[test]
    fn no_write_lands_outside(
        links in prop::collection::vec((any_path(), any::<bool>()), 3),
        paths in prop::collection::vec(any_path(), 1..6),
    ) {
        let place = Place::new();
        place.put("d/a", "1");
        fs::write(place.root().join("sentinel"), "1").unwrap();
        fs::write(place.root().join("etc/a"), "1").unwrap();
        for (number, (target, is_outside)) in links.iter().enumerate() {
            let target = target.replace('\0', "");
            let outside = place.root().join("etc").display().to_string();
            let target = if *is_outside { outside } else { target };
            if !target.is_empty() {
                let _ = symlink(target, place.at(&format!("l{number}")));
            }
        }
        let outside = || {
            let mut state = state(place.root());
            state.retain(|path, _| !path.starts_with("workspace") && !path.starts_with("tmp"));
            state
        };
        let before = outside();
        for path in paths {
            let request = FileWrite { path: path.clone(), create_parents: true, ..FileWrite::default() };
            let _ = write(&place.tree, &request, &mut &b"written"[..], &mut NoUndo);
            let request = FileMakeDirectory { path: format!("{path}/new"), create_parents: true };
            let _ = make_directory(&place.tree, &request, &mut NoUndo);
            let request = FileMove { from: "d".into(), to: path, overwrite: true, ..FileMove::default() };
            let _ = copy_to(&place.tree, &request, &mut NoUndo);
            prop_assert_eq!(outside(), before.clone());
        }
    }

    #[test]
    fn pages_are_the_whole_list(
        names in prop::collection::btree_set("[a-c][a-c.!]?(/[a-c][a-c.!]?){0,3}", 1..30),
        limit in 1..7_u32,
        recursive: bool,
    ) {
        let place = Place::new();
        for name in &names {
            let path = place.at(name);
            if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.exists() {
                fs::write(path, "").unwrap();
            }
        }
        let page = |limit: u32, cursor: Option<String>| {
            let request =
                FileList { path: ".".into(), recursive, limit, cursor, ..FileList::default() };
            let listed = talk(&[], |conversation| list(&place.tree, &place.ticks, &request, conversation));
            FileEntries::try_from(listed.0.unwrap()).unwrap()
        };
        let whole = page(10_000, None);
        prop_assert_eq!(whole.next_cursor, None);
        let distinct: BTreeSet<&str> = whole.entries.iter().map(|entry| entry.path.as_str()).collect();
        prop_assert_eq!(distinct.len(), whole.entries.len());
        if recursive {
            prop_assert_eq!(distinct.len(), state(&place.at("")).len());
        }
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let page = page(limit, cursor);
            prop_assert!(page.entries.len() <= limit as usize);
            pages.extend(page.entries);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        prop_assert_eq!(pages, whole.entries);
    }

    #[test]
    fn an_etag_is_another_after_any_change(contents in prop::collection::vec("[ab]{0,2}", 1..12)) {
        let place = Place::new();
        let look = || stat(&place.tree, &place.ticks, &FileStat { path: "f".into() }).unwrap().etag;
        let mut seen: Vec<Etag> = Vec::new();
        for (number, content) in contents.iter().enumerate() {
            if number % 2 == 0 {
                fs::write(place.at("f"), content).unwrap();
            } else {
                let request = FileWrite { path: "f".into(), ..FileWrite::default() };
                let written = write(&place.tree, &request, &mut content.as_bytes(), &mut NoUndo);
                prop_assert_eq!(Some(written.unwrap().etag), look());
            }
            let etag = look().unwrap();
            prop_assert_eq!(look(), Some(etag.clone()));
            prop_assert!(!seen.contains(&etag), "{:?}", contents);
            seen.push(etag);
        }
    }
}

#[test]
fn a_link_counts_from_where_it_lies() {
    let place = Place::new();
    fs::create_dir_all(place.at("real/deep")).unwrap();
    symlink("real/deep", place.at("way")).unwrap();
    symlink("../target", place.at("real/deep/link")).unwrap();
    let request = FileWrite { path: "way/link".into(), ..FileWrite::default() };
    let written = write(&place.tree, &request, &mut &b"1"[..], &mut NoUndo).unwrap();
    assert_eq!(written.path, "/workspace/real/target");
    assert_eq!(fs::read_to_string(place.at("real/target")).unwrap(), "1");
    assert!(!place.at("target").exists());
}

#[test]
fn nothing_is_copied_or_moved_into_itself() {
    let place = Place::new();
    place.put("a/sub/f", "1");
    symlink("a/sub", place.at("way")).unwrap();
    let before = state(place.root());
    for to in ["a/b", "a/sub/b", "way/b", "a"] {
        let request =
            FileMove { from: "a".into(), to: to.into(), overwrite: false, ..FileMove::default() };
        copy_to(&place.tree, &request, &mut NoUndo).unwrap_err();
        move_to(&place.tree, &request, &mut NoUndo).unwrap_err();
        assert_eq!(state(place.root()), before, "{to}");
    }
}

fn edited(place: &Place, edits: &[(&str, &str, bool)]) -> Result<FileEdited> {
    let edits = edits.iter().map(|(old, new, replace_all)| TextEdit {
        old: (*old).to_owned(),
        new: (*new).to_owned(),
        replace_all: *replace_all,
    });
    let request = FileEdit { path: "f".into(), edits: edits.collect(), ..FileEdit::default() };
    edit(&place.tree, &place.ticks, &request, &mut NoUndo)
}

#[test]
fn text_is_replaced_where_it_stands() {
    let place = Place::new();
    place.put("f", "one\r\ntwo\r\none\r\n");
    let done = edited(&place, &[("two\n", "2\nzwei\n", false), ("one", "1", true)]).unwrap();
    assert_eq!(done.replaced, 3);
    assert_eq!(fs::read_to_string(place.at("f")).unwrap(), "1\r\n2\r\nzwei\r\n1\r\n");
    place.put("f", "fn alpha() {\n    beta();\n}\n\nfn gamma() {\n    delta();\n}\n");
    let error = edited(&place, &[("fn gamma() {\n  delta();\n}", "x", false)]).unwrap_err();
    assert!(error.hint.as_deref().unwrap().contains("lines 5 to 7"), "{error:?}");
    let error = edited(&place, &[("()", "x", false)]).unwrap_err();
    assert!(error.message.contains("4 times, at lines 1, 2, 5, 6"), "{error}");
    // Nothing is changed when one of several edits fails.
    let before = state(place.root());
    edited(&place, &[("alpha", "a", false), ("missing", "", false)]).unwrap_err();
    assert_eq!(state(place.root()), before);
    // A small request must not make a large file.
    place.put("f", "a".repeat(1 << 20));
    let large = "b".repeat(1 << 10);
    let error = edited(&place, &[("a", &large, true)]).unwrap_err();
    assert_eq!(error.code, hotcell_model::ErrorCode::LimitExceeded);
}

#[test]
fn a_hint_for_a_long_text_is_found_soon() {
    let place = Place::new();
    place.put("f", "x\n".repeat(100_000));
    let wanted = "y x\n".repeat(100_000);
    edited(&place, &[(&wanted, "z", false)]).unwrap_err();
}
