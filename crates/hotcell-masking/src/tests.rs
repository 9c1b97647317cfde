//! Whatever the pieces, the same is masked, and nothing else changes.

use proptest::prelude::*;

use super::{Masker, Masks};

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
    assert_eq!(text(&masks, "a hunter2-hunter2 b"), "a [REDACTED:token] b");
    assert_eq!(text(&masks, "hunter2-hunter2another-value"), "[REDACTED:token][REDACTED:other]");
    assert_eq!(text(&masks, "hunter2-hunter"), "hunter2-hunter");
    // Of two that lie over one another nothing is left.
    assert_eq!(text(&masks, "hunter2-hunter2-hunter2"), "[REDACTED:token]");
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
    assert_eq!(text(&masks, "abcdefgh12345678 abcdefgh1"), "[REDACTED:long] [REDACTED:short]1");
}

#[test]
fn a_value_in_hexadecimal_digits_is_masked() {
    let masks = masks(&[("token", "s3cr3t-v4lue?>~")]);
    let digits = "7333637233742d76346c75653f3e7e";
    for given in [digits.to_owned(), digits.to_uppercase()] {
        assert_eq!(text(&masks, &format!("0x{given} is it")), "0x[REDACTED:token] is it");
    }
    assert_eq!(text(&masks, &digits[..20]), digits[..20]);
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
                assert!(shown.contains("[REDACTED:token]"), "{before:?} {after:?}: {shown}");
                assert!(shown.len() < "[REDACTED:token]".len() + given.len() - 12, "{shown}");
            }
        }
    }
}

