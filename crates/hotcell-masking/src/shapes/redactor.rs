//! A stream as it is shown: bytes in, bytes out.

use super::{Finder, Shapes};

/// One stream on its way, with a marker in the place of each secret.
#[derive(Debug, Default)]
pub struct Redactor {
    pub(super) finder: Finder,
    /// What was not shown yet, and where in the stream it begins.
    pub(super) held: Vec<u8>,
    shown: u64,
}

impl Redactor {
    /// What can be shown now that these bytes have come.
    pub fn feed(&mut self, shapes: &Shapes, bytes: &[u8]) -> Vec<u8> {
        self.finder.feed(shapes, bytes);
        self.held.extend_from_slice(bytes);
        self.show()
    }

    /// The rest, when nothing comes any more.
    pub fn finish(&mut self, shapes: &Shapes) -> Vec<u8> {
        self.finder.finish(shapes);
        self.show()
    }

    /// What was held, when nobody is to wait any longer. What turns out to be a secret later is not
    /// shown from then on.
    pub fn release(&mut self) -> Vec<u8> {
        self.finder.release();
        self.show()
    }

    /// Whether something waits for what comes after it.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    fn show(&mut self) -> Vec<u8> {
        let settled = usize::try_from(self.finder.settled() - self.shown).unwrap_or(0);
        let mut shown = Vec::with_capacity(settled);
        self.finder.show(self.shown, &self.held[..settled], &mut shown);
        self.held.drain(..settled);
        self.shown = self.finder.settled();
        self.finder.forget(self.shown);
        shown
    }
}
