//! Lists on disk are whole, of their declaration, and nobody else's.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::listing::Listing;
use crate::listing_file::ListingFile;
use crate::spec::{Launch, ServerSpec, StdioLaunch};

fn spec(command: &str) -> ServerSpec {
    ServerSpec::new(Launch::Stdio(StdioLaunch {
        command: command.to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: None,
    }))
}

#[test]
fn a_list_comes_back_for_its_declaration_alone() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("deep/lists");
    let file = |name: &str, command: &str| {
        ListingFile::new(directory.clone(), &name.parse().unwrap(), &spec(command))
    };
    let kept = file("a", "x");
    assert_eq!(kept.load(), None);
    let listing =
        Listing { about: Some("é".to_owned()), tools: vec![json!({ "name": "t" })].into() };
    for _ in 0..2 {
        kept.store(&listing).unwrap();
        assert_eq!(kept.load(), Some(listing.clone()));
    }
    assert_eq!(file("a", "y").load(), None);
    assert_eq!(file("b", "x").load(), None);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kept.path()), mode(&directory)), (0o600, 0o700));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "something is left over");

    // A copy under another name is not taken, nor is a part of one.
    fs::copy(kept.path(), file("b", "x").path()).unwrap();
    assert_eq!(file("b", "x").load(), None);
    let text = fs::read_to_string(kept.path()).unwrap();
    fs::write(kept.path(), &text[..text.len() - 1]).unwrap();
    assert_eq!(kept.load(), None);
}
