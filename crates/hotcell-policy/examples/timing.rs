//! Prints how long it takes to decide about usual commands: `timing [--each]`. Build it with `--release`.

#![expect(clippy::print_stdout, reason = "it prints its results")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use hotcell_policy::{Act, Policy};

const USUAL: &[&str] = &[
    "true",
    "ls -la",
    "cd /workspace && cargo test 2>&1 | tail -50",
    "git status && git diff --stat | head",
    "for f in *.py; do python3 -m py_compile \"$f\" || echo \"bad: $f\"; done",
    "cat > notes.txt <<'EOF'\none\ntwo\nEOF",
    "grep -rn 'fn main' --include='*.rs' . | sort | uniq -c | sort -rn | head -20",
    "bash -c 'echo \"$(date +%s)\" > stamp'",
    "find . -name '*.tmp' -mtime +3 -exec rm -f {} +",
    "curl -fsSL https://example.org/x.tar.gz | tar -xz -C /tmp",
];
const ROUNDS: u32 = 2_000;

fn per_decision(policy: &Policy, text: &str) -> Duration {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        let act = Act::AnyShell { text, as_root: false, directory: Some("/workspace") };
        black_box(policy.decide(black_box(&act)));
    }
    start.elapsed() / ROUNDS
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let each = std::env::args().any(|arg| arg == "--each");
    for profile in Policy::profiles() {
        let policy = Policy::parse(None, profile)?;
        let times: Vec<Duration> = USUAL.iter().map(|text| per_decision(&policy, text)).collect();
        let mean = times.iter().sum::<Duration>() / u32::try_from(USUAL.len())?;
        println!("{profile:10} {:.1} µs per usual command", mean.as_secs_f64() * 1e6);
        for (text, time) in USUAL.iter().zip(&times).filter(|_| each) {
            println!("  {:6.1} µs  {}", time.as_secs_f64() * 1e6, text.replace('\n', "⏎"));
        }
    }
    Ok(())
}
