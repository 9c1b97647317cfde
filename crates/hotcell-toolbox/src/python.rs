//! Stubs in Python.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use crate::literal::expression;
use crate::names::is_class_key;
use crate::sample;
use crate::signature::{Argument, MoreArguments, ResultFrom, Signature};
use crate::stub::{Heading, argument_note, field_note, gives};
use crate::text::{Language, in_docstring, lines, one_line, quoted};
use crate::types::{Definition, Field, Presence, Record, Type};

/// How long a signature may be on one line in a full stub.
const WIDTH: usize = 100;
/// The longest description.
const MAX_DESCRIPTION: usize = 4_000;

/// Writes types, and remembers what has to be imported for them.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    imports: BTreeSet<&'static str>,
}

/// The full stub of a tool.
pub(crate) fn file(signature: &Signature, heading: &Heading<'_>) -> String {
    let mut printer = Printer::default();
    let mut body = String::new();
    for (name, definition) in &signature.definitions {
        match definition {
            Definition::Record(record) => printer.record(name, record, &mut body),
            Definition::Alias(kind) => {
                printer.imports.insert("TypeAlias");
                let kind = quoted(&printer.kind(kind), Language::Python);
                let _ = writeln!(body, "{name}: TypeAlias = {kind}\n");
            }
        }
    }
    printer.function(signature, heading, &mut body);
    let mut whole = String::new();
    for line in heading.lines(Language::Python) {
        let _ = writeln!(whole, "# {line}");
    }
    if !printer.imports.is_empty() {
        let imports: Vec<&str> = printer.imports.into_iter().collect();
        let _ = writeln!(whole, "from typing import {}", imports.join(", "));
    }
    let _ = write!(whole, "\n{body}");
    whole
}

/// A call as it can stand in code.
fn example(signature: &Signature, heading: &Heading<'_>) -> String {
    let given: Vec<String> = signature
        .required()
        .take(12)
        .map(|argument| {
            let value = sample::of_field(signature, &argument.field);
            let value = expression(&value, Language::Python).unwrap_or_else(|| "...".to_owned());
            format!("{}={value}", argument.identifier)
        })
        .collect();
    format!("Example: {}({})", heading.tool, given.join(", "))
}

