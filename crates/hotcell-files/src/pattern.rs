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
            Error::invalid(format!("the pattern `{text}` cannot be read: {}", error.kind()))
                .hint("patterns are written like *.rs, src/**/*.{ts,tsx} or docs/**")
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
