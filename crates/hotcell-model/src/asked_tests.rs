//! What a person is shown is what is there.

use crate::{ApprovalId, legible};

#[test]
fn nothing_in_a_text_hides_a_part_of_it() {
    let shown = legible("rm a\u{1b}[2K\r# harmless \u{202e}\u{200b}\u{2066}\n\tb");
    assert_eq!(shown, "rm a\\u{1b}[2K\\u{d}# harmless \\u{202e}\\u{200b}\\u{2066}\n\tb");
    // The control: what is harmless is as it was.
    assert_eq!(legible("größer → 'x'"), "größer → 'x'");
}

#[test]
fn of_a_long_text_the_beginning_is_shown_and_said_to_be_one() {
    let shown = legible(&"x".repeat(4100));
    assert!(shown.ends_with("x… and 100 more characters"), "{shown}");
}

#[test]
fn what_waits_has_one_of_two_names() {
    for text in ["e_4k7m2x9qpa", "h_4k7m2x9qpa"] {
        assert_eq!(text.parse::<ApprovalId>().unwrap().to_string(), text);
    }
    for text in ["c_4k7m2x9qpa", "h_4k7m2x9qp", "", "x"] {
        text.parse::<ApprovalId>().unwrap_err();
    }
}
