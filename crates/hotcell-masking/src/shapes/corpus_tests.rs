//! Every known form is found, wherever it is cut; what is none stays.

use super::samples::{INNOCENT, Sample, noise, samples};
use super::{Redactor, Shapes};

fn shown(shapes: &Shapes, pieces: &[&[u8]]) -> String {
    let mut redactor = Redactor::default();
    let mut all = Vec::new();
    for piece in pieces {
        all.extend(redactor.feed(shapes, piece));
    }
    all.extend(redactor.finish(shapes));
    String::from_utf8(all).unwrap()
}

fn assert_hidden(sample: &Sample, shown: &str) {
    let Sample { text, secrets, kind } = sample;
    assert!(!secrets.is_empty());
    let marker = format!("[REDACTED:{kind}]");
    assert!(shown.contains(&marker), "{kind}: {text:?}: {shown:?}");
    let shown = shown.replace(&marker, "");
    for secret in secrets {
        assert!(text.contains(secret.as_str()), "{text}");
        // Nor a part of it that would do.
        for part in secret.as_bytes().windows(6.min(secret.len())) {
            let part = String::from_utf8_lossy(part).into_owned();
            assert!(!shown.contains(&part), "{kind}: {part} of {text:?}: {shown:?}");
        }
    }
}

#[test]
fn every_known_form_is_hidden() {
    let shapes = Shapes::default();
    let all = samples();
    assert!(all.len() > 250, "{}", all.len());
    for sample in &all {
        assert_hidden(sample, &shapes.redact_text(&sample.text));
    }
}

#[test]
fn names_and_all_that_stands_around_stay() {
    let shapes = Shapes::default();
    let token = format!("gh{}_{}", "p", noise(36, "abcXYZ0189"));
    for (given, expected) in [
        (format!("a {token} b"), "a [REDACTED:github-token] b".to_owned()),
        (format!("TOKEN={token}\n"), "TOKEN=[REDACTED:github-token]\n".to_owned()),
        (
            "postgres://app:hunter2@h/d".to_owned(),
            "postgres://app:[REDACTED:password]@h/d".to_owned(),
        ),
        (
            "{\"password\":\"hunter2\",\"a\":1}".to_owned(),
            "{\"password\":\"[REDACTED:password]\",\"a\":1}".to_owned(),
        ),
        ("PASSWORD=hunter2; next".to_owned(), "PASSWORD=[REDACTED:password]; next".to_owned()),
        (format!("{token},{token}"), "[REDACTED:github-token],[REDACTED:github-token]".to_owned()),
        (
            format!("https://x:{token}@github.com/a"),
            "https://x:[REDACTED:github-token]@github.com/a".to_owned(),
        ),
    ] {
        assert_eq!(shapes.redact_text(&given), expected);
    }
}

#[test]
fn every_known_form_is_hidden_wherever_it_is_cut() {
    let shapes = Shapes::default();
    let mut short = 0;
    for sample in samples() {
        let bytes = sample.text.as_bytes();
        let whole = shapes.redact_text(&sample.text);
        for cut in 0..=bytes.len() {
            assert_eq!(shown(&shapes, &[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        let each: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(shown(&shapes, &each), whole, "byte by byte");
        if bytes.len() <= 44 {
            short += 1;
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    assert_eq!(shown(&shapes, &pieces), whole, "cut at {first} and {second}");
                }
            }
        }
    }
    assert!(short > 80, "{short}");
}

#[test]
fn what_is_no_secret_stays() {
    let shapes = Shapes::default();
    let all = INNOCENT.join("\n");
    assert_eq!(shapes.redact_text(&all), all);
    for line in INNOCENT {
        assert_eq!(shapes.redact_text(line), *line);
        let bytes = line.as_bytes();
        let each: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(shown(&shapes, &each), *line);
    }
}

#[test]
fn what_is_hidden_stays_as_it_is() {
    let shapes = Shapes::default();
    for sample in samples() {
        let once = shapes.redact_text(&sample.text);
        assert_eq!(shapes.redact_text(&once), once);
    }
}

#[test]
fn names_can_be_added() {
    let shapes = Shapes::with_names(&["DATABASE_URI".to_owned(), "pin-code".to_owned()]);
    assert_eq!(shapes.redact_text("DATABASE_URI=abc123def456"), "DATABASE_URI=[REDACTED:secret]");
    assert_eq!(
        shapes.redact_text("\"pinCode\": \"12ab34cd\""),
        "\"pinCode\": \"[REDACTED:secret]\""
    );
    let plain = Shapes::default();
    assert_eq!(plain.redact_text("DATABASE_URI=abc123def456"), "DATABASE_URI=abc123def456");
}
