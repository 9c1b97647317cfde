//! A socket is its owner's from the first moment, and there is one server at each.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

use hotcell_model::ErrorCode;

use super::listener::{SocketListener, SocketMode};

#[tokio::test]
async fn a_socket_is_private_unless_told_and_goes_with_its_server() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sock");
    for (mode, bits) in [(SocketMode::Owner, 0o600), (SocketMode::Everybody, 0o666)] {
        let listener = SocketListener::bind(&path, mode).unwrap();
        assert_eq!(listener.path(), path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, bits);
        drop(listener);
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn what_a_killed_server_left_is_replaced_and_what_is_in_use_is_not() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sock");
    // A listener of the standard library leaves its file behind, as one that is killed does.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let first = SocketListener::bind(&path, SocketMode::Owner).unwrap();
    let second = SocketListener::bind(&path, SocketMode::Owner).unwrap_err();
    assert_eq!(second.code, ErrorCode::Conflict);
    // The one that was refused took nothing away.
    assert!(path.exists());
    drop(first);
    assert!(!path.exists());
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notes.txt");
    fs::write(&path, "mine").unwrap();
    let refused = SocketListener::bind(&path, SocketMode::Owner).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let long = home.path().join("x".repeat(120));
    assert_eq!(
        SocketListener::bind(&long, SocketMode::Owner).unwrap_err().code,
        ErrorCode::Unavailable
    );
    let nowhere = home.path().join("no/such/sock");
    assert_eq!(
        SocketListener::bind(&nowhere, SocketMode::Owner).unwrap_err().code,
        ErrorCode::Unavailable
    );
}

#[tokio::test]
async fn the_file_of_another_server_is_not_removed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sock");
    let first = SocketListener::bind(&path, SocketMode::Owner).unwrap();
    fs::rename(&path, home.path().join("moved")).unwrap();
    let second = SocketListener::bind(&path, SocketMode::Owner).unwrap();
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}
