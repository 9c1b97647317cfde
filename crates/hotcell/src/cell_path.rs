//! How people write paths: in a cell, on this machine, or as a dash.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use hotcell_model::{CellRef, Error, Result};

const HOME: &str = ".";

/// A path in a cell: `CELL:PATH`, or `:PATH` in the default cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellPath {
    /// Which cell.
    pub(crate) cell: CellRef,
    /// The path in it; relative to `/workspace`.
    pub(crate) path: String,
}

/// The same, where a cell alone means its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellDirectory(pub(crate) CellPath);

/// Either side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a cell.
    Cell(CellPath),
    /// On this machine.
    Local(PathBuf),
    /// Our standard input or output.
    Dash,
}

impl CellPath {
    /// Another path in the same cell.
    pub(crate) fn with_path(&self, path: impl Into<String>) -> Self {
        Self { cell: self.cell.clone(), path: path.into() }
    }

    /// Something in this directory.
    pub(crate) fn join(&self, name: &str) -> Self {
        match self.path.trim_end_matches('/') {
            "" if self.path.starts_with('/') => self.with_path(format!("/{name}")),
            "" | HOME => self.with_path(name),
            path => self.with_path(format!("{path}/{name}")),
        }
    }

    /// The last name of the path; none where that is no name of its own, as of `.`.
    pub(crate) fn name(&self) -> Option<&str> {
        let last = self.path.trim_end_matches('/').rsplit('/').next();
        last.filter(|name| !["", ".", ".."].contains(name))
    }

    /// Whether it was written as a directory.
    pub(crate) fn ends_with_slash(&self) -> bool {
        self.path.ends_with('/')
    }
}

/// The two sides of the first colon, unless it is part of a path of this machine.
fn split(text: &str) -> Option<(&str, &str)> {
    text.split_once(':').filter(|(cell, _)| !cell.contains('/'))
}

fn in_cell(cell: &str, path: &str) -> Result<CellPath> {
    let cell = if cell.is_empty() { CellRef::Default } else { cell.parse()? };
    let path = if path.is_empty() { HOME } else { path };
    Ok(CellPath { cell, path: path.to_owned() })
}

impl FromStr for CellPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match split(text) {
            Some((cell, path)) => in_cell(cell, path),
            None => Err(Error::invalid(format!("{text:?} names no file of a cell"))
                .hint("write CELL:PATH, or :PATH for the default cell")),
        }
    }
}

impl FromStr for CellDirectory {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let path = match split(text) {
            Some((cell, path)) => in_cell(cell, path),
            None => text.parse().map(|cell| CellPath { cell, path: HOME.to_owned() }).map_err(
                |error: Error| error.hint("write CELL, CELL:PATH, or :PATH for the default cell"),
            ),
        };
        path.map(Self)
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, split(text)) {
            ("-", _) => Ok(Self::Dash),
            ("", _) => Err(Error::invalid("an empty path names nothing")
                .hint("write a path, or CELL:PATH for one in a cell")),
            (_, Some((cell, path))) => in_cell(cell, path).map(Self::Cell).map_err(|error| {
                error.hint("write ./ before a path of this machine that has a colon in it")
            }),
            (path, None) => Ok(Self::Local(path.into())),
        }
    }
}

impl fmt::Display for CellPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cell, self.path)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(path) => path.fmt(f),
            Self::Local(path) => path.display().fmt(f),
            Self::Dash => f.write_str("-"),
        }
    }
}
