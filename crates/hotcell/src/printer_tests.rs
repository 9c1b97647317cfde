//! What becomes of pieces of output, with and without a reader.

use std::fs::File;
use std::io::{self, Read};

use crate::printer::{Piece, Printer, Target};

fn pipe() -> (File, File) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    (reader.into(), writer.into())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn pieces_arrive_in_order_at_their_targets() {
    let ((mut out, out_end), (mut err, err_end)) = (pipe(), pipe());
    let Printer { pieces, done } = Printer::start_on(out_end, err_end).unwrap();
    block_on(async {
        for (target, bytes) in [(Target::Out, "a"), (Target::Err, "x"), (Target::Out, "b")] {
            pieces.send(Piece { target, bytes: bytes.into() }).await.unwrap();
        }
        drop(pieces);
        done.await.unwrap().unwrap();
    });
    let (mut printed, mut said) = (String::new(), String::new());
    out.read_to_string(&mut printed).unwrap();
    err.read_to_string(&mut said).unwrap();
    assert_eq!((printed.as_str(), said.as_str()), ("ab", "x"));
}

#[test]
fn a_closed_standard_output_ends_it_and_a_closed_standard_error_does_not() {
    let ((out, out_end), (err, err_end)) = (pipe(), pipe());
    drop((out, err));
    let Printer { pieces, done } = Printer::start_on(out_end, err_end).unwrap();
    let result = block_on(async {
        for target in [Target::Err, Target::Out] {
            pieces.send(Piece { target, bytes: b"x".to_vec() }).await.unwrap();
        }
        done.await.unwrap()
    });
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}
