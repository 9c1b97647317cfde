//! What is read and what is refused, and that hostile text costs little.

use proptest::prelude::*;

use super::{Dialect, parse};
use crate::{Act, Decision, Policy};

fn reads(text: &str, dialect: Dialect) -> bool {
    parse(text, dialect, 0).error.is_none()
}

#[test]
fn shells_differ() {
    for text in ["[[ -f x ]]", "a=(1 2)", "cat <(ls)", "x |& y", "cat <<< x", "a+=(1)"] {
        assert!(reads(text, Dialect::Bash), "{text}");
    }
    for text in ["a=(1 2)", "cat <(ls)", "x |& y", "for ((;;)); do x; done"] {
        assert!(!reads(text, Dialect::Posix), "{text}");
    }
    for text in
        ["ls; (a)", "f() { a; }", "if a; then b; fi", "cat <<E\nE", "a \\\n b", "", "\n\n", "# x"]
    {
        assert!(reads(text, Dialect::Bash) && reads(text, Dialect::Posix), "{text}");
    }
}

#[test]
fn broken_text_is_refused() {
    for text in [
        "'",
        "\"",
        "`",
        "$(",
        "${",
        "$((1",
        "(",
        "{ a;",
        "if a; then",
        "case x in",
        "for",
        "while a; do b",
        ")",
        "}",
        "done",
        "fi",
        "a && ",
        "a |",
        "| a",
        "&& a",
        ";; a",
        "a <",
        "a >",
        "f(",
        "a ( b",
        "[[ a",
        "((",
        "a=(",
        "${}",
        "x[1=2",
        "a\0b",
    ] {
        assert!(!reads(text, Dialect::Bash), "{text:?}");
    }
}

#[test]
fn hostile_text_costs_little() {
    let policy = Policy::parse(None, "allowlist").unwrap();
    let n = 50_000;
    let texts = [
        "(".repeat(n),
        "((".repeat(n),
        "$(".repeat(n),
        "$((".repeat(n),
        "${".repeat(n),
        "${a:-".repeat(n),
        "\"$(".repeat(n),
        "`".repeat(n + 1),
        "\\`".repeat(n),
        "{".repeat(n),
        "{a,".repeat(n) + &"}".repeat(n),
        "{ ".repeat(n),
        "[[ ".repeat(n),
        "a[".repeat(n),
        "a[;".repeat(n),
        "((a;".repeat(n),
        "if ".repeat(n),
        "while ".repeat(n),
        "case x in ".repeat(n),
        "f() ".repeat(n),
        "! ".repeat(n),
        "time ".repeat(n),
        "coproc ".repeat(n),
        "<(".repeat(n),
        "cat <<E\n".repeat(n),
        "<<a ".repeat(n),
        "a | ".repeat(n),
        "a && ".repeat(n),
        "a; ".repeat(n),
        "a\n".repeat(n),
        "x=a; ".repeat(n),
        "(x=a); ".repeat(n / 2),
        "f() { a; }; ".repeat(n / 4),
        "if a; then b; fi; ".repeat(n / 8),
        "for x in a b c; do $x; done; ".repeat(n / 8),
        "env ".repeat(n),
        "sudo ".repeat(n),
        "eval ".repeat(n),
        "$a ".repeat(n),
        "sh -c ".repeat(n),
        "x=$x$x; ".repeat(n / 4),
        format!("x=aaaaaaaaaaaaaaaa; {}", "x=$x$x; ".repeat(n / 4)),
        format!("x='{}'; {}", "ls;".repeat(3_000), "eval \"$x\"; ".repeat(2_000)),
        "{a,b}".repeat(n / 4),
        "a".repeat(1_000_000),
        "'a' ".repeat(n),
        "\\\n".repeat(n),
        "#".repeat(n),
        "$'".repeat(n),
        "a>".repeat(n),
        "?(".repeat(n),
        "a?(".repeat(n),
    ];
    for text in texts {
        let act = Act::AnyShell { text: &text, as_root: false, directory: Some("/workspace") };
        let verdict = policy.decide(&act);
        let harmless = ["x=", "(x=", "! ", "#", "\\\n", "cat <<E", "<<a"];
        let harmless = harmless.iter().any(|start| text.starts_with(start));
        let head = text.get(..text.len().min(20));
        // Whatever is not read to its end is not allowed.
        assert!(harmless || verdict.decision == Decision::Deny, "{head:?}");
    }
}

#[test]
fn deep_text_fits_a_small_stack() {
    let worker = std::thread::Builder::new().stack_size(1024 * 1024);
    let result = worker.spawn(|| {
        let policy = Policy::parse(None, "open").unwrap();
        for (open, close) in [
            ("(", ")"),
            ("$(", ")"),
            ("\"$(", ")\""),
            ("{ ", "; }"),
            ("${a:-", "}"),
            ("$((", "))"),
            ("if ", "; then a; fi"),
            ("f() { ", "; }"),
            ("<(", ")"),
            ("eval '", "'"),
            ("sh -c \"", "\""),
            ("env ", ""),
            ("`", "`"),
        ] {
            for depth in [1, 10, 50, 63, 64, 65, 1_000] {
                let text = format!("{}a{}", open.repeat(depth), close.repeat(depth));
                let act = Act::AnyShell { text: &text, as_root: false, directory: None };
                let verdict = policy.decide(&act);
                assert!(!verdict.parts.is_empty(), "{open} {depth}");
            }
        }
    });
    result.unwrap().join().unwrap();
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[ -~\n\t]{0,60}") {
        let policy = Policy::parse(None, "careful").unwrap();
        let _ = policy.decide(&Act::AnyShell { text: &text, as_root: true, directory: None });
        let _ = policy.decide(&Act::Python { code: &text, as_root: true, directory: None });
    }

    #[test]
    fn no_signs_make_it_panic(text in "[\\]\\[(){}<>$`'\"\\\\|&;=#!*?~@%:+,/. \nax0é…\u{0}\u{1}-]{0,80}") {
        let policy = Policy::parse(None, "allowlist").unwrap();
        let _ = policy.decide(&Act::AnyShell { text: &text, as_root: false, directory: Some("/") });
    }

    #[test]
    fn no_words_make_it_panic(words in prop::collection::vec("(env|sudo|xargs|find|-exec|-c|sh|eval|rm|-rf|/|git|-S|--|\\$x|\\*|;|\\{\\}|\\+|awk|sed|dd|of=x|python3|trap|timeout|5|=|-)", 0..8)) {
        let policy = Policy::parse(None, "careful").unwrap();
        let _ = policy.decide(&Act::Argv { argv: &words, as_root: false, directory: Some("/") });
    }
}
