//! Tests of patches: `git apply` makes one state out of the other by them.
#![expect(clippy::disallowed_methods, reason = "git is asked what it makes of a patch")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use hotcell_model::Patch;
use rustix::fs::{Mode, OFlags, open};
use tempfile::TempDir;

use super::patch;
use crate::compare::{ModeBits, compare_views};

/// Two states of some files.
struct States(TempDir);

impl States {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::create_dir(directory.path().join("before"))?;
        fs::create_dir(directory.path().join("now"))?;
        Ok(Self(directory))
    }

    fn before(&self) -> PathBuf {
        self.0.path().join("before")
    }

    fn now(&self) -> PathBuf {
        self.0.path().join("now")
    }

    fn patch_of(&self, shown_in: &str, most_bytes: usize) -> Result<Patch> {
        let open = |path: PathBuf| {
            open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        let (before, now) = (open(self.before())?, open(self.now())?);
        let changes = compare_views(&before, &now, ModeBits::All, &|_| true, 1000)?;
        Ok(patch(&before, &now, &changes, Path::new(shown_in), most_bytes)?)
    }

    fn patch(&self) -> Result<String> {
        Ok(self.patch_of("", 1 << 20)?.text)
    }

    /// What git makes of the first state by the patch.
    fn applied(&self) -> Result<BTreeMap<PathBuf, String>> {
        fs::write(self.0.path().join("patch"), self.patch()?)?;
        let output = Command::new("git")
            .args(["apply", "--whitespace=nowarn", "../patch"])
            .current_dir(self.before())
            .env("GIT_CEILING_DIRECTORIES", self.0.path())
            .output()
            .context("run git")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{said}\n{}", self.patch()?);
        files_in(&self.before())
    }
}

fn write(path: PathBuf, content: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, content)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
}

/// Each file and link with what git knows of it.
fn files_in(directory: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let mut to_visit = vec![directory.to_owned()];
    while let Some(next) = to_visit.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let is = if metadata.is_dir() {
                to_visit.push(path);
                continue;
            } else if metadata.is_symlink() {
                format!("link {:?}", fs::read_link(&path)?)
            } else {
                format!("{} {:?}", metadata.permissions().mode() & 0o100, fs::read(&path)?)
            };
            found.insert(path.strip_prefix(directory)?.to_owned(), is);
        }
    }
    Ok(found)
}

