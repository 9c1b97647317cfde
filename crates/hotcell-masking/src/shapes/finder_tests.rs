//! A stream is taken up anywhere and shows the same; gaps hide; the work stays in proportion.

use proptest::prelude::*;

use super::samples::{key, noise, samples, tokens};
use super::text::LOOKED_AT;
use super::{Finder, REACH_BEFORE, Redactor, Shapes};

const LETTERS: &str = "abcdefXYZ0123456789";

fn in_pieces(shapes: &Shapes, whole: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (whole.len() + 1)).collect();
    cuts.extend([0, whole.len()]);
    cuts.sort_unstable();
    let mut redactor = Redactor::default();
    let pieces = cuts.windows(2).map(|two| &whole[two[0]..two[1]]);
    let mut shown: Vec<u8> = pieces.flat_map(|piece| redactor.feed(shapes, piece)).collect();
    shown.extend(redactor.finish(shapes));
    shown
}

/// Which bytes are hidden, and where markers stand, from a place on.
fn hidden(shapes: &Shapes, bytes: &[u8], from: usize, base: usize) -> Vec<(u64, u64)> {
    let mut finder = Finder::default();
    finder.feed(shapes, &bytes[base..]);
    finder.finish(shapes);
    let regions =
        finder.regions().map(|region| (region.start + base as u64, region.end + base as u64));
    let from = from as u64;
    regions.filter(|(_, end)| *end > from).map(|(start, end)| (start.max(from), end)).collect()
}

#[test]
fn a_stream_can_be_taken_up_anywhere() {
    let shapes = Shapes::default();
    let mut whole = String::new();
    let filler = "an ordinary line of output, with a number 12345 in it\n";
    for sample in samples() {
        whole.push_str(&sample.text);
        whole.push('\n');
        whole.push_str(&filler.repeat(20));
    }
    let whole = whole.as_bytes();
    let mut seen = 0;
    for from in (REACH_BEFORE..whole.len()).step_by(4999) {
        let expected = hidden(&shapes, whole, from, 0);
        seen += expected.len();
        assert_eq!(hidden(&shapes, whole, from, from - REACH_BEFORE), expected, "from {from}");
    }
    assert!(seen > 100);
}

#[test]
fn what_is_before_and_after_a_gap_is_not_shown() {
    let shapes = Shapes::default();
    for (token, _) in tokens() {
        for cut in 8..token.len() - 16 {
            let (head, tail) = token.split_at(cut);
            let mut finder = Finder::default();
            finder.feed(&shapes, b"before ");
            finder.feed(&shapes, head.as_bytes());
            finder.gap(&shapes);
            let after = finder.end();
            finder.feed(&shapes, tail.as_bytes());
            finder.feed(&shapes, b" after\n");
            finder.finish(&shapes);
            let mut shown = Vec::new();
            finder.show(0, format!("before {head}").as_bytes(), &mut shown);
            shown.push(b'|');
            finder.show(after, format!("{tail} after\n").as_bytes(), &mut shown);
            let shown = String::from_utf8(shown).unwrap();
            assert!(
                shown.starts_with("before [REDACTED:") && shown.ends_with("] after\n"),
                "{shown}"
            );
            assert!(!shown.contains(&head[..8]) && !shown.contains(&tail[..8]), "{head} {shown}");
        }
    }
    // What is plain stays.
    let mut finder = Finder::default();
    finder.feed(&shapes, b"one two\n");
    finder.gap(&shapes);
    finder.feed(&shapes, b"three four five six seven\n");
    finder.finish(&shapes);
    assert_eq!(finder.regions().count(), 0);
}

#[test]
fn what_was_let_go_is_not_followed_by_the_rest() {
    let shapes = Shapes::default();
    let token = format!("gh{}_{}", "p", noise(36, LETTERS));
    let mut redactor = Redactor::default();
    let mut shown = redactor.feed(&shapes, format!("a {}", &token[..10]).as_bytes());
    assert_eq!(shown, b"a ");
    assert!(redactor.holds());
    shown.extend(redactor.release());
    shown.extend(redactor.feed(&shapes, format!("{} b", &token[10..]).as_bytes()));
    shown.extend(redactor.finish(&shapes));
    assert_eq!(String::from_utf8(shown).unwrap(), format!("a {} b", &token[..10]));
}

