//! What stands out on screens as programs draw them.

use hotcell_masking::Shapes;
use hotcell_model::TerminalSize;
use std::sync::Arc;

use crate::emulator::Emulator;
use crate::glass::Glass;

fn highlights(rows: u16, cols: u16, bytes: &str, glass: Option<&Glass>) -> Vec<(u16, u16, String)> {
    let mut emulator = Emulator::new(TerminalSize { rows, cols });
    emulator.feed(bytes.as_bytes());
    let rows = emulator.rows();
    let shown = emulator.highlighted().into_iter().map(|span| span.shown(&rows, glass));
    shown.map(|shown| (shown.row, shown.col, shown.text)).collect()
}

#[test]
fn reverse_video_and_rare_backgrounds_stand_out() {
    let menu = "apple\r\n  \x1b[7m banana \x1b[m\r\ncherry";
    assert_eq!(highlights(5, 20, menu, None), [(1, 3, "banana".to_owned())]);
    // A dialogue: a blue screen, a grey window, and one item in red.
    let window = |row: u16| format!("\x1b[{row};5H\x1b[47m{}", " ".repeat(30));
    let windows: String = (2..20).map(window).collect();
    let dialogue = format!("\x1b[44m\x1b[2J{windows}\x1b[3;6Hone\x1b[4;6H\x1b[41mtwo \x1b[m");
    assert_eq!(highlights(24, 80, &dialogue, None), [(3, 5, "two".to_owned())]);
    // Wide characters and marks keep their columns.
    assert_eq!(highlights(2, 20, "宽e\u{301}\x1b[7mx", None), [(0, 3, "x".to_owned())]);
    assert_eq!(highlights(2, 20, "plain \x1b[1;4;32mtext", None), []);
    assert_eq!(highlights(2, 20, "\x1b[7m    \x1b[m", None), [], "blanks");
}

#[test]
fn the_highlights_of_a_screen_are_bounded() {
    let many = "a \x1b[7mb\x1b[m".repeat(500);
    assert_eq!(highlights(50, 80, &many, None).len(), super::MOST_HIGHLIGHTS);
    let long = format!("\x1b[7m{}", "x".repeat(400));
    let text = &highlights(50, 500, &long, None)[0].2;
    assert_eq!(text.chars().count(), super::MOST_CHARS + 1);
}

#[test]
fn a_highlighted_part_of_a_secret_is_hidden() {
    let glass = Glass::new(Some(Arc::new(Shapes::default())), Vec::new());
    let secret = ["ghp_", "aZ09bY18cX27dW36eV45fU54gT63hS72iR81"].concat();
    let (start, end) = secret.split_at(12);
    let bytes = format!("token {start}\x1b[7m{end}\x1b[m and \x1b[7mmore");
    let shown = highlights(5, 200, &bytes, Some(&glass));
    assert!(!shown[0].2.contains(end), "{shown:?}");
    assert_eq!(shown[1].2, "more");
    // The control: without it the text is there.
    assert_eq!(highlights(5, 200, &bytes, None)[0].2, end);
}
