//! Arguments held against the schema of a tool before the tool is called.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use hotcell_model::Error;
use serde_json::{Map, Value};

use crate::catalog::Tool;
use crate::conformance::{Conformance, Patterns, brief};
use crate::signature::MoreArguments;
use crate::text::Language;
use crate::types::Presence;

/// The most faults that are told at once.
const MAX_FAULTS: usize = 5;

/// Arguments that are not what a schema says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ArgumentError {
    /// The tool, as code names it.
    pub tool: String,
    /// Its stub on one line.
    pub stub: String,
    /// What is wrong, the first few of it.
    pub faults: Vec<ArgumentFault>,
}

/// A value that is not what a schema says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentFault {
    /// Where it stands, such as `labels[2].name`.
    pub path: String,
    /// What there is.
    pub found: String,
    /// What there should be.
    pub expected: String,
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.path, self.expected, self.found)
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(ArgumentFault::to_string).collect();
        write!(f, "arguments of {}: {}", self.tool, faults.join("; "))
    }
}

impl From<ArgumentError> for Error {
    fn from(error: ArgumentError) -> Self {
        Error::invalid(error.to_string()).hint(error.stub)
    }
}

/// What is worked out once for a tool.
#[derive(Debug)]
pub(crate) struct Checker {
    prepared: OnceLock<Prepared>,
}

#[derive(Debug)]
struct Prepared {
    /// Names in code of arguments whose names on the wire are others.
    renamed: BTreeMap<String, String>,
    known: BTreeMap<String, Presence>,
    more: MoreArguments,
    patterns: Patterns,
}

impl Checker {
    pub(crate) fn new() -> Self {
        Self { prepared: OnceLock::new() }
    }

    fn prepared(&self, tool: &Tool) -> &Prepared {
        self.prepared.get_or_init(|| Prepared::new(tool))
    }

    /// Whether an argument by its name on the wire may be this.
    pub(crate) fn takes(&self, tool: &Tool, argument: &str, value: &Value) -> bool {
        let patterns = &self.prepared(tool).patterns;
        Conformance::new(&tool.listing().input_schema, patterns).takes(argument, value)
    }

    pub(crate) fn arguments(
        &self,
        tool: &Tool,
        given: Map<String, Value>,
    ) -> Result<Value, ArgumentError> {
        let prepared = self.prepared(tool);
        let schema = &tool.listing().input_schema;
        let mut faults = Vec::new();
        let mut sent = Map::new();
        for (name, value) in given {
            let wire = match prepared.renamed.get(&name) {
                Some(wire) => wire.clone(),
                None => name.clone(),
            };
            if prepared.more == MoreArguments::None && !prepared.known.contains_key(&wire) {
                faults.push(prepared.unknown(&name, &value));
            } else if sent.insert(wire.clone(), value).is_some() {
                let expected = format!("only one of the two names of {wire:?}");
                faults.push(ArgumentFault { path: name, found: "both".to_owned(), expected });
            }
        }
        let conformance = Conformance::new(schema, &prepared.patterns);
        let optional = |name: &str| prepared.known.get(name) == Some(&Presence::Optional);
        sent.retain(|name, value| {
            !(value.is_null() && optional(name) && conformance.refuses_null(name))
        });
        let sent = Value::Object(sent);
        faults.extend(conformance.faults(&sent));
        if faults.is_empty() {
            return Ok(sent);
        }
        faults.truncate(MAX_FAULTS);
        Err(ArgumentError {
            tool: format!("{}.{}", tool.server_identifier(), tool.identifier()),
            stub: tool.line(Language::Python, None),
            faults,
        })
    }
}

impl Prepared {
    fn new(tool: &Tool) -> Self {
        let signature = tool.signature(None);
        let arguments = &signature.arguments;
        let renamed = arguments
            .iter()
            .filter(|argument| argument.identifier != argument.field.name)
            .map(|argument| (argument.identifier.clone(), argument.field.name.clone()));
        let known =
            arguments.iter().map(|argument| (argument.field.name.clone(), argument.field.presence));
        Self {
            renamed: renamed.collect(),
            known: known.collect(),
            more: if signature.cut { MoreArguments::Any } else { signature.more },
            patterns: Patterns::of(&tool.listing().input_schema),
        }
    }

    fn unknown(&self, name: &str, value: &Value) -> ArgumentFault {
        let near =
            self.known.keys().chain(self.renamed.keys()).min_by_key(|known| distance(known, name));
        let expected = match near {
            Some(near) if distance(near, name) <= 2.max(name.len() / 3) => {
                format!("no such argument (did you mean {near}?)")
            }
            _ => {
                let known: Vec<&str> = self.known.keys().take(12).map(String::as_str).collect();
                format!("no such argument (there are {})", known.join(", "))
            }
        };
        ArgumentFault { path: brief(&Value::from(name)), found: brief(value), expected }
    }
}

/// How many letters have to be changed to get from one name to another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, wanted) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *wanted);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
