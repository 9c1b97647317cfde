//! Whatever the pieces, the same is masked, and nothing else changes.

use proptest::prelude::*;

use crate::masking::{Masker, Masks};

fn masks(secrets: &[(&str, &str)]) -> Masks {
    let mut masks = Masks::default();
    for (name, value) in secrets {
        masks.add(name, value.as_bytes());
    }
    masks
}

fn masked(masks: &Masks, pieces: &[&[u8]]) -> Vec<u8> {
    let mut masker = Masker::default();
    let mut all = Vec::new();
    for piece in pieces {
        all.extend(masker.take(masks, piece));
    }
    all.extend(masker.release(masks));
    all
}

fn text(masks: &Masks, given: &str) -> String {
    String::from_utf8(masked(masks, &[given.as_bytes()])).unwrap()
}

/// Base64 as everybody else does it.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let whole = group.iter().fold(0u32, |sum, byte| (sum << 8) | u32::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            out.push(char::from(ALPHABET[(whole >> (18 - 6 * at)) as usize & 63]));
        }
        out.push_str(&"="[..(3 - group.len()).min(1)].repeat(3 - group.len()));
    }
    out
}

#[test]
fn a_value_becomes_its_name_and_the_rest_stays() {
    let masks = masks(&[("token", "hunter2-hunter2"), ("other", "another-value")]);
    assert_eq!(text(&masks, "a hunter2-hunter2 b"), "a [secret token] b");
    assert_eq!(text(&masks, "hunter2-hunter2another-value"), "[secret token][secret other]");
    assert_eq!(text(&masks, "hunter2-hunter"), "hunter2-hunter");
    assert_eq!(text(&masks, "hunter2-hunter2-hunter2"), "[secret token]-hunter2");
}

#[test]
fn what_is_short_is_found_everywhere_and_so_is_not_masked() {
    let masks = masks(&[("pin", "1234567")]);
    assert!(masks.is_empty());
    assert_eq!(text(&masks, "1234567"), "1234567");
}

#[test]
fn of_two_that_begin_alike_the_longer_one_is_meant() {
    let masks = masks(&[("short", "abcdefgh"), ("long", "abcdefgh12345678")]);
    assert_eq!(text(&masks, "abcdefgh12345678 abcdefgh1"), "[secret long] [secret short]1");
}

#[test]
fn a_value_in_base64_is_masked_wherever_it_stands() {
    let value = "s3cr3t-v4lue?>~";
    let masks = masks(&[("token", value)]);
    for before in ["", "u", "us", "user:", "longer than that:"] {
        for after in ["", "1", "12", "and more"] {
            let encoded = base64(format!("{before}{value}{after}").as_bytes());
            for given in [encoded.clone(), encoded.replace('+', "-").replace('/', "_")] {
                let shown = text(&masks, &given);
                assert!(shown.contains("[secret token]"), "{before:?} {after:?}: {shown}");
                assert!(shown.len() < "[secret token]".len() + given.len() - 12, "{shown}");
            }
        }
    }
}

#[test]
fn what_cannot_become_a_secret_is_not_held() {
    let masks = masks(&[("token", "hunter2-hunter2")]);
    let mut masker = Masker::default();
    assert_eq!(masker.take(&masks, b"plain text\n"), b"plain text\n");
    assert!(!masker.holds());
    assert_eq!(masker.take(&masks, b"x hunt"), b"x ");
    assert!(masker.holds());
    assert_eq!(masker.take(&masks, b"ing"), b"hunting");
    assert!(!masker.holds());
    // What was let go because nobody could wait is not taken back.
    masker.take(&masks, b"hunter2-");
    assert_eq!(masker.release(&masks), b"hunter2-");
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(
        words in proptest::collection::vec(
            prop_oneof!["[abc]{1,6}", "aaaabaaab", "abaaabaaaabaaab", "aaaabaaaXX", "\\PC{0,9}"],
            0..12,
        ),
        cuts in proptest::collection::vec(0usize..200, 0..20),
    ) {
        let masks = masks(&[("x", "aaaabaaab"), ("y", "baaabaaaabaa"), ("z", "aaaabaaaXX")]);
        let whole = words.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|two| &whole[two[0]..two[1]]).collect();
        let expected = masked(&masks, &[&whole]);
        prop_assert_eq!(masked(&masks, &pieces), expected.clone());
        for value in ["aaaabaaab", "baaabaaaabaa", "aaaabaaaXX"] {
            let shown = String::from_utf8_lossy(&expected).into_owned();
            prop_assert!(!shown.contains(value), "{}", shown);
        }
    }

    #[test]
    fn without_a_secret_in_it_nothing_changes(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
        let masks = masks(&[("token", "hunter2-hunter2")]);
        let (one, two) = bytes.split_at(cut.min(bytes.len()));
        prop_assert_eq!(masked(&masks, &[one, two]), bytes.clone());
    }
}
