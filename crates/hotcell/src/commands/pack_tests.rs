//! Tests of packing and unpacking on this machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::pack::pack;
use super::unpack::{Unpacked, unpack};

fn archive(add: impl FnOnce(&mut Builder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes);
    add(&mut builder);
    builder.into_inner().unwrap();
    bytes
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header
}

/// An entry whose name the library would refuse to write.
fn raw_file(builder: &mut Builder<&mut Vec<u8>>, name: &str, content: &[u8]) {
    let mut header = header(EntryType::Regular, content.len() as u64);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

#[test]
fn a_directory_comes_through_as_it_is() {
    let from = tempfile::tempdir().unwrap();
    let deep = from.path().join("a").join("b".repeat(120)).join("c");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("é file"), b"one\0two").unwrap();
    fs::write(from.path().join("tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(from.path().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(from.path().join("empty")).unwrap();
    symlink("tool", from.path().join("link")).unwrap();
    symlink("/nowhere", from.path().join("dangling")).unwrap();
    let mut bytes = Vec::new();
    pack(from.path(), &mut bytes).unwrap();

    let to = tempfile::tempdir().unwrap();
    // Twice: what is there already is replaced.
    for _ in 0..2 {
        let unpacked = unpack(bytes.as_slice(), to.path()).unwrap();
        assert_eq!(unpacked, Unpacked { files: 2, bytes: 17, left_out: 0 });
    }
    let read = |path: &Path| fs::read(path).unwrap();
    let inside = deep.strip_prefix(from.path()).unwrap().join("é file");
    assert_eq!(read(&to.path().join(inside)), b"one\0two");
    let mode = fs::metadata(to.path().join("tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o700);
    assert!(to.path().join("empty").is_dir());
    assert_eq!(fs::read_link(to.path().join("link")).unwrap(), Path::new("tool"));
    assert_eq!(fs::read_link(to.path().join("dangling")).unwrap(), Path::new("/nowhere"));
}

#[test]
fn nothing_is_written_outside() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().to_str().unwrap();
    let through_link = archive(|builder| {
        builder.append_link(&mut header(EntryType::Symlink, 0), "d", target).unwrap();
        raw_file(builder, "d/evil", b"x");
    });
    let up = archive(|builder| raw_file(builder, "../evil", b"x"));
    let absolute = archive(|builder| raw_file(builder, "/tmp/hotcell-evil", b"x"));
    let hard_link = archive(|builder| {
        let mut header = header(EntryType::Link, 0);
        header.set_link_name("../secret").unwrap_or_default();
        header.as_old_mut().linkname[..9].copy_from_slice(b"../secret");
        header.as_old_mut().name[..4].copy_from_slice(b"copy");
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
    });
    for (what, bytes) in
        [("link", through_link), ("up", up), ("absolute", absolute), ("hard link", hard_link)]
    {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("inside");
        fs::create_dir(&inside).unwrap();
        fs::write(root.path().join("secret"), "s").unwrap();
        unpack(bytes.as_slice(), &inside).unwrap_err();
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{what}");
        assert!(!root.path().join("evil").exists(), "{what}");
        assert!(!inside.join("copy").exists(), "{what}");
        assert!(!Path::new("/tmp/hotcell-evil").exists(), "{what}");
    }
}

#[test]
fn a_file_replaces_a_link_instead_of_following_it() {
    let root = tempfile::tempdir().unwrap();
    let secret = root.path().join("secret");
    fs::write(&secret, "before").unwrap();
    let inside = root.path().join("inside");
    fs::create_dir(&inside).unwrap();
    symlink(&secret, inside.join("a")).unwrap();
    let bytes = archive(|builder| raw_file(builder, "a", b"after"));
    unpack(bytes.as_slice(), &inside).unwrap();
    assert_eq!(fs::read(&secret).unwrap(), b"before");
    assert_eq!(fs::read(inside.join("a")).unwrap(), b"after");
}

#[test]
fn devices_are_left_out_and_broken_archives_refused() {
    let root = tempfile::tempdir().unwrap();
    let bytes = archive(|builder| {
        let mut header = header(EntryType::Fifo, 0);
        builder.append_data(&mut header, "pipe", std::io::empty()).unwrap();
    });
    assert_eq!(unpack(bytes.as_slice(), root.path()).unwrap().left_out, 1);
    assert!(!root.path().join("pipe").exists());
    let bytes = archive(|builder| raw_file(builder, "a", &[7; 2000]));
    unpack(&bytes[..1000], root.path()).unwrap_err();
    unpack(&[7; 1024][..], root.path()).unwrap_err();
}
