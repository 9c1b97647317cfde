//! A full stub within a bound of tokens: words are cut first, then what types are made of.

use hotcell_brief::estimate_tokens;

use crate::python;
use crate::signature::{Argument, Signature};
use crate::stub::Heading;
use crate::text::one_line;
use crate::types::{Definition, Field};

/// What a full stub may cost where it is shown to a model, by estimate.
const FULL_TOKENS: usize = 420;

/// How much is said.
#[derive(Debug, Clone, Copy)]
struct Words {
    /// Characters of the description.
    description: usize,
    /// Characters on each argument.
    argument: usize,
    /// Characters on each key of an object.
    key: usize,
    types: Types,
}

/// How types are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Types {
    /// With their definitions.
    Defined,
    /// As they fit on one line.
    Brief,
}

const LESS_AND_LESS: [Words; 6] = [
    Words { description: 600, argument: 160, key: 100, types: Types::Defined },
    Words { description: 300, argument: 90, key: 50, types: Types::Defined },
    Words { description: 160, argument: 50, key: 0, types: Types::Defined },
    Words { description: 300, argument: 90, key: 0, types: Types::Brief },
    Words { description: 160, argument: 40, key: 0, types: Types::Brief },
    Words { description: 160, argument: 0, key: 0, types: Types::Brief },
];

/// The stub in Python with as many words as the bound allows; the line where even the fewest are too many.
pub(crate) fn file(signature: &Signature, heading: &Heading<'_>, about: &str) -> String {
    let whole = python::file(signature, heading);
    if estimate_tokens(&whole) <= FULL_TOKENS {
        return whole;
    }
    for words in LESS_AND_LESS {
        let description = cut(heading.description, words.description);
        let heading = Heading { description: &description, shortened: true, ..*heading };
        let text = python::file(&signature.in_words(words), &heading);
        if estimate_tokens(&text) <= FULL_TOKENS {
            return text;
        }
    }
    let heading = Heading { shortened: true, title: "", ..*heading };
    let mut text: String = heading
        .lines(crate::text::Language::Python)
        .iter()
        .map(|line| format!("# {}\n", one_line(line, 200)))
        .collect();
    text.push_str(&crate::python_line::line(signature, heading.tool, about));
    text.push('\n');
    text
}

/// The beginning of a text with its lines, cut at a word.
fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit).collect();
    let head = head.rsplit_once(char::is_whitespace).map_or(head.as_str(), |(head, _)| head);
    format!("{head}…")
}

impl Signature {
    fn in_words(&self, words: Words) -> Self {
        let mut shown = match words.types {
            Types::Defined => self.clone(),
            Types::Brief => self.brief(),
        };
        for Argument { field, .. } in &mut shown.arguments {
            shorten(field, words.argument);
        }
        for (_, definition) in &mut shown.definitions {
            if let Definition::Record(record) = definition {
                record.doc = one_line(&record.doc, words.key);
                record.fields.iter_mut().for_each(|field| shorten(field, words.key));
            }
        }
        shown
    }
}

fn shorten(field: &mut Field, limit: usize) {
    if limit == 0 {
        field.doc.clear();
        field.notes.clear();
    } else {
        field.doc = one_line(&field.doc, limit);
        field.notes.truncate(3);
    }
}
