//! Tests of ids, aliases and references to cells.

use proptest::prelude::*;

use crate::{Alias, CellId, CellRef, ErrorCode, ExecId};

#[test]
fn an_id_is_its_bits_in_letters() {
    assert_eq!(CellId::from_random(0).as_str(), "c_0000000000");
    assert_eq!(CellId::from_random(1).as_str(), "c_1000000000");
    assert_eq!(ExecId::from_random(31 << 45).as_str(), "e_000000000z");
    assert_eq!(ExecId::from_random(u64::MAX).as_str(), "e_zzzzzzzzzz");
}

#[test]
fn what_is_no_id_is_refused_with_its_text() {
    let texts = [
        "",
        "c_",
        "c_000000000",
        "c_00000000000",
        "e_0000000000",
        "C_0000000000",
        "c_000000000I",
        "c_000000000i",
        "c_000000000l",
        "c_000000000o",
        "c_000000000u",
        "c_000000000/",
        "c_../../../x",
        "c_00000000é",
        " c_0000000000",
        "c_0000000000\n",
    ];
    for text in texts {
        let error = text.parse::<CellId>().unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{text:?}");
        assert!(error.message.contains(&format!("{text:?}")), "{error}");
        assert!(error.hint.is_some());
    }
    assert!("c_0000000000".parse::<ExecId>().is_err());
}

#[test]
fn an_alias_is_a_plain_word() {
    let longest = "a".repeat(Alias::MAX_LENGTH);
    for text in ["a", "7", "Work", "my-cell_2.0", "c_short", "e_0000000000", &longest] {
        assert_eq!(text.parse::<Alias>().unwrap().as_str(), text);
    }
    let too_long = "a".repeat(Alias::MAX_LENGTH + 1);
    let texts =
        ["", "-a", ".a", "..", "_a", "a b", "a/b", "a\0", "ä", "a\n", &too_long, "c_0000000000"];
    for text in texts {
        let error = text.parse::<Alias>().unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{text:?}");
        assert!(error.hint.is_some());
    }
}

#[test]
fn a_reference_is_an_id_where_it_can_be_and_else_an_alias() {
    let id = CellId::from_random(5);
    assert_eq!(id.as_str().parse::<CellRef>().unwrap(), CellRef::Id(id));
    let alias: CellRef = "work".parse().unwrap();
    assert!(matches!(&alias, CellRef::Alias(alias) if alias.as_str() == "work"));
    // The id of an exec can be a cell's name, however unwise that is.
    assert!(matches!("e_0000000000".parse(), Ok(CellRef::Alias(_))));
    assert!("no such/name".parse::<CellRef>().is_err());
}

proptest! {
    #[test]
    fn ids_come_back_from_text_and_from_json(bits: u64) {
        let id = CellId::from_random(bits);
        prop_assert_eq!(&id.to_string().parse::<CellId>().unwrap(), &id);
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<CellId>(&json).unwrap(), id);
    }

    #[test]
    fn fifty_bits_tell_ids_apart(bits in 0_u64..1 << 50, flip in 0_u32..50) {
        prop_assert_ne!(ExecId::from_random(bits), ExecId::from_random(bits ^ (1 << flip)));
    }

    #[test]
    fn no_text_breaks_the_parsers(text: String) {
        let _ = text.parse::<CellId>();
        if let Ok(alias) = text.parse::<Alias>() {
            // It can be a file's name, a word of a shell and a part of a URL as it is.
            prop_assert!(!alias.as_str().starts_with(['-', '.', '/']));
            prop_assert!(alias.as_str().is_ascii());
        }
        let json = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(serde_json::from_str::<Alias>(&json).is_ok(), text.parse::<Alias>().is_ok());
    }
}