impl Printer {
    fn import(&mut self, name: &'static str) -> &'static str {
        self.imports.insert(name);
        name
    }

    pub(crate) fn kind(&mut self, kind: &Type) -> String {
        match kind {
            Type::Any => self.import("Any").to_owned(),
            Type::Never => self.import("Never").to_owned(),
            Type::Null => "None".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int => "int".to_owned(),
            Type::Float => "float".to_owned(),
            Type::Text => "str".to_owned(),
            Type::Literal(values) => {
                self.import("Literal");
                let values: Vec<String> =
                    values.iter().filter_map(|value| expression(value, Language::Python)).collect();
                format!("Literal[{}]", values.join(", "))
            }
            Type::List(item) if **item == Type::Any => "list".to_owned(),
            Type::List(item) => format!("list[{}]", self.kind(item)),
            Type::Tuple(items, None) => format!("tuple[{}]", self.kinds(items).join(", ")),
            Type::Tuple(items, Some(rest)) => {
                let all = items.iter().chain([&**rest]).cloned();
                let item = Type::one_of(all.collect::<Vec<_>>());
                format!("list[{}]", self.kind(&item))
            }
            Type::Map(inner) if **inner == Type::Any => "dict".to_owned(),
            Type::Map(inner) => format!("dict[str, {}]", self.kind(inner)),
            Type::Named(name) => name.clone(),
            Type::Union(members) => {
                let mut kinds = self.kinds(members);
                let mut seen = BTreeSet::new();
                kinds.retain(|kind| seen.insert(kind.clone()));
                kinds.join(" | ")
            }
        }
    }

    fn kinds(&mut self, kinds: &[Type]) -> Vec<String> {
        kinds.iter().map(|kind| self.kind(kind)).collect()
    }

    pub(crate) fn argument(&mut self, argument: &Argument) -> String {
        let kind = self.kind(&argument.field.kind);
        let identifier = &argument.identifier;
        match argument.field.presence {
            Presence::Required => format!("{identifier}: {kind}"),
            Presence::Optional => {
                format!("{identifier}: {kind} = {}", default(argument.field.default.as_ref()))
            }
        }
    }

    fn record(&mut self, name: &str, record: &Record, out: &mut String) {
        self.import("TypedDict");
        for line in lines(&record.doc, 300) {
            let _ = writeln!(out, "# {line}");
        }
        let as_class = record.fields.iter().all(|field| is_class_key(&field.name));
        if as_class {
            let _ = writeln!(out, "class {name}(TypedDict):");
        } else {
            let _ = writeln!(out, "{name} = TypedDict({}, {{", quoted(name, Language::Python));
        }
        for field in &record.fields {
            let kind = self.field_kind(field);
            let (key, end) = if as_class {
                (field.name.clone(), "")
            } else {
                (quoted(&field.name, Language::Python), ",")
            };
            let note = field_note(field, Language::Python);
            let note = if note.is_empty() { note } else { format!("  # {note}") };
            let _ = writeln!(out, "    {key}: {kind}{end}{note}");
        }
        if let Some(others) = &record.others {
            let kind = one_line(&self.kind(others), 200);
            let _ = writeln!(out, "    # and other keys: {kind}");
        }
        if record.left_out > 0 {
            let _ = writeln!(out, "    # and {} more keys, not shown", record.left_out);
        }
        if as_class && record.fields.is_empty() {
            let _ = writeln!(out, "    pass");
        }
        let _ = writeln!(out, "{}", if as_class { "" } else { "})\n" });
    }

    fn field_kind(&mut self, field: &Field) -> String {
        let kind = self.kind(&field.kind);
        match field.presence {
            Presence::Required => kind,
            Presence::Optional => format!("{}[{kind}]", self.import("NotRequired")),
        }
    }

    fn function(&mut self, signature: &Signature, heading: &Heading<'_>, out: &mut String) {
        let mut parts: Vec<String> =
            signature.required().map(|argument| self.argument(argument)).collect();
        let optional: Vec<String> =
            signature.optional().map(|argument| self.argument(argument)).collect();
        if !optional.is_empty() {
            parts.push("*".to_owned());
            parts.extend(optional);
        }
        if signature.more != MoreArguments::None {
            parts.push(format!("**more: {}", self.import("Any")));
        }
        let result = self.kind(&signature.result);
        let on_one_line = format!("def {}({}) -> {result}:", heading.tool, parts.join(", "));
        if on_one_line.len() <= WIDTH || parts.is_empty() {
            let _ = writeln!(out, "{on_one_line}");
        } else {
            let parts = parts.join(",\n    ");
            let _ = writeln!(out, "def {}(\n    {parts},\n) -> {result}:", heading.tool);
        }
        let mut doc = lines(heading.description, MAX_DESCRIPTION);
        let notes: Vec<String> = signature.arguments.iter().filter_map(argument_note).collect();
        for section in [notes, gives(signature), vec![example(signature, heading)]] {
            if !section.is_empty() {
                doc.extend((!doc.is_empty()).then(String::new));
                doc.extend(section);
            }
        }
        let doc: Vec<String> = doc.iter().map(|line| in_docstring(line)).collect();
        let _ = writeln!(
            out,
            "    \"\"\"{}\n    \"\"\"",
            doc.join("\n    ").replace("\n    \n", "\n\n")
        );
    }
}

/// A default as it stands in a signature.
pub(crate) fn default(value: Option<&Value>) -> String {
    value
        .and_then(|value| expression(value, Language::Python))
        .filter(|text| text.len() <= 40)
        .unwrap_or_else(|| "...".to_owned())
}

impl ResultFrom {
    /// A word on how much the type of a result can be relied upon.
    pub(crate) fn note(self) -> Option<String> {
        match self {
            Self::Schema => None,
            Self::Results(1) => {
                Some("Result as observed in 1 call; the server does not declare it.".to_owned())
            }
            Self::Results(count) => Some(format!(
                "Result as observed in {count} calls; the server does not declare it."
            )),
            Self::Nowhere => Some("Result: not declared.".to_owned()),
        }
    }
}

/// The type that a part of a schema means, as it stands in a stub of one line.
pub(crate) fn type_text(root: &Value, schema: &Value) -> String {
    let kind = Signature::brief_of(root, schema);
    one_line(&Printer::default().kind(&kind), 200)
}
