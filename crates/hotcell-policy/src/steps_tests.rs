//! The work of judging grows no faster than the text.

use crate::{Act, Policy, steps};

/// The steps that judging a text takes.
fn cost(policy: &Policy, text: &str) -> usize {
    steps::counted(|| {
        let _ =
            policy.decide(&Act::AnyShell { text, as_root: false, directory: Some("/workspace") });
    })
}

/// Texts of which each has a part that is repeated, between a beginning and an end.
const TEXTS: &[(&str, &str, &str)] = &[
    ("for x in 1 2; do ", "a# b; ", "done"),
    ("for x in $y; do ", "a# $x; ", "done"),
    ("", "for x in 1; do a#; done; ", ""),
    ("", "cd aaaaaaaaaaaaaaaaaaaa&&", "b"),
    ("", "cd a#&&", "b"),
    ("", "cd a; b; ", ""),
    ("", "cd a || ", "b"),
    ("", "a# && ", "b"),
    ("", "a# | ", "b"),
    ("", "a# & ", ""),
    ("", "curl -o f# http://x/; ./g#; ", ""),
    ("", "curl http://x/f# > d/f#; bash g#; ", ""),
    ("set -- ", "a# ", "; b"),
    ("", "x#=a; b $x#; ", ""),
    ("", "f#() { a; }; f#; ", ""),
    ("", "alias a#=b; c; ", ""),
    ("", "if a; then alias a#=b; fi; ", ""),
    ("case x in ", "a#) b# ;; ", "esac"),
    ("if a; then b; ", "elif a#; then b#; ", "fi"),
    ("", "{ a#; }; ", ""),
    ("", "(a#); ", ""),
    ("", "$(a#); ", ""),
    ("echo \"", "$(a#) ", "\""),
    ("echo ", "`a#` ", ""),
    ("", "cat <<E\na#\nE\n", ""),
    ("", "bash -c 'a#; b'; ", ""),
    ("bash -c '", "cd aaaaaaaaaaaaaaaaaaaa&&", "b' x y z"),
    ("", "trap 'a#' EXIT; ", ""),
    ("", "rm x# > y#; ", ""),
    ("", "while a#; do b#; done; ", ""),
    ("cd /a; rm ", "x# ", ""),
    ("x='", "a# ", "'; b $x $x"),
    ("((", "x#+", "1))"),
    ("[[ ", "a# == b && ", "c ]]"),
    ("echo ", "{a,b}", ""),
    ("echo ", "${x:-a#} ", ""),
    ("echo ", "'a#' ", "unclosed '"),
    ("", "$((", ""),
    ("", "${x:-", ""),
    ("", "((", ""),
];

fn text(parts: (&str, &str, &str), count: usize) -> String {
    let (begin, part, end) = parts;
    let mut text = begin.to_owned();
    for number in 0..count {
        text.push_str(&part.replace('#', &number.to_string()));
    }
    text.push_str(end);
    text
}

#[test]
fn twice_the_text_takes_about_twice_the_work() {
    let policy = Policy::parse(None, "allowlist").unwrap();
    for parts in TEXTS {
        let count = 500;
        let steps = cost(&policy, &text(*parts, count));
        let more = cost(&policy, &text(*parts, 2 * count));
        // A little more for longer numbers, and for what grows by doubling.
        assert!(more <= steps * 5 / 2 + 5000, "{parts:?}: {steps} to {more} steps");
    }
}

/// The control: what was quadratic is seen.
#[test]
fn quadratic_work_is_seen() {
    let quadratic = |count: usize| steps::counted(|| (0..count).for_each(steps::count));
    assert!(quadratic(1000) > quadratic(500) * 5 / 2 + 5000);
}
