//! Tests of the tools for files: what they ask for and what they show.

use hotcell_model::{
    BatchOutcome, BatchResult, CellRef, Compression, EtagMatch, FileCall, FileContent, FileDone,
    FileEntries, FileEntry, FileKind, FileMatch, FileMatches, FileOp, FileResult, FilesPacked,
    LineRange, Reply, Request, SearchIn, Timestamp,
};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use crate::dialects::hotcell::{HotcellDialect, Reach, ToolBounds};
use crate::file_shown::EntriesShown;
use crate::toolsets::Toolsets;
use hotcell_dialects::{Dialect, Outcome, Question, ToolCall};

const ETAG: &str = "0123456789abcdef0123456789abcdef";

fn dialect() -> HotcellDialect {
    let bounds = ToolBounds { content_bytes: 1000 << 10, ..ToolBounds::default() };
    HotcellDialect::new(&Toolsets::default(), bounds, Reach::default())
}

fn question(tool: &str, arguments: Value) -> Question {
    let call = dialect().call(tool, serde_json::from_value(arguments).unwrap()).unwrap();
    let ToolCall::Asks(question) = call else { panic!("{call:?}") };
    *question
}

fn asked(tool: &str, arguments: Value) -> FileCall {
    let call = question(tool, arguments);
    let Request::FileCall(call) = call.request else { panic!("{call:?}") };
    call
}

fn op(tool: &str, arguments: Value) -> FileOp {
    asked(tool, arguments).op
}

fn refused(tool: &str, arguments: Value) -> String {
    let error = dialect().call(tool, serde_json::from_value(arguments).unwrap()).unwrap_err();
    format!("{}: {} ({})", error.code, error.message, error.hint.unwrap_or_default())
}

fn shown(tool: &str, arguments: Value, result: FileResult, content: &[u8]) -> CallToolResult {
    let call = question(tool, arguments);
    let done = FileDone { result, content: content.to_vec() };
    (call.show.unwrap())(Outcome {
        reply: Ok(Reply::FileDone(done)),
        site: None,
        starting: Vec::new(),
    })
    .unwrap()
}

fn text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}

fn about(result: &CallToolResult) -> String {
    result.content[1].as_text().unwrap().text.clone()
}

fn value(result: &CallToolResult) -> Value {
    result.structured_content.clone().unwrap()
}

fn content(bytes: &[u8], offset: u64, truncated: bool) -> FileResult {
    FileResult::Content(FileContent {
        path: "/workspace/a".to_owned(),
        etag: ETAG.parse().unwrap(),
        size: 1000,
        mime_type: "text/plain".to_owned(),
        modified: Timestamp(0),
        offset,
        bytes: bytes.len() as u64,
        first_line: None,
        last_line: None,
        truncated,
    })
}

#[test]
fn every_tool_says_what_it_takes() {
    for tool in dialect().tools() {
        let fields = tool.input_schema["properties"].as_object().unwrap();
        assert!(!tool.input_schema.contains_key("additionalProperties"), "{}", tool.name);
        assert!(!tool.name.starts_with("fs_") || fields.contains_key("cell"), "{}", tool.name);
    }
}

#[test]
fn a_read_has_its_defaults_and_its_bound() {
    let call = asked("fs_read", json!({ "path": "a" }));
    assert_eq!((call.cell, call.most_content), (CellRef::Default, 1000 << 10));
    let FileOp::Read(read) = call.op else { panic!("{:?}", call.op) };
    assert_eq!((read.path.as_str(), read.offset, read.limit), ("a", None, Some(32 * 1024)));
    let refusal = refused("fs_read", json!({ "path": "a", "limit": 2_000_000 }));
    assert!(refusal.starts_with("limit_exceeded") && refusal.contains("2000000"), "{refusal}");
}

#[test]
fn lines_are_written_in_three_ways() {
    for (written, first, last) in
        [("10-20", 10, Some(20)), ("10-", 10, None), ("7", 7, Some(7)), ("3-3", 3, Some(3))]
    {
        let FileOp::Read(read) = op("fs_read", json!({ "path": "a", "lines": written })) else {
            panic!()
        };
        assert_eq!(read.lines, Some(LineRange { first, last }), "{written}");
    }
    for wrong in ["-", "0", "5-2", "a", "1-2-3", "-4", "1.5"] {
        let refusal = refused("fs_read", json!({ "path": "a", "lines": wrong }));
        assert!(refusal.contains(&format!("{wrong:?}")), "{refusal}");
    }
}

