//! Layers are unpacked as they are meant, and nothing leads out of their directory.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use hotcell_model::ErrorCode;
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::*;

/// An archive in the making.
struct Layer(Builder<Vec<u8>>);

impl Layer {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn put(mut self, name: &str, kind: EntryType, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        // As it stands there, whatever a tidy archive would have.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o640 });
        header.set_mtime(1_000_000_000);
        header.set_uid(0);
        header.set_gid(0);
        if kind.is_character_special() || kind.is_block_special() {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        }
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.put(name, EntryType::Regular, "", content.as_bytes())
    }

    fn directory(self, name: &str) -> Self {
        self.put(name, EntryType::Directory, "", b"")
    }

    fn link(self, name: &str, to: &str) -> Self {
        self.put(name, EntryType::Symlink, to, b"")
    }

    fn hard_link(self, name: &str, to: &str) -> Self {
        self.put(name, EntryType::Link, to, b"")
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    fn unpack_into(self, home: &Path) -> Result<UnpackedLayer> {
        unpack(&self.bytes(), home, LayerBounds::default())
    }

    fn unpack(self) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        self.unpack_into(home.path()).unwrap();
        home
    }

    fn refused(self) -> Error {
        let home = tempfile::tempdir().unwrap();
        let error = self.unpack_into(home.path()).unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{error}");
        error
    }
}

fn unpack(bytes: &[u8], home: &Path, bounds: LayerBounds) -> Result<UnpackedLayer> {
    let directory = File::open(home).unwrap();
    unpack_layer(bytes, directory.as_fd(), Marks::User, Owners::Own, bounds)
}

fn is_whiteout(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_char_device() && it.rdev() == 0)
}

fn is_opaque(path: &Path) -> bool {
    let mut value = [0; 8];
    rustix::fs::lgetxattr(path, "user.overlay.opaque", &mut value[..]) == Ok(1) && value[0] == b'y'
}

#[test]
fn files_are_as_they_were_packed() {
    let home = Layer::new()
        .directory("etc/")
        .file("./etc/name", "content")
        .link("etc/link", "name")
        .hard_link("etc/same", "etc/name")
        .file("deep/down/here", "made on the way")
        .unpack();
    let at = |name: &str| home.path().join(name);
    assert_eq!(fs::read_to_string(at("etc/name")).unwrap(), "content");
    let metadata = fs::metadata(at("etc/name")).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime()), (0o640, 1_000_000_000));
    assert_eq!(metadata.nlink(), 2);
    assert_eq!(fs::read_link(at("etc/link")).unwrap(), Path::new("name"));
    assert_eq!(fs::metadata(at("etc")).unwrap().mtime(), 1_000_000_000);
    assert_eq!(fs::read_to_string(at("deep/down/here")).unwrap(), "made on the way");
}

#[test]
fn what_is_gone_from_below_is_marked() {
    let home = Layer::new()
        .file("etc/.wh.gone", "")
        .directory("var/")
        .file("var/.wh..wh..opq", "")
        .file("var/new", "")
        .file(".wh..wh.plnk", "")
        .unpack();
    assert!(is_whiteout(&home.path().join("etc/gone")));
    assert!(is_opaque(&home.path().join("var")) && !is_opaque(&home.path().join("etc")));
    let mut names: Vec<_> =
        fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["etc", "var"]);
}

#[test]
fn what_takes_the_place_of_something_gone_counts_whichever_comes_first() {
    let before = Layer::new().file(".wh.it", "").directory("it/").file("it/new", "").unpack();
    let after = Layer::new().directory("it/").file("it/new", "").file(".wh.it", "").unpack();
    for home in [before, after] {
        let it = home.path().join("it");
        assert!(is_opaque(&it) && it.join("new").exists());
    }
    let before = Layer::new().file(".wh.it", "").file("it", "new").unpack();
    let after = Layer::new().file("it", "new").file(".wh.it", "").unpack();
    for home in [before, after] {
        assert_eq!(fs::read_to_string(home.path().join("it")).unwrap(), "new");
    }
}

#[test]
fn no_name_leads_out() {
    for name in ["../out", "a/../../out", "a/.."] {
        let error = Layer::new().file(name, "").refused();
        assert!(error.to_string().contains("`..`"), "{error}");
    }
    Layer::new().hard_link("same", "../../etc/passwd").refused();
    Layer::new().file("/.wh...", "").refused();
    // An absolute name is one of the image.
    assert!(Layer::new().file("/etc/name", "").unpack().path().join("etc/name").exists());
}

#[test]
fn no_link_leads_out() {
    let home = tempfile::tempdir().unwrap();
    let (inside, outside) = (home.path().join("inside"), home.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    let out = outside.to_str().unwrap();
    Layer::new()
        .link("absolute", out)
        .link("relative", "../outside")
        .file("relative/name", "x")
        .file("absolute/name", "x")
        .file("relative/.wh.gone", "")
        .unpack_into(&inside)
        .unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(inside.join("outside/name").exists());
    assert!(inside.join(out.trim_start_matches('/')).join("name").exists());
    // The same by plain paths shows that it could have.
    symlink("../outside", inside.join("plain")).unwrap();
    fs::write(inside.join("plain/name"), "x").unwrap();
    assert!(outside.join("name").exists());
    // What a link leads to is not written through either.
    let file = outside.join("file");
    fs::write(&file, "kept").unwrap();
    Layer::new()
        .link("it", file.to_str().unwrap())
        .file("it", "of the layer")
        .unpack_into(&inside)
        .unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "kept");
}

