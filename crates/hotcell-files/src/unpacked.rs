//! The entries of an archive as they come, bounded in every way.

use std::cell::Cell;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use hotcell_model::{Error, Result};
use tar::Header;

use crate::fault::Tried;

const BLOCK: u64 = 512;
/// The longest name, and the most that is told of one entry beside its head.
const MOST_NAME_BYTES: u64 = 64 * 1024;
const MOST_PAX_BYTES: u64 = 1 << 20;

/// What an archive may be at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) entries: u64,
    /// All names together.
    pub(crate) name_bytes: u64,
    /// Unpacked.
    pub(crate) bytes: u64,
    /// How much more it may be unpacked than packed, from this many bytes on.
    pub(crate) ratio: u64,
    pub(crate) ratio_from: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            entries: 200_000,
            name_bytes: 64 << 20,
            bytes: 10 << 30,
            ratio: 1000,
            ratio_from: 64 << 20,
        }
    }
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File {
        size: u64,
    },
    Directory,
    /// Leads to this, from where it is.
    Symlink(Vec<u8>),
    /// Is the same file as this one of the archive.
    Link(PathBuf),
    /// Cannot be unpacked, for this reason.
    Other(String),
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Below the directory that is unpacked into; empty for that itself.
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) modified: i64,
}

/// Counts what is read of the packed archive.
pub(crate) struct Packed<'a, R> {
    pub(crate) reader: R,
    pub(crate) bytes: &'a Cell<u64>,
}

impl<R: Read> Read for Packed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.bytes.set(self.bytes.get() + length as u64);
        Ok(length)
    }
}

/// What is read of an archive after it was uncompressed.
pub(crate) struct Unpacked<'a, R> {
    reader: R,
    packed: &'a Cell<u64>,
    bounds: Bounds,
    bytes: u64,
    entries: u64,
    name_bytes: u64,
    /// What is left of the entry before, with its padding.
    left: u64,
    padding: u64,
}

/// What comes before an entry and belongs to it.
#[derive(Debug, Default)]
struct Before {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    modified: Option<i64>,
    is_sparse: bool,
}

impl<'a, R: Read> Unpacked<'a, R> {
    pub(crate) fn new(reader: R, packed: &'a Cell<u64>, bounds: Bounds) -> Self {
        Self { reader, packed, bounds, bytes: 0, entries: 0, name_bytes: 0, left: 0, padding: 0 }
    }

