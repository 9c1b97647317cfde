//! What registries and bundles are told about the program is true of it.

use serde_json::{Value, json};

const SERVER: &str = include_str!("../../../server.json");
const MANIFEST: &str = include_str!("../../../bundle/manifest.json");

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn they_have_the_version_and_the_licence_of_the_workspace() {
    let (server, manifest) = (parsed(SERVER), parsed(MANIFEST));
    assert_eq!(server["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["license"], env!("CARGO_PKG_LICENSE"));
    assert_eq!(server["description"], manifest["description"]);
}

#[test]
fn a_client_of_the_bundle_starts_the_program_as_it_lies_there() {
    let server = &parsed(MANIFEST)["server"];
    assert_eq!(server["entry_point"], "bin/hotcell");
    assert_eq!(server["mcp_config"]["command"], "${__dirname}/bin/hotcell");
    assert_eq!(server["mcp_config"]["args"], json!(["serve", "--cell", "${user_config.cell}"]));
}
