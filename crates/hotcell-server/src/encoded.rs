//! Structured content that is JSON already.
//!
//! A page of thousands of entries is made as text at once: a tree of values takes longer to build and to
//! free than all else takes. Structured content is always an object, so a text in its place can only be this.

use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::Value;

/// A value as structured content that is JSON already.
pub(crate) fn encoded<T: Serialize>(value: &T) -> Value {
    serde_json::to_string(value).map_or(Value::Null, Value::String)
}

/// Makes it the value that it stands for, for whoever writes results without knowing of it.
pub(crate) fn decode(result: &mut CallToolResult) {
    if let Some(Value::String(json)) = &result.structured_content {
        result.structured_content = serde_json::from_str(json).ok();
    }
}
