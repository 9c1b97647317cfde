//! What a file is: by its mode, its content and its name.

use std::path::Path;

use rustix::fs::{FileType, Stat};

const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";

pub(crate) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

pub(crate) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

pub(crate) fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Source code by the endings of its names, of which registries know nothing or something else.
const SOURCES: &[(&str, &str)] = &[
    ("c", "text/x-c"),
    ("cc", "text/x-c++"),
    ("cpp", "text/x-c++"),
    ("go", "text/x-go"),
    ("h", "text/x-c"),
    ("java", "text/x-java"),
    ("kt", "text/x-kotlin"),
    ("py", "text/x-python"),
    ("pyi", "text/x-python"),
    ("rb", "text/x-ruby"),
    ("rs", "text/x-rust"),
    ("swift", "text/x-swift"),
    ("ts", "text/x-typescript"),
    ("tsx", "text/x-typescript"),
];

fn by_name(path: &Path) -> Option<&'static str> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let source = SOURCES.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known));
    source.map(|(_, kind)| *kind).or_else(|| mime_guess::from_path(path).first_raw())
}

/// The media type of a file. Content that tells decides; of text the name tells more.
pub(crate) fn mime_type(path: &Path, head: Option<&[u8]>) -> String {
    let by_name = by_name(path);
    let Some(head) = head else { return by_name.unwrap_or(BYTES).to_owned() };
    if let Some(known) = infer::get(head)
        && !known.mime_type().starts_with("text/")
    {
        return known.mime_type().to_owned();
    }
    match (is_text(head), by_name) {
        (true, Some(name)) if is_textual(name) => name.to_owned(),
        (true, _) => TEXT.to_owned(),
        (false, Some(name)) if !is_textual(name) => name.to_owned(),
        (false, _) => BYTES.to_owned(),
    }
}

/// Whether the beginning of a file is that of a text.
pub(crate) fn is_text(head: &[u8]) -> bool {
    if head.contains(&0) {
        return false;
    }
    match std::str::from_utf8(head) {
        Ok(_) => true,
        // A character may be cut off at the end of what was looked at.
        Err(error) => error.error_len().is_none() && head.len() - error.valid_up_to() < 4,
    }
}

fn is_textual(mime_type: &str) -> bool {
    const OTHERS: [&str; 8] = [
        "application/json",
        "application/javascript",
        "application/toml",
        "application/xml",
        "application/x-sh",
        "application/yaml",
        "application/sql",
        "image/svg+xml",
    ];
    mime_type.starts_with("text/")
        || OTHERS.contains(&mime_type)
        || mime_type.ends_with("+xml")
        || mime_type.ends_with("+json")
        || mime_type.starts_with("application/x-")
}
