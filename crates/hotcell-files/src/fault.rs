//! Turns what the kernel says about a path into the one public error.

use hotcell_model::{Error, Result};
use rustix::io::Errno;

/// `what` was tried, for example `read /workspace/a`, and the kernel said no.
pub(crate) fn fault(what: &str, errno: Errno) -> Error {
    let message = |reason: &str| format!("cannot {what}: {reason}");
    match errno {
        Errno::NOENT => Error::not_found(message("no such file or directory"))
            .hint("list the directory to see what is there"),
        Errno::ACCESS | Errno::PERM => Error::denied(message("permission denied")).hint(
            "its owner or its mode does not allow it; a command can change the mode of what is its \
                   own, and one with as_root of all",
        ),
        Errno::ROFS => Error::denied(message("it lies in a read-only part of the cell"))
            .hint("write below /workspace or /tmp"),
        Errno::XDEV => Error::denied(message("a link on the way leads outside"))
            .hint("use the path that the link leads to"),
        Errno::LOOP => {
            Error::denied(message("there are too many links, or one that must not be followed"))
                .hint("use the path that the link leads to")
        }
        Errno::NAMETOOLONG => Error::invalid(message("the name is too long"))
            .hint("a name has at most 255 bytes, a path 4095"),
        Errno::NOTDIR => Error::conflict(message("a part of the path is no directory"))
            .hint("list the directory above it to see what is there"),
        Errno::ISDIR => {
            Error::conflict(message("it is a directory")).hint("list it, or name a file in it")
        }
        Errno::EXIST => Error::conflict(message("it is already there"))
            .hint("choose another name, or allow it to be replaced"),
        Errno::NOTEMPTY => {
            Error::conflict(message("the directory is not empty")).hint("delete it with recursive")
        }
        Errno::NOSPC | Errno::DQUOT => Error::limit_exceeded(message("no space left for the cell"))
            .hint("delete what is not needed, or make a cell with a larger disk limit"),
        Errno::FBIG => Error::limit_exceeded(message("the file would be too large")),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => {
            Error::unavailable(message(&errno.to_string())).hint("try again")
        }
        Errno::INVAL | Errno::ILSEQ => {
            Error::invalid(message("the file system does not take such a name or request"))
        }
        _ => Error::internal(message(&errno.to_string())),
    }
}

/// Adds what was tried to a failed call of the kernel.
pub(crate) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Tried<T> for rustix::io::Result<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|errno| fault(&what(), errno))
    }
}

impl<T> Tried<T> for std::io::Result<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) => fault(&what(), errno),
            // One of ours may have gone through a reader or writer.
            None => error
                .downcast::<Error>()
                .unwrap_or_else(|error| Error::internal(format!("cannot {}: {error}", what()))),
        })
    }
}

/// The caller no longer wants the answer.
pub(crate) fn cancelled() -> Error {
    Error::cancelled("the call was cancelled")
}
