//! Resources below `test://`.

use rmcp::ErrorData;
use rmcp::model::{Resource, ResourceTemplate};
use serde_json::{Value, json};

use super::{content, wire};

const STATIC_TEXT: &str = "test://static-text";
const STATIC_BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

pub(super) fn all() -> Result<Vec<Resource>, ErrorData> {
    wire(json!([
        { "uri": STATIC_TEXT, "name": "a text that stays", "mimeType": "text/plain" },
        { "uri": STATIC_BINARY, "name": "a picture that stays", "mimeType": "image/png" },
        { "uri": WATCHED, "name": "a text to be watched", "mimeType": "text/plain" },
    ]))
}

pub(super) fn template() -> Result<ResourceTemplate, ErrorData> {
    wire(json!({
        "uriTemplate": "test://template/{id}/data",
        "name": "data by id",
        "mimeType": "application/json",
    }))
}

/// What is read at an address, if it is one of ours.
pub(super) fn find(uri: &str) -> Option<Value> {
    let text = |text: String, mime_type: &str| json!({ "contents": [{ "uri": uri, "mimeType": mime_type, "text": text }] });
    match uri {
        STATIC_TEXT => {
            let stays = "This is the content of the static text resource.".to_owned();
            Some(text(stays, "text/plain"))
        }
        STATIC_BINARY => Some(json!({ "contents": [content::blob(uri)] })),
        WATCHED => Some(text("nothing has changed".to_owned(), "text/plain")),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({
                "id": id,
                "templateTest": true,
                "data": format!("Data for ID: {id}"),
            });
            Some(text(data.to_string(), "application/json"))
        }
    }
}
