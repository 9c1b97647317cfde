//! Measures how fast secrets are looked for in a text, and what is taken for one: `FILE [MEGABYTES]`,
//! the file over and over up to that size. Times are those of the processor, so that what else runs
//! on the machine counts less.

#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::collections::BTreeMap;

use hotcell_masking::{Finder, Shapes};

/// As output comes from a pipe.
const PIECE: usize = 64 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("name a file of text")?;
    let megabytes: usize = arguments.next().map_or(Ok(50), |text| text.parse())?;
    let text = std::fs::read(&file)?;
    let shapes = Shapes::default();

    let mut finder = Finder::default();
    finder.feed(&shapes, &text);
    finder.finish(&shapes);
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for region in finder.regions() {
        *kinds.entry(region.kind).or_default() += 1;
        let at = usize::try_from(region.start)?;
        let line = text[..at].iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
        let end = text[at..].iter().position(|b| *b == b'\n').map_or(text.len(), |end| at + end);
        let shown = String::from_utf8_lossy(&text[line..end.min(line + 200)]).into_owned();
        println!("{}: {shown}", region.kind);
    }
    let lines = text.iter().filter(|b| **b == b'\n').count();
    println!("{} bytes, {lines} lines, taken for secrets: {kinds:?}", text.len());

    let whole: Vec<u8> = text.iter().copied().cycle().take(megabytes << 20).collect();
    let mut best = f64::MAX;
    for _ in 0..5 {
        let began = on_cpu()?;
        let mut finder = Finder::default();
        for piece in whole.chunks(PIECE) {
            finder.feed(&shapes, piece);
            finder.forget(finder.settled());
        }
        finder.finish(&shapes);
        best = best.min(on_cpu()? - began);
    }
    println!("{:.0} MB/s", whole.len() as f64 / 1e6 / best);

    let began = on_cpu()?;
    let times = 100_000;
    for _ in 0..times {
        std::hint::black_box(shapes.redact_text(std::hint::black_box("sh -c true")));
    }
    println!("{:.0} ns for a short command", (on_cpu()? - began) * 1e9 / f64::from(times));
    Ok(())
}

/// Seconds that this program was on a processor.
fn on_cpu() -> Result<f64, Box<dyn std::error::Error>> {
    let told = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = told.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanoseconds / 1e9)
}
