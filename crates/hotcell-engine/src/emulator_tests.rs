//! Screens of known output, and of arbitrary bytes.

use proptest::prelude::*;

use super::*;

fn shown(rows: u16, cols: u16, bytes: &[u8]) -> TerminalScreen {
    let mut emulator = Emulator::new(TerminalSize { rows, cols });
    emulator.feed(bytes);
    screen_of(&emulator)
}

fn screen_of(emulator: &Emulator) -> TerminalScreen {
    emulator.screen(emulator.rows().into_iter().map(|row| row.text).collect())
}

#[test]
fn a_screen_has_rows_cursor_and_title() {
    let screen = shown(4, 20, b"\x1b]0;the title\x07one\r\ntwo  \r\n\r\n");
    assert_eq!(screen.rows, ["one", "two"]);
    assert_eq!(screen.cursor, Some(CursorPlace { row: 3, col: 0 }));
    assert_eq!(screen.title.as_deref(), Some("the title"));
    assert!(!screen.alternate && !screen.partial);
    assert_eq!(screen.size, TerminalSize { rows: 4, cols: 20 });
}

#[test]
fn a_full_screen_program_uses_the_alternate_screen() {
    let before = b"shell$ vi\r\n";
    let within = b"\x1b[?1049h\x1b[?1h\x1b[2J\x1b[2;3Hhello";
    let mut emulator = Emulator::new(TerminalSize { rows: 3, cols: 20 });
    emulator.feed(before);
    assert_eq!(emulator.cursor_keys(), CursorKeys::Normal);
    emulator.feed(within);
    assert_eq!(emulator.cursor_keys(), CursorKeys::Application);
    let screen = screen_of(&emulator);
    assert!(screen.alternate);
    assert_eq!(screen.rows, ["", "  hello"]);
    emulator.feed(b"\x1b[?1l\x1b[?1049l");
    let screen = screen_of(&emulator);
    assert!(!screen.alternate);
    assert_eq!(screen.rows, ["shell$ vi"]);
    assert_eq!(emulator.cursor_keys(), CursorKeys::Normal);
}

#[test]
fn a_row_that_is_full_goes_on_in_the_next() {
    let mut emulator = Emulator::new(TerminalSize { rows: 3, cols: 4 });
    emulator.feed(b"abcdef\r\nx");
    let goes_on: Vec<bool> = emulator.rows().iter().map(|row| row.goes_on).collect();
    assert_eq!(goes_on, [true, false, false]);
}

#[test]
fn a_resize_takes_effect() {
    let mut emulator = Emulator::new(TerminalSize { rows: 2, cols: 4 });
    emulator.resize(TerminalSize { rows: 2, cols: 10 });
    emulator.feed(b"abcdefgh");
    assert_eq!(screen_of(&emulator).rows, ["abcdefgh"]);
}

#[test]
fn a_huge_terminal_is_cut_and_says_so() {
    let screen = shown(u16::MAX, u16::MAX, b"x");
    assert_eq!(screen.size, TerminalSize { rows: u16::MAX, cols: u16::MAX });
    assert_eq!(screen.cut_to, Some(TerminalSize { rows: MOST_ROWS, cols: MOST_COLS }));
    assert!(!screen.partial, "nothing earlier is missing");
    assert_eq!(shown(MOST_ROWS, MOST_COLS, b"x").cut_to, None);
}

#[test]
fn a_hidden_cursor_has_no_place() {
    assert_eq!(shown(2, 9, b"menu\x1b[?25l").cursor, None);
    let place = CursorPlace { row: 0, col: 4 };
    assert_eq!(shown(2, 9, b"menu\x1b[?25l\x1b[?25h").cursor, Some(place));
}

