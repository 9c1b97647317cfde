//! Content that is checked against what it is called by.

use std::fmt;
use std::io::{self, Read};

use hotcell_model::{Digest, Error, Result};
use ring::digest::{Context, SHA256};

/// What some bytes are called by.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    finished(context)
}

fn finished(context: Context) -> Digest {
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    Digest::of_hash(&hash)
}

/// Content whose digest is made while it is read.
pub struct Digesting<R> {
    reader: R,
    context: Context,
    bytes: u64,
}

impl<R> fmt::Debug for Digesting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digesting").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<R: Read> Digesting<R> {
    /// Reads from this.
    pub fn new(reader: R) -> Self {
        Self { reader, context: Context::new(&SHA256), bytes: 0 }
    }

    /// Reads what is left; what all of it is called by.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(finished(self.context))
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.context.update(&buffer[..length]);
        self.bytes += length as u64;
        Ok(length)
    }
}

/// Compares what content is called by with what was said.
///
/// # Errors
/// It is something else.
pub fn check_digest(found: &Digest, said: Option<&Digest>, what: &str) -> Result<()> {
    match said.filter(|said| *said != found) {
        None => Ok(()),
        Some(said) => {
            Err(Error::invalid(format!("{what} is {found}, and it is said to be {said}"))
                .hint("it was changed or damaged on its way: get it again, or from somewhere else"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_content_counts_also_if_only_a_part_is_used() {
        let said = digest_of(b"content");
        let mut reader = Digesting::new(&b"content"[..]);
        reader.read_exact(&mut [0; 3]).unwrap();
        check_digest(&reader.finish().unwrap(), Some(&said), "it").unwrap();
        let other = Digesting::new(&b"c0ntent"[..]).finish().unwrap();
        let error = check_digest(&other, Some(&said), "the layer").unwrap_err();
        assert!(error.to_string().contains("the layer is sha256:"), "{error}");
    }
}
