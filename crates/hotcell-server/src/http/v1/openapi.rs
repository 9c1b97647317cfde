//! The description of the API, made from its table and its types.

use hotcell_model::{Dropped, Error, Exec, Message};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::table::{Describe, Operation, Shown, operations};

/// The document.
pub(super) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in operations() {
        let described = describe(operation, &mut generator);
        let path = paths.entry(operation.shown_path()).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_lowercase()] = described;
    }
    // What events hold is named by no operation.
    for name in [defined::<Message>, defined::<Dropped>, defined::<Exec>] {
        name(&mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hotcell",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Cells, their files and the commands that run in them.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "security": [{ "bearer": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": generator.take_definitions(true),
        },
    })
}

fn describe(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut parameters = Vec::new();
    for part in operation.shown_path().split('/') {
        let Some(name) = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            continue;
        };
        let about = match name {
            "cell" => "The cell's id or alias, or `default`.",
            "path" => {
                "The path of a file, relative to /workspace; an absolute one begins with %2F."
            }
            "checkpoint" => "The checkpoint's id.",
            _ => "The exec's id.",
        };
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "description": about,
            "schema": { "type": "string" },
        }));
    }
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(query, generator));
    }
    let shown = match operation.shown {
        Shown::Json(schema) => json!({ "application/json": { "schema": schema(generator) } }),
        Shown::Events => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
        Shown::Bytes(kinds) => {
            kinds.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect::<Map<_, _>>().into()
        }
    };
    let error = generator.subschema_for::<Error>();
    let mut responses = Map::new();
    for status in operation.statuses {
        let answer = match status {
            304 => json!({ "description": "It is what the caller has." }),
            _ => json!({ "description": "It was done.", "content": shown }),
        };
        responses.insert(status.to_string(), answer);
    }
    let not_done = json!({
        "description": "It was not done.",
        "content": { "application/json": { "schema": error } },
    });
    responses.insert("default".to_owned(), not_done);
    let mut described = json!({
        "operationId": operation.name,
        "summary": operation.about,
        "responses": responses,
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if operation.method == http::Method::PUT {
        described["requestBody"] = json!({ "content": { "application/octet-stream": {} } });
    }
    if let Some(body) = operation.body {
        described["requestBody"] =
            json!({ "content": { "application/json": { "schema": body(generator) } } });
    }
    described
}

/// One parameter for each field of what may stand behind the question mark.
fn query_parameters(query: Describe, generator: &mut SchemaGenerator) -> Vec<Value> {
    let schema = Value::from(query(generator));
    let Some(fields) = schema["properties"].as_object() else { return Vec::new() };
    let parameter = |(name, field): (&String, &Value)| {
        let mut field = field.clone();
        let about = field.as_object_mut().and_then(|field| field.remove("description"));
        json!({ "name": name, "in": "query", "description": about, "schema": field })
    };
    fields.iter().map(parameter).collect()
}

fn defined<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
