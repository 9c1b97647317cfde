//! Sockets that another process opens.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use hotcell_jail::{receive_fds, send_fds};

use crate::socket_maker::{SocketMaker, make_sockets};

#[test]
fn sockets_are_opened_and_errors_are_told() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let maker = std::thread::spawn(move || make_sockets(&theirs));
    let sockets = SocketMaker::new(ours).unwrap();
    let listener = sockets.listen(Ipv4Addr::LOCALHOST, 0).unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = sockets.listen(Ipv4Addr::LOCALHOST, port).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    // An error that was told is an answer.
    assert!(!sockets.is_broken());
    sockets.datagrams(Ipv4Addr::LOCALHOST, 0).unwrap();
    drop(sockets);
    maker.join().unwrap().unwrap();
}

#[test]
fn nothing_is_asked_any_more_after_what_is_no_answer() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // Half an answer, and then the one that was due, which would be taken for the next.
    send_fds(&theirs, &[0, 0], &[]).unwrap();
    let sockets = SocketMaker::new(ours).unwrap();
    assert!(sockets.listen(Ipv4Addr::LOCALHOST, 1).is_err());
    assert!(sockets.is_broken());
    send_fds(&theirs, &0_i32.to_be_bytes(), &[other.as_fd()]).unwrap();
    assert!(sockets.listen(Ipv4Addr::LOCALHOST, 2).is_err());
    let mut request = [0; 64];
    assert_eq!(receive_fds(&theirs, &mut request).unwrap().0, 7, "it was asked once");
}
