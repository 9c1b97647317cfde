//! The tools of other servers as typed files: catalog, stubs, search, checks of arguments.
//!
//! Nothing here does IO or waits: lists of tools go in, text and values come out. Everything that comes
//! from a server (names, descriptions, schemas, results) is taken for hostile. Whatever it says, stubs
//! are valid Python and TypeScript, and the work on it is bounded.

mod catalog;
mod changes;
mod check;
mod conformance;
mod listing;
mod literal;
mod lowering;
mod merging;
mod names;
mod notes;
mod observations;
mod observed;
mod passed;
mod python;
mod python_line;
mod query;
mod reference;
mod sample;
mod search;
mod seeding;
mod shortened;
mod signature;
mod spelling;
mod stub;
mod synonyms;
mod text;
mod tokens;
mod translations;
mod tree;
mod types;
mod typescript;
mod words;
mod written;

#[cfg(test)]
mod catalog_tests;
#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod lowering_tests;
#[cfg(test)]
mod names_tests;
#[cfg(test)]
mod observed_tests;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod text_tests;
#[cfg(test)]
mod written_tests;

pub use self::catalog::{Catalog, Server, Tool, ToolKey};
pub use self::changes::CatalogChanges;
pub use self::check::{ArgumentError, ArgumentFault};
pub use self::listing::{
    MAX_NAME, MAX_TOOLS, RefusedTool, ServerListing, ToolAnnotations, ToolListing,
};
pub use self::observations::Observations;
pub use self::observed::Observed;
pub use self::passed::{PASSED_MARK, Passed};
pub use self::search::{MAX_HITS, SearchDetail, ToolHit, ToolIndex, ToolQuery, show_hits};
pub use self::seeding::{Trust, seeded_policy};
pub use self::stub::ToolPolicy;
pub use self::text::Language;
pub use self::tokens::{PASS_THROUGH_TOKENS, Showing};
pub use self::tree::ToolTree;