#[test]
fn every_kind_of_change_is_told_as_git_tells_it() -> Result<()> {
    let states = States::new()?;
    let (before, now) = (states.before(), states.now());
    write(before.join("changed"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n", 0o644)?;
    write(now.join("changed"), "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", 0o644)?;
    write(before.join("gone"), "x\n", 0o755)?;
    write(now.join("made in/here"), "no newline", 0o644)?;
    write(before.join("mode"), "x\n", 0o644)?;
    write(now.join("mode"), "x\n", 0o755)?;
    write(before.join("data"), b"\0\x01", 0o644)?;
    write(now.join("data"), b"\0\x02", 0o644)?;
    write(before.join("program"), b"\0\x01", 0o644)?;
    write(now.join("program"), b"\0\x01", 0o755)?;
    symlink("old", before.join("link"))?;
    symlink("new", now.join("link"))?;
    let expected = "\
diff --git a/w/changed b/w/changed
--- a/w/changed
+++ b/w/changed
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
diff --git a/w/data b/w/data
Binary files a/w/data and b/w/data differ
diff --git a/w/gone b/w/gone
deleted file mode 100755
--- a/w/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/w/link b/w/link
--- a/w/link
+++ b/w/link
@@ -1 +1 @@
-old
\\ No newline at end of file
+new
\\ No newline at end of file
diff --git a/w/made in/here b/w/made in/here
new file mode 100644
--- /dev/null
+++ b/w/made in/here\t
@@ -0,0 +1 @@
+no newline
\\ No newline at end of file
diff --git a/w/mode b/w/mode
old mode 100644
new mode 100755
diff --git a/w/program b/w/program
old mode 100644
new mode 100755
";
    assert_eq!(states.patch_of("/w", 1 << 20)?.text, expected);
    Ok(())
}

#[test]
fn git_makes_one_state_of_the_other() -> Result<()> {
    let states = States::new()?;
    let (before, now) = (states.before(), states.now());
    let odd = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    for (name, old, new) in [
        ("plain", Some("a\nb\n"), Some("a\nc\n")),
        ("no newline any more", Some("a\nb\n"), Some("a\nb")),
        ("a newline now", Some("a\nb"), Some("a\nb\n")),
        ("returns", Some("a\rb\r\nc\r"), Some("a\rb\r\nd\r")),
        ("empty", Some(""), Some("x\n")),
        ("emptied", Some("x\n"), Some("")),
        ("empty and new", None, Some("")),
        ("empty and gone", Some(""), None),
        ("d/e/f/deep", None, Some("x\n")),
        ("d/gone", Some("x\n"), None),
        ("umläut", Some("ä\n"), Some("ö\n")),
        ("quote\"d", Some("x\n"), Some("y\n")),
        ("back\\slash", None, Some("y\n")),
        ("tab\tand\nline", Some("x\n"), Some("y\n")),
        ("dir-then-file/x", Some("x\n"), None),
        ("dir-then-file/y/z", Some("x\n"), None),
        ("file-then-dir", Some("x\n"), None),
        ("file-then-dir2/x", None, Some("x\n")),
    ] {
        for (content, state) in [(old, &before), (new, &now)] {
            if let Some(content) = content {
                write(state.join(name), content, 0o644)?;
            }
        }
    }
    write(before.join(odd(b"no\xfftext")), "x\n", 0o644)?;
    write(now.join(odd(b"no\xfftext")), "y\n", 0o755)?;
    write(now.join("dir-then-file"), "now a file\n", 0o755)?;
    fs::create_dir(now.join("file-then-dir"))?;
    write(now.join("file-then-dir/in"), "x\n", 0o644)?;
    symlink("target", before.join("link-then-file"))?;
    write(now.join("link-then-file"), "x\n", 0o644)?;
    write(before.join("file-then-link"), "x\n", 0o644)?;
    symlink("some where", now.join("file-then-link"))?;
    symlink("gone", before.join("link-gone"))?;
    assert_eq!(states.applied()?, files_in(&now)?);
    assert_eq!(states.patch()?, "", "nothing differs any more");
    Ok(())
}

#[test]
fn what_has_no_room_is_left_out_whole() -> Result<()> {
    let states = States::new()?;
    for name in ["a", "b", "c"] {
        write(states.now().join(name), format!("{name}\n").repeat(100), 0o644)?;
    }
    let whole = states.patch()?;
    let cut = states.patch_of("", whole.len() - 1)?;
    assert!(cut.truncated && whole.starts_with(&cut.text), "{}", cut.text);
    assert_eq!(cut.text.matches("diff --git").count(), 2);
    assert!(!states.patch_of("", whole.len())?.truncated);
    Ok(())
}

#[test]
fn a_large_file_is_named_and_not_compared() -> Result<()> {
    let states = States::new()?;
    write(states.now().join("large"), vec![b'x'; 5 << 20], 0o644)?;
    let expected = "diff --git a/large b/large\nnew file mode 100644\n\
                    Binary files /dev/null and b/large differ\n";
    assert_eq!(states.patch()?, expected);
    Ok(())
}

#[test]
fn no_link_leads_a_patch_elsewhere() -> Result<()> {
    let states = States::new()?;
    write(states.0.path().join("secret/f"), "secret\n", 0o644)?;
    write(states.now().join("d/f"), "own\n", 0o644)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (before, now) =
        (open(states.before(), flags, Mode::empty())?, open(states.now(), flags, Mode::empty())?);
    let changes = compare_views(&before, &now, ModeBits::All, &|_| true, 1000)?;
    // As if the cell had changed it just now.
    fs::remove_dir_all(states.now().join("d"))?;
    symlink("../secret", states.now().join("d"))?;
    let patch = patch(&before, &now, &changes, Path::new(""), 1 << 20)?;
    assert_eq!(patch.text, "");
    Ok(())
}