    /// The next entry; `None` at the end of the archive. What was not read of the one before is
    /// passed over.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>> {
        let mut before = Before::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size().map_err(|_| self.broken("an entry has no size"))?;
            self.entries += 1;
            if self.entries > self.bounds.entries {
                let most = self.bounds.entries;
                return Err(Error::limit_exceeded(format!(
                    "the archive has more than {most} entries"
                ))
                .hint("unpack it in parts"));
            }
            self.left = size;
            self.padding = (BLOCK - size % BLOCK) % BLOCK;
            match header.entry_type().as_byte() {
                b'L' => before.name = Some(self.long_name()?),
                b'K' => before.link = Some(self.long_name()?),
                b'x' | b'X' => {
                    let records = self.small(MOST_PAX_BYTES)?;
                    self.extend(&mut before, &records)?;
                }
                b'g' => {
                    self.small(MOST_PAX_BYTES)?;
                }
                kind => return self.entry(&header, kind, size, before).map(Some),
            }
        }
    }

    fn entry(&mut self, header: &Header, kind: u8, size: u64, before: Before) -> Result<Entry> {
        let name = before.name.unwrap_or_else(|| header.path_bytes().into_owned());
        let shown = shown(&name);
        let refused = |reason: &str| refused(&shown, reason);
        self.name_bytes += name.len() as u64;
        if self.name_bytes > self.bounds.name_bytes {
            return Err(Error::limit_exceeded(
                "the names in the archive are too long, all together",
            )
            .hint("unpack it in parts"));
        }
        if before.size.is_some_and(|told| told != size) {
            return Err(refused("two different sizes of it are told"));
        }
        let link = || before.link.clone().or_else(|| header.link_name_bytes().map(|n| n.to_vec()));
        let path = clean(&name).map_err(refused)?;
        let kind = match kind {
            _ if before.is_sparse => Kind::Other("it is stored as a sparse file".to_owned()),
            0 | b'0' | b'7' if name.ends_with(b"/") => Kind::Directory,
            0 | b'0' | b'7' => Kind::File { size },
            b'5' => Kind::Directory,
            b'2' => Kind::Symlink(link().unwrap_or_default()),
            b'1' => match clean(&link().unwrap_or_default()) {
                Ok(target) => Kind::Link(target),
                Err(reason) => {
                    Kind::Other(format!("it is a hard link, and of its target {reason}"))
                }
            },
            b'3' | b'4' => Kind::Other("it is a device".to_owned()),
            b'6' => Kind::Other("it is a pipe".to_owned()),
            b'S' => Kind::Other("it is stored as a sparse file".to_owned()),
            other => {
                let letter = char::from(other).escape_debug().to_string();
                Kind::Other(format!("it is of the unknown kind `{letter}`"))
            }
        };
        let is_file = matches!(kind, Kind::File { .. });
        let has_content = size > 0 && !is_file && !matches!(kind, Kind::Other(_));
        let kind = if has_content {
            Kind::Other("it has content though it is no file".to_owned())
        } else {
            kind
        };
        if is_file && size > self.bounds.bytes - self.bytes.min(self.bounds.bytes) {
            return Err(self.too_large());
        }
        let modified = before.modified.or_else(|| header.mtime().ok()?.try_into().ok());
        let mode = header.mode().map_err(|_| refused("its permission bits cannot be read"))?;
        Ok(Entry { path, kind, mode, modified: modified.unwrap_or(0) })
    }

    /// What stands before an entry in the form of POSIX.
    fn extend(&self, before: &mut Before, records: &[u8]) -> Result<()> {
        let mut rest = records;
        while !rest.is_empty() {
            let broken = || self.broken("what stands before an entry cannot be read");
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
            let length =
                std::str::from_utf8(&rest[..space]).ok().and_then(|text| text.parse().ok());
            let length: usize = length.ok_or_else(broken)?;
            let record = rest.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n"));
            let record = record.ok_or_else(broken)?;
            rest = &rest[length..];
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            let number = || std::str::from_utf8(value).ok();
            match key {
                b"path" => before.name = Some(value.to_vec()),
                b"linkpath" => before.link = Some(value.to_vec()),
                b"size" => {
                    before.size = Some(number().and_then(|n| n.parse().ok()).ok_or_else(broken)?);
                }
                b"mtime" => {
                    let whole = number().and_then(|number| number.split('.').next());
                    before.modified = whole.and_then(|whole| whole.parse().ok());
                }
                key if key.starts_with(b"GNU.sparse") => before.is_sparse = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn long_name(&mut self) -> Result<Vec<u8>> {
        let mut name = self.small(MOST_NAME_BYTES)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// The whole content of an entry that must be small.
    fn small(&mut self, most: u64) -> Result<Vec<u8>> {
        if self.left > most {
            return Err(self.broken("a name is too long"));
        }
        let mut content = Vec::new();
        self.read_to_end(&mut content).tried(|| "read the archive".to_owned())?;
        Ok(content)
    }

    /// The next head; `None` at the end.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        if !self.block(header.as_mut_bytes())? {
            return Err(self.broken("it ends too early"));
        }
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u32 = header.as_bytes().iter().map(|byte| u32::from(*byte)).sum();
        let own: u32 = header.as_old().cksum.iter().map(|byte| u32::from(*byte)).sum();
        let spaces = 8 * u32::from(b' ');
        if header.cksum().ok() != Some(sum - own + spaces) {
            let what =
                if self.entries == 0 { "it is no tar archive" } else { "a checksum is wrong" };
            return Err(self.broken(what));
        }
        Ok(Some(header))
    }

    /// Reads a whole block; whether there was one.
    fn block(&mut self, block: &mut [u8]) -> Result<bool> {
        let mut length = 0;
        while length < block.len() {
            let more = self.pull(&mut block[length..]).tried(|| "read the archive".to_owned())?;
            if more == 0 {
                return Ok(false);
            }
            length += more;
        }
        Ok(true)
    }

    /// Passes over the rest of the entry before.
    fn skip(&mut self) -> Result<()> {
        let what = || "read the archive".to_owned();
        io::copy(self, &mut io::sink()).tried(what)?;
        let mut padding = [0; BLOCK as usize];
        let length = usize::try_from(std::mem::take(&mut self.padding)).unwrap_or(0);
        if !self.block(&mut padding[..length])? {
            return Err(self.broken("it ends too early"));
        }
        Ok(())
    }

    /// Reads what comes after the end, so that a checksum there is looked at.
    pub(crate) fn finish(mut self) -> Result<()> {
        let mut buffer = [0; 8 * 1024];
        while self.pull(&mut buffer).tried(|| "read the archive".to_owned())? > 0 {}
        Ok(())
    }

    fn pull(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match self.reader.read(buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return Err(self.unreadable(error)),
        };
        self.bytes += length as u64;
        let packed = self.packed.get().max(1);
        let is_bomb =
            self.bytes > self.bounds.ratio_from && self.bytes / packed > self.bounds.ratio;
        if self.bytes > self.bounds.bytes || is_bomb {
            return Err(io::Error::other(self.too_large()));
        }
        Ok(length)
    }

    /// What a decompressor has to say is about the archive, unless it only passes on our own word.
    fn unreadable(&self, error: io::Error) -> io::Error {
        match error.downcast::<Error>() {
            Ok(own) => io::Error::other(own),
            Err(error) => io::Error::other(self.broken(&error.to_string())),
        }
    }

    fn too_large(&self) -> Error {
        let Bounds { bytes, ratio, .. } = self.bounds;
        Error::limit_exceeded(format!(
            "the archive is larger than {bytes} bytes, or than {ratio} times what was sent, once \
             it is unpacked"
        ))
        .hint("unpack it in parts")
    }

    fn broken(&self, reason: &str) -> Error {
        let entries = self.entries;
        Error::invalid(format!("the archive is broken after {entries} entries: {reason}"))
            .hint("pack and send it again")
    }
}

/// The content of the entry that was told last.
impl<R: Read> Read for Unpacked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let length = self.pull(&mut buffer[..most])?;
        if length == 0 {
            return Err(io::Error::other(self.broken("it ends too early")));
        }
        self.left -= length as u64;
        Ok(length)
    }
}

/// A name as it can be told.
pub(crate) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(200).collect::<String>().escape_debug().to_string()
}

/// An entry that cannot be unpacked.
pub(crate) fn refused(name: &str, reason: &str) -> Error {
    Error::invalid(format!("cannot unpack `{name}`: {reason}"))
        .hint("nothing was unpacked; leave it out by exclude, or pack the archive without it")
}

/// A name as a path below the directory that is unpacked into.
fn clean(name: &[u8]) -> Result<PathBuf, &'static str> {
    use std::os::unix::ffi::OsStrExt;
    if name.contains(&0) {
        return Err("the name has a NUL character in it");
    }
    let mut path = PathBuf::new();
    for component in Path::new(std::ffi::OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(name) if crate::staged::is_ours(name) => {
                return Err("the name is one that hotcell uses while it works");
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err("the name has `..` in it"),
            Component::RootDir | Component::Prefix(_) => return Err("the name is absolute"),
        }
    }
    Ok(path)
}
