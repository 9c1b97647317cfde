//! Screens as text and as JSON.

use hotcell_model::{CursorPlace, Highlight, TerminalScreen, TerminalSize};
use serde_json::json;

use super::ScreenView;

fn screen() -> TerminalScreen {
    TerminalScreen {
        rows: vec!["apple".to_owned(), "banana".to_owned()],
        cursor: Some(CursorPlace { row: 1, col: 2 }),
        highlighted: Vec::new(),
        title: None,
        alternate: false,
        size: TerminalSize { rows: 24, cols: 80 },
        partial: false,
        cut_to: None,
    }
}

#[test]
fn a_screen_says_what_stands_out_and_whether_its_cursor_is_hidden() {
    let plain = ScreenView::from(screen());
    assert_eq!(plain.text(), "[screen 24x80, cursor at row 1, col 2]\napple\nbanana\n");
    let mark = |row, text: &str| Highlight { row, col: 0, text: text.to_owned() };
    let highlighted = vec![mark(1, "banana"), mark(23, "(END)")];
    let menu = ScreenView::from(TerminalScreen { cursor: None, highlighted, ..screen() });
    assert_eq!(
        menu.text(),
        "[screen 24x80, cursor hidden]\napple\nbanana\n\
         [highlighted: row 1 \"banana\", row 23 \"(END)\"]\n"
    );
    let value = serde_json::to_value(&menu).unwrap();
    assert_eq!(value.get("cursor"), None);
    assert_eq!(value["highlighted"][0], json!({ "row": 1, "col": 0, "text": "banana" }));
}

#[test]
fn a_cut_screen_does_not_say_that_output_is_missing() {
    let size = TerminalSize { rows: 1000, cols: 1000 };
    let cut_to = Some(TerminalSize { rows: 200, cols: 500 });
    let cut = ScreenView::from(TerminalScreen { size, cut_to, ..screen() });
    assert!(cut.text().starts_with("[screen 1000x1000, cursor at row 1, col 2, cut to 200x500]"));
    assert!(!cut.text().contains("missing"));
    let partial = ScreenView::from(TerminalScreen { partial: true, ..screen() });
    assert!(partial.text().contains("earlier output is missing"));
}