/// A key as it stands in a file.
fn key() -> String {
    let lines: Vec<String> = (0..9u8).map(|n| base64(&[n.wrapping_mul(37) ^ 0x5a; 48])).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\nshort\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

#[test]
fn a_value_of_many_lines_is_masked_whatever_ends_them() {
    let key = key();
    let masks = masks(&[("key", &key)]);
    assert_eq!(text(&masks, &format!("a\n{key}b\n")), "a\n[REDACTED:key]\nb\n");
    assert_eq!(text(&masks, &key.replace('\n', "\r\n")), "[REDACTED:key]\r\n");
    assert_eq!(text(&masks, &key.replace('\n', " ")).matches("[REDACTED:key]").count(), 11);
    let line = key.lines().nth(3).unwrap();
    assert_eq!(text(&masks, &format!("3:{line}\n")), "3:[REDACTED:key]\n");
    assert_eq!(text(&masks, "in short\n"), "in short\n");
}

#[test]
fn base64_in_lines_is_masked_wherever_they_are_cut() {
    let key = key();
    let masks = masks(&[("key", &key)]);
    for before in ["", "a", "ab", "some more before it: "] {
        let encoded = base64(format!("{before}{key}").as_bytes());
        for width in [4, 60, 64, 76] {
            for line_end in ["\n", "\r\n"] {
                let lines: Vec<&str> = encoded
                    .as_bytes()
                    .chunks(width)
                    .map(|l| std::str::from_utf8(l).unwrap())
                    .collect();
                let shown = text(&masks, &lines.join(line_end));
                assert_eq!(shown.matches("[REDACTED:key]").count(), 1, "{shown}");
                // Beside the name there is what depends on the bytes before and after.
                assert!(shown.len() < "[REDACTED:key]".len() + 2 * before.len() + 24, "{shown}");
            }
        }
    }
}

#[test]
fn a_value_in_json_or_in_an_address_is_masked() {
    let masks = masks(&[("p", "pass \"wörd\"/+&\n*secret*~")]);
    for (given, shown) in [
        (r#"{"p":"pass \"wörd\"/+&\n*secret*~"}"#, r#"{"p":"[REDACTED:p]"}"#),
        (r#"{"p":"pass \"w\u00f6rd\"/+&\n*secret*~"}"#, r#"{"p":"[REDACTED:p]"}"#),
        ("?p=pass%20%22w%C3%B6rd%22%2F%2B%26%0A%2Asecret%2A~&q", "?p=[REDACTED:p]&q"),
        ("?p=pass%20%22w%c3%b6rd%22%2f%2b%26%0a%2asecret%2a~&q", "?p=[REDACTED:p]&q"),
        ("?p=pass+%22w%C3%B6rd%22%2F%2B%26%0A%2Asecret%2A~&q", "?p=[REDACTED:p]&q"),
        ("/pass%20%22w%C3%B6rd%22/%2B%26%0A%2Asecret%2A~/", "/[REDACTED:p]/"),
        ("?p=pass%20%22w%C3%B6rd%22%2F%2B%26%0A*secret*~", "?p=[REDACTED:p]"),
    ] {
        assert_eq!(text(&masks, given), shown);
    }
}

#[test]
fn the_work_grows_with_what_is_printed_and_no_faster() {
    let repeated = "ab".repeat(100);
    let masks = masks(&[("key", &key()), ("token", "hunter2-hunter2"), ("r", &repeated)]);
    let printed = ["hunter2-hunter2\n", "hunter2-hunter", "ab", "a", "\n", &key()[..90], "-----"];
    for unit in printed {
        let work = |times: usize, piece: usize| {
            let whole = unit.repeat(times);
            let before = masks.patterns.looked_at();
            masked(&masks, &whole.as_bytes().chunks(piece).collect::<Vec<_>>());
            masks.patterns.looked_at() - before
        };
        let (little, much) = (work(1_000, 65_536), work(16_000, 65_536));
        assert!(much <= 16 * little + 1_000, "{unit:?}: {little}, then {much}");
        // What is held is not looked at again with each piece.
        let in_bytes = work(1_000, 1);
        assert!(in_bytes <= little + 1_000, "{unit:?}: {little}, by bytes {in_bytes}");
    }
}

#[test]
fn what_is_held_has_an_end() {
    let masks = masks(&[("r", &"ab".repeat(100)), ("token", "hunter2-hunter2")]);
    for unit in ["ab", "hunter2-", "\n", "h\r\n"] {
        let mut masker = Masker::default();
        for _ in 0..10_000 {
            masker.take(&masks, unit.as_bytes());
            assert!(masker.held.len() <= 600, "{unit:?}: {}", masker.held.len());
        }
    }
}

#[test]
fn a_secret_that_becomes_known_is_found_in_what_is_held() {
    let mut masks = masks(&[("one", "hunter2-hunter2")]);
    let mut masker = Masker::default();
    assert_eq!(masker.take(&masks, b"hunter2-"), b"");
    masks.add("two", b"hunter2-second");
    let mut all = masker.take(&masks, b"second hunter2-hunter2");
    all.extend(masker.release(&masks));
    assert_eq!(all, b"[REDACTED:two] [REDACTED:one]");
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
            prop_oneof!["[abc]{1,6}", "aaaabaaab", "abaaabaaaabaaab", "aaaabaaaXX", "\\PC{0,9}", "[\r\n]{1,5}"],
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

/// Stars wherever the value stood, and every other byte as it was.
fn starred(masks: &Masks, given: &[u8], value: &[u8]) -> Vec<u8> {
    let whole = masked(masks, &[given]);
    assert_eq!(whole.len(), given.len());
    for (at, byte) in whole.iter().enumerate() {
        assert!(*byte == b'*' || *byte == given[at], "byte {at}");
    }
    assert!(!whole.windows(value.len()).any(|part| part == value));
    whole
}

#[test]
fn with_stars_every_length_stays_wherever_it_is_cut() {
    let mut masks = Masks::of_same_length();
    masks.add("token", b"hunter2-hunter2");
    let encoded = base64(b"user:hunter2-hunter2");
    let given = format!("a hunter2-hunter2 b hunter2-hunter2-hunter2 {encoded} hunter2-");
    let given = given.as_bytes();
    let whole = starred(&masks, given, b"hunter2-hunter2");
    let shown = String::from_utf8(whole.clone()).unwrap();
    assert!(shown.starts_with("a *************** b *********************** "), "{shown}");
    assert!(shown.ends_with(" hunter2-") && !shown.contains(&encoded), "{shown}");
    for first in 0..=given.len() {
        assert_eq!(masked(&masks, &[&given[..first], &given[first..]]), whole, "cut at {first}");
        for second in first..=given.len() {
            let pieces = [&given[..first], &given[first..second], &given[second..]];
            assert_eq!(masked(&masks, &pieces), whole, "cut at {first} and {second}");
        }
    }
    let bytes: Vec<&[u8]> = given.chunks(1).collect();
    assert_eq!(masked(&masks, &bytes), whole);
}
