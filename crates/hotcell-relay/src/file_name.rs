//! Files that are copied, by names that lead nowhere else.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where the output of execs lies, in the records.
pub(crate) const LOGS: &str = "log";
/// What says which execs there were.
pub(crate) const JOURNAL: &str = "journal";
/// What a supervisor writes for nobody but itself.
const UNDO: &str = "files.undo";
/// No name is longer.
const MOST_BYTES: usize = 128;

/// A file of the records: in their directory, or in that of the logs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct FileName(String);

impl FileName {
    /// The name of a file in the directory of the records; `None` for what is not copied.
    pub(crate) fn in_records(name: &str) -> Option<Self> {
        (is_plain(name) && name != LOGS && name != UNDO).then(|| Self(name.to_owned()))
    }

    /// The name of a file in the directory of the logs.
    pub(crate) fn in_logs(name: &str) -> Option<Self> {
        is_plain(name).then(|| Self(format!("{LOGS}/{name}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_journal(&self) -> bool {
        self.0 == JOURNAL
    }

    /// What the names of all files of the same exec begin with, for a file of a log.
    pub(crate) fn exec_prefix(&self) -> Option<&str> {
        let name = self.0.strip_prefix(LOGS)?.strip_prefix('/')?;
        let end = name.find('.')?;
        name.get(..=end)
    }
}

fn is_plain(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty()
        && name.len() <= MOST_BYTES
        && !name.starts_with('.')
        && name.bytes().all(allowed)
}

impl TryFrom<String> for FileName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let name = match text.split_once('/') {
            Some((LOGS, name)) => Self::in_logs(name),
            Some(_) => None,
            None => Self::in_records(&text),
        };
        name.ok_or_else(|| format!("{text:?} is the name of no record"))
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> Self {
        name.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["journal", "network.jsonl", "log/e_1.00000000000000000001", "log/e_1.gap"] {
            assert_eq!(FileName::try_from(name.to_owned()).map(String::from), Ok(name.to_owned()));
        }
        let refused = [
            "",
            "log",
            "log/",
            "log/..",
            "..",
            "../x",
            "/etc/passwd",
            "log/a/b",
            "x/y",
            "a b",
            ".x",
        ];
        for name in refused {
            assert!(FileName::try_from(name.to_owned()).is_err(), "{name:?}");
        }
        assert_eq!(FileName::in_records(UNDO), None, "it is the supervisor's own");
    }

    #[test]
    fn files_of_one_exec_are_known_by_how_they_begin() {
        let of = |name: &str| FileName::in_logs(name).expect("a name");
        assert_eq!(of("e_1.gap").exec_prefix(), Some("e_1."));
        assert_eq!(of("e_1.0001").exec_prefix(), Some("e_1."));
        assert_eq!(FileName::in_records("journal").expect("a name").exec_prefix(), None);
    }
}
