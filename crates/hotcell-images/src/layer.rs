//! A layer as a directory that an overlay shows.
//!
//! Names of an archive lead nowhere but below its directory: each is looked up as if that were the
//! root, and what it is the last part of is never followed. What is removed from layers below is marked
//! as the kernel marks it; marks that an archive brings along itself are left out.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use hotcell_model::{Error, Result};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
    chmodat, chownat, fchmod, fchown, fsetxattr, futimens, linkat, mkdirat, mknodat, openat,
    openat2, readlinkat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::headers::BoundedHeaders;

/// Says that something of a layer below is gone.
const WHITEOUT: &[u8] = b".wh.";
/// Says that all of a directory of layers below is gone.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What else begins so is a matter of a file system that nobody uses any more.
const OTHER_MARKS: &[u8] = b".wh..wh.";
const XATTR: &str = "SCHILY.xattr.";
/// Whose files are that belong to ids which no cell has, as the kernel shows it.
const NOBODY: u32 = 65_534;
const MOST_PATH: usize = 4000;
const MOST_REMEMBERED: usize = 128 << 20;
const TRIES: u32 = 100;
/// What stays free on the disk, and how often that is looked at.
const LEFT_FREE: u64 = 64 << 20;
const LOOK_EACH: u64 = 8 << 20;
/// As the kernel has it.
const MOST_LINKS: usize = 40;

/// How an overlay is told what is removed, by who makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// The host's root.
    Trusted,
    /// Root of a user namespace.
    User,
}

impl Marks {
    fn opaque(self) -> &'static str {
        match self {
            Self::Trusted => "trusted.overlay.opaque",
            Self::User => "user.overlay.opaque",
        }
    }
}

/// Whose the files of a layer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// As the archive says; ids above the most there are become nobody's.
    AsTold {
        /// The highest id.
        most: u32,
    },
    /// All are those of whoever unpacks it, who has no other ids to give.
    Own,
}

/// What a layer may be at most.
#[derive(Debug, Clone, Copy)]
pub struct LayerBounds {
    /// Names.
    pub entries: u64,
    /// The content of files.
    pub bytes: u64,
}

impl Default for LayerBounds {
    fn default() -> Self {
        Self { entries: 4_000_000, bytes: 64 << 30 }
    }
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnpackedLayer {
    /// Names.
    pub entries: u64,
    /// The content of files.
    pub bytes: u64,
    /// Devices, which no cell may have, and other things that were left out.
    pub left_out: u64,
}

/// Unpacks a layer into an empty directory.
///
/// # Errors
/// It is no archive, is broken, or has more in it than it may; what was unpacked so far stays.
pub fn unpack_layer(
    layer: impl Read,
    directory: BorrowedFd<'_>,
    marks: Marks,
    owners: Owners,
    bounds: LayerBounds,
) -> Result<UnpackedLayer> {
    let mut unpacking = Unpacking {
        root: directory,
        marks,
        owners,
        bounds,
        done: UnpackedLayer::default(),
        parent: None,
        directories: Vec::new(),
        remembered: 0,
    };
    let mut archive = tar::Archive::new(BoundedHeaders::new(layer));
    for entry in archive.entries().map_err(broken)? {
        unpacking.entry(&mut entry.map_err(broken)?)?;
    }
    unpacking.finish()
}

fn broken(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => own,
        Err(error) => Error::invalid(format!("the layer cannot be read: {error}"))
            .hint("it is damaged, or no tar archive"),
    }
}

struct Unpacking<'a> {
    root: BorrowedFd<'a>,
    marks: Marks,
    owners: Owners,
    bounds: LayerBounds,
    done: UnpackedLayer,
    /// The directory of the last entry, which is most often that of the next one.
    parent: Option<(PathBuf, OwnedFd)>,
    /// When directories were changed last: what is put into them changes that.
    directories: Vec<(PathBuf, Timestamps)>,
    /// How long their names are together.
    remembered: usize,
}

/// What an archive says of an entry beside its content.
struct Attributes {
    mode: Mode,
    owner: (u64, u64),
    times: Timestamps,
    extended: Vec<(OsString, Vec<u8>)>,
}

