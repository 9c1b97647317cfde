//! Measures the tool search over the listings of real servers: recall, empty results, time and memory.
//!
//! usage: search LISTINGS QUERIES [--misses]
//! LISTINGS is a directory of `NAME.json` with the tools of each server (`scripts/bench-tokens` makes it), QUERIES
//! has sections of queries, each with the tools that fit. Half of the queries are for tuning, the other half is
//! held out; `--misses` prints the failures of the tuning half and never those of the other.

#![expect(clippy::print_stdout, reason = "a program whose output is figures")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_toolbox::{Catalog, ServerListing, ToolHit, ToolIndex, ToolKey, ToolQuery};
use serde_json::Value;

/// The number of results in which the right tool has to be.
const FIRST: usize = 5;
/// How often each query is repeated for the time; the fastest counts.
const REPEATS: usize = 5;
/// How many indexes are kept at once to measure the memory of one.
const INDEXES: usize = 20;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Query {
    kind: String,
    text: String,
    /// Tools that fit; none for an impossible request.
    right: Vec<ToolKey>,
    half: Half,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Tuning,
    HeldOut,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listings, queries, options @ ..] = arguments.as_slice() else {
        return Err("usage: search LISTINGS QUERIES [--misses]".into());
    };
    let catalog = read_catalog(Path::new(listings))?;
    let queries = read_queries(&fs::read_to_string(queries)?)?;
    for key in queries.iter().flat_map(|query| &query.right) {
        if catalog.find_by_key(key).is_none() {
            return Err(format!("no server lists {}.{}", key.server, key.tool).into());
        }
    }
    let index = ToolIndex::new(&catalog);
    println!("{} tools\n", catalog.tools().count());
    println!("| queries | tuning half | held-out half | all |\n|---|---:|---:|---:|");
    let mut kinds: Vec<&str> = queries.iter().map(|query| query.kind.as_str()).collect();
    kinds.dedup();
    let answers: Vec<bool> = queries.iter().map(|query| passes(&index, query)).collect();
    for kind in kinds {
        let share = |halves: &[Half]| {
            let asked = || {
                let all = queries.iter().zip(&answers);
                all.filter(|(query, _)| query.kind == kind && halves.contains(&query.half))
            };
            let (passed, all) = (asked().filter(|(_, passed)| **passed).count(), asked().count());
            format!("{passed} of {all} ({:.1} %)", 100.0 * as_f64(passed) / as_f64(all.max(1)))
        };
        println!(
            "| {kind} | {} | {} | {} |",
            share(&[Half::Tuning]),
            share(&[Half::HeldOut]),
            share(&[Half::Tuning, Half::HeldOut])
        );
    }
    print_time(&index, &queries);
    print_memory(&catalog);
    if options.iter().any(|option| option == "--misses") {
        for (query, _) in queries.iter().zip(&answers).filter(|(_, passed)| !**passed) {
            print_miss(&index, query);
        }
    }
    Ok(())
}

fn hits(index: &ToolIndex, text: &str) -> Vec<ToolHit> {
    index.search(&ToolQuery { text: text.to_owned(), server: None, limit: FIRST })
}

/// Whether a fitting tool is among the first results, or none is there for an impossible request.
fn passes(index: &ToolIndex, query: &Query) -> bool {
    let hits = hits(index, &query.text);
    if query.right.is_empty() {
        return hits.is_empty();
    }
    hits.iter().any(|hit| query.right.contains(&hit.key))
}

fn print_miss(index: &ToolIndex, query: &Query) {
    if query.half == Half::HeldOut {
        return;
    }
    println!("\n[{}] {}", query.kind, query.text);
    for key in query.right.iter().take(1) {
        println!("  expected {}.{}", key.server, key.tool);
    }
    for hit in hits(index, &query.text) {
        println!("  {:.2} {}.{}", hit.score, hit.key.server, hit.key.tool);
    }
}

fn print_time(index: &ToolIndex, queries: &[Query]) {
    let mut times: Vec<Duration> = queries
        .iter()
        .map(|query| {
            let once = |_| {
                let start = Instant::now();
                std::hint::black_box(hits(index, &query.text));
                start.elapsed()
            };
            (0..REPEATS).map(once).min().unwrap_or_default()
        })
        .collect();
    times.sort();
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len() - 1));
    let milliseconds = |part| at(part).map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    println!(
        "\ntime per query: p50 {:.3} ms, p99 {:.3} ms, most {:.3} ms",
        milliseconds(50),
        milliseconds(99),
        milliseconds(100)
    );
}

/// The memory of one index: what the process grows by while several are built, divided by their number.
fn print_memory(catalog: &Catalog) {
    let before = resident();
    let kept: Vec<ToolIndex> = (0..INDEXES).map(|_| ToolIndex::new(catalog)).collect();
    let grown = resident().saturating_sub(before);
    println!("memory of the index: {:.2} MB", as_f64(grown) / as_f64(kept.len()) / 1024.0 / 1024.0);
}

/// Bytes of this process that are in memory, 0 where the kernel does not say.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or_default() * 1024
}

fn as_f64(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn read_catalog(directory: &Path) -> Result<Catalog> {
    let mut listings = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let listed: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let name = listed["name"].as_str().ok_or_else(|| format!("{}: no name", path.display()))?;
        let tools = listed["tools"].as_array().ok_or_else(|| format!("{name}: no tools"))?;
        let mut listing = ServerListing::read(name, tools);
        listing.title = listed["title"].as_str().map(str::to_owned);
        listing.instructions = listed["instructions"].as_str().map(str::to_owned);
        listings.push(listing);
    }
    listings.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Catalog::new(listings))
}

fn read_queries(text: &str) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    let mut kind = "";
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            kind = section;
            continue;
        }
        let (text, names) = line.split_once(" => ").unwrap_or((line, ""));
        let mut right = Vec::new();
        for name in names.split(" | ").filter(|name| !name.is_empty()) {
            let (server, tool) = name.split_once('.').ok_or_else(|| format!("no tool: {line}"))?;
            right.push(ToolKey { server: server.to_owned(), tool: tool.to_owned() });
        }
        queries.push(Query {
            kind: kind.to_owned(),
            text: text.to_owned(),
            right,
            half: half_of(text),
        });
    }
    Ok(queries)
}

/// The half of a query, by a hash of its text (FNV-1a), so that other queries do not change it.
fn half_of(text: &str) -> Half {
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    if (hash >> 7) & 1 == 0 { Half::Tuning } else { Half::HeldOut }
}
