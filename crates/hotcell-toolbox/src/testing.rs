//! Catalogs of one tool, for tests.

use serde_json::{Value, json};

use crate::catalog::{Catalog, Tool};
use crate::listing::ServerListing;

/// A catalog with the server `box` and these tools.
pub(crate) fn catalog_of(tools: &[Value]) -> Catalog {
    Catalog::new([ServerListing::read("box", tools)])
}

/// A catalog with the tool `do` of the server `box`, which takes this.
pub(crate) fn takes(input_schema: Value) -> Catalog {
    catalog_of(&[json!({ "name": "do_it", "inputSchema": input_schema })])
}

/// The only tool of a catalog.
pub(crate) fn only(catalog: &Catalog) -> &Tool {
    let mut tools = catalog.tools();
    let tool = tools.next().unwrap();
    assert!(tools.next().is_none());
    tool
}
