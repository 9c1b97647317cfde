//! Packing files into an archive, which goes out as it is made.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hotcell_model::{Error, FileExport, FilesPacked, Result};
use rustix::fs::{AtFlags, FileType, Stat, fstat, readlinkat, statat};
use rustix::io::Errno;
use tar::{EntryType, Header};

use crate::conversation::Conversation;
use crate::fault::{Tried, cancelled, fault};
use crate::kinds::is_directory;
use crate::packing::Packer;
use crate::path::CellPath;
use crate::pattern::Choice;
use crate::removal::{is_made_by_kernel, is_of_kernel, names, open_directory, open_file, within};
use crate::staged::is_ours;
use crate::tree::{Links, Tree};

const BLOCK: usize = 512;
/// Files with several names that are known again at their second.
const MOST_LINKED: usize = 100_000;
/// A larger file that is mostly holes is not packed: it would be all zeros on the way.
const LARGE_BYTES: u64 = 64 << 20;
const HOLES: u64 = 8;

/// Packs a directory's content, or one file, and sends the archive.
pub(crate) fn export(
    tree: &Tree,
    request: &FileExport,
    conversation: &Conversation,
) -> Result<FilesPacked> {
    let path = CellPath::parse(&request.path)?;
    let choice = Choice::parse(&request.include, &request.exclude)?;
    let what = || format!("pack {path}");
    let seen = fstat(tree.look(&path, Links::Followed)?).tried(what)?;
    let out =
        Counted { out: BufWriter::with_capacity(hotcell_link::DATA_BYTES, conversation), bytes: 0 };
    let out = Packer::new(request.compression, out).tried(what)?;
    let mut export = Export {
        base: &path,
        choice,
        conversation,
        archive: out,
        linked: HashMap::new(),
        packed: FilesPacked::default(),
    };
    if is_directory(&seen) {
        let directory = tree.directory(&path)?;
        if is_of_kernel(&directory) {
            return Err(Error::denied(format!("{path} is made up by the kernel, not stored"))
                .hint("read single files there"));
        }
        export.walk(directory)?;
    } else {
        let (file, stat) = tree.read(&path)?;
        let name = path.as_path().file_name().unwrap_or_default();
        export.file(file, &stat, Path::new(name)).tried(what)?;
    }
    export.archive.write_all(&[0; 2 * BLOCK]).tried(what)?;
    let mut out = export.archive.finish().tried(what)?;
    out.flush().tried(what)?;
    Ok(FilesPacked { archive_bytes: out.bytes, ..export.packed })
}

/// An archive that is being made.
struct Export<'a, W: Write> {
    base: &'a CellPath,
    choice: Choice,
    conversation: &'a Conversation,
    archive: Packer<W>,
    /// Where a file with several names was packed.
    linked: HashMap<(u64, u64), PathBuf>,
    packed: FilesPacked,
}

/// A directory whose entries are being packed.
struct Open {
    fd: OwnedFd,
    below: PathBuf,
    /// What is still to be packed, the first last.
    left: Vec<OsString>,
}

impl Open {
    fn new(fd: OwnedFd, below: PathBuf) -> rustix::io::Result<Self> {
        let mut left: Vec<OsString> = names(&fd)?.into_iter().map(|(name, _)| name).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        Ok(Self { fd, below, left })
    }
}

