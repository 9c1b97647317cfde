//! Execs as jobs: an id of version 4 that stands for the id of an exec, and for no other.
//!
//! The fifty bits of an exec's id are in it as they are; the others are made from them, so that nobody
//! has to remember which is which, and an id that somebody made up is none.

use std::fmt;

use hotcell_model::{ExecId, stable_hash};

/// The characters of an exec's id, by their values.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const PREFIX: &str = "e_";
const VERSION: u8 = 0x40;
const VARIANT: u8 = 0x80;

/// The id of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobId([u8; 16]);

impl JobId {
    /// The job that an exec is.
    pub(super) fn of(exec: &ExecId) -> Self {
        let digits = exec.as_str().strip_prefix(PREFIX).unwrap_or_default().bytes().rev();
        let place = |digit: u8| ALPHABET.iter().position(|known| *known == digit).unwrap_or(0);
        Self::of_bits(digits.fold(0, |bits, digit| (bits << 5) | place(digit) as u64))
    }

    fn of_bits(bits: u64) -> Self {
        let seed = bits.to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..8]
            .copy_from_slice(&stable_hash(&[b"job".as_slice(), &seed].concat()).to_be_bytes());
        bytes[9..].copy_from_slice(&seed[1..]);
        bytes[6] = (bytes[6] & 0x0f) | VERSION;
        bytes[8] = (bytes[7] & 0x3f) | VARIANT;
        // All but two of the hash's bytes are whole: enough to tell what was made up.
        let mix = stable_hash(&bytes[..8]).to_be_bytes();
        for (byte, mixed) in bytes[9..].iter_mut().zip(mix) {
            *byte ^= mixed;
        }
        Self(bytes)
    }

    /// The exec that a job is; none for an id that was not given out.
    pub(super) fn exec(text: &str) -> Option<ExecId> {
        let given = Self::parse(text)?;
        let mix = stable_hash(&given.0[..8]).to_be_bytes();
        let mut seed = [0; 8];
        for (at, (byte, mixed)) in given.0[9..].iter().zip(mix).enumerate() {
            seed[at + 1] = byte ^ mixed;
        }
        let bits = u64::from_be_bytes(seed);
        (Self::of_bits(bits) == given).then(|| ExecId::from_random(bits))
    }

    fn parse(text: &str) -> Option<Self> {
        let hyphens = [8, 13, 18, 23];
        if text.len() != 36 || hyphens.iter().any(|at| text.as_bytes()[*at] != b'-') {
            return None;
        }
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        (digits.len() == 32).then_some(Self(bytes))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hotcell_model::ExecId;

    use super::JobId;

    #[test]
    fn a_job_is_its_exec_again() {
        for bits in [0, 1, 31, (1 << 50) - 1, 0x2_a5a5_1234_5678] {
            let exec = ExecId::from_random(bits);
            let job = JobId::of(&exec).to_string();
            assert_eq!(JobId::exec(&job), Some(exec), "{job}");
            assert_eq!((&job[14..15], job.len()), ("4", 36), "{job}");
            assert!(matches!(&job[19..20], "8" | "9" | "a" | "b"), "{job}");
        }
    }

    #[test]
    fn what_was_not_given_out_is_no_job() {
        let job = JobId::of(&ExecId::from_random(7)).to_string();
        for at in [0, 12, 16, 22, 35] {
            let mut other = job.clone().into_bytes();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(JobId::exec(std::str::from_utf8(&other).unwrap()), None, "{at}");
        }
        for text in ["", "nope", "e_0000000000", "00000000-0000-4000-8000-00000000000é"] {
            assert_eq!(JobId::exec(text), None, "{text}");
        }
    }
}