#[test]
fn what_cannot_be_a_secret_is_not_held() {
    let shapes = Shapes::default();
    let mut redactor = Redactor::default();
    for line in [
        "plain text\n",
        "Compiling foo v1.0\n",
        "PASSWORD",
        "=",
        "\n",
        "https://docs.rs",
        "/x\n",
        "a word ",
    ] {
        assert_eq!(redactor.feed(&shapes, line.as_bytes()), line.as_bytes(), "{line:?}");
    }
}

#[test]
fn what_is_held_has_an_end() {
    let shapes = Shapes::default();
    let key = key("PRIVATE KEY", "\n");
    let units = [
        "eyJhbGciOi",
        "sk-",
        "-----BEGIN ",
        "://a:b",
        "password=",
        "password=\"",
        "Key",
        "\n",
        "a",
        "-",
        &key[..90],
    ];
    for unit in units {
        let mut redactor = Redactor::default();
        for _ in 0..5_000 {
            redactor.feed(&shapes, unit.as_bytes());
            assert!(redactor.held.len() <= 1200, "{unit:?}: {}", redactor.held.len());
            assert!(redactor.finder.bytes.len() <= 2 * REACH_BEFORE, "{unit:?}");
        }
    }
}

#[test]
fn the_work_grows_with_the_text_and_no_faster() {
    let shapes = Shapes::default();
    let long = format!("password={}", "a.b::".repeat(900));
    let units = [
        "Key",
        "Key=",
        "token=",
        "sk-",
        "://a:",
        "eyJ",
        "eyJh.",
        "-----BEGIN PRIVATE KEY-----\n",
        &long,
        "_key: \"",
        "SK0",
    ];
    for unit in units {
        let work = |size: usize, piece: usize| {
            let text = unit.repeat(size / unit.len());
            let before = LOOKED_AT.get();
            let mut redactor = Redactor::default();
            text.as_bytes().chunks(piece).for_each(|piece| drop(redactor.feed(&shapes, piece)));
            LOOKED_AT.get() - before
        };
        let (little, much) = (work(16 << 10, 4096), work(256 << 10, 4096));
        assert!(much <= 17 * little + 20_000, "{unit:?}: {little}, then {much}");
        assert!(much <= 100 * (256 << 10), "{unit:?}: {much}");
        let in_small = work(16 << 10, 16);
        assert!(in_small <= 100 * (16 << 10), "{unit:?}: {in_small} in small pieces");
    }
}

fn words() -> impl Strategy<Value = Vec<String>> {
    let token = (0..tokens().len()).prop_map(|at| tokens()[at].0.clone());
    let part = (0..samples().len(), 0usize..200).prop_map(|(at, cut)| {
        let text = samples()[at].text.clone();
        let cut = text.floor_char_boundary(cut.min(text.len()));
        text[cut..].to_owned()
    });
    let word = prop_oneof![
        token,
        part,
        "[ -~\n]{0,20}",
        "\\PC{0,9}",
        "(password|TOKEN|apiKey|secret)[=: \"']{0,4}[a-z0-9]{0,12}",
        "://[a-z:@0-9/]{0,12}",
    ];
    proptest::collection::vec(word, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_shows_the_same(words in words(), cuts in proptest::collection::vec(0usize..4000, 0..12)) {
        let shapes = Shapes::default();
        let whole = words.concat().into_bytes();
        let expected = shapes.redact(&whole);
        prop_assert_eq!(
            String::from_utf8_lossy(&in_pieces(&shapes, &whole, &cuts)).into_owned(),
            String::from_utf8_lossy(&expected).into_owned()
        );
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..400) {
        let shapes = Shapes::default();
        prop_assert_eq!(in_pieces(&shapes, &bytes, &[cut]), shapes.redact(&bytes));
    }
}
