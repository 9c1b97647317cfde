//! The text of the runner holds together.

use crate::{Warmth, arguments, source};

#[test]
fn parts_cannot_end_the_text_that_they_are_wrapped_in() {
    let quotes = source().matches("'''").count();
    let parts = source().matches("PARTS['").count();
    assert_eq!((parts, quotes), (7, 14), "a part holds three single quotes");
    assert!(source().ends_with("\nstart()\n"));
}

#[test]
fn the_command_line_is_isolated() {
    for (warmth, how) in [(Warmth::Cold, "run"), (Warmth::Zygote, "zygote")] {
        let arguments = arguments(warmth);
        assert_eq!((arguments[0], arguments[5]), ("-I", how));
    }
}