#[test]
fn a_write_takes_text_or_base64_and_its_conditions() {
    let call = asked("fs_write", json!({ "path": "a", "content": "é", "cell": "work" }));
    assert_eq!((call.cell.to_string().as_str(), call.content), ("work", "é".as_bytes().to_vec()));
    let FileOp::Write(write) = call.op else { panic!() };
    assert!(write.create_parents && write.mode.is_none());
    let call = asked(
        "fs_write",
        json!({
            "path": "a", "content": "AAH\n/", "encoding": "base64", "mode": "755",
            "create_parents": false, "if_match": ETAG, "if_none_match": "*",
        }),
    );
    assert_eq!(call.content, [0, 1, 255]);
    let FileOp::Write(write) = call.op else { panic!() };
    assert_eq!((write.mode, write.create_parents), (Some(0o755), false));
    assert_eq!(write.precondition.if_match, Some(EtagMatch::Etag(ETAG.parse().unwrap())));
    assert_eq!(write.precondition.if_none_match, Some(EtagMatch::Any));
    for (wrong, named) in [
        (json!({ "path": "a", "content": "%", "encoding": "base64" }), "base64"),
        (json!({ "path": "a", "content": "", "encoding": "latin1" }), "latin1"),
        (json!({ "path": "a", "content": "", "mode": "9" }), "\"9\""),
        (json!({ "path": "a", "content": "", "mode": "77777" }), "77777"),
        (json!({ "path": "a", "content": "", "if_match": "W/x" }), "W/x"),
        (json!({ "path": "a", "content": "", "colour": 1 }), "colour"),
        (json!({ "path": "a" }), "content"),
        (json!({ "path": "a", "content": "", "cell": 5 }), "cell"),
        (json!({ "path": "a", "content": "x".repeat(1_100_000) }), "1100000"),
    ] {
        let refusal = refused("fs_write", wrong);
        assert!(refusal.contains(named), "{refusal}");
    }
}

#[test]
fn the_other_tools_have_their_defaults() {
    let FileOp::List(list) = op("fs_list", json!({})) else { panic!() };
    assert_eq!((list.path.as_str(), list.recursive, list.limit), (".", false, 200));
    let FileOp::Search(search) = op("fs_search", json!({ "pattern": "a.c" })) else { panic!() };
    assert_eq!((search.path.as_str(), search.limit, search.context_lines), (".", 100, 0));
    assert_eq!((search.within, search.literal), (SearchIn::Content, false));
    let names = json!({ "pattern": "a", "in": "names", "ignore_case": true });
    let FileOp::Search(search) = op("fs_search", names) else { panic!() };
    assert_eq!((search.within, search.ignore_case), (SearchIn::Names, true));
    let edits = json!({ "path": "a", "edits": [{ "old": "x", "new": "y" }] });
    let FileOp::Edit(edit) = op("fs_edit", edits) else { panic!() };
    assert!(!edit.dry_run && !edit.edits[0].replace_all);
    let call = asked("fs_export", json!({}));
    assert_eq!(call.most_content, 24 << 10);
    let FileOp::Export(export) = call.op else { panic!() };
    assert_eq!(export.compression, Compression::Gzip);
    let call = asked("fs_import", json!({ "path": "d", "archive": "AAE=" }));
    assert_eq!(call.content, [0, 1]);
    assert!(matches!(call.op, FileOp::Import(_)));
}

