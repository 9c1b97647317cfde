//! Tests of searching.

use std::fs;
use std::os::unix::fs::symlink;

use hotcell_model::{ErrorCode, FileMatch, FileMatches, FileSearch, Result, SearchIn};

use crate::search::search;
use crate::testing::{Place, talk};
use crate::tree::Roots;

fn wanted(pattern: &str) -> FileSearch {
    FileSearch {
        path: ".".to_owned(),
        pattern: pattern.to_owned(),
        within: SearchIn::Content,
        literal: false,
        ignore_case: false,
        glob: None,
        include_ignored: false,
        context_lines: 0,
        limit: 100,
        cursor: None,
        early: false,
    }
}

fn try_find(place: &Place, request: &FileSearch) -> Result<FileMatches> {
    talk(&[], |conversation| search(&place.tree, request, conversation)).0
}

fn find(place: &Place, request: &FileSearch) -> FileMatches {
    try_find(place, request).unwrap()
}

/// Paths below the workspace and lines.
fn places(found: &FileMatches) -> Vec<String> {
    let place = |path: &str, line: Option<u64>| {
        let path = path.strip_prefix("/workspace/").unwrap();
        line.map_or_else(|| path.to_owned(), |line| format!("{path}:{line}"))
    };
    found.matches.iter().map(|found| place(&found.path, found.line)).collect()
}

#[test]
fn lines_are_found_by_path_and_number() {
    let place = Place::new();
    place.put("b/two.rs", "fn one() {}\nlet x = 1;\nfn two() {}\n");
    place.put("a.txt", "no\nfn three\r\n");
    place.put("c.rs", "Fn four\n");
    let found = find(&place, &wanted(r"^fn \w+"));
    assert_eq!(places(&found), ["a.txt:2", "b/two.rs:1", "b/two.rs:3"]);
    assert_eq!(found.matches[0].text.as_deref(), Some("fn three"));
    assert_eq!((found.files, found.truncated), (3, false));
    let found = find(&place, &FileSearch { ignore_case: true, ..wanted("fn f") });
    assert_eq!(places(&found), ["c.rs:1"]);
    let found = find(&place, &FileSearch { literal: true, ..wanted("one() {") });
    assert_eq!(places(&found), ["b/two.rs:1"]);
    let found = find(&place, &FileSearch { glob: Some("*.txt".into()), ..wanted("fn") });
    assert_eq!(places(&found), ["a.txt:2"]);
    let found = find(&place, &FileSearch { path: "b/two.rs".into(), ..wanted("let") });
    assert_eq!(places(&found), ["b/two.rs:2"]);
}

#[test]
fn names_are_found() {
    let place = Place::new();
    place.put("src/main.rs", "");
    place.put("src/lib.rs", "");
    place.put(".hidden.rs", "");
    symlink("lib.rs", place.at("src/link.rs")).unwrap();
    let request = FileSearch { within: SearchIn::Names, ..wanted(r"^src/l.*\.rs$") };
    let found = find(&place, &request);
    assert_eq!(places(&found), ["src/lib.rs", "src/link.rs"]);
    assert!(found.matches.iter().all(|found| found.line.is_none() && found.text.is_none()));
}

#[test]
fn what_is_ignored_or_hidden_is_left_out_unless_it_is_wanted() {
    let place = Place::new();
    place.put(".gitignore", "target/\n*.log\n");
    place.put("src/.gitignore", "!keep.log\n/only_here\n");
    for path in
        ["a", "target/b", "x.log", ".hidden/c", "src/keep.log", "src/only_here", "src/in/only_here"]
    {
        place.put(path, "needle\n");
    }
    place.put(".hotcell-new-0123456789abcdef", "needle\n");
    let found = find(&place, &wanted("needle"));
    assert_eq!(places(&found), ["a:1", "src/in/only_here:1", "src/keep.log:1"]);
    let found = find(&place, &FileSearch { path: "src".into(), ..wanted("needle") });
    assert_eq!(places(&found), ["src/in/only_here:1", "src/keep.log:1"]);
    place.put("sub/deep/y.log", "needle\n");
    let below = FileSearch { path: "sub".into(), ..wanted("needle") };
    assert!(find(&place, &below).matches.is_empty(), "rules from above hold");
    fs::create_dir(place.at("sub/.git")).unwrap();
    assert_eq!(places(&find(&place, &below)), ["sub/deep/y.log:1"], "a repository has its own");
    let found = find(&place, &FileSearch { include_ignored: true, ..wanted("needle") });
    assert_eq!(found.matches.len(), 8, "{:?}", places(&found));
}