#[test]
fn hard_links_are_made_to_files_of_the_layer_alone() {
    let error = Layer::new().hard_link("same", "etc/of-below").refused();
    assert!(error.to_string().contains("which the layer does not have"), "{error}");
    Layer::new().hard_link("same", "").refused();
}

#[test]
fn devices_are_left_out() {
    let home = tempfile::tempdir().unwrap();
    let unpacked = Layer::new()
        .put("null", EntryType::Char, "", b"")
        .put("disk", EntryType::Block, "", b"")
        .put("pipe", EntryType::Fifo, "", b"")
        .unpack_into(home.path())
        .unwrap();
    assert_eq!((unpacked.entries, unpacked.left_out), (3, 2));
    assert!(fs::metadata(home.path().join("pipe")).unwrap().file_type().is_fifo());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn an_archive_marks_nothing_for_the_overlay_itself() {
    let mut builder = Builder::new(Vec::new());
    let attributes: [(&str, &[u8]); 4] = [
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.security.capability", b"\x01"),
        ("SCHILY.xattr.user.plain", b"kept"),
    ];
    builder.append_pax_extensions(attributes).unwrap();
    let mut header = Header::new_ustar();
    header.set_path("dir/").unwrap();
    header.set_entry_type(EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    header.set_cksum();
    builder.append(&header, &b""[..]).unwrap();
    let home = tempfile::tempdir().unwrap();
    unpack(&builder.into_inner().unwrap(), home.path(), LayerBounds::default()).unwrap();
    let mut names = vec![0; 1000];
    let length = rustix::fs::llistxattr(home.path().join("dir"), &mut names[..]).unwrap();
    assert_eq!(&names[..length], b"user.plain\0");
}

#[test]
fn ids_that_nobody_has_are_nobodys() {
    let time = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    let of =
        |owner| Attributes { mode: Mode::empty(), owner, times: times.clone(), extended: vec![] };
    assert_eq!(of((0, 65_535)).owner(65_535), (0, 65_535));
    assert_eq!(of((65_536, u64::MAX)).owner(65_535), (65_534, 65_534));
    assert_eq!(of((1000, 5001)).owner(5000), (1000, 5000));
}

#[test]
fn long_names_are_refused_in_few_words() {
    let long = "a/".repeat(3000);
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o644);
    builder.append_data(&mut header, &long[..5999], &b""[..]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let bytes = builder.into_inner().unwrap();
    let error = unpack(&bytes, home.path(), LayerBounds::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::Invalid);
    assert!(error.to_string().len() < 500, "{error}");
}

#[test]
fn a_layer_has_its_bounds() {
    let home = tempfile::tempdir().unwrap();
    let bytes = Layer::new().file("a", "12345").file("b", "12345").bytes();
    for bounds in [LayerBounds { entries: 1, bytes: 100 }, LayerBounds { entries: 9, bytes: 9 }] {
        let _ = fs::remove_dir_all(home.path());
        fs::create_dir(home.path()).unwrap();
        let error = unpack(&bytes, home.path(), bounds).unwrap_err();
        assert_eq!(error.code, ErrorCode::LimitExceeded, "{error}");
    }
    let _ = fs::remove_dir_all(home.path());
    fs::create_dir(home.path()).unwrap();
    unpack(&bytes, home.path(), LayerBounds { entries: 2, bytes: 10 }).unwrap();
}

#[test]
fn what_is_cut_or_no_archive_is_told() {
    let home = tempfile::tempdir().unwrap();
    let bytes = Layer::new().file("name", &"x".repeat(2000)).bytes();
    for broken in [&bytes[..1000], &bytes[..100], b"no archive, but longer than a block of it"] {
        let error = unpack(broken, home.path(), LayerBounds::default()).unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{error}");
    }
}

#[test]
fn a_name_that_comes_twice_is_what_it_was_last() {
    let home = Layer::new().file("it", "first").link("it", "x").file("it", "last").unpack();
    assert_eq!(fs::read_to_string(home.path().join("it")).unwrap(), "last");
    let mode = fs::metadata(home.path().join("it")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let error = Layer::new().directory("it/").file("it", "").refused();
    assert!(error.to_string().contains("a directory of that name"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_an_archive_has_stays_inside(
        entries in prop::collection::vec(
            ("[ab./]{1,6}", "[ab./]{0,6}", 0..5_u8), 1..12)
    ) {
        let home = tempfile::tempdir().unwrap();
        let inside = home.path().join("x/y/z");
        fs::create_dir_all(&inside).unwrap();
        let mut layer = Layer::new();
        for (name, link, kind) in entries {
            let kind = match kind {
                0 => EntryType::Directory,
                1 => EntryType::Symlink,
                2 => EntryType::Link,
                _ => EntryType::Regular,
            };
            layer = layer.put(&name, kind, &link, b"");
        }
        let _ = layer.unpack_into(&inside);
        for (above, only) in [("", "x"), ("x", "y"), ("x/y", "z")] {
            let names: Vec<_> = fs::read_dir(home.path().join(above))
                .unwrap()
                .map(|it| it.unwrap().file_name())
                .collect();
            prop_assert_eq!(names, [only]);
        }
    }
}
