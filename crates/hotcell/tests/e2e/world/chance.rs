//! Chance that can be repeated.

/// A sequence that differs from run to run and is told when the test fails.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new() -> Self {
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).unwrap();
        let seed = u64::from_le_bytes(seed) | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    /// Where the sequence stands.
    pub(crate) fn state(&self) -> u64 {
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// One of several.
    pub(crate) fn among<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}
