//! Keeps the values of secrets out of what execs print: they are replaced before anything is
//! written down, whoever reads it later and however it was cut into pieces.

use std::collections::BTreeSet;
use std::rc::Rc;

/// Shorter values would be found in what has nothing to do with them.
const LEAST_BYTES: usize = 8;
/// The same for the part of an encoding that does not depend on what stands around the value.
const LEAST_ENCODED: usize = 8;
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What is replaced, and by what.
#[derive(Default)]
pub(crate) struct Masks {
    /// The values by name; one that was changed leaves what it was.
    values: BTreeSet<(String, Vec<u8>)>,
    patterns: Vec<Pattern>,
    longest: usize,
}

struct Pattern {
    bytes: Vec<u8>,
    shown: Rc<[u8]>,
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masks").field("patterns", &self.patterns.len()).finish_non_exhaustive()
    }
}

impl Masks {
    /// Adds a value of a secret, unless it is known.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        let key = (name.to_owned(), value.to_vec());
        if value.len() < LEAST_BYTES || !self.values.insert(key) {
            return;
        }
        let shown: Rc<[u8]> = Rc::from(format!("[secret {name}]").into_bytes());
        let mut forms = vec![value.to_vec()];
        for alphabet in [STANDARD, URL_SAFE] {
            forms.extend((0..3).map(|offset| encoded_part(value, offset, alphabet)));
        }
        for bytes in forms {
            let is_new = self.patterns.iter().all(|known| known.bytes != bytes);
            if is_new && bytes.len() >= LEAST_ENCODED {
                self.longest = self.longest.max(bytes.len());
                self.patterns.push(Pattern { bytes, shown: Rc::clone(&shown) });
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The longest pattern at the beginning of a text.
    fn at_start(&self, text: &[u8]) -> Option<&Pattern> {
        let here = self.patterns.iter().filter(|pattern| text.starts_with(&pattern.bytes));
        here.max_by_key(|pattern| pattern.bytes.len())
    }

    /// Where the first whole pattern begins.
    fn first_whole(&self, text: &[u8]) -> Option<usize> {
        let found = self.patterns.iter().filter_map(|pattern| find(text, &pattern.bytes));
        found.min()
    }

    /// Where the text begins to be what may become a pattern once more of it is there.
    fn first_begun(&self, text: &[u8]) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest.saturating_sub(1));
        (from..text.len()).find(|at| {
            let rest = &text[*at..];
            let begins = |pattern: &Pattern| {
                pattern.bytes.len() > rest.len() && pattern.bytes.starts_with(rest)
            };
            self.patterns.iter().any(begins)
        })
    }
}

/// The characters of base64 that stand for a value alone, where it begins so many bytes into a
/// group of three.
fn encoded_part(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bits = |at: usize| -> u8 {
        // Bit `at` of the whole, which begins with bytes that nobody knows.
        let byte = (at / 8).checked_sub(offset).and_then(|index| value.get(index));
        byte.map_or(0, |byte| (byte >> (7 - at % 8)) & 1)
    };
    let first = (offset * 8).div_ceil(6);
    let last = (offset + value.len()) * 8 / 6;
    let sextet = |at: usize| (0..6).fold(0u8, |sum, bit| (sum << 1) | bits(at * 6 + bit));
    (first..last).map(|at| alphabet[usize::from(sextet(at))]).collect()
}

/// Where one text stands in another.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while from + wanted.len() <= text.len() {
        let last = text.len() - wanted.len();
        let at = from + text[from..=last].iter().position(|byte| *byte == first)?;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// One stream of output on its way to the log.
#[derive(Debug, Default)]
pub(crate) struct Masker {
    /// What may be the beginning of a secret.
    held: Vec<u8>,
}

impl Masker {
    /// Whether something waits for what comes after it.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// What can be written now that these bytes have come.
    pub(crate) fn take(&mut self, masks: &Masks, bytes: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(bytes);
        let mut masked = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        loop {
            let (whole, begun) = (masks.first_whole(rest), masks.first_begun(rest));
            match (whole, begun) {
                (whole, Some(begun)) if whole.is_none_or(|whole| begun <= whole) => {
                    masked.extend_from_slice(&rest[..begun]);
                    self.held = rest[begun..].to_vec();
                    return masked;
                }
                (Some(whole), _) => rest = replace(masks, rest, whole, &mut masked),
                (None, _) => {
                    masked.extend_from_slice(rest);
                    return masked;
                }
            }
        }
    }

    /// What was held, when nothing comes after it or nobody is to wait for that any longer.
    pub(crate) fn release(&mut self, masks: &Masks) -> Vec<u8> {
        let text = std::mem::take(&mut self.held);
        let mut masked = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some(whole) = masks.first_whole(rest) {
            rest = replace(masks, rest, whole, &mut masked);
        }
        masked.extend_from_slice(rest);
        masked
    }
}

/// Puts the name in the place of the pattern that begins there; what comes after it.
fn replace<'a>(masks: &Masks, text: &'a [u8], at: usize, masked: &mut Vec<u8>) -> &'a [u8] {
    masked.extend_from_slice(&text[..at]);
    match masks.at_start(&text[at..]) {
        Some(pattern) => {
            masked.extend_from_slice(&pattern.shown);
            &text[at + pattern.bytes.len()..]
        }
        None => &text[at..],
    }
}
