//! Looking around in a part of a stream: what is there, what is not, and what is not known yet.

use std::cell::Cell;

/// Whether bytes may follow those that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// None.
    None,
    /// Some may.
    Unknown,
}

#[cfg(test)]
thread_local! {
    /// How many bytes were looked at so far, one by one.
    pub(super) static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
}

/// A part of a stream around a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) rest: Rest,
    /// Where it begins in what `last` is about.
    pub(super) first: usize,
    pub(super) last: &'a LastRun,
}

/// The last long run that was looked for: many places in it may want to know its end.
#[derive(Debug, Default)]
pub(super) struct LastRun(Cell<Option<(*const Class, usize, usize)>>);

impl LastRun {
    /// From where on to look for the end of a run, of which what is before is known.
    fn known(&self, class: &Class, from: usize) -> usize {
        match self.0.get() {
            Some((known, start, end)) if std::ptr::eq(known, class) && start <= from => {
                end.max(from)
            }
            Some(_) | None => from,
        }
    }

    fn note(&self, class: &Class, start: usize, end: usize) {
        self.0.set(Some((std::ptr::from_ref(class), start, end)));
    }
}

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Here {
    Byte(u8),
    End,
    Unknown,
}

/// Bytes of one class in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) end: usize,
    /// Whether it may go on with what comes.
    pub(super) open: bool,
    /// Of which bytes alone it is made, and where it ends at the latest.
    pub(super) of: Option<(&'static Class, usize)>,
}

/// Which bytes belong together.
#[derive(Debug)]
pub(super) struct Class([bool; 256]);

impl Class {
    /// Letters, digits and these.
    pub(super) const fn word(others: &[u8]) -> Self {
        let mut class = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            class[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        Self(class).with(others)
    }

    /// These alone.
    pub(super) const fn only(bytes: &[u8]) -> Self {
        Self([false; 256]).with(bytes)
    }

    /// All but controls, spaces and these.
    pub(super) const fn visible_but(others: &[u8]) -> Self {
        let mut class = [false; 256];
        let mut byte = 0x21;
        while byte < 256 {
            class[byte] = byte != 0x7f;
            byte += 1;
        }
        let mut at = 0;
        while at < others.len() {
            class[others[at] as usize] = false;
            at += 1;
        }
        Self(class)
    }

    /// All but the ends of lines.
    pub(super) const fn line() -> Self {
        let mut class = [true; 256];
        class[b'\n' as usize] = false;
        class[b'\r' as usize] = false;
        Self(class)
    }

    const fn with(mut self, bytes: &[u8]) -> Self {
        let mut at = 0;
        while at < bytes.len() {
            self.0[bytes[at] as usize] = true;
            at += 1;
        }
        self
    }

    pub(super) fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }
}

/// What numbers in base 16 are made of.
pub(super) static HEX: Class = Class::only(b"0123456789abcdef");

impl<'a> Text<'a> {
    pub(super) fn at(&self, place: usize) -> Here {
        match (self.bytes.get(place), self.rest) {
            (Some(byte), _) => Here::Byte(*byte),
            (None, Rest::None) => Here::End,
            (None, Rest::Unknown) => Here::Unknown,
        }
    }

    /// The bytes of a class from a place on, up to `most` of them.
    pub(super) fn run(&self, from: usize, most: usize, class: &'static Class) -> Run {
        const LONG: usize = 256;
        let there = self.bytes.len();
        let bound = there.min(from.saturating_add(most));
        let mut end = from.min(there);
        if most > LONG {
            end = self.last.known(class, self.first + from) - self.first;
        }
        if end < bound {
            let rest = &self.bytes[end..bound];
            let length = rest.iter().position(|byte| !class.has(*byte)).unwrap_or(rest.len());
            #[cfg(test)]
            LOOKED_AT.with(|looked_at| looked_at.set(looked_at.get() + length + 1));
            end += length;
            if most > LONG {
                self.last.note(class, self.first + from, self.first + end);
            }
        }
        let end = end.min(bound);
        let open = end == there && end - from < most && self.rest == Rest::Unknown;
        Run { end, open, of: Some((class, from.saturating_add(most))) }
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to.min(self.bytes.len())).unwrap_or_default()
    }

    /// Whether this stands at a place; `None` if that is not known yet.
    pub(super) fn says(&self, place: usize, text: &[u8]) -> Option<bool> {
        let there = self.slice(place, place + text.len());
        if there.len() == text.len() || self.rest == Rest::None || !text.starts_with(there) {
            return Some(there == text);
        }
        None
    }

    /// Whether a word can begin at a place: no letter or digit stands before it, other than as the
    /// end of an escape (`\n`, `%20`, the colour of a terminal).
    pub(super) fn begins(&self, place: usize) -> bool {
        let before = &self.bytes[..place];
        match before {
            [] => true,
            [.., last] if !last.is_ascii_alphanumeric() => true,
            [.., b'\\', b'n' | b't' | b'r'] => true,
            [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
            [rest @ .., b'm'] => {
                let code = rest.iter().rev().take_while(|b| matches!(b, b'0'..=b'9' | b';'));
                let code = code.count();
                rest[..rest.len() - code].ends_with(b"\x1b[")
            }
            _ => false,
        }
    }

    /// The place after spaces and the colours of terminals, at most some of them; `None` if they may
    /// go on with what comes.
    pub(super) fn skip_space(&self, from: usize) -> Option<usize> {
        const MOST: usize = 24;
        let mut place = from;
        while place < from + MOST {
            match self.at(place) {
                Here::Byte(b' ' | b'\t') => place += 1,
                Here::Byte(0x1b) => match self.at(place + 1) {
                    Here::Byte(b'[') => {
                        let run = self.run(place + 2, 12, &COLOUR);
                        match (run.open, self.at(run.end)) {
                            (true, _) | (_, Here::Unknown) => return None,
                            (false, Here::Byte(b'm')) => place = run.end + 1,
                            (false, Here::Byte(_) | Here::End) => return Some(place),
                        }
                    }
                    Here::Unknown => return None,
                    Here::Byte(_) | Here::End => return Some(place),
                },
                Here::Unknown => return None,
                Here::Byte(_) | Here::End => break,
            }
        }
        Some(place)
    }
}

static COLOUR: Class = Class::only(b"0123456789;");
