//! What is refused costs little: memory is bounded, however long or well made a text is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;

use hotcell_policy::{Act, Around, Decision, Policy};

/// The most that may be held at once, whatever is read.
const ROOM: usize = 128 << 20;

/// What was decided, and how much memory that took at once.
fn cost(policy: &Policy, act: &Act<'_>, around: Around<'_>) -> (Decision, usize) {
    // From now on the kernel remembers the most that is taken.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS:");
    let decision = policy.decide_in(act, around).decision;
    (decision, memory("VmHWM:").saturating_sub(before))
}

/// What the kernel says of this process, in bytes.
fn memory(what: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn memory_is_bounded() {
    memory_is_seen();
    let policy = Policy::parse(None, "allowlist").unwrap();
    let mib = 1 << 20;
    let long = 1 << 15;
    let fill = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    let value = format!("x={}; ", "a".repeat(16_000));
    let words = fill("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} ", 640);
    let shell = [
        fill("a;", long),
        fill("a ", long),
        fill("a", 64 * mib),
        fill("a;", 64 * mib),
        fill("cat <<E\nx\nE\n", long),
        fill("$(a)", long),
        format!("{value}{}", fill("b $x $x $x;", long)),
        fill(&format!("rm {words};"), long),
        fill("rm {a,b}{a,b}{a,b}{a,b}{a,b}{a,b} ", long),
        fill("alias a=b; a x;", long / 4),
        fill("x='a[$(b)]';", long / 4),
        "(".repeat(100_000),
    ];
    for text in &shell {
        let act = Act::AnyShell { text, as_root: false, directory: Some("/workspace") };
        let (decision, bytes) = cost(&policy, &act, Around::default());
        let head = text.get(..20.min(text.len()));
        assert!(text.len() < mib || decision == Decision::Deny, "{head:?}");
        assert!(bytes < ROOM, "{head:?} of {} bytes took {} MiB", text.len(), bytes >> 20);
    }
    let python = [fill("open(a)\n", long), fill("a = b\n", 64 * mib), fill("f(", long)];
    for code in &python {
        let act = Act::Python { code, as_root: false, directory: Some("/workspace") };
        let (decision, bytes) = cost(&policy, &act, Around::default());
        let head = code.get(..20.min(code.len()));
        assert!(code.len() < mib || decision == Decision::Deny, "{head:?}");
        assert!(bytes < ROOM, "{head:?} of {} bytes took {} MiB", code.len(), bytes >> 20);
    }
    let names: Vec<String> = (0..256).map(|number| format!("variable_{number}")).collect();
    let variables: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let text = fill("ls;", 30_000);
    let act = Act::AnyShell { text: &text, as_root: false, directory: None };
    let (decision, bytes) = cost(&policy, &act, Around { variables: &variables, input: None });
    assert_eq!(decision, Decision::Deny);
    assert!(bytes < ROOM, "variables took {} MiB", bytes >> 20);
}

/// Beside everything else that this process takes.
fn memory_is_seen() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS:");
    drop(std::hint::black_box(vec![1_u8; ROOM]));
    assert!(memory("VmHWM:") - before >= ROOM);
}
