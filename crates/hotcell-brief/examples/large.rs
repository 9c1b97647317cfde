//! How long 64 MB of output take, by kind and strategy: `cargo run --release -p hotcell-brief --example large`.

#![expect(clippy::print_stdout, reason = "a program whose output is figures")]

use std::time::Instant;

use hotcell_brief::{Brief, DEFAULT_BUDGET, Parts, Strategy, Text};

const BYTES: usize = 64 << 20;

fn main() {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for (kind, line) in [
        ("log", "2026-11-16T10:00:00 INFO request NUMBER of worker-7 done in NUMBER ms\n"),
        ("table", "NUMBER,some name,17.25,2026-01-01\n"),
        ("json lines", "{\"id\":NUMBER,\"name\":\"n\",\"tags\":[\"a\",\"b\"]}\n"),
        ("prose", "Nobody said NUMBER times that the river was cold.\n\n"),
        ("one line", "a1B2c3+/"),
        ("short lines", "\n"),
    ] {
        let mut text = String::with_capacity(BYTES + line.len() * 2);
        let mut number = 0_u64;
        while text.len() < BYTES {
            text.push_str(&line.replace("NUMBER", &number.to_string()));
            number += 1;
        }
        texts.push((kind, text));
    }
    for (kind, text) in &texts {
        for strategy in [Strategy::Auto, Strategy::Truncate, Strategy::Summarise, Strategy::Sample]
        {
            let start = Instant::now();
            let parts = Parts { stdout: Text::whole(text), ..Parts::default() };
            let shown = Brief::new(DEFAULT_BUDGET, strategy).show(&parts);
            let took = start.elapsed().as_millis();
            println!("{kind}, {strategy:?}: {took} ms, {} tokens", shown.tokens);
        }
    }
}
