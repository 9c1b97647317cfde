//! A catalog of made-up servers, as large as real ones, written down in short in `catalog.txt`.

use hotcell_toolbox::{Catalog, ServerListing};
use serde_json::{Map, Value, json};

/// The entries of `tools/list` of every server, with its name, title and instructions.
pub(crate) fn listings() -> Vec<(ServerListing, Vec<Value>)> {
    let mut servers: Vec<(String, String, String, Vec<Value>)> = Vec::new();
    let mut shorthands: Vec<(String, String)> = Vec::new();
    let lines = include_str!("catalog.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix("@ ") {
            let parts: Vec<&str> = rest.split(" | ").collect();
            shorthands.clear();
            servers.push((parts[0].into(), parts[1].into(), parts[2].into(), Vec::new()));
        } else if let Some(rest) = line.strip_prefix("= ") {
            let (word, arguments) = rest.split_once(' ').unwrap();
            shorthands.push((format!("${word}"), arguments.to_owned()));
        } else {
            servers.last_mut().unwrap().3.push(tool(line, &shorthands));
        }
    }
    servers
        .into_iter()
        .map(|(name, title, about, tools)| {
            let mut listing = ServerListing::read(&name, &tools);
            listing.title = Some(title);
            listing.instructions = Some(about);
            (listing, tools)
        })
        .collect()
}

/// The catalog of all of them.
pub(crate) fn catalog() -> Catalog {
    Catalog::new(listings().into_iter().map(|(listing, _)| listing))
}

fn tool(line: &str, shorthands: &[(String, String)]) -> Value {
    let parts: Vec<&str> = line.split(" | ").collect();
    let [name, description, arguments, effect] = parts[..] else { panic!("{line}") };
    let mut arguments = arguments.to_owned();
    for (word, meaning) in shorthands {
        if arguments.split("; ").any(|part| part == word) {
            arguments = arguments.replace(word, meaning);
        }
    }
    let (effect, output) = match effect.split_once(" -> ") {
        Some((effect, output)) => (effect, Some(output)),
        None => (effect, None),
    };
    let mut listed = json!({
        "name": name,
        "description": description,
        "inputSchema": object(arguments.split("; ").filter(|part| *part != "-")),
        "annotations": { "readOnlyHint": effect == "r", "destructiveHint": effect == "d" },
    });
    if let Some(output) = output {
        listed["outputSchema"] = kind(output);
    }
    listed
}

fn object<'a>(fields: impl Iterator<Item = &'a str>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        let (head, doc) = field.split_once(" - ").map_or((field, None), |(h, d)| (h, Some(d)));
        let (name, rest) = head.split_once(':').unwrap_or_else(|| panic!("{field}"));
        let (rest, default) =
            rest.split_once('=').map_or((rest, None), |(kind, default)| (kind, Some(default)));
        let mut schema = kind(rest);
        if let Some(doc) = doc {
            schema["description"] = doc.into();
        }
        if let Some(default) = default {
            let plain = schema["type"] == "string" || schema.get("enum").is_some();
            schema["default"] =
                if plain { default.into() } else { serde_json::from_str(default).unwrap() };
        }
        if name.strip_suffix('?').is_none() {
            required.push(Value::from(name));
        }
        properties.insert(name.trim_end_matches('?').to_owned(), schema);
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

fn kind(text: &str) -> Value {
    if let Some(inner) = text.strip_suffix('!') {
        let mut schema = kind(inner);
        schema["type"] = json!([schema["type"], "null"]);
        return schema;
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return json!({ "type": "array", "items": kind(inner) });
    }
    if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        if !inner.contains(':') {
            return json!({ "type": "object", "additionalProperties": kind(inner) });
        }
        return object(parts(inner).into_iter());
    }
    if let Some((base, format)) = text.split_once('~') {
        let mut schema = kind(base);
        schema["format"] = format.into();
        return schema;
    }
    match text {
        "str" => json!({ "type": "string" }),
        "int" => json!({ "type": "integer" }),
        "num" => json!({ "type": "number" }),
        "bool" => json!({ "type": "boolean" }),
        "any" => json!({}),
        _ if text.contains('|') => {
            json!({ "type": "string", "enum": text.split('|').collect::<Vec<_>>() })
        }
        _ => panic!("no such type: {text}"),
    }
}

/// The parts between commas that stand in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}