impl Unpacking<'_> {
    fn entry(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> Result<()> {
        let path = clean(&entry.path_bytes())?;
        self.done.entries += 1;
        if self.done.entries > self.bounds.entries {
            let most = self.bounds.entries;
            return Err(Error::limit_exceeded(format!("the layer has more than {most} entries")));
        }
        let attributes = Attributes::of(entry, &path)?;
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            // The root of the layer itself.
            let tried = |what| tried(&path, what);
            self.give(self.root, &attributes).map_err(tried("set the attributes of"))?;
            return Ok(());
        };
        let above = path.parent().unwrap_or(Path::new(""));
        if let Some(removed) = name.as_bytes().strip_prefix(WHITEOUT) {
            return self.mark(above, name.as_bytes(), OsStr::from_bytes(removed), &path);
        }
        match entry.header().entry_type().as_byte() {
            b'5' => self.directory(&path, &name, &attributes),
            0 | b'0' | b'7' => self.file(&path, &name, &attributes, entry),
            b'2' => self.symlink(&path, &name, &attributes, entry),
            b'1' => self.link(&path, &name, entry),
            b'6' => self.pipe(&path, &name, &attributes),
            _ => {
                self.done.left_out += 1;
                Ok(())
            }
        }
    }

    /// Marks what is gone from the layers below.
    fn mark(&mut self, above: &Path, whole: &[u8], removed: &OsStr, path: &Path) -> Result<()> {
        if whole == OPAQUE {
            let directory = self.open_directory(above, path)?;
            return self.make_opaque(directory.as_fd(), path);
        }
        if whole.starts_with(OTHER_MARKS) || removed.is_empty() {
            self.done.left_out += 1;
            return Ok(());
        }
        if matches!(removed.as_bytes(), b"." | b"..") {
            return Err(refused(path, "it would remove a directory from within"));
        }
        let parent = self.open_directory(above, path)?;
        let whiteout = rustix::fs::makedev(0, 0);
        let mode = Mode::empty();
        match mknodat(&parent, removed, FileType::CharacterDevice, mode, whiteout) {
            Ok(()) => Ok(()),
            // The layer also has what takes its place: a directory then shows nothing from below.
            Err(Errno::EXIST) => match self.kind_of(parent.as_fd(), removed) {
                Some(FileType::Directory) => {
                    let there = open_there(parent.as_fd(), removed);
                    let there = there.map_err(tried(path, "open"))?;
                    self.make_opaque(there.as_fd(), path)
                }
                Some(_) | None => Ok(()),
            },
            Err(errno) => Err(tried(path, "mark as removed")(errno)),
        }
    }

    fn make_opaque(&self, directory: BorrowedFd<'_>, path: &Path) -> Result<()> {
        fsetxattr(directory, self.marks.opaque(), b"y", XattrFlags::empty())
            .map_err(tried(path, "mark as removed"))
    }

    fn kind_of(&self, parent: BorrowedFd<'_>, name: &OsStr) -> Option<FileType> {
        let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(found.st_mode))
    }

    /// Makes room for an entry whose name may have come before; whether there was a mark.
    fn make_room(&mut self, parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<bool> {
        match self.kind_of(parent, name) {
            None => Ok(false),
            Some(FileType::Directory) => {
                Err(refused(path, "the layer has a directory of that name as well"))
            }
            Some(kind) => {
                unlinkat(parent, name, AtFlags::empty()).map_err(tried(path, "replace"))?;
                // It may have led to the directory that is remembered.
                self.parent = None;
                Ok(kind == FileType::CharacterDevice)
            }
        }
    }

    fn directory(&mut self, path: &Path, name: &OsStr, attributes: &Attributes) -> Result<()> {
        let parent = self.open_parent(path)?;
        let is_there = self.kind_of(parent.as_fd(), name) == Some(FileType::Directory);
        if !is_there {
            let was_removed = self.make_room(parent.as_fd(), name, path)?;
            mkdirat(&parent, name, Mode::RWXU).map_err(tried(path, "make"))?;
            if was_removed {
                let there = open_there(parent.as_fd(), name).map_err(tried(path, "open"))?;
                self.make_opaque(there.as_fd(), path)?;
            }
        }
        let there = open_there(parent.as_fd(), name).map_err(tried(path, "open"))?;
        self.give(there.as_fd(), attributes).map_err(tried(path, "set the attributes of"))?;
        self.remembered += path.as_os_str().len();
        if self.remembered > MOST_REMEMBERED {
            return Err(Error::limit_exceeded("the names of the layer's directories are too long"));
        }
        self.directories.push((path.to_owned(), attributes.times.clone()));
        Ok(())
    }

    fn file(
        &mut self,
        path: &Path,
        name: &OsStr,
        attributes: &Attributes,
        content: &mut impl Read,
    ) -> Result<()> {
        let parent = self.open_parent(path)?;
        self.make_room(parent.as_fd(), name, path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&parent, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(made.map_err(tried(path, "make"))?);
        let left = self.bounds.bytes - self.done.bytes;
        let before = self.done.bytes;
        self.done.bytes = copy(&mut content.take(left + 1), &mut file, before, path)?;
        if self.done.bytes - before > left {
            let most = self.bounds.bytes;
            return Err(Error::limit_exceeded(format!("the layer has more than {most} bytes")));
        }
        self.give(file.as_fd(), attributes).map_err(tried(path, "set the attributes of"))?;
        futimens(&file, &attributes.times).map_err(tried(path, "set the time of"))
    }

    fn symlink(
        &mut self,
        path: &Path,
        name: &OsStr,
        attributes: &Attributes,
        entry: &tar::Entry<'_, impl Read>,
    ) -> Result<()> {
        let target = entry.link_name_bytes().unwrap_or_default();
        if target.is_empty() || target.contains(&0) || target.len() > MOST_PATH {
            return Err(refused(path, "it is a link to nothing that has a name"));
        }
        let parent = self.open_parent(path)?;
        self.make_room(parent.as_fd(), name, path)?;
        symlinkat(OsStr::from_bytes(&target), &parent, name).map_err(tried(path, "make"))?;
        self.give_link(parent.as_fd(), name, attributes).map_err(tried(path, "set the owner of"))
    }

    fn link(&mut self, path: &Path, name: &OsStr, entry: &tar::Entry<'_, impl Read>) -> Result<()> {
        let target = entry.link_name_bytes().unwrap_or_default();
        let target = clean(&target)?;
        let Some(target_name) = target.file_name() else {
            return Err(refused(path, "it is a link to nothing"));
        };
        if target == path {
            return Ok(());
        }
        let from = self.open_parent(&target)?;
        let parent = self.open_parent(path)?;
        self.make_room(parent.as_fd(), name, path)?;
        match linkat(&from, target_name, &parent, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Err(refused(
                path,
                &format!(
                    "it is the same file as {}, which the layer does not have",
                    shortened(&target)
                ),
            )),
            linked => linked.map_err(tried(path, "link")),
        }
    }

    fn pipe(&mut self, path: &Path, name: &OsStr, attributes: &Attributes) -> Result<()> {
        let parent = self.open_parent(path)?;
        self.make_room(parent.as_fd(), name, path)?;
        mknodat(&parent, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(tried(path, "make"))?;
        chmodat(&parent, name, attributes.mode, AtFlags::empty())
            .map_err(tried(path, "set the mode of"))?;
        self.give_link(parent.as_fd(), name, attributes).map_err(tried(path, "set the owner of"))
    }

    /// What an entry lies in, made if it is missing.
    fn open_parent(&mut self, path: &Path) -> Result<OwnedFd> {
        self.open_directory(path.parent().unwrap_or(Path::new("")), path)
    }

    fn open_directory(&mut self, directory: &Path, path: &Path) -> Result<OwnedFd> {
        if let Some((known, fd)) = &self.parent
            && known == directory
        {
            return fd.try_clone().map_err(|error| broken_disk(path, &error));
        }
        let found = match self.open_in_root(directory) {
            Err(Errno::NOENT) => self.make_directories(directory),
            found => found,
        };
        let found = found.map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => {
                refused(path, "what it lies in is no directory of the layer")
            }
            errno => tried(path, "open what lies above")(errno),
        })?;
        let kept = found.try_clone().map_err(|error| broken_disk(path, &error))?;
        self.parent = Some((directory.to_owned(), kept));
        Ok(found)
    }

    fn open_in_root(&self, directory: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        for _ in 1..TRIES {
            match openat2(self.root, directory, flags, Mode::empty(), resolve) {
                // Something was renamed or mounted somewhere on the machine meanwhile.
                Err(Errno::AGAIN) => {}
                found => return found,
            }
        }
        openat2(self.root, directory, flags, Mode::empty(), resolve)
    }

    /// Some archives leave out directories, and links may lead to what only layers below have.
    fn make_directories(&self, directory: &Path) -> Result<OwnedFd, Errno> {
        let mut directory = directory.to_owned();
        for _ in 0..MOST_LINKS {
            match self.make_up_to_link(&directory)? {
                Ok(made) => return Ok(made),
                Err(elsewhere) => directory = elsewhere,
            }
        }
        Err(Errno::LOOP)
    }

    /// Makes directories, up to a link that leads to nothing: then it tells what that comes to.
    fn make_up_to_link(&self, directory: &Path) -> Result<Result<OwnedFd, PathBuf>, Errno> {
        let mut above = self.open_in_root(Path::new(""))?;
        let mut path = PathBuf::new();
        let mut names = directory.iter();
        while let Some(name) = names.next() {
            let next = path.join(name);
            above = match self.open_in_root(&next) {
                Err(Errno::NOENT) => match mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
                    Err(Errno::EXIST) => {
                        let target = readlinkat(&above, name, Vec::new())?;
                        let target = path.join(OsStr::from_bytes(target.as_bytes()));
                        return Ok(Err(within_root(&target.join(names.as_path()))));
                    }
                    made => made.and_then(|()| self.open_in_root(&next))?,
                },
                found => found?,
            };
            path = next;
        }
        Ok(Ok(above))
    }

    fn give(&self, to: BorrowedFd<'_>, attributes: &Attributes) -> Result<(), Errno> {
        if let Owners::AsTold { most } = self.owners {
            let (uid, gid) = attributes.owner(most);
            fchown(to, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        // After the owner, whose change takes some of it away.
        fchmod(to, attributes.mode)?;
        for (name, value) in &attributes.extended {
            match fsetxattr(to, name.as_os_str(), value, XattrFlags::empty()) {
                // A file system that has none, or no room for such a one.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::RANGE | Errno::TOOBIG | Errno::NOSPC) => {}
                Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// The same for what cannot be opened.
    fn give_link(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        attributes: &Attributes,
    ) -> Result<(), Errno> {
        if let Owners::AsTold { most } = self.owners {
            let (uid, gid) = attributes.owner(most);
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        utimensat(parent, name, &attributes.times, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn finish(self) -> Result<UnpackedLayer> {
        for (path, times) in self.directories.iter().rev() {
            // One that was replaced later has the time of what replaced it.
            if let Ok(directory) = self.open_in_root(path) {
                futimens(&directory, times).map_err(tried(path, "set the time of"))?;
            }
        }
        Ok(self.done)
    }
}

impl Attributes {
    fn owner(&self, most: u32) -> (u32, u32) {
        let known = |id: u64| match u32::try_from(id) {
            Ok(id) if id <= most => id,
            Ok(_) | Err(_) => NOBODY.min(most),
        };
        (known(self.owner.0), known(self.owner.1))
    }

    fn of(entry: &mut tar::Entry<'_, impl Read>, path: &Path) -> Result<Self> {
        let unreadable = |_| refused(path, "what it is cannot be read");
        let header = entry.header();
        let mode = header.mode().map_err(unreadable)? & 0o7777;
        // Some leave these out, which is as good as 0.
        let told = |number: io::Result<u64>| number.unwrap_or_default();
        let mut owner = (told(header.uid()), told(header.gid()));
        let mut seconds = i64::try_from(told(header.mtime())).unwrap_or_default();
        let mut extended = Vec::new();
        if let Some(extensions) = entry.pax_extensions().map_err(unreadable)? {
            for extension in extensions {
                let extension = extension.map_err(unreadable)?;
                let (Ok(key), value) = (extension.key(), extension.value_bytes()) else { continue };
                let text = std::str::from_utf8(value).ok();
                match key {
                    "uid" => owner.0 = text.and_then(|it| it.parse().ok()).unwrap_or(owner.0),
                    "gid" => owner.1 = text.and_then(|it| it.parse().ok()).unwrap_or(owner.1),
                    "mtime" => {
                        let whole = text.and_then(|it| it.split('.').next()?.parse().ok());
                        seconds = whole.unwrap_or(seconds);
                    }
                    key => extended.extend(attribute(key, value)),
                }
            }
        }
        let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        Ok(Self { mode: Mode::from_raw_mode(mode), owner, times, extended })
    }
}

/// An attribute that anybody may set. Others are powers, or would tell an overlay what to show.
fn attribute(key: &str, value: &[u8]) -> Option<(OsString, Vec<u8>)> {
    let name = key.strip_prefix(XATTR)?;
    let is_plain = name.starts_with("user.") && !name.starts_with("user.overlay.");
    is_plain.then(|| (OsString::from_vec(name.as_bytes().to_vec()), value.to_vec()))
}

/// A name as a path below the directory of the layer.
fn clean(name: &[u8]) -> Result<PathBuf> {
    let mut path = PathBuf::new();
    let whole = Path::new(OsStr::from_bytes(name));
    if name.contains(&0) {
        return Err(refused(whole, "the name has a NUL character in it"));
    }
    if name.len() > MOST_PATH {
        return Err(refused(whole, "the name is too long"));
    }
    for component in whole.components() {
        match component {
            Component::Normal(name) => path.push(name),
            // An absolute name is meant from the root of the image.
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir => return Err(refused(whole, "the name has `..` in it")),
            Component::Prefix(_) => return Err(refused(whole, "the name is no path")),
        }
    }
    Ok(path)
}

/// Where a path leads if nothing is above the root.
fn within_root(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => found.push(name),
            Component::ParentDir => _ = found.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    found
}

/// Opens a directory by its own name.
fn open_there(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Copies a file, after so many bytes of others; how many there are then.
fn copy(content: &mut impl Read, file: &mut File, before: u64, path: &Path) -> Result<u64> {
    let mut buffer = vec![0; 128 << 10];
    let mut copied = before;
    loop {
        let length = match content.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(broken)?,
        };
        if length == 0 {
            return Ok(copied);
        }
        file.write_all(&buffer[..length]).map_err(|error| broken_disk(path, &error))?;
        copied += length as u64;
        if copied / LOOK_EACH != (copied - length as u64) / LOOK_EACH && is_nearly_full(file) {
            return Err(tried(path, "unpack")(Errno::NOSPC));
        }
    }
}

/// Whether the disk has no more room than cells that run need.
fn is_nearly_full(file: &File) -> bool {
    rustix::fs::fstatvfs(file).is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) < LEFT_FREE)
}

fn broken_disk(path: &Path, error: &io::Error) -> Error {
    match Errno::from_io_error(error) {
        Some(errno) => tried(path, "unpack")(errno),
        None => Error::unavailable(format!("cannot unpack {}: {error}", path.display())),
    }
}

fn tried(path: &Path, what: &'static str) -> impl Fn(Errno) -> Error {
    let path = shortened(path);
    move |errno| {
        let error = Error::unavailable(format!("cannot {what} {path} of the layer: {errno}"));
        match errno {
            Errno::NOSPC | Errno::DQUOT => error.hint("make room, and try again"),
            _ => error,
        }
    }
}

fn shortened(path: &Path) -> String {
    path.to_string_lossy().chars().take(200).collect()
}

fn refused(path: &Path, reason: &str) -> Error {
    let shown = shortened(path);
    Error::invalid(format!("cannot unpack {shown:?} of the layer: {reason}"))
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
