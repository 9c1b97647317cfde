//! Small pictures, sounds and texts.

use serde_json::{Value, json};

/// One white pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAG7buVgAAAABJRU5ErkJggg==";
/// Silence of no length.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}

pub(super) fn image() -> Value {
    json!({ "type": "image", "mimeType": "image/png", "data": PNG })
}

pub(super) fn audio() -> Value {
    json!({ "type": "audio", "mimeType": "audio/wav", "data": WAV })
}

pub(super) fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({
        "type": "resource",
        "resource": { "uri": uri, "mimeType": mime_type, "text": text },
    })
}

/// The bytes of a picture as a resource.
pub(super) fn blob(uri: &str) -> Value {
    json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })
}
