//! The stub of a tool on one line of Python, within a bound of tokens whatever its schema says.

use hotcell_brief::estimate_tokens;

use crate::python::{Printer, default};
use crate::signature::{Argument, MoreArguments, Signature};
use crate::text::one_line;
use crate::types::Type;

/// What a line may cost, by estimate. A name that is longer than all of it is still told.
const LINE_TOKENS: usize = 68;
/// What of it the words on the tool may cost.
const ABOUT_TOKENS: usize = 20;
/// What of it the type of the result may cost.
const RESULT_TOKENS: usize = 10;
/// The most members of a union that is told briefly.
const MOST_MEMBERS: usize = 3;
/// What stands for arguments that are not shown.
const MORE: &str = "**more: Any";

/// How much is said of an argument.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Its type.
    Typed,
    /// Its type, without what that is made of.
    Plain,
    /// Nothing.
    Named,
}

/// The stub of a tool on one line; `about` says what it does. What does not fit is said more briefly, then
/// left to `**more`.
pub(crate) fn line(signature: &Signature, identifier: &str, about: &str) -> String {
    let signature = signature.brief();
    let mut printer = Printer::default();
    let result = printer.kind(&signature.result);
    let result = if estimate_tokens(&result) > RESULT_TOKENS {
        printer.kind(&plain(&signature.result))
    } else {
        result
    };
    let about = match within(about, ABOUT_TOKENS) {
        about if about.is_empty() => about,
        about => format!("  # {about}"),
    };
    let around = estimate_tokens(&format!("def {identifier}() -> {result}: ...{about}"));
    let room = LINE_TOKENS.saturating_sub(around);
    let arguments = arguments(&signature, &mut printer, room);
    format!("def {identifier}({arguments}) -> {result}: ...{about}")
}

/// The arguments in the first form in which all of them fit, or as many as do.
fn arguments(signature: &Signature, printer: &mut Printer, room: usize) -> String {
    let mut shown = String::new();
    for (required, optional) in [
        (Form::Typed, Form::Typed),
        (Form::Typed, Form::Plain),
        (Form::Typed, Form::Named),
        (Form::Plain, Form::Named),
        (Form::Named, Form::Named),
    ] {
        let whole;
        (shown, whole) = in_forms(signature, printer, (required, optional), room);
        if whole {
            break;
        }
    }
    shown
}

/// The arguments in these forms as far as there is room, and whether that is all of those that have to be
/// given, and of the others all or a good part of the room.
fn in_forms(
    signature: &Signature,
    printer: &mut Printer,
    (required, optional): (Form, Form),
    room: usize,
) -> (String, bool) {
    let required = signature.required().map(|it| (it, required, false));
    let optional = signature.optional().map(|it| (it, optional, true));
    let mut more = signature.more != MoreArguments::None;
    let mut left = room.saturating_sub(if more { estimate_tokens(MORE) } else { 0 });
    let mut parts: Vec<String> = Vec::new();
    let (mut star, mut whole) = (false, true);
    for (argument, form, may_be_left_out) in required.chain(optional) {
        let part = printed(argument, form, printer);
        let cost = estimate_tokens(&part) + 1;
        if cost > left {
            // The last form is as brief as can be; what is left out need not be given.
            whole = may_be_left_out && matches!(form, Form::Named);
            more = true;
            break;
        }
        left -= cost;
        if may_be_left_out && !star {
            parts.push("*".to_owned());
            star = true;
        }
        parts.push(part);
    }
    parts.extend(more.then(|| MORE.to_owned()));
    (parts.join(", "), whole)
}

fn printed(argument: &Argument, form: Form, printer: &mut Printer) -> String {
    match form {
        Form::Typed => printer.argument(argument),
        Form::Plain => {
            let kind = plain(&argument.field.kind);
            let field = crate::types::Field { kind, ..argument.field.clone() };
            printer.argument(&Argument { identifier: argument.identifier.clone(), field })
        }
        Form::Named => match argument.field.presence {
            crate::types::Presence::Required => argument.identifier.clone(),
            crate::types::Presence::Optional => {
                format!("{}={}", argument.identifier, default(argument.field.default.as_ref()))
            }
        },
    }
}

/// A type without what it is made of.
fn plain(kind: &Type) -> Type {
    match kind {
        Type::Literal(values) => Type::one_of(values.iter().map(crate::types::kind_of)),
        Type::List(_) | Type::Tuple(..) => Type::List(Box::new(Type::Any)),
        Type::Map(_) => Type::Map(Box::new(Type::Any)),
        Type::Union(members) => {
            let joined = Type::one_of(members.iter().map(plain));
            if matches!(&joined, Type::Union(members) if members.len() > MOST_MEMBERS) {
                Type::Any
            } else {
                joined
            }
        }
        simple @ (Type::Any
        | Type::Never
        | Type::Null
        | Type::Bool
        | Type::Int
        | Type::Float
        | Type::Text
        | Type::Named(_)) => simple.clone(),
    }
}

/// The words of a text that cost no more than that; the cut is shown.
fn within(text: &str, tokens: usize) -> String {
    let text = one_line(text, 120);
    if estimate_tokens(&text) <= tokens {
        return text;
    }
    let mut kept = String::new();
    for word in text.split(' ') {
        let longer = if kept.is_empty() { word.to_owned() } else { format!("{kept} {word}") };
        if estimate_tokens(&longer) >= tokens {
            break;
        }
        kept = longer;
    }
    kept.push('…');
    kept
}
