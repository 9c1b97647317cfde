//! Sizes of terminals on disk.

use hotcell_model::TerminalSize;

use crate::testing::{Records, exec};
use crate::{SizeChange, read_terminal_sizes, write_terminal_size};

fn change(after_seq: u64, rows: u16) -> SizeChange {
    SizeChange { after_seq, size: TerminalSize { rows, cols: 100 } }
}

#[test]
fn sizes_are_read_in_the_order_in_which_they_were_written() {
    let records = Records::new();
    assert_eq!(read_terminal_sizes(records.path(), &exec()).unwrap(), []);
    let changes = [change(0, 40), change(7, 50), change(7, 10)];
    for change in changes {
        write_terminal_size(records.fd(), &exec(), change).unwrap();
    }
    assert_eq!(read_terminal_sizes(records.path(), &exec()).unwrap(), changes);
}

#[test]
fn what_is_torn_or_damaged_is_left_out() {
    let records = Records::new();
    write_terminal_size(records.fd(), &exec(), change(0, 40)).unwrap();
    let file = records.path().join(format!("log/{}.sizes", exec()));
    let mut text = std::fs::read(&file).unwrap();
    text.extend_from_slice(b"nonsense\n\xff 1\n3 1");
    std::fs::write(&file, text).unwrap();
    assert_eq!(read_terminal_sizes(records.path(), &exec()).unwrap(), [change(0, 40)]);
}

#[test]
fn a_terminal_that_is_resized_without_end_takes_bounded_space() {
    let records = Records::new();
    for seq in 0..20_000 {
        write_terminal_size(records.fd(), &exec(), change(seq, 40)).unwrap();
    }
    let file = records.path().join(format!("log/{}.sizes", exec()));
    assert!(std::fs::metadata(file).unwrap().len() < 65 * 1024);
    let read = read_terminal_sizes(records.path(), &exec()).unwrap();
    assert_eq!(read.last(), Some(&change(19_999, 40)));
}
