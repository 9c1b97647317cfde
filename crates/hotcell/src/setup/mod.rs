//! What clients of a server need to know about it, and where each of them keeps that.

mod client;
mod concealed;
mod entry;
mod json_text;
mod program;
mod settings_file;
mod toml_text;
mod unified_diff;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod concealed_tests;
#[cfg(test)]
mod json_text_tests;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod settings_file_tests;
#[cfg(test)]
mod toml_text_tests;
#[cfg(test)]
mod unified_diff_tests;

pub(crate) use client::{Client, Scope, Surroundings};
pub(crate) use entry::{Entry, Server, http_url, server_name, variable_name};
pub(crate) use program::own_program;
pub(crate) use settings_file::SettingsFile;
pub(crate) use unified_diff::unified_diff;

use serde_json::Value;

use self::concealed::Ours;

/// Why the text of a file cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfit {
    /// The line that shows it, where there is one.
    pub(crate) line: Option<usize>,
    pub(crate) problem: String,
}

impl Unfit {
    fn new(problem: impl Into<String>) -> Self {
        Self { line: None, problem: problem.into() }
    }
}

/// The languages in which clients keep their settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// JSON, also with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

impl Language {
    /// The text with the entry in it; every other line stays as it is.
    ///
    /// # Errors
    /// The text is not of this language, or has something else where servers belong.
    pub(crate) fn edit(
        self,
        text: &str,
        section: &str,
        name: &str,
        entry: &Entry,
    ) -> Result<String, Unfit> {
        let (mark, body) = split_mark(text);
        let edited = match self {
            Self::Json => json_text::edit(body, section, name, entry),
            Self::Toml => toml_text::edit(body, section, name, entry),
        }?;
        check_others(self.read(body)?, self.read(&edited)?, section, name)?;
        Ok(format!("{mark}{edited}"))
    }

    /// The text as it is shown: names, and of values and comments only what the entry says too.
    ///
    /// # Errors
    /// The text is not of this language.
    pub(crate) fn conceal(self, text: &str, entry: &Entry) -> Result<String, Unfit> {
        let (mark, body) = split_mark(text);
        let ours = Ours::of(entry);
        let hidden = match self {
            Self::Json => json_text::hidden(body, &ours),
            Self::Toml => toml_text::hidden(body, &ours),
        }?;
        Ok(format!("{mark}{}", concealed::without(body, &hidden)))
    }

    /// What a text means; an empty object where it says nothing.
    ///
    /// # Errors
    /// The text is not of this language.
    fn read(self, text: &str) -> Result<Value, Unfit> {
        match self {
            Self::Json => json_text::read(text),
            Self::Toml => toml_text::read(text),
        }
    }
}

/// Editors of another system mark the beginning of a file; clients skip the mark.
fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    }
}

/// Refuses an edit after which anything but the one entry means something else.
fn check_others(
    mut before: Value,
    mut after: Value,
    section: &str,
    name: &str,
) -> Result<(), Unfit> {
    for value in [&mut before, &mut after] {
        let Some(top) = value.as_object_mut() else { continue };
        let Some(servers) = top.get_mut(section).and_then(Value::as_object_mut) else { continue };
        servers.remove(name);
        if servers.is_empty() {
            top.remove(section);
        }
    }
    match before == after {
        true => Ok(()),
        false => Err(Unfit::new("it cannot be edited without changing something else in it")),
    }
}
