//! The text of the runner for JavaScript holds together.

use crate::{script_arguments, script_source};

#[test]
fn the_text_is_strict_and_ends_by_starting() {
    assert!(script_source().starts_with("\"use strict\";\n"));
    assert!(script_source().ends_with("\nstart();\n"));
    assert_eq!(script_arguments()[2], "-e");
    assert!(!script_arguments()[3].contains('\''), "it has to be one word");
}
