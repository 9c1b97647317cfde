//! What the index of a git repository says, apart from times.
//!
//! `git status` rewrites the index only to remember when files changed. A shell prompt does that all
//! day. So an index counts as changed by the user only if its entries did.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use hotcell_images::digest_of;

use crate::tree;

/// Larger ones count as changed whenever they are written.
const MOST_BYTES: u64 = 32 << 20;

/// Whether a path of a project is that of an index: of a repository, a worktree or a submodule.
pub(super) fn is_index(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new("index"))
        && path.parent().is_some_and(|above| above.iter().any(|part| part == ".git"))
}

/// The digest of the entries of an index; `None` for what is no index, or one of a kind that is not
/// known.
pub(super) fn digest_in(directory: impl AsFd, name: &OsStr) -> io::Result<Option<String>> {
    match tree::open_file(directory, name) {
        Ok(file) => digest_of_entries(file),
        // Gone meanwhile, or no file.
        Err(_) => Ok(None),
    }
}

fn digest_of_entries(file: File) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Ok(None);
    }
    let entries = [Hash::Sha1, Hash::Sha256].into_iter().find_map(|hash| entries(&bytes, hash));
    Ok(entries.map(|entries| digest_of(&entries).to_string()))
}

/// What names the objects of a repository.
#[derive(Debug, Clone, Copy)]
enum Hash {
    Sha1,
    Sha256,
}

impl Hash {
    fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// All entries without what they remember of files, if the whole index is understood.
fn entries(index: &[u8], hash: Hash) -> Option<Vec<u8>> {
    // Times, device, inode, mode, owner and size are in front of the name of the object.
    const MODE: std::ops::Range<usize> = 24..28;
    const STAT: usize = 40;
    const EXTENDED: u16 = 0x4000;
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?));
    let body = index.get(..index.len().checked_sub(hash.bytes())?)?;
    if body.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(&body[4..])?;
    let count = number(body.get(8..)?)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut rest = body.get(12..)?;
    let mut kept = Vec::new();
    let mut path: Vec<u8> = Vec::new();
    for _ in 0..count {
        let flags_at = STAT + hash.bytes();
        let flags = u16::from_be_bytes(rest.get(flags_at..flags_at + 2)?.try_into().ok()?);
        let is_extended = version > 2 && flags & EXTENDED != 0;
        let path_at = flags_at + if is_extended { 4 } else { 2 };
        kept.extend_from_slice(rest.get(MODE)?);
        kept.extend_from_slice(rest.get(STAT..path_at)?);
        let named = rest.get(path_at..)?;
        let end = if version == 4 {
            let (dropped, used) = varint(named)?;
            let named = &named[used..];
            let length = named.iter().position(|byte| *byte == 0)?;
            path.truncate(path.len().checked_sub(dropped)?);
            path.extend_from_slice(&named[..length]);
            path_at + used + length + 1
        } else {
            let length = named.iter().position(|byte| *byte == 0)?;
            path = named[..length].to_vec();
            // One to eight zeros follow, up to a multiple of eight.
            (path_at + length + 8) & !7
        };
        kept.extend_from_slice(&path);
        kept.push(0);
        rest = rest.get(end..)?;
    }
    are_extensions(rest).then_some(kept)
}

/// Whether the rest of an index is extensions which only remember what can be found out again.
fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let (Some(name), Some(length)) = (rest.get(..4), rest.get(4..8)) else { return false };
        // Those in small letters change what the entries mean.
        if !name[0].is_ascii_uppercase() {
            return false;
        }
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        let Some(next) = usize::try_from(length).ok().and_then(|length| rest.get(8 + length..))
        else {
            return false;
        };
        rest = next;
    }
    true
}

/// A number as in packs' offsets, and of how many bytes it is.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    let mut value = usize::from(first & 0x7f);
    let (mut last, mut used) = (first, 1);
    while last & 0x80 != 0 {
        last = *bytes.get(used)?;
        used += 1;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(last & 0x7f))?;
    }
    Some((value, used))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "git makes the indexes")]
    fn git(dir: &Path, arguments: &[&str]) -> bool {
        let mut git = Command::new("git");
        git.current_dir(dir).args(["-c", "user.name=n", "-c", "user.email=e@example.com"]);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.args(arguments).output().is_ok_and(|output| output.status.success())
    }

    fn digest(dir: &Path) -> Option<String> {
        digest_of_entries(File::open(dir.join(".git/index")).unwrap()).unwrap()
    }

    #[test]
    fn refreshing_an_index_leaves_its_digest_and_staging_does_not() {
        for (hash, version) in [("sha1", "2"), ("sha1", "3"), ("sha1", "4"), ("sha256", "4")] {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            assert!(git(dir, &["init", "-q", &format!("--object-format={hash}")]));
            for name in ["a", "b", "some/long/directory/c", "some/long/directory/d"] {
                let file = dir.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, name).unwrap();
            }
            assert!(git(dir, &["add", "."]) && git(dir, &["commit", "-qm", "one"]));
            assert!(git(dir, &["update-index", "--index-version", version]));
            if version == "3" {
                fs::write(dir.join("intended"), "new").unwrap();
                assert!(git(dir, &["add", "--intent-to-add", "intended"]));
            }
            let bytes = fs::read(dir.join(".git/index")).unwrap();
            let before = digest(dir).expect("the index is understood");
            let file = File::options().append(true).open(dir.join("a")).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            assert!(git(dir, &["update-index", "--refresh"]) || version == "3");
            assert_ne!(fs::read(dir.join(".git/index")).unwrap(), bytes, "git wrote it anew");
            assert_eq!(digest(dir).as_ref(), Some(&before), "{hash} {version}");
            fs::write(dir.join("b"), "other").unwrap();
            assert!(git(dir, &["add", "b"]));
            assert_ne!(digest(dir), Some(before), "{hash} {version}");
        }
    }

    #[test]
    fn what_is_not_understood_has_no_digest() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(git(dir, &["init", "-q"]));
        fs::write(dir.join("a"), "a").unwrap();
        assert!(git(dir, &["add", "."]));
        let whole = fs::read(dir.join(".git/index")).unwrap();
        let entry = 64;
        for length in 0..12 + entry + 20 {
            assert!(entries(&whole[..length], Hash::Sha1).is_none(), "{length}");
        }
        assert!(git(dir, &["update-index", "--split-index"]));
        assert_eq!(digest(dir), None, "its entries are in another file");
    }

    #[test]
    fn an_index_is_known_by_its_place() {
        for path in
            [".git/index", "sub/.git/index", ".git/worktrees/w/index", ".git/modules/m/index"]
        {
            assert!(is_index(&PathBuf::from(path)), "{path}");
        }
        for path in ["index", "src/index", ".git/index.lock", ".github/index"] {
            assert!(!is_index(&PathBuf::from(path)), "{path}");
        }
    }
}
