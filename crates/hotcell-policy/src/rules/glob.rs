//! Patterns for names and paths, held against text of which parts may be unknown.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::finding::{HOLE, Known, Value};

/// How well something fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    No,
    /// It depends on what is not known.
    Maybe,
    Yes,
}

impl Fit {
    pub(crate) fn when(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    pub(crate) fn not(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
            Self::Yes => Self::No,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Letter(char),
    /// `?`: one letter, in paths no slash.
    One,
    /// `*` in a path: anything within a segment.
    Segment,
    /// `**`, and `*` in a name: anything.
    All,
}

/// What a pattern is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Names,
    Paths,
}

/// A pattern: `*`, `?`, and in paths `**`.
#[derive(Debug, Clone)]
pub(crate) struct Glob {
    text: String,
    tokens: Vec<Token>,
    path: bool,
    /// No star is in it.
    plain: bool,
    /// For `/a/**`: `/a`.
    directory: Option<Box<Glob>>,
}

impl Glob {
    pub(crate) fn name(pattern: &str) -> Self {
        Self::new(pattern, Of::Names)
    }

    pub(crate) fn path(pattern: &str) -> Self {
        Self::new(pattern, Of::Paths)
    }

    fn new(pattern: &str, of: Of) -> Self {
        let path = of == Of::Paths;
        let mut tokens = Vec::new();
        let mut letters = pattern.chars().peekable();
        while let Some(letter) = letters.next() {
            tokens.push(match letter {
                '*' if !path => Token::All,
                '*' if letters.peek() == Some(&'*') => {
                    letters.next();
                    Token::All
                }
                '*' => Token::Segment,
                '?' => Token::One,
                letter => Token::Letter(letter),
            });
        }
        let plain = tokens.iter().all(|token| matches!(token, Token::Letter(_)));
        let directory = pattern
            .strip_suffix("/**")
            .filter(|directory| path && !directory.is_empty())
            .map(|directory| Box::new(Self::new(directory, of)));
        Self { text: pattern.to_owned(), tokens, path, plain, directory }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it fits text that is known.
    pub(crate) fn fits_text(&self, text: &str) -> bool {
        self.fits(&Value::known(text)) == Fit::Yes
    }

    /// Whether it fits a value.
    pub(crate) fn fits(&self, value: &Value) -> Fit {
        if value.known == Known::Fully {
            if self.plain {
                return Fit::when(self.text == value.text);
            }
            if let Some(Token::Letter(first)) = self.tokens.first()
                && !value.text.starts_with(*first)
            {
                return Fit::No;
            }
        }
        let whole = self.tokens.iter().all(|token| *token == Token::All) && !self.tokens.is_empty();
        match value.known {
            Known::Not if whole => return Fit::Yes,
            Known::Not => return Fit::Maybe,
            Known::Fully | Known::Partly => {}
        }
        let partly = value.known == Known::Partly;
        let floating =
            self.path && partly && !value.text.starts_with('/') && self.text.starts_with('/');
        let text = if floating {
            Cow::Owned(format!("{HOLE}/{}", value.text.trim_start_matches(HOLE)))
        } else {
            Cow::Borrowed(value.text.as_str())
        };
        let mut fit = self.fits_letters(&text, value.known);
        if let Some(directory) = self.directory.as_ref().filter(|_| fit != Fit::Yes) {
            fit = fit.max(directory.fits_letters(&text, value.known));
        }
        // What is not known in a path may lead upwards.
        if self.path && !whole && text.contains(HOLE) { fit.min(Fit::Maybe) } else { fit }
    }

    fn fits_letters(&self, text: &str, known: Known) -> Fit {
        let partly = known == Known::Partly;
        let count = self.tokens.len();
        let mut surely = self.start();
        let mut possibly = surely.clone();
        for letter in text.chars() {
            let hole = partly && letter == HOLE;
            let glob = partly && matches!(letter, '*' | '?' | '[' | ']');
            surely = self.step(&surely, Some(letter).filter(|_| !hole && !glob));
            possibly = if hole || glob {
                let first = possibly.iter().position(|open| *open);
                let mut next = vec![false; count + 1];
                if let Some(first) = first {
                    next[first..].fill(true);
                }
                next
            } else {
                self.step(&possibly, Some(letter))
            };
            if !possibly.contains(&true) {
                return Fit::No;
            }
        }
        if surely[count] {
            Fit::Yes
        } else if possibly[count] && partly {
            Fit::Maybe
        } else {
            Fit::No
        }
    }

    fn start(&self) -> Vec<bool> {
        let mut open = vec![false; self.tokens.len() + 1];
        open[0] = true;
        self.pass(&mut open);
        open
    }

    /// A star may be passed over.
    fn pass(&self, open: &mut [bool]) {
        for (at, token) in self.tokens.iter().enumerate() {
            if open[at] && matches!(token, Token::All | Token::Segment) {
                open[at + 1] = true;
            }
        }
    }

    /// One letter further; none stands for any number of letters, which only stars take.
    fn step(&self, open: &[bool], letter: Option<char>) -> Vec<bool> {
        let mut next = vec![false; open.len()];
        for (at, token) in self.tokens.iter().enumerate() {
            if !open[at] {
                continue;
            }
            match token {
                Token::Letter(wanted) => next[at + 1] |= letter == Some(*wanted),
                Token::One => {
                    next[at + 1] |= letter.is_some_and(|letter| !self.path || letter != '/');
                }
                Token::Segment => next[at] |= letter != Some('/'),
                Token::All => next[at] = true,
            }
        }
        self.pass(&mut next);
        next
    }

    /// Whether everything that the pattern names, or some of it, lies below a directory.
    pub(crate) fn lies_below(&self, directory: &Value) -> Fit {
        let cut =
            directory.text.find(['*', '?', '[', HOLE]).filter(|_| directory.known != Known::Fully);
        let (base, whole) = match cut {
            Some(at) => (&directory.text[..at], false),
            None => (directory.text.as_str(), true),
        };
        if !base.starts_with('/') {
            return Fit::No;
        }
        let fixed = self.text.split(['*', '?']).next().unwrap_or_default();
        let below = if whole {
            let base = base.trim_end_matches('/');
            fixed.strip_prefix(base).is_some_and(|rest| {
                rest.starts_with('/') && (rest.len() > 1 || self.text.len() > fixed.len())
            })
        } else {
            fixed.starts_with(base) && self.text.len() > base.len()
        };
        match (below, directory.text.contains(HOLE) && !whole) {
            (true, true) => Fit::Maybe,
            (true, false) => Fit::Yes,
            (false, _) => Fit::No,
        }
    }
}

/// Many patterns for names, of which most are plain.
#[derive(Debug, Clone)]
pub(crate) struct NameSet {
    plain: HashSet<String>,
    globs: Vec<Glob>,
}

impl NameSet {
    pub(crate) fn new(globs: Vec<Glob>) -> Self {
        let (plain, globs): (Vec<Glob>, Vec<Glob>) =
            globs.into_iter().partition(|glob| glob.plain && !glob.text.contains('/'));
        Self { plain: plain.into_iter().map(|glob| glob.text).collect(), globs }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.plain.contains(name)
    }

    /// Those that have neither, in no order.
    pub(crate) fn plain(&self) -> impl Iterator<Item = &str> {
        self.plain.iter().map(String::as_str)
    }

    /// Those that have stars or slashes.
    pub(crate) fn globs(&self) -> &[Glob] {
        &self.globs
    }
}
