//! What a `$ref` of a schema points to; only places in the same schema.

use serde_json::Value;

/// How many schemas are looked at for an anchor.
const ANCHOR_SEARCH: usize = 10_000;

/// Finds the schema that a reference names.
pub(crate) fn find<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let own_id = root["$id"].as_str().unwrap_or_default();
    let local = match reference.strip_prefix(own_id) {
        Some(rest) if !own_id.is_empty() && (rest.is_empty() || rest.starts_with('#')) => rest,
        _ => reference,
    };
    if local.is_empty() && !reference.is_empty() {
        return Some(root);
    }
    let fragment = decoded(local.strip_prefix('#')?)?;
    if fragment.is_empty() || fragment.starts_with('/') {
        root.pointer(&fragment)
    } else {
        find_anchor(root, &fragment)
    }
}

/// The last part of a reference, from which a type takes its name.
pub(crate) fn last_part(reference: &str) -> &str {
    reference.rsplit(['/', '#']).find(|part| !part.is_empty()).unwrap_or("Self")
}

fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

fn find_anchor<'a>(root: &'a Value, anchor: &str) -> Option<&'a Value> {
    let mut ahead = vec![root];
    let mut looked_at = 0;
    while let Some(schema) = ahead.pop() {
        looked_at += 1;
        if looked_at > ANCHOR_SEARCH {
            return None;
        }
        match schema {
            Value::Object(keys) => {
                if keys.get("$anchor").and_then(Value::as_str) == Some(anchor) {
                    return Some(schema);
                }
                ahead.extend(keys.values());
            }
            Value::Array(items) => ahead.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}
