//! A hash that is written down: the same in every build and on every machine.

/// FNV-1a. What it gave once it has to give for ever: fingerprints of requests and names of default
/// cells outlive upgrades. It is no defence against somebody who looks for collisions.
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
