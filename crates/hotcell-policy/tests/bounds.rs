//! What is refused costs little: memory is bounded, however long or well made a text is.

#![expect(unsafe_code, reason = "memory is counted where it is handed out")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use hotcell_policy::{Act, Around, Decision, Policy};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise is the one that is needed.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is the one that is needed.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that may be held at once, whatever is read.
const ROOM: usize = 128 << 20;

/// What was decided, and how much memory that took at once.
fn cost(policy: &Policy, act: &Act<'_>, around: Around<'_>) -> (Decision, usize) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let decision = policy.decide_in(act, around).decision;
    (decision, MOST.load(Ordering::Relaxed).saturating_sub(before))
}

#[test]
fn memory_is_bounded() {
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

#[test]
fn memory_is_counted() {
    let policy = Policy::parse(None, "open").unwrap();
    let text = "echo a;".repeat(1000);
    let act = Act::Shell { text: &text, as_root: false, directory: None };
    let (decision, bytes) = cost(&policy, &act, Around::default());
    assert_eq!(decision, Decision::Allow);
    assert!(bytes > 100_000, "{bytes}");
}
