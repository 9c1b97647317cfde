//! Layers and archives as they are stored: plain, or packed in a way that their first bytes tell.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const READ_BYTES: usize = 128 << 10;

/// The same content, unpacked if it was packed, and whether it was.
///
/// # Errors
/// Its first bytes cannot be read.
pub fn unpacked<'a>(mut reader: impl Read + 'a) -> io::Result<(Box<dyn Read + 'a>, bool)> {
    let mut first = Vec::new();
    reader.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first)?;
    let kind = first.clone();
    let whole = BufReader::with_capacity(READ_BYTES, io::Cursor::new(first).chain(reader));
    Ok(if kind.starts_with(GZIP) {
        (Box::new(MultiGzDecoder::new(whole)), true)
    } else if kind.starts_with(ZSTD) {
        (Box::new(zstd::stream::read::Decoder::with_buffer(whole)?), true)
    } else {
        (Box::new(whole), false)
    })
}