#[test]
fn every_match_has_the_lines_around_it() {
    let place = Place::new();
    place.put("a", "1\n2\nx3\n4\nx5\n6\n7\n8\n9\nx10\n");
    let found = find(&place, &FileSearch { context_lines: 2, ..wanted("x") });
    let shown: Vec<_> =
        found.matches.iter().map(|m| (m.before.join(","), m.after.join(","))).collect();
    let expected = [("1,2", "4,x5"), ("x3,4", "6,7"), ("8,9", "")];
    assert_eq!(shown, expected.map(|(before, after)| (before.to_owned(), after.to_owned())));
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let place = Place::new();
    let long = format!("{}needle{}\n", "ä€𝄞".repeat(2000), "ö".repeat(9000));
    place.put("a", format!("{long}short needle\nneedle{}\n", "x".repeat(600)));
    place.put("b", b"\xfa\xfb\xfcneedle\xff\n");
    let found = find(&place, &wanted("needle"));
    let texts: Vec<&str> = found.matches.iter().filter_map(|m| m.text.as_deref()).collect();
    assert_eq!(texts.len(), 4);
    assert!(texts[0].starts_with('…') && texts[0].ends_with('…'), "{}", texts[0]);
    assert!(texts[0].contains("𝄞needleö") && !texts[0].contains('\u{fffd}'), "{}", texts[0]);
    assert_eq!(texts[0].chars().count(), 502);
    assert_eq!(texts[1], "short needle");
    assert!(texts[2].starts_with("needlex") && texts[2].ends_with("x…"));
    assert_eq!(texts[3], "\u{fffd}\u{fffd}\u{fffd}needle\u{fffd}");
}

#[test]
fn only_so_much_is_found() {
    let place = Place::new();
    for file in 0..50 {
        place.put(&format!("d{}/f{file}", file % 7), "needle\n".repeat(20));
    }
    let found = find(&place, &FileSearch { limit: 30, ..wanted("needle") });
    assert_eq!((found.matches.len(), found.truncated), (30, true));
    let found = find(&place, &FileSearch { limit: 1000, ..wanted("needle") });
    assert_eq!((found.matches.len(), found.truncated), (1000, false));
    let found = find(&place, &FileSearch { limit: 999, ..wanted("needle") });
    assert_eq!((found.matches.len(), found.truncated), (999, true));
    // Bytes that JSON makes six of.
    place.put("control", format!("{}\n", "\u{1}".repeat(499)).repeat(9000));
    let found = find(&place, &FileSearch { limit: 10_000, ..wanted("\u{1}") });
    assert!(found.truncated);
    assert!(serde_json::to_vec(&found).unwrap().len() < 5 << 20);
}

#[test]
fn pages_hold_every_match_once_and_in_order() {
    let place = Place::new();
    for (directory, file) in (0..12).flat_map(|one| (0..9).map(move |other| (one, other))) {
        place.put(&format!("d{directory}/e-{}/f{file}", file % 3), "a needle\nhay\nneedle\n");
    }
    // In the order of paths all that is in `d1` comes before `d1-file`.
    place.put("d1-file", "needle\n".repeat(40));
    place.put("binary", b"needle\n\0\n");
    let all = find(&place, &FileSearch { limit: 10_000, ..wanted("needle") });
    assert_eq!((all.matches.len(), all.next_cursor), (12 * 9 * 2 + 40, None));
    let at = |found: &FileMatch| (std::path::PathBuf::from(&found.path), found.line);
    assert!(all.matches.is_sorted_by_key(at));
    let names = FileSearch { within: SearchIn::Names, ..wanted("[0-9]") };
    let all_names = find(&place, &FileSearch { limit: 10_000, ..names.clone() });
    for (request, all) in [(wanted("needle"), all.matches), (names, all_names.matches)] {
        for limit in [1, 7, 50] {
            let mut request = FileSearch { limit, context_lines: 1, ..request.clone() };
            let mut paged = Vec::new();
            loop {
                let page = find(&place, &request);
                assert!(page.matches.len() <= limit as usize);
                assert_eq!(page.truncated, page.next_cursor.is_some());
                paged.extend(page.matches.iter().map(at));
                request.cursor = page.next_cursor;
                if request.cursor.is_none() {
                    break;
                }
            }
            assert_eq!(paged, all.iter().map(at).collect::<Vec<_>>(), "{limit}");
        }
    }
}

#[test]
fn a_page_reads_little_beyond_its_last_match() {
    let place = Place::new();
    for number in 0..2000 {
        place.put(&format!("d{number:04}/f"), "needle\n");
    }
    let first = find(&place, &FileSearch { limit: 5, ..wanted("needle") });
    assert!(first.files < 500, "{}", first.files);
    let cursor = Some("1:/workspace/d1990/f".to_owned());
    let last = find(&place, &FileSearch { cursor, ..wanted("needle") });
    assert_eq!((last.files, last.matches.len(), last.next_cursor), (10, 9, None));
}

