//! Words as the shell hands them to a command, with what is not known marked.

use crate::finding::{HOLE, Known, Value};

/// Stands for a piece of text that is not known. No argument can have it.
pub(crate) const GAP: char = '\0';

/// One argument, or what may become none or several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The text, with [`GAP`] for each piece that is not known.
    pub(crate) text: String,
    /// Unquoted `*`, `?` or `[` are in it.
    pub(crate) glob: bool,
    /// It may become no word, or several.
    pub(crate) splits: bool,
    /// What is not known in it comes from the network.
    pub(crate) network: bool,
    /// It begins with an unquoted `~`.
    pub(crate) tilde: bool,
    /// What is not known in it is an array that the text has in full.
    pub(crate) array: bool,
}

impl Field {
    pub(crate) fn known(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    pub(crate) fn unknown() -> Self {
        Self { text: GAP.to_string(), splits: true, ..Self::default() }
    }

    pub(crate) fn of_value(value: &Value) -> Self {
        match value.known {
            Known::Fully => Self::known(&value.text),
            Known::Not => Self::unknown(),
            Known::Partly => Self::known(&value.text.replace(HOLE, &GAP.to_string())),
        }
    }

    /// The text, if it is exactly this.
    pub(crate) fn find(&self) -> Option<&str> {
        (!self.glob && !self.tilde && !self.text.contains(GAP)).then_some(self.text.as_str())
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.find() == Some(text)
    }

    /// Nothing of it is known.
    pub(crate) fn is_blank(&self) -> bool {
        !self.text.is_empty() && self.text.chars().all(|letter| letter == GAP)
    }

    pub(crate) fn value(&self) -> Value {
        let known = if self.is_blank() {
            Known::Not
        } else if self.find().is_some() {
            Known::Fully
        } else {
            Known::Partly
        };
        Value { text: self.text.replace(GAP, &HOLE.to_string()), known }
    }
}

/// A command line for a person, not longer than what is looked at.
pub(crate) fn shown(argv: &[Field]) -> String {
    const MOST: usize = 200;
    let mut line = String::new();
    for field in argv {
        if !line.is_empty() {
            line.push(' ');
        }
        let value = field.value().text;
        let plain = !value.is_empty()
            && !value
                .contains(|letter: char| letter.is_whitespace() || "'\"\\;&|<>()".contains(letter));
        if plain {
            line.push_str(&value);
        } else {
            line.push('\'');
            line.push_str(&value.replace('\n', "⏎"));
            line.push('\'');
        }
        if line.len() > MOST {
            let cut = (0..=MOST).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            line.truncate(cut);
            line.push(HOLE);
            break;
        }
    }
    line
}
