//! Text of others, made harmless.

use proptest::prelude::*;

use crate::text::{Language, first_sentence, in_docstring, lines, one_line, quoted};

#[test]
fn what_hides_is_gone_and_what_is_cut_shows() {
    assert_eq!(one_line("a \n\t b\u{202e}c\u{200b}d\u{e0041}\0e", 99), "a bcd e");
    assert_eq!(one_line("abcdef", 3), "abc…");
    assert_eq!(one_line("abc", 3), "abc");
    assert_eq!(lines("one\n\n\ntwo\n\n", 99), ["one", "", "two"]);
    assert_eq!(lines("one\ntwo", 3), ["one", "…"]);
    assert_eq!(first_sentence("Does it. And more.", 99), "Does it");
    assert_eq!(first_sentence("Version 2.0 of it.", 99), "Version 2.0 of it");
}

#[test]
fn strings_are_escaped_as_each_language_has_it() {
    let text = "a\"\\\n\u{202e}\u{e0041}";
    assert_eq!(quoted(text, Language::Python), r#""a\"\\\n\u202e\U000e0041""#);
    assert_eq!(quoted(text, Language::TypeScript), r#""a\"\\\n\u202e\u{e0041}""#);
    assert_eq!(in_docstring(r#"a"""b\"#), r#"a\"\"\"b\\"#);
}

proptest! {
    #[test]
    fn a_line_is_one_line_and_short(text in any::<String>(), limit in 0_usize..50) {
        let line = one_line(&text, limit);
        prop_assert!(line.chars().count() <= limit + 1);
        prop_assert!(!line.chars().any(|letter| letter.is_control() || (letter != ' ' && letter.is_whitespace())));
    }
}
