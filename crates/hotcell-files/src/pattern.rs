//! Patterns that paths are chosen by.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use hotcell_model::{Error, Result};

/// A pattern with `*`, `?`, `[…]`, `{…}` and `**`. One without a slash is about the name alone, any
/// other about the whole path below the directory in question.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    glob: GlobMatcher,
    names_only: bool,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let glob = GlobBuilder::new(text.trim_start_matches("./"))
            .literal_separator(true)
            .empty_alternates(true)
            .build();
        let glob = glob.map_err(|error| {
            let value = format!("{text:?}: {}", error.kind());
            Error::argument("glob", "like *.rs, src/**/*.{ts,tsx} or docs/**", value)
        })?;
        Ok(Self { glob: glob.compile_matcher(), names_only: !text.contains('/') })
    }

    /// Whether a path below the directory in question is meant.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        if self.names_only {
            path.file_name().is_some_and(|name| self.glob.is_match(Path::new(name)))
        } else {
            self.glob.is_match(path)
        }
    }
}

/// Which paths are meant, by patterns that name them and patterns that rule them out. What holds
/// for a directory holds for all that is in it.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl Choice {
    pub(crate) fn parse(include: &[String], exclude: &[String]) -> Result<Self> {
        let parse = |patterns: &[String]| -> Result<Vec<Pattern>> {
            patterns.iter().map(|text| Pattern::parse(text)).collect()
        };
        Ok(Self { include: parse(include)?, exclude: parse(exclude)? })
    }

    /// Whether a path is meant.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        self.includes(path) && !within_any(&self.exclude, path)
    }

    /// Whether a path is named; whether it is ruled out is another question.
    pub(crate) fn includes(&self, path: &Path) -> bool {
        self.include.is_empty() || within_any(&self.include, path)
    }

    /// Whether this path itself is ruled out, and with it all that is in it.
    pub(crate) fn excludes(&self, path: &Path) -> bool {
        self.exclude.iter().any(|pattern| pattern.matches(path))
    }
}

/// Whether a path, or a directory that it lies in, is named.
fn within_any(patterns: &[Pattern], path: &Path) -> bool {
    let above = path.ancestors().filter(|above| !above.as_os_str().is_empty());
    above.into_iter().any(|above| patterns.iter().any(|pattern| pattern.matches(above)))
}
