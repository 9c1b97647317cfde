//! Stubs in TypeScript: declarations without code.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::literal::expression;
use crate::names::is_plain;
use crate::signature::{MoreArguments, Signature};
use crate::stub::{Heading, field_note};
use crate::text::{Language, in_block_comment, lines, one_line, quoted};
use crate::types::{Definition, Field, Presence, Record, Type};

/// How long a declaration of one line may get.
const LINE: usize = 420;
/// The longest description.
const MAX_DESCRIPTION: usize = 4_000;

/// The declaration of a tool on one line; `about` says what it does.
pub(crate) fn line(signature: &Signature, identifier: &str, about: &str) -> String {
    let signature = signature.brief();
    let mut keys: Vec<String> = Vec::new();
    let mut length = 0;
    let mut more = signature.more != MoreArguments::None;
    for argument in &signature.arguments {
        let key = member(&argument.field);
        length += key.len() + 2;
        if length > LINE && argument.field.presence == Presence::Optional {
            more = true;
            break;
        }
        keys.push(key);
    }
    keys.extend(more.then(|| "[more: string]: unknown".to_owned()));
    let given = given(&signature);
    let result = kind(&signature.result);
    let about =
        if about.is_empty() { String::new() } else { format!(" // {}", one_line(about, 120)) };
    let keys = keys.join("; ");
    format!("export function {identifier}({given}: {{ {keys} }}): Promise<{result}>;{about}")
}

/// The declarations of a tool in full.
pub(crate) fn file(signature: &Signature, heading: &Heading<'_>) -> String {
    let mut out = String::new();
    for line in heading.lines(Language::TypeScript) {
        let _ = writeln!(out, "// {line}");
    }
    for (name, definition) in &signature.definitions {
        match definition {
            Definition::Record(record) => interface(name, record, &mut out),
            Definition::Alias(aliased) => {
                let _ = writeln!(out, "export type {name} = {};", kind(aliased));
            }
        }
    }
    let mut doc = lines(heading.description, MAX_DESCRIPTION);
    doc.extend(signature.result_from.note());
    comment(&doc, "", &mut out);
    let given = given(signature);
    let _ = writeln!(out, "export function {}({given}: {{", heading.tool);
    for argument in &signature.arguments {
        write_member(&argument.field, &mut out);
    }
    if signature.more != MoreArguments::None {
        let _ = writeln!(out, "  [more: string]: unknown;");
    }
    let _ = writeln!(out, "}}): Promise<{}>;", kind(&signature.result));
    out
}

/// The name of the one parameter; it may be left out where nothing has to be given.
fn given(signature: &Signature) -> &'static str {
    if signature.required().next().is_some() { "given" } else { "given?" }
}

fn comment(doc: &[String], indent: &str, out: &mut String) {
    match doc {
        [] => {}
        [line] => {
            let _ = writeln!(out, "{indent}/** {} */", in_block_comment(line));
        }
        many => {
            let _ = writeln!(out, "{indent}/**");
            for line in many {
                let _ = writeln!(out, "{indent} * {}", in_block_comment(line));
            }
            let _ = writeln!(out, "{indent} */");
        }
    }
}

fn interface(name: &str, record: &Record, out: &mut String) {
    comment(&lines(&record.doc, 300), "", out);
    let _ = writeln!(out, "export interface {name} {{");
    for field in &record.fields {
        write_member(field, out);
    }
    if record.others.is_some() || record.left_out > 0 {
        let _ = writeln!(out, "  [more: string]: unknown;");
    }
    let _ = writeln!(out, "}}");
}

fn write_member(field: &Field, out: &mut String) {
    let note = field_note(field, Language::TypeScript);
    let note: Vec<String> = (!note.is_empty()).then_some(note).into_iter().collect();
    comment(&note, "  ", out);
    let _ = writeln!(out, "  {};", member(field));
}

fn member(field: &Field) -> String {
    let key = if is_plain(&field.name) {
        field.name.clone()
    } else {
        quoted(&field.name, Language::TypeScript)
    };
    let mark = match field.presence {
        Presence::Required => "",
        Presence::Optional => "?",
    };
    format!("{key}{mark}: {}", kind(&field.kind))
}

fn kind(of: &Type) -> String {
    match of {
        Type::Any => "unknown".to_owned(),
        Type::Never => "never".to_owned(),
        Type::Null => "null".to_owned(),
        Type::Bool => "boolean".to_owned(),
        Type::Int | Type::Float => "number".to_owned(),
        Type::Text => "string".to_owned(),
        Type::Literal(values) => {
            let values: Vec<String> =
                values.iter().filter_map(|value| expression(value, Language::TypeScript)).collect();
            values.join(" | ")
        }
        Type::List(item) => match &**item {
            Type::Union(_) | Type::Literal(_) => format!("({})[]", kind(item)),
            Type::Any
            | Type::Never
            | Type::Null
            | Type::Bool
            | Type::Int
            | Type::Float
            | Type::Text
            | Type::List(_)
            | Type::Tuple(..)
            | Type::Map(_)
            | Type::Named(_) => format!("{}[]", kind(item)),
        },
        Type::Tuple(items, rest) => {
            let mut items: Vec<String> = items.iter().map(kind).collect();
            items.extend(rest.as_ref().map(|rest| format!("...({})[]", kind(rest))));
            format!("[{}]", items.join(", "))
        }
        Type::Map(inner) if **inner == Type::Any => "object".to_owned(),
        Type::Map(inner) => format!("{{ [key: string]: {} }}", kind(inner)),
        Type::Named(name) => name.clone(),
        Type::Union(members) => {
            let mut seen = BTreeSet::new();
            let members = members.iter().map(kind);
            members.filter(|kind| seen.insert(kind.clone())).collect::<Vec<_>>().join(" | ")
        }
    }
}
