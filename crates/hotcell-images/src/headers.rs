//! What stands before the entries of an archive, bounded before anybody keeps it in memory.

use std::io::{self, Read};

use hotcell_model::Error;
use tar::Header;

const BLOCK: usize = 512;
/// The longest name, and the most that is told of one entry beside its head.
const MOST_NAME_BYTES: u64 = 64 << 10;
const MOST_PAX_BYTES: u64 = 1 << 20;

/// An archive that is passed on as it is read, as long as its heads are of a size that makes sense.
pub(crate) struct BoundedHeaders<R> {
    reader: R,
    /// What was read ahead and is to be passed on first.
    ahead: io::Cursor<Vec<u8>>,
    /// What is left of the content of an entry, with its padding.
    content: u64,
    /// The size of the next entry, if what stands before it says so.
    told: Option<u64>,
    is_over: bool,
}

impl<R: Read> BoundedHeaders<R> {
    pub(crate) fn new(reader: R) -> Self {
        let ahead = io::Cursor::new(Vec::new());
        Self { reader, ahead, content: 0, told: None, is_over: false }
    }

    /// Reads the next head, and what belongs to it if that is no content of a file.
    fn read_head(&mut self) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        let length = read_up_to(&mut self.reader, &mut block)?;
        block.truncate(length);
        let is_end = block.iter().all(|byte| *byte == 0);
        if length < BLOCK || is_end {
            // What comes after the end is nobody's head.
            self.is_over = true;
            self.ahead = io::Cursor::new(block);
            return Ok(());
        }
        let header = Header::from_byte_slice(&block);
        let size = header.entry_size()?;
        let most = match header.entry_type().as_byte() {
            b'L' | b'K' => Some(MOST_NAME_BYTES),
            b'x' | b'X' | b'g' => Some(MOST_PAX_BYTES),
            b'S' => return Err(refused("a file of it is stored as a sparse one".to_owned())),
            _ => None,
        };
        match most {
            Some(most) if size > most => {
                Err(refused(format!("{size} bytes are told of one of its entries")))
            }
            Some(_) => {
                let padded = usize::try_from(padded(size)).unwrap_or(usize::MAX);
                block.resize(BLOCK + padded, 0);
                let length = read_up_to(&mut self.reader, &mut block[BLOCK..])?;
                block.truncate(BLOCK + length);
                let end = block.len().min(BLOCK + usize::try_from(size).unwrap_or(usize::MAX));
                let records = &block[BLOCK..end];
                if matches!(block[156], b'x' | b'X') {
                    if is_sparse(records) {
                        return Err(refused("a file of it is stored as a sparse one".to_owned()));
                    }
                    self.told = told_size(records).or(self.told);
                }
                self.ahead = io::Cursor::new(block);
                Ok(())
            }
            None => {
                self.content = padded(self.told.take().unwrap_or(size));
                self.ahead = io::Cursor::new(block);
                Ok(())
            }
        }
    }
}

fn padded(size: u64) -> u64 {
    size.checked_next_multiple_of(BLOCK as u64).unwrap_or(u64::MAX)
}

fn refused(why: String) -> io::Error {
    io::Error::other(
        Error::invalid(format!("the archive cannot be read: {why}"))
            .hint("it is damaged or made to do harm; pack it again, without sparse files"),
    )
}

/// The size of a file that is too large for its head.
fn told_size(records: &[u8]) -> Option<u64> {
    tar::PaxExtensions::new(records)
        .filter_map(Result::ok)
        .filter(|record| record.key() == Ok("size"))
        .find_map(|record| record.value().ok()?.parse().ok())
}

fn is_sparse(records: &[u8]) -> bool {
    let mut records = tar::PaxExtensions::new(records).filter_map(Result::ok);
    records.any(|record| record.key().is_ok_and(|key| key.starts_with("GNU.sparse")))
}

fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match reader.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

impl<R: Read> Read for BoundedHeaders<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.ahead.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            if self.is_over {
                return self.reader.read(buffer);
            }
            if self.content == 0 {
                self.read_head()?;
                if self.is_over && self.ahead.get_ref().is_empty() {
                    return Ok(0);
                }
                continue;
            }
            let most = usize::try_from(self.content).unwrap_or(usize::MAX).min(buffer.len());
            let length = self.reader.read(&mut buffer[..most])?;
            self.content = if length == 0 { 0 } else { self.content - length as u64 };
            self.is_over |= length == 0;
            return Ok(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of a kind with some content.
    fn entry(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.set_path("name").unwrap();
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    fn passed(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut passed = Vec::new();
        BoundedHeaders::new(bytes).read_to_end(&mut passed).map(|_| passed)
    }

    #[test]
    fn whatever_makes_sense_is_passed_on_as_it_is() {
        let mut bytes = entry(b'x', b"19 comment=anything\n");
        bytes.extend(entry(b'L', &[b'n'; 5000]));
        bytes.extend(entry(b'0', &[7; 100_000]));
        bytes.extend(entry(b'5', b""));
        bytes.extend([0; 1024]);
        bytes.extend(b"what comes after the end");
        assert_eq!(passed(&bytes).unwrap(), bytes);
        for cut in [0, 1, 511, 512, 700, 3000, bytes.len() - 30] {
            assert_eq!(passed(&bytes[..cut]).unwrap(), bytes[..cut]);
        }
    }

    #[test]
    fn the_content_of_a_file_is_no_head() {
        // A head in it would be refused.
        let mut bytes = entry(b'0', &entry(b'L', &[b'n'; 100_000]));
        assert_eq!(passed(&bytes).unwrap(), bytes);
        // Also where only what stands before says how long it is.
        let inner = entry(b'L', &[b'n'; 100_000]);
        let told = format!("{} size={}\n", 13 + inner.len().to_string().len() - 4, inner.len());
        let mut long = entry(b'0', &inner);
        let mut header = Header::new_ustar();
        header.set_path("name").unwrap();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(0);
        header.set_cksum();
        long[..BLOCK].copy_from_slice(header.as_bytes());
        bytes = entry(b'x', told.as_bytes());
        bytes.extend(long);
        assert_eq!(passed(&bytes).unwrap(), bytes);
    }

    #[test]
    fn heads_that_fill_the_memory_are_refused() {
        for (kind, length) in [(b'L', 65_537), (b'K', 65_537), (b'x', 1_048_577), (b'g', 1_048_577)]
        {
            let error = passed(&entry(kind, &vec![b'n'; length])).unwrap_err();
            assert!(error.to_string().contains("are told of one of its entries"), "{error}");
        }
        for sparse in [entry(b'S', b""), entry(b'x', b"22 GNU.sparse.major=1\n")] {
            assert!(passed(&sparse).unwrap_err().to_string().contains("sparse"));
        }
    }
}
