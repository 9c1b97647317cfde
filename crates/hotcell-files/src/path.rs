//! Paths as callers write them.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use hotcell_model::{Error, Result};

/// Where a relative path begins.
const HOME: &str = "/workspace";
const MOST_BYTES: usize = 4095;
const MOST_NAME_BYTES: usize = 255;

/// An absolute path of the cell without `.` and `..`, which are resolved before any link is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CellPath(PathBuf);

impl CellPath {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refuse = |reason: &str, hint: &str| {
            let shown: String = text.chars().take(100).collect();
            Err(Error::invalid(format!("the path `{}` {reason}", shown.escape_debug())).hint(hint))
        };
        if text.is_empty() {
            return refuse("is empty", "name a file or directory, for example /workspace");
        }
        if text.contains('\0') {
            return refuse("has a NUL character in it", "leave it out");
        }
        let path = Self::lexical(&Path::new(HOME).join(text));
        if path.0.as_os_str().len() > MOST_BYTES {
            return refuse("is too long", "a path has at most 4095 bytes");
        }
        if path.0.iter().any(|name| name.len() > MOST_NAME_BYTES) {
            return refuse("has a name in it that is too long", "a name has at most 255 bytes");
        }
        Ok(path)
    }

    /// An absolute path that came from the kernel or from a link.
    pub(crate) fn lexical(path: &Path) -> Self {
        let mut clean = PathBuf::from("/");
        for component in path.components() {
            match component {
                Component::Normal(name) => clean.push(name),
                Component::ParentDir => {
                    clean.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Self(clean)
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    /// The path below `/`; `.` for `/` itself.
    pub(crate) fn below_root(&self) -> &Path {
        below(&self.0, Path::new("/")).unwrap_or(Path::new("."))
    }

    /// The path below a directory, `.` for the directory itself; `None` when it is not below it.
    pub(crate) fn below(&self, directory: &Path) -> Option<&Path> {
        below(&self.0, directory)
    }

    /// The directory and the name in it; `None` for `/`.
    pub(crate) fn split(&self) -> Option<(Self, &std::ffi::OsStr)> {
        Some((Self(self.0.parent()?.to_owned()), self.0.file_name()?))
    }

    /// Where a link in this path's place leads.
    pub(crate) fn follow(&self, target: &Path) -> Self {
        let directory = self.0.parent().unwrap_or(Path::new("/"));
        Self::lexical(&directory.join(target))
    }

    /// Something in this directory.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> Self {
        Self(self.0.join(name))
    }
}

fn below<'a>(path: &'a Path, directory: &Path) -> Option<&'a Path> {
    let rest = path.strip_prefix(directory).ok()?;
    Some(if rest.as_os_str().is_empty() { Path::new(".") } else { rest })
}

/// Bytes that are no text are shown as `�`.
impl fmt::Display for CellPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}
