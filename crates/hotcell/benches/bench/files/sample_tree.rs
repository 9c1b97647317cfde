//! The files that are measured with: the same for everybody.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// Entries of the directory that is listed.
pub(super) const ENTRIES: usize = 10_000;
/// Files of the tree that is searched.
pub(super) const FILES: usize = 10_000;
/// Lines of it that match.
pub(super) const MATCHES: usize = 50;
/// What is searched for.
pub(super) const NEEDLE: &str = "needle_in_hay";
pub(super) const TEXT_BYTES: usize = 1 << 20;

const DIRECTORIES: usize = 100;
const FILE_LINES: usize = 80;

/// Where they are.
#[derive(Debug)]
pub(super) struct SampleTree {
    pub(super) root: PathBuf,
    /// What is searched.
    pub(super) tree: PathBuf,
}

impl SampleTree {
    pub(super) fn make(place: &Path) -> Result<Self> {
        let root = place.join("sample");
        let tree = root.join("tree");
        std::fs::create_dir_all(root.join("many"))?;
        std::fs::write(root.join("text.txt"), text())?;
        for number in 0..ENTRIES {
            std::fs::write(root.join("many").join(entry_name(number)), "content\n")?;
        }
        for number in 0..FILES {
            let directory = tree.join(format!("module_{:03}", number % DIRECTORIES));
            std::fs::create_dir_all(&directory)?;
            std::fs::write(directory.join(format!("source_{number:05}.rs")), source(number))?;
        }
        Ok(Self { root, tree })
    }
}

/// The name of an entry in the directory that is listed.
pub(super) fn entry_name(number: usize) -> String {
    format!("entry_{number:05}.txt")
}

/// Text of 1 MB, in lines.
pub(super) fn text() -> String {
    let lines =
        (0..).map(|number| format!("line {number:07}: the \"quick\" brown fox\\n jumps over\n"));
    let mut text = String::with_capacity(TEXT_BYTES + 64);
    for line in lines {
        text.push_str(&line);
        if text.len() >= TEXT_BYTES {
            break;
        }
    }
    text.truncate(TEXT_BYTES);
    text
}

/// About 4 kB that look like a program.
fn source(number: usize) -> String {
    let mut source = String::new();
    for line in 0..FILE_LINES {
        source.push_str(&format!(
            "    let value_{line} = compute({number}, {line}); // {}\n",
            "x".repeat(line % 17)
        ));
    }
    if number.is_multiple_of(FILES / MATCHES) {
        source.push_str(&format!("    {NEEDLE}({number});\n"));
    }
    source
}
