//! What the conformance suite of the protocol asks a server for, beside the real tools.
//!
//! The suite calls tools, prompts and resources by fixed names. They do nothing but answer it, and
//! are in no program that users get: only the feature `conformance` has them.

mod content;
mod fixture_handler;
mod fixture_prompts;
mod fixture_resources;
mod fixture_tools;
mod rounds;

pub(crate) use fixture_handler::FixtureHandler;
pub(crate) use rounds::Rounds;

use rmcp::ErrorData;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A result that needs nothing more, with these parts.
fn complete<T: DeserializeOwned>(mut parts: Value) -> Result<T, ErrorData> {
    parts["resultType"] = "complete".into();
    wire(parts)
}

/// A value of the protocol as it is on the wire.
fn wire<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a wrong fixture: {error}"), None))
}
