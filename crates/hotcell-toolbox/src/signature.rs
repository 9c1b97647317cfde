//! What a tool takes and gives, as types, from its schemas and from what was seen of it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::listing::ToolListing;
use crate::lowering::Lowering;
use crate::names::{Use, identifiers, type_name};
use crate::observed::Observed;
use crate::types::{Definition, Definitions, Field, Presence, Record, Type, kind_of};

/// The most values of a literal type on one line.
const BRIEF_LITERALS: usize = 8;

/// A tool as a function.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    /// Its arguments, those first that have to be given.
    pub(crate) arguments: Vec<Argument>,
    /// Whether it may be given arguments that are not shown.
    pub(crate) more: MoreArguments,
    pub(crate) result: Type,
    pub(crate) result_from: ResultFrom,
    pub(crate) definitions: Definitions,
    /// Something of its schemas is not shown.
    pub(crate) cut: bool,
}

/// An argument and how it is called in code.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub(crate) identifier: String,
    pub(crate) field: Field,
}

/// Which arguments there can be beside those shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreArguments {
    None,
    /// The schema names more than are shown.
    Named,
    /// Any.
    Any,
}

/// Where it is known from what a tool gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultFrom {
    /// The server says so.
    Schema,
    /// So it was in that many results.
    Results(u64),
    Nowhere,
}

impl Signature {
    /// The signature of a tool that is called `identifier` in code.
    pub(crate) fn new(tool: &ToolListing, identifier: &str, observed: Option<&Observed>) -> Self {
        let stem = type_name(identifier);
        let mut lowering = Lowering::new(&tool.input_schema, &[identifier]);
        let record = lowering.arguments(&stem);
        let mut result = Type::Any;
        let mut result_from = ResultFrom::Nowhere;
        if let Some(schema) = &tool.output_schema {
            lowering.go_on_with(schema);
            result = lowering.whole(&format!("{stem}Result"));
            result_from = ResultFrom::Schema;
        }
        let (mut definitions, cut) = lowering.finish();
        if let (None, Some(observed)) = (&tool.output_schema, observed) {
            let taken: Vec<&str> = definitions.iter().map(|(name, _)| name.as_str()).collect();
            let (seen, more) = observed.types(&format!("{stem}Result"), &taken);
            definitions.extend(more);
            result = seen;
            result_from = ResultFrom::Results(observed.count());
        }
        let more = more_arguments(&record);
        Self { arguments: arguments(record), more, result, result_from, definitions, cut }
    }

    /// The same without definitions, as it fits on one line.
    pub(crate) fn brief(&self) -> Self {
        let arguments = self.arguments.iter().map(|argument| {
            let kind = self.brief_type(&argument.field.kind);
            let field = Field { kind, ..argument.field.clone() };
            Argument { identifier: argument.identifier.clone(), field }
        });
        Self {
            arguments: arguments.collect(),
            more: self.more,
            result: self.brief_type(&self.result),
            result_from: self.result_from,
            definitions: Vec::new(),
            cut: self.cut,
        }
    }

    /// The type that a part of a schema means, without definitions.
    pub(crate) fn brief_of(root: &Value, schema: &Value) -> Type {
        let mut lowering = Lowering::new(root, &[]);
        let result = lowering.part(schema);
        let (definitions, cut) = lowering.finish();
        let (arguments, more) = (Vec::new(), MoreArguments::None);
        let whole =
            Self { arguments, more, result, result_from: ResultFrom::Nowhere, definitions, cut };
        whole.brief_type(&whole.result)
    }

    fn brief_type(&self, kind: &Type) -> Type {
        let all =
            |kinds: &[Type]| kinds.iter().map(|kind| self.brief_type(kind)).collect::<Vec<_>>();
        match kind {
            Type::Named(name) if self.find_record(name).is_some() => Type::Map(Box::new(Type::Any)),
            Type::Named(_) => Type::Any,
            Type::Literal(values) if values.len() > BRIEF_LITERALS => {
                Type::one_of(values.iter().map(kind_of))
            }
            Type::List(item) => Type::List(Box::new(self.brief_type(item))),
            Type::Map(item) => Type::Map(Box::new(self.brief_type(item))),
            Type::Tuple(items, rest) => {
                Type::Tuple(all(items), rest.as_ref().map(|rest| Box::new(self.brief_type(rest))))
            }
            Type::Union(members) => Type::one_of(all(members)),
            plain @ (Type::Any
            | Type::Never
            | Type::Null
            | Type::Bool
            | Type::Int
            | Type::Float
            | Type::Text
            | Type::Literal(_)) => plain.clone(),
        }
    }

    pub(crate) fn find_record(&self, name: &str) -> Option<&Record> {
        self.definitions.iter().find_map(|(known, definition)| match definition {
            Definition::Record(record) if known == name => Some(record),
            Definition::Record(_) | Definition::Alias(_) => None,
        })
    }

    /// Arguments that have to be given; in code they may be given by place.
    pub(crate) fn required(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|one| one.field.presence == Presence::Required)
    }

    /// Arguments that may be left out.
    pub(crate) fn optional(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|one| one.field.presence == Presence::Optional)
    }
}

fn more_arguments(record: &Record) -> MoreArguments {
    if record.others.is_some() {
        MoreArguments::Any
    } else if record.left_out > 0 {
        MoreArguments::Named
    } else {
        MoreArguments::None
    }
}

fn arguments(record: Record) -> Vec<Argument> {
    let names = record.fields.iter().map(|field| field.name.as_str());
    let mut identifiers: BTreeMap<String, String> = identifiers(names, Use::Argument);
    record
        .fields
        .into_iter()
        .filter_map(|field| {
            identifiers.remove(&field.name).map(|identifier| Argument { identifier, field })
        })
        .collect()
}
