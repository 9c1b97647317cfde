//! Tests of packing and unpacking.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use hotcell_model::{Compression, Error, ErrorCode, FileExport, FileImport, FilesPacked, Result};
use proptest::prelude::*;
use tar::Header;

use crate::export::export;
use crate::import::{sweep, unpack};
use crate::testing::{Place, state, talk};
use crate::undo::recover;
use crate::unpacked::Bounds;

fn pack(place: &Place, request: &FileExport) -> Result<(FilesPacked, Vec<u8>)> {
    let (packed, archive) = talk(&[], |conversation| export(&place.tree, request, conversation));
    packed.map(|packed| (packed, archive))
}

fn unpack_bounded(
    place: &Place,
    path: &str,
    archive: &[u8],
    bounds: Bounds,
) -> Result<FilesPacked> {
    let request = FileImport { path: path.to_owned(), ..FileImport::default() };
    unpack_request(place, &request, archive, bounds)
}

fn unpack_request(
    place: &Place,
    request: &FileImport,
    archive: &[u8],
    bounds: Bounds,
) -> Result<FilesPacked> {
    let mut log = tempfile::tempfile().unwrap();
    let done = talk(archive, |conversation| {
        let ready = unpack(&place.tree, request, conversation, bounds)?;
        ready.place(&place.tree, conversation, &mut log)
    });
    assert_eq!(log.metadata().unwrap().len(), 0);
    done.0
}

fn unpack_into(place: &Place, path: &str, archive: &[u8]) -> Result<FilesPacked> {
    unpack_bounded(place, path, archive, Bounds::default())
}

/// One entry as it stands in an archive.
fn entry(kind: u8, name: &[u8], link: &[u8], content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[156] = kind;
    let put = |field: &mut [u8], text: &[u8]| field[..text.len()].copy_from_slice(text);
    put(&mut header.as_old_mut().name, &name[..name.len().min(100)]);
    put(&mut header.as_old_mut().linkname, &link[..link.len().min(100)]);
    header.set_mode(0o6755);
    header.set_mtime(1_000_000_000);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut archive = entries.concat();
    archive.extend([0; 1024]);
    archive
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(b'0', name.as_bytes(), b"", content.as_bytes())
}

fn refusal(place: &Place, archive: &[u8]) -> Error {
    let before = state(place.root());
    let error = unpack_into(place, "t", archive).unwrap_err();
    assert_eq!(state(place.root()), before, "{error}");
    error
}

