//! Patterns against text that is known, partly known and not known.

use super::glob::{Fit, Glob};
use crate::finding::{Known, Value};

fn partly(text: &str) -> Value {
    Value { text: text.to_owned(), known: Known::Partly }
}

#[test]
fn names_and_paths_fit_as_written() {
    for (glob, text, fits) in [
        (Glob::name("rm"), "rm", true),
        (Glob::name("rm"), "rmdir", false),
        (Glob::name("mkfs*"), "mkfs.ext4", true),
        (Glob::name("*"), "", true),
        (Glob::name("a?c"), "abc", true),
        (Glob::name("a?c"), "ac", false),
        (Glob::name("if=/dev/*"), "if=/dev/disk/a", true),
        (Glob::path("/etc/*"), "/etc/a", true),
        (Glob::path("/etc/*"), "/etc/a/b", false),
        (Glob::path("/etc/**"), "/etc/a/b", true),
        (Glob::path("/etc/**"), "/etc", true),
        (Glob::path("/etc/**"), "/etcetera", false),
        (Glob::path("/**/x"), "/a/b/x", true),
        (Glob::path("/**"), "/", true),
        (Glob::path("/"), "/a", false),
        (Glob::path("~/.ssh/**"), "~/.ssh/key", true),
    ] {
        assert_eq!(glob.fits_text(text), fits, "{} on {text}", glob.text());
    }
}

#[test]
fn what_is_not_known_fits_perhaps() {
    let unknown = Value { text: "…".to_owned(), known: Known::Not };
    assert_eq!(Glob::name("rm").fits(&unknown), Fit::Maybe);
    assert_eq!(Glob::name("*").fits(&unknown), Fit::Yes);
    assert_eq!(Glob::name("x*").fits(&partly("x…")), Fit::Yes);
    assert_eq!(Glob::name("x*").fits(&partly("y…")), Fit::No);
    assert_eq!(Glob::name("xy").fits(&partly("x…")), Fit::Maybe);
    // What is not known in a path may be `..`.
    assert_eq!(Glob::path("/tmp/**").fits(&partly("/tmp/…")), Fit::Maybe);
    assert_eq!(Glob::path("/tmp/**").fits(&partly("/tmp/*")), Fit::Yes);
    assert_eq!(Glob::path("/etc/**").fits(&partly("/tmp/…")), Fit::No);
    assert_eq!(Glob::path("/etc/**").fits(&partly("a/b")), Fit::Maybe);
    assert_eq!(Glob::path("/etc/hosts").fits(&partly("etc/hosts")), Fit::Maybe);
    assert_eq!(Glob::path("/etc/hosts").fits(&partly("etc/passwd")), Fit::No);
}

#[test]
fn a_tree_covers_what_lies_in_it() {
    let etc = Glob::path("/etc/**");
    assert_eq!(etc.lies_below(&Value::known("/")), Fit::Yes);
    assert_eq!(etc.lies_below(&Value::known("/etc")), Fit::Yes);
    assert_eq!(etc.lies_below(&Value::known("/tmp")), Fit::No);
    assert_eq!(etc.lies_below(&partly("/*")), Fit::Yes);
    assert_eq!(etc.lies_below(&partly("/tmp/*")), Fit::No);
    assert_eq!(etc.lies_below(&partly("/…")), Fit::Maybe);
    assert_eq!(Glob::path("/").lies_below(&Value::known("/")), Fit::No);
}