#[test]
fn a_batch_carries_the_content_of_its_writes() {
    let call = asked(
        "fs_batch",
        json!({ "operations": [
            { "op": "mkdir", "path": "d" },
            { "op": "write", "path": "d/a", "content": "one" },
            { "op": "write", "path": "d/b", "content": "dHdv", "encoding": "base64" },
            { "op": "read", "path": "d/a" },
            { "op": "read", "path": "d/b", "limit": 7 },
            { "op": "move", "path": "d/a", "to": "d/c" },
            { "op": "copy", "path": "d/c", "to": "d/e", "overwrite": true },
            { "op": "edit", "path": "d/c", "edits": [{ "old": "o", "new": "p" }] },
            { "op": "delete", "path": "d", "recursive": true },
        ] }),
    );
    assert_eq!(call.content, b"onetwo");
    let FileOp::Batch(batch) = call.op else { panic!() };
    assert!(batch.atomic);
    let bytes: Vec<u64> = batch.operations.iter().map(|part| part.content_bytes).collect();
    assert_eq!(bytes, [0, 3, 3, 0, 0, 0, 0, 0, 0]);
    let limits: Vec<_> = batch
        .operations
        .iter()
        .filter_map(|part| if let FileOp::Read(read) = &part.op { read.limit } else { None })
        .collect();
    assert_eq!(limits, [16 * 1024, 7]);
    for (wrong, named) in [
        (json!({ "op": "fly", "path": "a" }), "fly"),
        (json!({ "op": "delete", "path": "a", "colour": 1 }), "colour"),
        (json!({ "op": "move", "path": "a" }), "to"),
        (json!({ "path": "a" }), "op"),
    ] {
        let refusal = refused("fs_batch", json!({ "operations": [wrong] }));
        assert!(refusal.contains(named), "{refusal}");
    }
}

#[test]
fn text_is_shown_as_it_is_and_bytes_as_base64() {
    let asked = || json!({ "path": "a" });
    let whole = shown("fs_read", asked(), content(b"one\ntwo", 0, false), b"one\ntwo");
    assert_eq!(text(&whole), "one\ntwo");
    assert_eq!(about(&whole), format!("[a: 1000 bytes, etag {ETAG}]"));
    assert_eq!(value(&whole)["content"], "one\ntwo");
    assert_eq!(
        (&value(&whole)["encoding"], &value(&whole)["etag"]),
        (&json!("utf8"), &json!(ETAG))
    );

    let binary = shown("fs_read", asked(), content(b"\0\xff", 0, false), b"\0\xff");
    assert_eq!(text(&binary), "AP8=");
    assert_eq!(about(&binary), format!("[a: 1000 bytes, etag {ETAG}, text/plain as base64]"));
    assert_eq!(value(&binary)["content"], "AP8=");
    assert_eq!(value(&binary)["encoding"], "base64");

    // Control characters are valid text, and six times as long in JSON.
    let zeros = shown("fs_read", asked(), content(&[0; 900], 0, false), &[0; 900]);
    assert_eq!((&value(&zeros)["encoding"], text(&zeros).len()), (&json!("base64"), 1200));
    let coloured = b"\x1b[31mred\x1b[0m\n";
    let coloured = shown("fs_read", asked(), content(coloured, 0, false), coloured);
    assert_eq!(value(&coloured)["encoding"], "utf8");

    let utf8 = json!({ "path": "a", "encoding": "utf8" });
    let forced = shown("fs_read", utf8, content(b"a\xffb", 0, false), b"a\xffb");
    assert_eq!(value(&forced)["content"], "a\u{fffd}b");
    let base64 = json!({ "path": "a", "encoding": "base64" });
    let forced = shown("fs_read", base64, content(b"abc", 0, false), b"abc");
    assert_eq!(value(&forced)["content"], "YWJj");
}

#[test]
fn cut_text_ends_between_characters_and_says_how_to_go_on() {
    // Three bytes each; the last one is cut, and so is the first.
    let bytes = "€€".as_bytes();
    let cut = shown("fs_read", json!({ "path": "a" }), content(&bytes[..5], 0, true), &bytes[..5]);
    assert_eq!(text(&cut), "€");
    assert!(about(&cut).ends_with("; more: continue with offset 3]"), "{}", about(&cut));
    assert_eq!((&value(&cut)["next_offset"], &value(&cut)["truncated"]), (&json!(3), &json!(true)));
    let cut = shown("fs_read", json!({ "path": "a" }), content(&bytes[1..], 1, false), &bytes[1..]);
    assert_eq!((&value(&cut)["content"], &value(&cut)["offset"]), (&json!("€"), &json!(3)));
    assert!(value(&cut)["next_offset"].is_null());
}

