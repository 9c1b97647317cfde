//! What journals and callers say of code.

use serde_json::json;

use crate::{Code, CodeLanguage, SessionName, SessionTurn};

#[test]
fn code_of_journals_from_before_there_were_sessions_is_read() {
    let old = json!({ "language": "python", "text": "1" });
    let code: Code = serde_json::from_value(old.clone()).unwrap();
    let expected = Code { language: CodeLanguage::Python, text: "1".to_owned(), session: None };
    assert_eq!(code, expected);
    assert_eq!(serde_json::to_value(&code).unwrap(), old);
    let turn = json!({ "language": "python", "text": "1", "session": { "name": "a" } });
    let code: Code = serde_json::from_value(turn).unwrap();
    assert_eq!(code.session, Some(SessionTurn { name: "a".parse().unwrap(), reset: false }));
}

#[test]
fn a_session_has_a_plain_and_short_name() {
    for good in ["a", "A-b_9", "-", &"x".repeat(SessionName::MAX_LENGTH)] {
        assert_eq!(good.parse::<SessionName>().unwrap().as_str(), good);
    }
    for bad in ["", "a b", "a/b", "..", "é", "a\n", &"x".repeat(SessionName::MAX_LENGTH + 1)] {
        assert!(bad.parse::<SessionName>().is_err(), "{bad:?}");
        let read = serde_json::from_value::<SessionName>(json!(bad));
        assert!(read.is_err(), "{bad:?}");
    }
}
