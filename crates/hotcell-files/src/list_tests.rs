//! Tests of large listings.

use std::fs;

use hotcell_model::{FileEntries, FileEntry, FileList, FileNames, FileResult, PageRoom};

use crate::list::{list, stat};
use crate::settled::Ticks;
use crate::testing::{Place, talk};

/// Enough for several threads, and for more than one round of names.
const FILES: usize = 5000;

fn request(limit: u32, cursor: Option<String>) -> FileList {
    FileList { path: "many".into(), limit, cursor, recursive: true, ..FileList::default() }
}

fn listed(place: &Place, request: &FileList) -> FileResult {
    let ticks = Ticks::default();
    talk(&[], |conversation| list(&place.tree, &ticks, request, conversation)).0.unwrap()
}

fn page(place: &Place, limit: u32, cursor: Option<String>) -> (Vec<FileEntry>, Option<String>) {
    let listed = FileEntries::try_from(listed(place, &request(limit, cursor))).unwrap();
    (listed.entries, listed.next_cursor)
}

#[test]
fn a_directory_of_thousands_is_listed_in_order_and_as_each_file_is_shown() {
    let place = Place::new();
    for number in 0..FILES {
        place.put(&format!("many/file-{number:04}"), "x".repeat(number % 7));
    }
    place.put("many/file-2000.d/inside", "");
    fs::remove_file(place.at("many/file-0000")).unwrap();
    let (whole, cursor) = page(&place, 10_000, None);
    assert_eq!((whole.len(), cursor), (FILES - 1 + 2, None));
    assert!(whole.is_sorted_by(|one, other| one.path < other.path));
    for entry in whole.iter().step_by(611) {
        let request = hotcell_model::FileStat { path: entry.path.clone() };
        let alone = stat(&place.tree, &Ticks::default(), &request).unwrap();
        assert_eq!(*entry, FileEntry { mime_type: None, ..alone });
    }
    let told = FileList { mime_types: true, ..request(10_000, None) };
    let told = FileEntries::try_from(listed(&place, &told)).unwrap().entries;
    for entry in told.iter().step_by(611) {
        let request = hotcell_model::FileStat { path: entry.path.clone() };
        assert_eq!(*entry, stat(&place.tree, &Ticks::default(), &request).unwrap());
    }

    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let (entries, next) = page(&place, 1500, cursor);
        assert!(entries.len() == 1500 || next.is_none());
        pages.extend(entries);
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(pages, whole);
}

#[test]
fn names_alone_are_those_of_the_entries() {
    let place = Place::new();
    for name in ["many/b", "many/a/inside", "many/a.txt", "many/c/d/e"] {
        place.put(name, "x");
    }
    std::os::unix::fs::symlink("a", place.at("many/link")).unwrap();
    let names = |limit, cursor| {
        let request = FileList { names_only: true, ..request(limit, cursor) };
        FileNames::try_from(listed(&place, &request)).unwrap()
    };
    let whole = names(100, None);
    let shown = ["a/", "a/inside", "a.txt", "b", "c/", "c/d/", "c/d/e", "link"];
    assert_eq!((whole.names, whole.next_cursor), (shown.map(String::from).to_vec(), None));
    let entries = page(&place, 100, None).0;
    let paths = entries.iter().map(|entry| entry.path.rsplit_once("many/").unwrap().1);
    assert_eq!(paths.collect::<Vec<_>>(), shown.map(|name| name.trim_end_matches('/')));

    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = names(3, cursor);
        assert!(page.names.len() <= 3);
        pages.extend(page.names);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, shown);
}

#[test]
fn a_page_is_no_larger_than_its_room_and_the_next_one_continues() {
    let place = Place::new();
    for number in 0..50 {
        place.put(&format!("many/{}{number:02}", "n".repeat(number)), "");
    }
    for names_only in [false, true] {
        let (mut seen, mut cursor) = (0, None);
        loop {
            let room = Some(PageRoom { bytes: 200, per_entry: 10 });
            let request = FileList { room, names_only, ..request(1000, cursor) };
            let page = listed(&place, &request);
            let (names, next): (Vec<String>, _) = if let FileResult::Names(page) = page {
                (page.names, page.next_cursor)
            } else {
                let page = FileEntries::try_from(page).unwrap();
                (page.entries.into_iter().map(|entry| entry.path).collect(), page.next_cursor)
            };
            let bytes: usize = names.iter().map(|name| name.len() + 12).sum();
            assert!(!names.is_empty() && (bytes <= 200 || names.len() == 1), "{names:?}");
            seen += names.len();
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, 50);
    }
}