#[test]
fn a_page_of_large_matches_goes_on_where_it_ended() {
    let place = Place::new();
    for number in 0..9 {
        place.put(&format!("f{number}"), format!("{}\n", "\u{1}".repeat(499)).repeat(400));
    }
    let mut request = FileSearch { limit: 10_000, ..wanted("\u{1}") };
    let mut counts = Vec::new();
    loop {
        let page = find(&place, &request);
        counts.push(page.matches.len());
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    assert!(counts.len() > 1, "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 9 * 400, "{counts:?}");
}

#[test]
fn matches_are_told_as_they_are_found() {
    let place = Place::new();
    for number in 0..40 {
        place.put(&format!("d{number}/f"), "a needle in it\n".repeat(50));
    }
    let request = FileSearch { early: true, limit: 10_000, ..wanted("needle") };
    let (found, told) = talk(&[], |conversation| search(&place.tree, &request, conversation));
    let lines = told.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut told: Vec<FileMatch> =
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    told.sort_by_key(|one| (std::path::PathBuf::from(&one.path), one.line));
    assert_eq!((told.len(), told), (2000, found.unwrap().matches));
    let few = FileSearch { early: true, limit: 70, ..wanted("needle") };
    let (_, told) = talk(&[], |conversation| search(&place.tree, &few, conversation));
    assert_eq!(told.iter().filter(|byte| **byte == b'\n').count(), 70);
    let (_, told) = talk(&[], |conversation| search(&place.tree, &wanted("needle"), conversation));
    assert!(told.is_empty());
}

#[test]
fn what_cannot_be_searched_is_told() {
    let place = Place::new();
    place.put("a", "x");
    let code = |request: &FileSearch| try_find(&place, request).unwrap_err().code;
    assert_eq!(code(&FileSearch { limit: 0, ..wanted("x") }), ErrorCode::Invalid);
    assert_eq!(code(&FileSearch { limit: 10_001, ..wanted("x") }), ErrorCode::Invalid);
    assert_eq!(code(&FileSearch { context_lines: 101, ..wanted("x") }), ErrorCode::Invalid);
    for cursor in ["", "x", "1:relative", "-1:/a"] {
        let request = FileSearch { cursor: Some(cursor.to_owned()), ..wanted("x") };
        assert_eq!(code(&request), ErrorCode::Invalid, "{cursor:?}");
    }
    for pattern in ["(", "a\nb", "((((a{99}){99}){99}){99})"] {
        assert_eq!(code(&wanted(pattern)), ErrorCode::Invalid, "{pattern:?}");
    }
    assert_eq!(code(&FileSearch { glob: Some("[".into()), ..wanted("x") }), ErrorCode::Invalid);
    assert_eq!(code(&FileSearch { path: "missing".into(), ..wanted("x") }), ErrorCode::NotFound);
    let cancelled = talk(&[], |conversation| {
        conversation.end();
        search(&place.tree, &wanted("x"), conversation)
    });
    assert_eq!(cancelled.0.unwrap_err().code, ErrorCode::Cancelled);
}

#[test]
fn only_regular_files_are_read_and_no_link_is_followed() {
    let place = Place::new();
    place.put("real/a", "needle\n");
    place.put("binary", b"needle\n\0\n");
    fs::write(place.root().join("etc/secret"), "needle\n").unwrap();
    symlink("real", place.at("directory")).unwrap();
    symlink("real/a", place.at("file")).unwrap();
    symlink("../etc", place.at("outside")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, place.at("pipe"), fifo, mode, 0).unwrap();
    assert_eq!(places(&find(&place, &wanted("needle"))), ["real/a:1"]);
    let found = find(&place, &FileSearch { path: "directory".into(), ..wanted("needle") });
    assert_eq!(places(&found), ["directory/a:1"]);
    let pipe = FileSearch { path: "pipe".into(), ..wanted("needle") };
    assert_eq!(try_find(&place, &pipe).unwrap_err().code, ErrorCode::Conflict);
}

#[test]
fn with_narrowed_roots_nothing_outside_is_searched() {
    let workspace = vec!["/workspace".into()];
    let place = Place::with(Roots { writable: workspace.clone(), readable: workspace });
    place.put("a", "needle\n");
    fs::write(place.root().join("etc/secret"), "needle\n").unwrap();
    symlink("../etc", place.at("outside")).unwrap();
    assert_eq!(places(&find(&place, &wanted("needle"))), ["a:1"]);
    for path in ["outside", "outside/secret", "/etc", "/"] {
        let request = FileSearch { path: path.into(), ..wanted("needle") };
        assert_eq!(try_find(&place, &request).unwrap_err().code, ErrorCode::Denied, "{path}");
    }
}
