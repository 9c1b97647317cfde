//! What replaces a file loses what was in it, however that is done.

use crate::{Act, Decision, Policy, Verdict};

/// What loses a file, and something much like it that loses none.
const PAIRS: &[(&str, &str)] = &[
    (": > x", ": >> x"),
    ("> x", ">> x"),
    ("true > $x", "true >> x"),
    ("echo a >| x", "echo a >&2"),
    ("echo a &> x", "echo a &>> x"),
    ("{ a; } > x", "{ a; } > /dev/null"),
    ("bash -c '> x'", "bash -c '>> x'"),
    ("cp /dev/null x", "cp -n /dev/null x"),
    ("cp a b", "cp a /dev/null"),
    ("cp -n -f a b", "cp --no-clobber a b"),
    ("cp -S -n a b", "cp -nS .old a b"),
    ("cp $x a b", "cp -n a b c"),
    ("mv a b", "mv -n a b"),
    ("mv -n -f a b", "mv --no-clobber a b"),
    ("mv -t d a", "mv -n -t d a"),
    ("truncate -s 0 x", "touch x"),
    ("dd if=a of=x", "dd if=a of=/dev/null"),
    ("dd of=x conv=notrunc", "dd if=a"),
    ("a | tee x", "a | tee -a x"),
    ("a | tee -- -a", "a | tee --append x"),
    ("a | tee x y", "a | tee"),
    ("install a b", "install -d b"),
    ("install -m 600 a b", "mkdir -m 700 b"),
    ("ln -f a b", "ln a b"),
    ("ln -sf a b", "ln -s a b"),
    ("ln -i a b", "ln -T a b"),
    ("sed -i s/a/b/ x", "sed s/a/b/ x"),
    ("sed -n -i.old p x", "sed -n p x"),
    ("sed 'w x' y", "sed p y"),
    ("rsync -a --delete a b", "rsync a"),
    ("rsync -a a b", "rsync --version"),
    ("sort -o x x", "sort x"),
    ("env tee x", "env tee -a x"),
    ("find . -exec cp a {} +", "find . -exec cat {} +"),
];

fn careful(text: &str) -> Verdict {
    let policy = Policy::parse(None, "careful").unwrap();
    policy.decide(&Act::AnyShell { text, as_root: false, directory: Some("/workspace") })
}

#[test]
fn careful_asks_before_a_file_is_replaced() {
    for (loses, harmless) in PAIRS {
        let verdict = careful(loses);
        assert_eq!(verdict.decision, Decision::Ask, "{loses}: {verdict}");
        assert!(verdict.destructive || verdict.overwrites, "{loses}: {verdict}");
        let verdict = careful(harmless);
        assert_eq!(verdict.decision, Decision::Allow, "{harmless}: {verdict}");
        assert!(!verdict.destructive && !verdict.overwrites, "{harmless}: {verdict}");
    }
}
