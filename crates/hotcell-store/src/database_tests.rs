//! Tests of what the database refuses to lie on.

use std::path::PathBuf;

use hotcell_model::{Error, ErrorCode};

use crate::StoreError;
use crate::database::network_kind;

#[test]
fn network_file_systems_are_known_by_their_magic() {
    const NFS: i64 = 0x6969;
    const EXT4: i64 = 0xEF53;
    const TMPFS: i64 = 0x0102_1994;
    assert_eq!(network_kind(NFS), Some("NFS"));
    assert_eq!(network_kind(0xFF53_4D42), Some("CIFS"));
    assert_eq!((network_kind(EXT4), network_kind(TMPFS)), (None, None));
}

#[test]
fn a_network_file_system_is_refused_with_what_to_do() {
    let path = PathBuf::from("/net/home/state");
    let refused = Error::from(StoreError::NetworkFileSystem { path, kind: "NFS" });
    assert_eq!(refused.code, ErrorCode::Unsupported);
    assert!(refused.message.contains("/net/home/state") && refused.message.contains("NFS"));
    assert!(refused.hint.is_some_and(|hint| hint.contains("HOTCELL_STATE_DIR")));
}
