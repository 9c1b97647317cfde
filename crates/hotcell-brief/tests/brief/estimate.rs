//! The estimate of tokens against o200k.

use hotcell_brief::estimate_tokens;

use crate::corpus;

/// The least that the estimate may be, in hundredths of the real count.
fn least(kind: &str) -> usize {
    match kind {
        // Characters that are in no dictionary cost twice what the usual ones do.
        "rare han" => 50,
        _ => 92,
    }
}

#[test]
fn the_estimate_errs_upwards() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let mut off = Vec::new();
    for (kind, text) in corpus::texts(6_000) {
        let real = tokenizer.encode_ordinary(&text).len();
        let estimate = estimate_tokens(&text);
        let percent = estimate * 100 / real;
        println!("{kind}: {real} tokens, estimated {estimate} ({percent} %)");
        if percent < least(kind) {
            off.push(format!("{kind} {percent} %"));
        }
    }
    assert!(off.is_empty(), "too low: {}", off.join(", "));
}
