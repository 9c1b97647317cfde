//! The published values of FNV-1a.

use crate::stable_hash;

#[test]
fn it_never_changes() {
    for (text, hash) in [
        ("", 0xcbf2_9ce4_8422_2325),
        ("a", 0xaf63_dc4c_8601_ec8c),
        ("foobar", 0x8594_4171_f739_67e8),
    ] {
        assert_eq!(stable_hash(text.as_bytes()), hash, "{text:?}");
    }
}