#[test]
fn matches_are_shown_like_those_of_grep_and_bounded() {
    let one = |line: u64, text: String| FileMatch {
        path: "/workspace/a".to_owned(),
        line: Some(line),
        text: Some(text),
        before: vec!["above".to_owned()],
        after: vec!["below".to_owned()],
    };
    let show = |matches| {
        let found = FileMatches { matches, files: 3, truncated: false, next_cursor: None };
        shown("fs_search", json!({ "pattern": "x" }), FileResult::Matches(found), b"")
    };
    let few = show(vec![one(7, "found".to_owned())]);
    assert_eq!(text(&few), "a\n6- above\n7: found\n8- below\n");
    assert_eq!(value(&few)["truncated"], false);
    let many = show((2..200).map(|line| one(line, "é".repeat(5000))).collect());
    assert!(text(&many).len() < 33_000, "{}", text(&many).len());
    assert_eq!(value(&many)["truncated"], true);
    assert!(value(&many)["matches"].as_array().unwrap().len() > 10);
    let last = value(&many)["matches"].as_array().unwrap().last().unwrap()["line"].clone();
    assert_eq!(value(&many)["next_cursor"], format!("{last}:/workspace/a"));
    let short = FileMatch { before: Vec::new(), after: Vec::new(), ..one(1, "x".to_owned()) };
    let many = show(vec![short; 5000]);
    assert!(value(&many).to_string().len() < 70_000, "{}", value(&many).to_string().len());
    assert_eq!(value(&many)["truncated"], true);
    let cursor = value(&many)["next_cursor"].as_str().unwrap().to_owned();
    assert!(text(&many).contains(&format!("[more: continue with cursor {cursor},")), "{cursor}");
    let lines = vec!["around".repeat(100); 100];
    let wide = FileMatch { before: lines.clone(), after: lines, ..one(7, "found".to_owned()) };
    let wide = show(vec![wide.clone(), wide]);
    assert!(text(&wide).starts_with("a\n7: found\n[more: "), "{}", text(&wide));
    assert_eq!(value(&wide)["next_cursor"], "7:/workspace/a");
    assert_eq!(text(&show(Vec::new())), "[nothing found in 3 files]\n");
    let name = FileMatch { line: None, text: None, ..one(1, String::new()) };
    assert_eq!(text(&show(vec![name])), "a\n");
}

#[test]
fn a_long_diff_is_cut_at_a_line_in_both_forms() {
    let edited = || {
        let diff = "+some line\n".repeat(10_000);
        FileResult::Edited(
            serde_json::from_value(json!({
                "path": "/workspace/a", "etag": ETAG, "size": 1, "replaced": 1, "diff": diff,
            }))
            .unwrap(),
        )
    };
    let edit = json!({ "path": "a", "edits": [{ "old": "a", "new": "b" }] });
    let one = shown("fs_edit", edit, edited(), b"");
    let operation = json!({ "op": "edit", "path": "a", "edits": [{ "old": "a", "new": "b" }] });
    let done = || BatchOutcome::Done { result: Box::new(edited()), content_bytes: 0 };
    let batch =
        FileResult::Batch(BatchResult { outcomes: vec![done(), done()], rolled_back: false });
    let both = json!({ "operations": [operation, operation] });
    let two = shown("fs_batch", both, batch, b"");
    for result in [&one, &two] {
        assert!(text(result).len() < 34_000, "{}", text(result).len());
        assert!(value(result).to_string().len() < 40_000);
        assert!(text(result).contains("line\n[cut: "), "{}", text(result));
        assert!(value(result).to_string().contains("of 110000 bytes of the diff are shown"));
    }
}

#[test]
fn the_parts_of_a_batch_have_their_own_content() {
    let arguments = json!({ "operations": [
        { "op": "read", "path": "a" },
        { "op": "read", "path": "b", "encoding": "base64" },
        { "op": "delete", "path": "c" },
    ] });
    let done = |result| BatchOutcome::Done { result: Box::new(result), content_bytes: 3 };
    let failed = BatchOutcome::Failed(hotcell_model::Error::not_found("there is no c"));
    let outcomes = vec![done(content(b"one", 0, false)), done(content(b"two", 0, false)), failed];
    let batch = FileResult::Batch(BatchResult { outcomes, rolled_back: false });
    let result = shown("fs_batch", arguments, batch, b"onetwo");
    let results = &value(&result)["results"];
    assert_eq!(results[0]["result"]["content"], "one");
    assert_eq!(results[1]["result"]["content"], "dHdv");
    assert_eq!(results[2]["error"]["code"], "not_found");
    assert_eq!(
        text(&result),
        format!(
            "1: done a, etag {ETAG}\none\n2: done a, etag {ETAG}, base64\ndHdv\n\
             3: not_found: there is no c\n"
        )
    );
}

