//! What keys send.

use super::*;

fn sent(keys: &[&str], cursor: CursorKeys) -> Vec<u8> {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    bytes_of(&keys, cursor).unwrap()
}

#[test]
fn keys_send_what_a_terminal_sends() {
    let cases: [(&str, &[u8]); 26] = [
        ("enter", b"\r"),
        ("Tab", b"\t"),
        ("shift-tab", b"\x1b[Z"),
        ("esc", b"\x1b"),
        ("backspace", b"\x7f"),
        ("up", b"\x1b[A"),
        ("end", b"\x1b[F"),
        ("ctrl-left", b"\x1b[1;5D"),
        ("shift+alt+up", b"\x1b[1;4A"),
        ("pageup", b"\x1b[5~"),
        ("ctrl-delete", b"\x1b[3;5~"),
        ("F1", b"\x1bOP"),
        ("shift-f1", b"\x1b[1;2P"),
        ("f12", b"\x1b[24~"),
        ("ctrl-c", b"\x03"),
        ("C-c", b"\x03"),
        ("ctrl-space", b"\0"),
        ("ctrl-[", b"\x1b"),
        ("alt-x", b"\x1bx"),
        ("M-x", b"\x1bx"),
        ("alt-enter", b"\x1b\r"),
        ("ctrl-alt-a", b"\x1b\x01"),
        ("a", b"a"),
        ("-", b"-"),
        ("ctrl--", b"\x1f"),
        ("é", "é".as_bytes()),
    ];
    for (name, bytes) in cases {
        assert_eq!(sent(&[name], CursorKeys::Normal), bytes, "{name}");
    }
    assert_eq!(sent(&["down", "enter", "q"], CursorKeys::Normal), b"\x1b[B\rq");
}

#[test]
fn cursor_keys_follow_the_mode_of_the_terminal() {
    assert_eq!(sent(&["up", "home"], CursorKeys::Application), b"\x1bOA\x1bOH");
    assert_eq!(
        sent(&["ctrl-up", "f1", "pageup"], CursorKeys::Application),
        b"\x1b[1;5A\x1bOP\x1b[5~"
    );
    assert!(depend_on_mode(&["a".to_owned(), "alt-up".to_owned()]));
    assert!(!depend_on_mode(&["a".to_owned(), "f1".to_owned(), "nonsense".to_owned()]));
}

#[test]
fn an_unknown_key_is_named_with_examples() {
    for name in ["hello", "ctrl-hello", "hyper-x", "", "ctrl-", "ctrl-é"] {
        let error = bytes_of(&[name.to_owned()], CursorKeys::Normal).unwrap_err();
        assert_eq!(error.message, format!("keys: there is no key {name:?}"));
        let hint = error.hint.unwrap();
        for known in ["pageup", "pagedown", "backspace", "f12", "ctrl-"] {
            assert!(hint.contains(known), "{hint}");
        }
    }
    let many = vec!["a".to_owned(); MOST_KEYS + 1];
    assert!(bytes_of(&many, CursorKeys::Normal).is_err());
}
