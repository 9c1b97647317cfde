//! A server's list of tools, as far as it is taken.

use std::collections::HashSet;
use std::sync::Arc;

use hotcell_model::{Error, Result};
use serde_json::Value;

/// More tools than this no list may have.
pub(crate) const MOST_TOOLS: usize = 2_000;
/// More pages than this no list may have.
pub(crate) const MOST_PAGES: usize = 64;
/// What a server says of itself is cut after so many bytes.
const MOST_ABOUT: usize = 4096;

/// What a server offers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listing {
    pub(crate) about: Option<String>,
    pub(crate) tools: Arc<[Value]>,
}

/// A list that comes in pages.
#[derive(Debug)]
pub(crate) struct Pages {
    tools: Vec<Value>,
    names: HashSet<String>,
    cursors: HashSet<String>,
    pages: usize,
    bytes: u64,
    most_bytes: u64,
}

impl Pages {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            tools: Vec::new(),
            names: HashSet::new(),
            cursors: HashSet::new(),
            pages: 0,
            bytes: 0,
            most_bytes: most_bytes as u64,
        }
    }

    /// Takes a page; where the next one begins, if there is one.
    ///
    /// # Errors
    /// `limit_exceeded` when the list is too long or has no end; `invalid` when it is none.
    pub(crate) fn take(&mut self, mut page: Value) -> Result<Option<String>> {
        self.pages += 1;
        self.bytes += json_bytes(&page);
        let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
            return Err(Error::invalid("its list of tools has no `tools`"));
        };
        for tool in tools {
            // What has no name cannot be called, and of two with one name nobody knows which is.
            let name = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            if let Some(name) = name
                && self.names.insert(name.to_owned())
            {
                self.tools.push(tool);
            }
        }
        let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        let too_long = |what: &str, most: u64| {
            Err(Error::limit_exceeded(format!("its list of tools has more than {most} {what}")))
        };
        if self.tools.len() > MOST_TOOLS {
            return too_long("tools", MOST_TOOLS as u64);
        }
        if self.bytes > self.most_bytes {
            return too_long("bytes", self.most_bytes);
        }
        match next {
            Some(_) if self.pages >= MOST_PAGES => too_long("pages", MOST_PAGES as u64),
            Some(cursor) if !self.cursors.insert(cursor.clone()) => Err(Error::limit_exceeded(
                "its list of tools has no end: a page leads back to one before",
            )),
            next => Ok(next),
        }
    }

    /// The whole list.
    pub(crate) fn finish(self, about: Option<String>) -> Listing {
        let about = about.map(|text| shortened(&text, MOST_ABOUT).to_owned());
        Listing { about, tools: self.tools.into() }
    }
}

/// The beginning of a text.
pub(crate) fn shortened(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// How long a value is as JSON.
pub(crate) fn json_bytes(value: &Value) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Values have text for keys and nothing else that could fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