#[test]
fn all_parts_of_a_batch_share_one_bound() {
    let shown_of = |operation: Value, result: &dyn Fn() -> FileResult, count: usize, own: &[u8]| {
        let content_bytes = own.len() as u64;
        let done = || BatchOutcome::Done { result: Box::new(result()), content_bytes };
        let outcomes = (0..count).map(|_| done()).collect();
        let batch = FileResult::Batch(BatchResult { outcomes, rolled_back: false });
        shown(
            "fs_batch",
            json!({ "operations": vec![operation; count] }),
            batch,
            &own.repeat(count),
        )
    };
    let read = json!({ "op": "read", "path": "a" });
    let part = [b'x'; 1024];
    let reads = shown_of(read.clone(), &|| content(&part, 0, true), 200, &part);
    assert!(text(&reads).len() < 50_000, "{}", text(&reads).len());
    assert!(value(&reads).to_string().len() < 100_000, "{}", value(&reads).to_string().len());
    let results = value(&reads)["results"].clone();
    assert_eq!(results[0]["result"]["content"], "x".repeat(1024));
    let last = &results[199]["result"];
    assert_eq!((&last["content"], &last["next_offset"]), (&json!(""), &json!(0)));
    // Control characters are six in JSON.
    let control = [1; 1024];
    let bytes = shown_of(read, &|| content(&control, 0, true), 100, &control);
    assert!(value(&bytes).to_string().len() < 100_000, "{}", value(&bytes).to_string().len());
    // What was asked for is there.
    let exact = json!({ "op": "read", "path": "a", "limit": 1024 });
    let all = shown_of(exact, &|| content(&part, 0, true), 100, &part);
    assert_eq!(value(&all)["results"][99]["result"]["content"], "x".repeat(1024));
    let diff = "+some line\n".repeat(1000);
    let edited = || {
        let edited =
            json!({ "path": "/workspace/a", "etag": ETAG, "size": 1, "replaced": 1, "diff": diff });
        FileResult::Edited(serde_json::from_value(edited).unwrap())
    };
    let edit = json!({ "op": "edit", "path": "a", "edits": [{ "old": "a", "new": "b" }] });
    let edits = shown_of(edit, &edited, 1000, b"");
    assert!(text(&edits).len() < 100_000, "{}", text(&edits).len());
    assert!(value(&edits).to_string().len() < 150_000, "{}", value(&edits).to_string().len());
}

#[test]
fn a_large_archive_is_a_link_or_an_error_that_helps() {
    let arguments = json!({
        "cell": "work", "path": "a b", "include": ["*.rs"], "exclude": ["x&y"], "max_bytes": 5,
    });
    let show = |site: Option<&str>, reply| {
        let call = question("fs_export", arguments.clone());
        (call.show.unwrap())(Outcome { reply, site: site.map(str::to_owned), starting: Vec::new() })
    };
    let too_much = || Err(FileCall::too_much_content(5));
    let link = show(Some("http://localhost:1"), too_much()).unwrap();
    assert_eq!(
        value(&link)["url"],
        "http://localhost:1/v1/cells/work/archive?path=a%20b&compression=gzip\
         &include=%2A.rs&exclude=x%26y"
    );
    let error = show(None, too_much()).unwrap_err();
    let error_hint = error.hint.unwrap();
    assert!(error_hint.contains("hotcell cp"));
    let packed = FilesPacked { files: 2, bytes: 9, ..FilesPacked::default() };
    let done = FileDone { result: FileResult::Exported(packed), content: b"tar".to_vec() };
    assert!(error_hint.contains("fs_read") && error_hint.contains("include"), "{error_hint}");
    let small = show(None, Ok(Reply::FileDone(done))).unwrap();
    assert_eq!((&value(&small)["archive"], &value(&small)["files"]), (&json!("dGFy"), &json!(2)));
    assert!(text(&small).ends_with("base64:\ndGFy"), "{}", text(&small));
    assert!(text(&link).contains("http://localhost:1/v1/cells/work/archive"), "{}", text(&link));
    // Both forms carry an archive that was asked for.
    let large = FileDone {
        result: FileResult::Exported(FilesPacked::default()),
        content: vec![b'x'; 100_000],
    };
    let large = show(None, Ok(Reply::FileDone(large))).unwrap();
    assert!(text(&large).ends_with(value(&large)["archive"].as_str().unwrap()));
}