#[test]
fn what_is_packed_comes_out_again() {
    let place = Place::new();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    place.put("a/one", "1");
    place.put(&format!("a/{long}"), "long");
    place.put("a/empty", "");
    place.put("a/large", "0123456789".repeat(200_000));
    fs::set_permissions(place.at("a/one"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(place.at("a/sub/nothing")).unwrap();
    symlink("one", place.at("a/link")).unwrap();
    symlink(format!("./{}", "x/".repeat(80)), place.at("a/long_link")).unwrap();
    fs::hard_link(place.at("a/one"), place.at("a/sub/same")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.at("a/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let request = FileExport { path: "a".into(), compression, ..FileExport::default() };
        let (packed, archive) = pack(&place, &request).unwrap();
        assert_eq!((packed.files, packed.directories, packed.links), (4, 3, 3));
        assert_eq!(packed.bytes, 2_000_005);
        assert_eq!(packed.archive_bytes, archive.len() as u64);
        let unpacked = unpack_into(&place, "b/c", &archive).unwrap();
        assert_eq!(unpacked, packed);
        let mut expected = state(&place.at("a"));
        expected.remove(&PathBuf::from("pipe"));
        assert_eq!(state(&place.at("b/c")), expected);
        let inode = |path: &str| fs::metadata(place.at(path)).unwrap().ino();
        assert_eq!(inode("b/c/one"), inode("b/c/sub/same"));
        let time = |path: &str| fs::metadata(place.at(path)).unwrap().mtime();
        assert_eq!(time("a/one"), time("b/c/one"));
        assert_eq!(time("a/sub"), time("b/c/sub"));
        fs::remove_dir_all(place.at("b")).unwrap();
    }
    assert!(state(place.root()).keys().all(|path| !path.to_string_lossy().contains(".hotcell-")));
}

#[test]
fn only_what_is_chosen_is_packed_and_unpacked() {
    let place = Place::new();
    for path in ["a/src/x.rs", "a/src/y.txt", "a/docs/deep/z.md", "a/target/o", "a/top.rs"] {
        place.put(path, path);
    }
    let listed = |include: &[&str], exclude: &[&str]| {
        let own = |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect();
        let request = FileExport {
            path: "a".into(),
            include: own(include),
            exclude: own(exclude),
            compression: Compression::None,
        };
        let (_, archive) = pack(&place, &request).unwrap();
        unpack_into(&place, "out", &archive).unwrap();
        let by_export = state(&place.at("out"));
        fs::remove_dir_all(place.at("out")).unwrap();
        let (_, all) =
            pack(&place, &FileExport { path: "a".into(), ..FileExport::default() }).unwrap();
        let request =
            FileImport { path: "out".into(), include: own(include), exclude: own(exclude) };
        unpack_request(&place, &request, &all, Bounds::default()).unwrap();
        assert_eq!(state(&place.at("out")), by_export);
        fs::remove_dir_all(place.at("out")).unwrap();
        let files = by_export.iter().filter(|(_, shown)| *shown != "directory");
        files.map(|(path, _)| path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["*.rs"], &[]), ["src/x.rs", "top.rs"]);
    assert_eq!(listed(&["src"], &[]), ["src/x.rs", "src/y.txt"]);
    assert_eq!(listed(&["docs/**", "src/*.txt"], &[]), ["docs/deep/z.md", "src/y.txt"]);
    assert_eq!(listed(&[], &["target", "docs"]), ["src/x.rs", "src/y.txt", "top.rs"]);
    assert_eq!(listed(&["**"], &["*.rs", "docs/deep"]), ["src/y.txt", "target/o"]);
}

#[test]
fn files_are_replaced_and_directories_added_to() {
    let place = Place::new();
    place.put("t/d/old", "old");
    place.put("t/d/same", "before");
    symlink("old", place.at("t/d/link")).unwrap();
    let new = archive(&[file("./d/same", "after"), file("d/link", "file"), file("d/e/f", "new")]);
    let packed = unpack_into(&place, "t", &new).unwrap();
    assert_eq!((packed.files, packed.bytes), (3, 12));
    let state = state(&place.at("t"));
    let shown = |path: &str| state[&PathBuf::from(path)].as_str();
    // Bits that would lend somebody's rights are not taken over.
    assert_eq!(shown("d/same"), "755 after");
    assert_eq!(shown("d/link"), "755 file");
    assert_eq!(shown("d/e/f"), "755 new");
    assert_eq!(shown("d/old"), "644 old");
    assert_eq!(state.len(), 6);
    let bytes_name = archive(&[entry(b'0', b"bad\xff", b"", b"x")]);
    unpack_into(&place, "/workspace", &bytes_name).unwrap();
}

#[test]
fn what_must_not_be_unpacked_is_refused_and_nothing_is_written() {
    let place = Place::new();
    place.put("t/there/file", "1");
    fs::create_dir(place.at("t/dir")).unwrap();
    symlink("/etc", place.at("t/out")).unwrap();
    let cases: Vec<(Vec<u8>, &str, ErrorCode)> = vec![
        (file("/etc/x", "1"), "/etc/x", ErrorCode::Invalid),
        (file("a/../../x", "1"), "a/../../x", ErrorCode::Invalid),
        (file("..", "1"), "..", ErrorCode::Invalid),
        (file("out/x", "1"), "out", ErrorCode::Conflict),
        (file("dir", "1"), "dir", ErrorCode::Conflict),
        (file("there/file/x", "1"), "there/file", ErrorCode::Conflict),
        (entry(b'2', b"l", b"/etc/passwd", b""), "l", ErrorCode::Invalid),
        (entry(b'2', b"l", b"../x", b""), "l", ErrorCode::Invalid),
        (entry(b'2', b"a/b/l", b"../../../x", b""), "a/b/l", ErrorCode::Invalid),
        (entry(b'2', b"l", b"a/../../x", b""), "l", ErrorCode::Invalid),
        (entry(b'2', b"l", b"", b""), "l", ErrorCode::Invalid),
        (entry(b'1', b"l", b"/etc/passwd", b""), "l", ErrorCode::Invalid),
        (entry(b'1', b"l", b"../x", b""), "l", ErrorCode::Invalid),
        (entry(b'1', b"l", b"there/file", b""), "l", ErrorCode::Invalid),
        (entry(b'3', b"null", b"", b""), "null", ErrorCode::Invalid),
        (entry(b'4', b"disk", b"", b""), "disk", ErrorCode::Invalid),
        (entry(b'6', b"pipe", b"", b""), "pipe", ErrorCode::Invalid),
        (entry(b'S', b"holes", b"", b""), "holes", ErrorCode::Invalid),
        (entry(b'Q', b"odd", b"", b""), "odd", ErrorCode::Invalid),
        (entry(b'5', b"d", b"", b"content"), "d", ErrorCode::Invalid),
        (file("", "1"), "``", ErrorCode::Invalid),
        (file(".hotcell-import-0123456789abcdef/x", "1"), ".hotcell", ErrorCode::Invalid),
        ([file("x", "1"), file("./x", "2")].concat(), "x", ErrorCode::Invalid),
        ([file("x", "1"), file("x/y", "2")].concat(), "x/y", ErrorCode::Invalid),
        ([file("x/y", "1"), file("x", "2")].concat(), "x", ErrorCode::Invalid),
        (
            [entry(b'5', b"x", b"", b""), entry(b'5', b"x/", b"", b"")].concat(),
            "x",
            ErrorCode::Invalid,
        ),
        (
            [entry(b'2', b"l", b"real", b""), file("real/f", "1"), file("l/x", "1")].concat(),
            "l/x",
            ErrorCode::Invalid,
        ),
        (
            [entry(b'2', b"l", b"x", b""), entry(b'1', b"h", b"l", b"")].concat(),
            "h",
            ErrorCode::Invalid,
        ),
        (
            [entry(b'x', b"p", b"", b"22 GNU.sparse.major=1\n"), file("holes", "1")].concat(),
            "holes",
            ErrorCode::Invalid,
        ),
        (
            [entry(b'x', b"p", b"", b"10 size=3\n"), file("sizes", "1")].concat(),
            "sizes",
            ErrorCode::Invalid,
        ),
        (
            [entry(b'x', b"p", b"", b"14 path=/etc/a\n"), file("p", "1")].concat(),
            "broken",
            ErrorCode::Invalid,
        ),
        (
            [entry(b'x', b"p", b"", b"15 path=/etc/a\n"), file("p", "1")].concat(),
            "/etc/a",
            ErrorCode::Invalid,
        ),
        (
            [entry(b'L', b"p", b"", "n".repeat(300).as_bytes()), file("p", "1")].concat(),
            "nnn",
            ErrorCode::Invalid,
        ),
    ];
    for (bad, named, code) in cases {
        let error = refusal(&place, &archive(&[file("good", "1"), bad]));
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(named), "{named}: {error}");
    }
    // What is bad may be left out.
    let request =
        FileImport { path: "t".into(), exclude: vec!["null".into()], ..FileImport::default() };
    let device = archive(&[entry(b'3', b"null", b"", b""), file("good", "1")]);
    let packed = unpack_request(&place, &request, &device, Bounds::default()).unwrap();
    assert_eq!(packed.files, 1);
}

#[test]
fn what_is_broken_is_refused() {
    let place = Place::new();
    let whole = archive(&[file("a", &"x".repeat(2000)), file("b", "y")]);
    for length in [0, 1, 511, 512, 700, 2560, 3000, 3584] {
        assert_eq!(refusal(&place, &whole[..length]).code, ErrorCode::Invalid, "{length}");
    }
    let mut wrong = whole.clone();
    wrong[2560 + 5] ^= 1;
    assert!(refusal(&place, &wrong).message.contains("checksum"));
    for head in ["BZh91AY", "\u{fd}7zXZ", "PK\u{3}\u{4}zip", "just some text"] {
        refusal(&place, head.as_bytes());
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&whole).unwrap();
    let gzip = gzip.finish().unwrap();
    for cut in [3, 12, gzip.len() / 2, gzip.len() - 4] {
        assert_eq!(refusal(&place, &gzip[..cut]).code, ErrorCode::Invalid, "{cut}");
    }
    let mut wrong = gzip.clone();
    let at = gzip.len() - 6;
    wrong[at] ^= 1;
    refusal(&place, &wrong);
    let zstd = zstd::encode_all(whole.as_slice(), 0).unwrap();
    refusal(&place, &zstd[..zstd.len() - 3]);
    unpack_into(&place, "t", &gzip).unwrap();
    unpack_into(&place, "u", &zstd).unwrap();
    assert_eq!(state(&place.at("t")), state(&place.at("u")));
}

#[test]
fn what_is_too_large_is_refused() {
    let place = Place::new();
    let bounds = Bounds { entries: 3, ..Bounds::default() };
    let many = archive(&[file("a", ""), file("b", ""), file("c", ""), file("d", "")]);
    let error = unpack_bounded(&place, "t", &many, bounds).unwrap_err();
    assert_eq!(error.code, ErrorCode::LimitExceeded);
    let bounds = Bounds { bytes: 4000, ..Bounds::default() };
    let error = unpack_bounded(&place, "t", &archive(&[file("a", &"x".repeat(5000))]), bounds);
    assert_eq!(error.unwrap_err().code, ErrorCode::LimitExceeded);
    let bounds = Bounds { name_bytes: 5, ..Bounds::default() };
    let error = unpack_bounded(&place, "t", &archive(&[file("abc", ""), file("def", "")]), bounds);
    assert_eq!(error.unwrap_err().code, ErrorCode::LimitExceeded);
    let bomb = archive(&[file("a", &"\0".repeat(4 << 20))]);
    let bounds = Bounds { ratio: 100, ratio_from: 1 << 20, ..Bounds::default() };
    unpack_bounded(&place, "t", &bomb, bounds).unwrap();
    let packed = zstd::encode_all(bomb.as_slice(), 0).unwrap();
    let error = unpack_bounded(&place, "u", &packed, bounds).unwrap_err();
    assert_eq!(error.code, ErrorCode::LimitExceeded);
    // A name without an end.
    let mut name = Header::new_gnu();
    name.as_mut_bytes()[156] = b'L';
    name.set_size(1 << 40);
    name.set_cksum();
    assert_eq!(refusal(&place, name.as_bytes()).code, ErrorCode::Invalid);
    assert!(!place.at("u").exists());
}

#[test]
fn a_file_that_is_mostly_holes_is_not_packed() {
    let place = Place::new();
    place.put("a/x", "x");
    File::create(place.at("a/holes")).unwrap().set_len(1 << 40).unwrap();
    let request = FileExport { path: "a".into(), ..FileExport::default() };
    let error = pack(&place, &request).unwrap_err();
    assert!(error.message.contains("/workspace/a/holes"), "{error}");
    let request = FileExport { exclude: vec!["holes".into()], ..request };
    assert_eq!(pack(&place, &request).unwrap().0.files, 1);
}

#[test]
fn who_is_no_longer_interested_leaves_nothing_behind() {
    let place = Place::new();
    place.put("a", "1");
    let before = state(place.root());
    let import = FileImport { path: "t".into(), ..FileImport::default() };
    let (done, _) = talk(&[], |conversation| {
        conversation.end();
        unpack(&place.tree, &import, conversation, Bounds::default()).map(|_| ())
    });
    assert_eq!(done.unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(state(place.root()), before);
    let (done, _) = talk(&[], |conversation| {
        conversation.end();
        export(&place.tree, &FileExport { path: ".".into(), ..FileExport::default() }, conversation)
    });
    assert_eq!(done.unwrap_err().code, ErrorCode::Cancelled);
}

#[test]
fn what_a_dead_process_left_aside_is_removed() {
    let place = Place::new();
    place.put(".hotcell-import-0123456789abcdef/d/f", "1");
    place.put(".hotcell-notes", "mine");
    place.put(".hotcell-kept-0123456789abcdef", "old");
    place.put("keep", "1");
    let mut log = tempfile::tempfile().unwrap();
    recover(&place.tree, &mut log).unwrap();
    sweep(&place.tree);
    let left: Vec<PathBuf> = state(&place.at("")).into_keys().collect();
    let expected = [".hotcell-kept-0123456789abcdef", ".hotcell-notes", "keep"];
    assert_eq!(left, expected.map(PathBuf::from));
}

/// Names, targets and kinds that are likely to do harm together.
fn any_entry() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        3 => prop::sample::select(vec![
            "a", "b", "a/b", "b/a", "./a", "a/", "l", "l/x", "l/../x", "../x", "/x", "..", ".",
            "", "there", "there/a", "out/x", "a//b", "../sentinel", "d/d/d",
        ])
        .prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    let kind = prop_oneof![
        4 => prop::sample::select(vec![b'0', b'1', b'2', b'5']),
        1 => prop::sample::select(vec![0, b'3', b'6', b'7', b'L', b'K', b'x', b'g', b'S']),
        1 => any::<u8>(),
    ];
    (kind, name.clone(), name, prop::collection::vec(any::<u8>(), 0..600), any::<u8>()).prop_map(
        |(kind, name, link, content, odd)| {
            let content = if matches!(kind, b'1' | b'2' | b'5') { Vec::new() } else { content };
            let mut bytes = entry(kind, &name, &link, &content);
            // Now and then a head is not what it seems.
            if odd < 8 {
                bytes[usize::from(odd) * 64 + 3] ^= 0x40;
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_archive_writes_outside_or_half(entries in prop::collection::vec(any_entry(), 0..8)) {
        let place = Place::new();
        fs::write(place.at("sentinel"), "untouched").unwrap();
        place.put("t/there/a", "before");
        symlink("..", place.at("t/out")).unwrap();
        let before = state(place.root());
        let outside = |state: &BTreeMap<PathBuf, String>| {
            let mut state = state.clone();
            state.retain(|path, _| !path.starts_with("workspace/t"));
            state
        };
        let done = unpack_into(&place, "t", &archive(&entries));
        let after = state(place.root());
        prop_assert_eq!(outside(&after), outside(&before));
        if done.is_err() {
            prop_assert_eq!(after, before);
        } else {
            for path in after.keys().filter(|path| path.starts_with("workspace/t")) {
                let path = place.root().join(path);
                if fs::symlink_metadata(&path).unwrap().is_symlink()
                    && path != place.at("t/out")
                    && let Ok(real) = fs::canonicalize(&path)
                {
                    // A link that was there before may lead outside, and another through it.
                    let through = fs::read_link(&path).unwrap().starts_with("out");
                    prop_assert!(through || real.starts_with(fs::canonicalize(place.at("t")).unwrap()));
                }
            }
        }
    }
}