#[test]
fn the_line_of_the_cursor_has_all_its_rows() {
    let mut emulator = Emulator::new(TerminalSize { rows: 4, cols: 5 });
    emulator.feed(b"before\r\n$ echo hello");
    assert_eq!(emulator.cursor_line(), "$ echo hello");
    emulator.feed(b"\x1b[A");
    assert_eq!(emulator.cursor_line(), "$ echo hello");
}

#[test]
fn a_title_without_end_is_bounded() {
    let mut bytes = b"\x1b]0;".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', 100_000));
    bytes.push(7);
    let title = shown(2, 2, &bytes).title.unwrap();
    assert!(title.chars().count() <= MOST_TITLE);
}

#[test]
fn the_last_line_is_what_is_seen_of_it() {
    assert_eq!(last_line(b"Name: "), "Name: ");
    assert_eq!(last_line(b"one\r\n\x1b[?2004h\x1b[1;35m>>> \x1b[0m"), ">>> ");
    assert_eq!(last_line(b"50%\r100%\x08\x08\x08\x08done"), "done");
    assert_eq!(last_line(b"done\n"), "");
    assert_eq!(last_line(b""), "");
}

/// Bytes of which many are sequences that terminals know.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"\x1b["[..],
        b"\x1b]0;",
        b"\x1b]2;",
        b"\x07",
        b"\x1b\\",
        b";",
        b"?1049h",
        b"?1049l",
        b"?1h",
        b"?6h",
        b"?7l",
        b"r",
        b"H",
        b"A",
        b"B",
        b"C",
        b"D",
        b"J",
        b"K",
        b"L",
        b"M",
        b"P",
        b"@",
        b"X",
        b"S",
        b"T",
        b"m",
        b"d",
        b"G",
        b"\x1bM",
        b"\x1bc",
        b"\x1b7",
        b"\x1b8",
        b"\x1bD",
        "宽".as_bytes(),
        "e\u{301}".as_bytes(),
        "👩\u{200d}👧".as_bytes(),
        b"\n",
        b"\r",
        b"\t",
        b"\x08",
        b"0",
        b"1",
        b"9",
        b"65535",
        b"4294967296",
        b"abc",
        b" ",
    ]);
    let piece = prop_oneof![
        4 => known.prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

fn size() -> impl Strategy<Value = TerminalSize> {
    (1_u16..40, 1_u16..40).prop_map(|(rows, cols)| TerminalSize { rows, cols })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_output_at_any_size_has_a_screen(
        first in size(), then in size(), before in output(), after in output(),
    ) {
        let mut emulator = Emulator::new(first);
        for (bytes, size) in [(before, then), (after, first)] {
            emulator.feed(&bytes);
            emulator.resize(size);
            let rows = emulator.rows();
            prop_assert_eq!(rows.len(), usize::from(size.rows));
            let screen = screen_of(&emulator);
            let is_inside = |at: CursorPlace| at.row < size.rows && at.col <= size.cols;
            prop_assert!(screen.cursor.is_none_or(is_inside));
            emulator.cursor_line();
            for span in emulator.highlighted() {
                let shown = span.shown(&rows, None);
                prop_assert!(shown.row < size.rows && shown.col < size.cols);
                prop_assert!(rows[usize::from(shown.row)].text.contains(&shown.text), "{:?}", shown);
            }
            let is_clean = |row: &String| !row.chars().any(char::is_control);
            prop_assert!(screen.rows.iter().chain(&screen.title).all(is_clean), "{:?}", screen);
        }
    }

    #[test]
    fn where_output_is_split_does_not_matter(
        size in size(), bytes in output(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = shown(size.rows, size.cols, &bytes);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut emulator = Emulator::new(size);
        let mut from = 0;
        for place in places.into_iter().chain([bytes.len()]) {
            emulator.feed(&bytes[from..place]);
            from = place;
        }
        prop_assert_eq!(screen_of(&emulator), whole);
    }

    #[test]
    fn the_last_line_of_anything_is_text(bytes in output()) {
        prop_assert!(!last_line(&bytes).chars().any(char::is_control));
    }
}