impl<W: Write> Export<'_, W> {
    /// Packs all that is in a directory, each directory before what is in it.
    fn walk(&mut self, directory: OwnedFd) -> Result<()> {
        let mut open =
            vec![Open::new(directory, PathBuf::new()).tried(|| format!("pack {}", self.base))?];
        while let Some(last) = open.last_mut() {
            let Some(name) = last.left.pop() else {
                open.pop();
                continue;
            };
            if self.conversation.is_over() {
                return Err(cancelled());
            }
            let below = last.below.join(&name);
            if is_ours(&name) || self.choice.excludes(&below) {
                continue;
            }
            if let Some(inside) = self.entry(&last.fd, &name, &below)? {
                let what = || format!("pack {}", self.base.join(&below));
                within(open.len()).tried(what)?;
                open.push(Open::new(inside, below.clone()).tried(what)?);
            }
        }
        Ok(())
    }

    /// Packs one thing; of a directory, what is in it comes after.
    fn entry(
        &mut self,
        directory: &OwnedFd,
        name: &OsStr,
        below: &Path,
    ) -> Result<Option<OwnedFd>> {
        let whole = self.base.join(below);
        let what = || format!("pack {whole}");
        let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(fault(&what(), errno)),
        };
        let is_wanted = self.choice.includes(below);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let inside = match open_directory(directory, name) {
                    Ok(inside) => inside,
                    Err(Errno::NOENT) => return Ok(None),
                    Err(errno) => return Err(fault(&what(), errno).hint(LEAVE_OUT)),
                };
                if is_made_by_kernel(&inside, directory) {
                    return Ok(None);
                }
                if is_wanted {
                    self.head(EntryType::Directory, &stat, below, None).tried(what)?;
                    self.packed.directories += 1;
                }
                return Ok(Some(inside));
            }
            FileType::RegularFile if is_wanted => {
                let (file, stat) = match open_file(directory, name) {
                    Ok(opened) => opened,
                    Err(Errno::NOENT) => return Ok(None),
                    Err(errno) => return Err(fault(&what(), errno).hint(LEAVE_OUT)),
                };
                self.file(file, &stat, below).tried(what)?;
            }
            FileType::Symlink if is_wanted => {
                let target = readlinkat(directory, name, Vec::new()).tried(what)?;
                let target = Some(target.as_bytes());
                self.head(EntryType::Symlink, &stat, below, target).tried(what)?;
                self.packed.links += 1;
            }
            // Pipes, sockets and devices have no content to keep.
            FileType::RegularFile
            | FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {}
        }
        Ok(None)
    }

    fn file(&mut self, file: File, stat: &Stat, below: &Path) -> io::Result<()> {
        if stat.st_nlink > 1 {
            let known = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.linked.get(&known).cloned() {
                self.packed.links += 1;
                let target = Some(first.as_os_str().as_bytes());
                return self.head(EntryType::Link, stat, below, target);
            }
            if self.linked.len() < MOST_LINKED {
                self.linked.insert(known, below.to_owned());
            }
        }
        let size = stat.st_size.cast_unsigned();
        let whole = self.base.join(below);
        if size > LARGE_BYTES
            && stat.st_blocks.cast_unsigned().saturating_mul(BLOCK as u64 * HOLES) < size
        {
            return Err(io::Error::other(
                Error::limit_exceeded(format!(
                    "cannot pack {whole}: its {size} bytes are mostly holes"
                ))
                .hint(LEAVE_OUT),
            ));
        }
        self.head(EntryType::Regular, stat, below, None)?;
        // What is added to it meanwhile is not part of what is packed.
        if io::copy(&mut file.take(size), &mut self.archive)? < size {
            return Err(io::Error::other(
                Error::conflict(format!("{whole} became shorter while it was packed"))
                    .hint("try again when nothing writes to it, or leave it out by exclude"),
            ));
        }
        self.pad(size)?;
        self.packed.files += 1;
        self.packed.bytes += size;
        Ok(())
    }

    /// Writes the head of an entry; names that do not fit into it come before it.
    fn head(
        &mut self,
        kind: EntryType,
        stat: &Stat,
        below: &Path,
        target: Option<&[u8]>,
    ) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(stat.st_mode & 0o7777);
        header.set_uid(u64::from(stat.st_uid));
        header.set_gid(u64::from(stat.st_gid));
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        let is_file = kind == EntryType::Regular;
        header.set_size(if is_file { stat.st_size.cast_unsigned() } else { 0 });
        let mut name = below.as_os_str().as_bytes().to_vec();
        if kind == EntryType::Directory {
            name.push(b'/');
        }
        if let Some(target) = target
            && !put(&mut header.as_old_mut().linkname, target)
        {
            self.long_name(EntryType::GNULongLink, target)?;
        }
        if !put(&mut header.as_old_mut().name, &name) {
            self.long_name(EntryType::GNULongName, &name)?;
        }
        header.set_cksum();
        self.archive.write_all(header.as_bytes())
    }

    fn long_name(&mut self, kind: EntryType, name: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        put(&mut header.as_old_mut().name, b"././@LongLink");
        header.set_mode(0o644);
        let size = name.len() as u64 + 1;
        header.set_size(size);
        header.set_cksum();
        self.archive.write_all(header.as_bytes())?;
        self.archive.write_all(name)?;
        self.archive.write_all(&[0])?;
        self.pad(size)
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
        self.archive.write_all(&[0; BLOCK][..(BLOCK - over) % BLOCK])
    }
}

const LEAVE_OUT: &str = "leave it out by exclude";

/// Puts a name into a field, as much as fits; whether all of it did.
fn put(field: &mut [u8], name: &[u8]) -> bool {
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
    length == name.len()
}

/// Counts what goes through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.out.write(bytes)?;
        self.bytes += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