#[test]
fn a_listing_is_shown_as_it_would_be_serialised() {
    let entry = |kind, target: Option<&str>, etag: Option<&str>| FileEntry {
        path: "/workspace/\"a\"".to_owned(),
        kind,
        size: u64::MAX,
        mode: 0o4755,
        modified: Timestamp(1_700_000_000_123),
        etag: etag.map(|etag| etag.parse().unwrap()),
        mime_type: etag.map(|_| "text/plain".to_owned()),
        target: target.map(str::to_owned),
    };
    let entries = || FileEntries {
        entries: vec![
            entry(FileKind::File, None, Some(ETAG)),
            entry(FileKind::Symlink, Some("b"), None),
            entry(FileKind::Directory, None, None),
        ],
        next_cursor: Some("61".to_owned()),
    };
    let listed = |asked: Value, entries: FileEntries| {
        let mut listed = shown("fs_list", asked, FileResult::Entries(entries), b"");
        assert!(listed.structured_content.as_ref().unwrap().is_string());
        crate::encoded::decode(&mut listed);
        listed
    };
    let full = listed(json!({ "details": true }), entries());
    assert_eq!(value(&full), serde_json::to_value(EntriesShown::from(entries())).unwrap());
    assert!(text(&full).contains(ETAG) && text(&full).contains("mode 4755"), "{}", text(&full));
    let brief = listed(json!({}), entries());
    assert_eq!(
        value(&brief),
        json!({
            "entries": [
                { "path": "\"a\"", "size": u64::MAX },
                { "path": "\"a\"", "kind": "symlink", "target": "b" },
                { "path": "\"a\"", "kind": "directory" },
            ],
            "next_cursor": "61",
        })
    );
    assert_eq!(
        text(&brief),
        format!("\"a\" {}\n\"a\" -> b\n\"a\"/\n[more: continue with cursor 61]\n", u64::MAX)
    );
    let last = FileEntries { next_cursor: None, ..entries() };
    assert!(value(&listed(json!({}), last)).get("next_cursor").is_none());
}

#[test]
fn a_listing_asks_for_a_page_that_fits_into_a_result() {
    let room = |arguments: Value| {
        let FileOp::List(list) = asked("fs_list", arguments).op else { panic!() };
        list.room.unwrap()
    };
    assert_eq!(room(json!({})).bytes, 32 << 10);
    assert!(room(json!({ "details": true })).per_entry > room(json!({})).per_entry);
    assert!(room(json!({ "names_only": true })).per_entry < room(json!({})).per_entry);
}

#[test]
fn a_picture_is_shown_as_one() {
    let png = b"\x89PNG\r\n\x1a\n\xff";
    let FileResult::Content(read) = content(png, 0, false) else { panic!() };
    let read = FileContent { mime_type: "image/png".to_owned(), size: 9, ..read };
    let show = |arguments| shown("fs_read", arguments, FileResult::Content(read.clone()), png);
    let picture = show(json!({ "path": "a" }));
    let image = picture.content[0].as_image().unwrap();
    assert_eq!(image.mime_type, "image/png");
    // Its bytes are there once.
    assert_eq!(
        (&value(&picture)["content"], &value(&picture)["shown_as"]),
        (&json!(""), &json!("image"))
    );
    let bytes = show(json!({ "path": "a", "encoding": "base64" }));
    assert_eq!(value(&bytes)["content"], image.data);
    assert_eq!(text(&bytes), image.data);
}

#[test]
fn a_picture_that_is_too_large_to_be_shown_is_read_in_parts() {
    let FileResult::Content(read) = content(b"", 0, false) else { panic!() };
    let png: Vec<u8> = b"\x89PNG\r\n\x1a\n\xff".iter().copied().cycle().take(3 << 20).collect();
    let large = FileContent {
        mime_type: "image/png".to_owned(),
        size: 4_000_000,
        bytes: png.len() as u64,
        truncated: true,
        ..read
    };
    let shown = shown("fs_read", json!({ "path": "a.png" }), FileResult::Content(large), &png);
    assert!(text(&shown).len() <= 32 << 10, "{}", text(&shown).len());
    assert_eq!(value(&shown)["next_offset"], 24 << 10);
    assert!(value(&shown).to_string().len() < 33 << 10);
}
