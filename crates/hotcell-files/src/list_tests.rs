//! Tests of large listings.

use std::fs;

use hotcell_model::{FileEntry, FileList};

use crate::list::{list, stat};
use crate::settled::Ticks;
use crate::testing::{Place, talk};

/// Enough for several threads, and for more than one round of names.
const FILES: usize = 5000;

fn page(place: &Place, limit: u32, cursor: Option<String>) -> (Vec<FileEntry>, Option<String>) {
    let request =
        FileList { path: "many".into(), limit, cursor, recursive: true, ..FileList::default() };
    let ticks = Ticks::default();
    let listed = talk(&[], |conversation| list(&place.tree, &ticks, &request, conversation)).0;
    let listed = listed.unwrap();
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
        let mut alone = stat(&place.tree, &Ticks::default(), &request).unwrap();
        alone.mime_type = None;
        assert_eq!(*entry, alone);
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
