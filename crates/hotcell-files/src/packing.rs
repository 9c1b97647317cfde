//! How archives are compressed and uncompressed on their way.

use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use hotcell_model::{Compression, Error, Result};

use crate::fault::Tried;

/// What an archive goes through on its way out.
#[derive(Debug)]
pub(crate) enum Packer<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(ZstdEncoder<W>),
}

/// A zstd encoder, which cannot be shown.
pub(crate) struct ZstdEncoder<W: Write>(zstd::stream::write::Encoder<'static, W>);

impl<W: Write> std::fmt::Debug for ZstdEncoder<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ZstdEncoder")
    }
}

impl<W: Write> Packer<W> {
    pub(crate) fn new(compression: Compression, out: W) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(out),
            Compression::Gzip => Self::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => {
                Self::Zstd(ZstdEncoder(zstd::stream::write::Encoder::new(out, 0)?))
            }
        })
    }

    /// Writes what is still held back.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(out) => Ok(out),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.0.finish(),
        }
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.0.flush(),
        }
    }
}

/// The content of an archive, whatever it is compressed by.
pub(crate) fn unpacker<'a>(mut packed: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    const MOST_MAGIC: usize = 6;
    let what = || "read the archive".to_owned();
    let mut magic = Vec::new();
    packed.by_ref().take(MOST_MAGIC as u64).read_to_end(&mut magic).tried(what)?;
    let known: [(&[u8], &str); 5] = [
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ", "xz"),
        (b"PK\x03\x04", "a zip file"),
        (b"7z\xbc\xaf", "a 7z file"),
        (b"\x1f\x9d", "compress"),
    ];
    if let Some((_, name)) = known.iter().find(|(head, _)| magic.starts_with(head)) {
        return Err(Error::unsupported(format!("the archive is packed by {name}"))
            .hint("give a tar archive, as it is or compressed by gzip or zstd"));
    }
    let (is_gzip, is_zstd) =
        (magic.starts_with(b"\x1f\x8b"), magic.starts_with(b"\x28\xb5\x2f\xfd"));
    let whole = io::Cursor::new(magic).chain(packed);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else if is_zstd {
        Box::new(zstd::stream::read::Decoder::new(whole).tried(what)?)
    } else {
        Box::new(whole)
    })
}
