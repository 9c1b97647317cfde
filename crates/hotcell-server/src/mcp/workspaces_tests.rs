//! Tests of how files are named as resources.

use super::workspaces::parse;

#[test]
fn a_resource_names_a_cell_and_a_path_in_its_workspace() {
    for (uri, cell, path) in [
        ("workspace:work", "work", "."),
        ("workspace:work/", "work", "."),
        ("workspace:default/a/b.txt", "default", "a/b.txt"),
        ("workspace:c_0123456789/a%20b%2Fc", "c_0123456789", "a b/c"),
        ("workspace:work/%C3%A9", "work", "é"),
    ] {
        let (found, found_path) = parse(uri).unwrap_or_else(|| panic!("{uri}"));
        assert_eq!((found.to_string().as_str(), found_path.as_str()), (cell, path), "{uri}");
    }
    for uri in [
        "exec://e_0123456789/stdout",
        "workspace:",
        "workspace:a b",
        "workspace:work/../etc/passwd",
        "workspace:work/a/%2e%2e/%2e%2e/etc",
        "workspace:work//etc/passwd",
        "workspace:work/%2Fetc/passwd",
        "workspace:work/%ff",
    ] {
        assert_eq!(parse(uri), None, "{uri}");
    }
}
