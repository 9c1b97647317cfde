//! A head is read as it was written, and one of its slots is always whole.

use crate::chain::Keys;
use crate::head::{self, Breach, Found, HEAD_BYTES, Head, Missed, Pending, SLOT_BYTES};

fn written(heads: &[Head], keys: &Keys) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    for head in heads {
        let (at, slot) = head.encode(keys);
        let at = usize::try_from(at).unwrap();
        bytes[at..at + SLOT_BYTES].copy_from_slice(&slot);
    }
    bytes
}

fn head(generation: u64) -> Head {
    let pending = Some(Pending { breach: Breach::BegunAnew, restarted: true });
    Head {
        generation,
        ledger: [8; 16],
        count: 1 << 40,
        mac: [9; 32],
        segment: 3,
        size: 4,
        kept_from: 5,
        boot: [6; 16],
        pending,
        missed: Missed { count: 10, since: 11 },
    }
}

#[test]
fn the_newer_of_two_slots_counts() {
    let keys = Keys::new(&[1; 32]);
    assert_eq!(head::read(&vec![0; HEAD_BYTES], &keys), Found::Nothing);
    for newest in 2..6 {
        let bytes = written(&[head(newest - 1), head(newest)], &keys);
        assert_eq!(head::read(&bytes, &keys), Found::Head { head: head(newest), torn: false });
        assert_eq!(head::read(&bytes, &Keys::new(&[2; 32])), Found::OtherKey);
    }
    let first = written(&[head(1)], &keys);
    assert_eq!(head::read(&first, &keys), Found::Head { head: head(1), torn: false });
}

#[test]
fn a_slot_that_is_half_written_leaves_the_other() {
    let keys = Keys::new(&[1; 32]);
    let before = written(&[head(6), head(7)], &keys);
    let after = written(&[head(8), head(7)], &keys);
    for length in 1..SLOT_BYTES {
        let mut bytes = before.clone();
        bytes[..length].copy_from_slice(&after[..length]);
        match head::read(&bytes, &keys) {
            Found::Head { head: found, .. } if bytes == before || bytes == after => {
                assert!(found == head(7) || found == head(8));
            }
            Found::Head { head: found, torn } => assert_eq!((found, torn), (head(7), true)),
            other @ (Found::Nothing | Found::Unreadable | Found::OtherKey) => panic!("{other:?}"),
        }
    }
}
