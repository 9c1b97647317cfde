//! Tests of how paths are written.

use crate::cell_path::{CellDirectory, CellPath, Place};

#[test]
fn a_colon_tells_cells_from_this_machine() {
    for (text, shown) in [
        ("work:a/b", "work:a/b"),
        (":a", "default:a"),
        ("default:/etc", "default:/etc"),
        ("work:", "work:."),
        (":", "default:."),
        ("work:a:b", "work:a:b"),
    ] {
        let place: Place = text.parse().unwrap();
        assert!(matches!(place, Place::Cell(_)), "{text}");
        assert_eq!(place.to_string(), shown);
        assert_eq!(text.parse::<CellPath>().unwrap().to_string(), shown);
    }
    for text in ["a", "./a:b", "/x/a:b", "..", "--"] {
        assert_eq!(text.parse::<Place>().unwrap(), Place::Local(text.into()));
        text.parse::<CellPath>().unwrap_err();
    }
    assert_eq!("-".parse::<Place>().unwrap(), Place::Dash);
    "".parse::<Place>().unwrap_err();
    let error = "no name:a".parse::<Place>().unwrap_err();
    assert!(error.message.contains("no name") && error.hint.unwrap().contains("./"));
}

#[test]
fn a_cell_alone_is_its_workspace() {
    let directory: CellDirectory = "work".parse().unwrap();
    assert_eq!(directory.0.to_string(), "work:.");
    let directory: CellDirectory = "work:src".parse().unwrap();
    assert_eq!(directory.0.to_string(), "work:src");
    let error = "a/b".parse::<CellDirectory>().unwrap_err();
    assert!(error.hint.unwrap().contains("CELL:PATH"));
}

#[test]
fn names_are_joined_and_found() {
    let path = |text: &str| text.parse::<CellPath>().unwrap();
    for (directory, joined) in
        [("w:", "w:x"), ("w:a", "w:a/x"), ("w:a/", "w:a/x"), ("w:/", "w:/x"), ("w:/a", "w:/a/x")]
    {
        assert_eq!(path(directory).join("x").to_string(), joined);
    }
    for (text, name) in
        [("w:a/b", Some("b")), ("w:a/", Some("a")), ("w:", None), ("w:/", None), ("w:a/..", None)]
    {
        assert_eq!(path(text).name(), name, "{text}");
    }
}
