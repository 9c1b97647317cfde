//! Reading a file or a part of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use hotcell_model::{Error, FileContent, FileRead, LineRange, Result, Timestamp};
use rustix::fs::{Stat, fstat};

use crate::etag::{etag_of, require};
use crate::fault::Tried;
use crate::kinds::mime_type;
use crate::path::CellPath;
use crate::settled::Ticks;
use crate::tree::Tree;

/// What is looked at to see what a file is.
const SNIFFED_BYTES: usize = 8 * 1024;
const PIECE_BYTES: usize = hotcell_link::DATA_BYTES;

/// Reads a file and writes what is wanted of it.
pub(crate) fn read(
    tree: &Tree,
    ticks: &Ticks,
    request: &FileRead,
    out: &mut dyn Write,
) -> Result<FileContent> {
    let path = CellPath::parse(&request.path)?;
    let what = || format!("read {path}");
    let (mut file, _) = tree.read(&path)?;
    // Before the content: a change meanwhile then shows as another etag at the next look.
    let stat = ticks.settle(tree, || fstat(&file)).tried(what)?;
    require(&path, &request.precondition, Some(&etag_of(&stat)))?;
    let mut head = vec![0; SNIFFED_BYTES];
    let sniffed = read_up_to(&mut file, &mut head).tried(what)?;
    head.truncate(sniffed);
    let mime_type = mime_type(path.as_path(), Some(&head));
    let part = match request.lines {
        Some(lines) => {
            if request.offset.is_some() {
                return Err(Error::invalid("offset and lines cannot be given together")
                    .hint("leave one of them out"));
            }
            file.rewind().tried(what)?;
            send_lines(file, lines, request.limit, out).tried(what)?
        }
        None => {
            let offset = request.offset.unwrap_or(0);
            file.seek(SeekFrom::Start(offset)).tried(what)?;
            send_bytes(file, offset, request.limit, out).tried(what)?
        }
    };
    Ok(FileContent {
        path: path.to_string(),
        etag: etag_of(&stat),
        // The kernel states no size for a file of /proc: what was read shows that it is larger.
        size: match part.bytes {
            0 => stat.st_size.cast_unsigned(),
            bytes => stat.st_size.cast_unsigned().max(part.offset + bytes),
        },
        mime_type,
        modified: modified(&stat),
        offset: part.offset,
        bytes: part.bytes,
        first_line: part.lines.map(|(first, _)| first),
        last_line: part.lines.map(|(_, last)| last),
        truncated: part.truncated,
    })
}

/// When a file was last changed.
pub(crate) fn modified(stat: &Stat) -> Timestamp {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    Timestamp(seconds.saturating_mul(1000).saturating_add(stat.st_mtime_nsec / 1_000_000))
}

/// What was sent.
struct Part {
    offset: u64,
    bytes: u64,
    lines: Option<(u64, u64)>,
    truncated: bool,
}

fn send_bytes(
    mut file: File,
    offset: u64,
    limit: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<Part> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut buffer = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    let mut truncated = false;
    loop {
        if left == 0 {
            truncated = file.read(&mut buffer[..1])? > 0;
            break;
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let length = read_up_to(&mut file, &mut buffer[..most])?;
        if length == 0 {
            break;
        }
        out.write_all(&buffer[..length])?;
        bytes += length as u64;
        left -= length as u64;
    }
    Ok(Part { offset, bytes, lines: None, truncated })
}

fn send_lines(
    file: File,
    lines: LineRange,
    limit: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<Part> {
    let last = lines.last.unwrap_or(u64::MAX);
    let mut left = limit.unwrap_or(u64::MAX);
    let mut reader = BufReader::with_capacity(PIECE_BYTES, file);
    let mut out = BufWriter::with_capacity(PIECE_BYTES, out);
    let mut part = Part { offset: 0, bytes: 0, lines: None, truncated: false };
    let (mut line, mut position) = (1, 0);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        if line > last || (left == 0 && line >= lines.first) {
            part.truncated = true;
            break;
        }
        let end = memchr::memchr(b'\n', buffer).map(|at| at + 1);
        let length = end.unwrap_or(buffer.len());
        let mut taken = length;
        if line >= lines.first {
            if part.lines.is_none() {
                part.offset = position;
            }
            taken = usize::try_from(left).unwrap_or(usize::MAX).min(length);
            out.write_all(&buffer[..taken])?;
            part.bytes += taken as u64;
            left -= taken as u64;
            part.lines = Some((lines.first, line));
        }
        position += taken as u64;
        if end == Some(taken) {
            line += 1;
        }
        reader.consume(taken);
    }
    out.flush()?;
    Ok(part)
}

/// Fills the buffer unless the file ends before.
fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
