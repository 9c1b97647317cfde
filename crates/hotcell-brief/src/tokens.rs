//! How many tokens a text costs a model, near enough to keep within a budget.
//!
//! The tables of a real tokenizer are megabytes. This counts what those tables are made of: words with
//! the space before them, groups of digits, runs of punctuation, and for other scripts what a character
//! costs on the average. On listings and stubs of tools it is within a tenth of o200k
//! (`hotcell-toolbox/tests/toolbox/tokens.rs`); where text is not made of words (base64, keys, scripts that
//! are seldom written) it errs upwards (`tests/brief/estimate.rs`).

/// Letters of a word that one token covers, on the average of long words.
const LETTERS: usize = 9;
/// Capital letters that one token covers.
const CAPITALS: usize = 3;
/// No word is longer; what is longer is data.
const LONGEST_WORD: usize = 24;
/// Blanks that one token covers at most.
const BLANKS: usize = 80;
/// Bytes that one token covers at most, by this estimate: a text of more bytes than this for each
/// token of a budget cannot fit, and need not be looked at.
pub(crate) const MOST_BYTES_OF_A_TOKEN: usize = 96;

/// What often follows each letter from a to z within a word; other pairs are seldom in one token.
const FOLLOWERS: [u32; 26] = letters([
    "bcdfgiklmnprstuvwxyz",
    "aeijlorsuy",
    "acehiklorstuy",
    "adegiorsuvyb",
    "abcdefgilmnopqrstuvwxyz",
    "aefilortuy",
    "aeghilnorsuy",
    "aeiortuy",
    "abcdefglmnoprstvxz",
    "aeosu",
    "aegilnosy",
    "abdefiklmopstuvy",
    "abeimnopsuy",
    "acdefgiklnorstuvy",
    "abcdefgiklmnoprstuvwxy",
    "aehilmoprstuyd",
    "u",
    "abcdegiklmnoprstuvy",
    "acehiklmnopqrstuwy",
    "acehilmorstuwyx",
    "abcdegilmnprstx",
    "aeio",
    "aehinorst",
    "aceipty",
    "abelmnopst",
    "aeioyz",
]);

/// An estimate of the tokens of a text.
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    Runs::of(text).map(|(_, cost)| cost).sum()
}

/// The runs that a text is made of, each with its bytes and its cost.
#[derive(Debug)]
pub(crate) struct Runs<'a> {
    rest: std::str::Chars<'a>,
}

impl<'a> Runs<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { rest: text.chars() }
    }
}

impl Iterator for Runs<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let before = self.rest.as_str().len();
        let first = self.rest.next()?;
        let kind = Kind::of(first);
        let mut run = Run::new(first);
        loop {
            let mut ahead = self.rest.clone();
            let Some(next) = ahead.next() else { return Some((before, run.cost(kind, None))) };
            let next_kind = Kind::of(next);
            let new_word = run.last.is_ascii_lowercase() && next.is_ascii_uppercase();
            if next_kind != kind || new_word {
                let bytes = before - self.rest.as_str().len();
                return Some((bytes, run.cost(kind, Some(next_kind))));
            }
            run.push(next, kind);
            self.rest = ahead;
        }
    }
}

/// Characters of one kind that follow each other.
struct Run {
    last: char,
    length: usize,
    capitals: usize,
    /// Neighbours that seldom share a token.
    seldom: usize,
    /// Characters that are the same as the one before.
    repeated: usize,
}

impl Run {
    fn new(first: char) -> Self {
        let capitals = usize::from(first.is_ascii_uppercase());
        Self { last: first, length: 1, capitals, seldom: 0, repeated: 0 }
    }

    fn push(&mut self, next: char, kind: Kind) {
        self.length += 1;
        self.capitals += usize::from(next.is_ascii_uppercase());
        self.repeated += usize::from(next == self.last);
        self.seldom += usize::from(match kind {
            Kind::Letter => !is_pair_of_letters(self.last, next),
            Kind::Mark => !is_pair_of_marks(self.last, next),
            Kind::Digit | Kind::Space | Kind::Break | Kind::Control | Kind::Script(_) => false,
        });
        self.last = next;
    }

    fn cost(&self, kind: Kind, next: Option<Kind>) -> usize {
        match kind {
            Kind::Letter if self.length > LONGEST_WORD => (self.length * 3).div_ceil(5),
            Kind::Letter => {
                let small = (self.length - self.capitals).div_ceil(LETTERS);
                let capital = self.capitals.saturating_sub(1).div_ceil(CAPITALS);
                (small + capital).max(1).max(1 + self.seldom)
            }
            Kind::Digit => self.length.div_ceil(3),
            // One space belongs to the word behind it, but not to a number.
            Kind::Space => {
                let before_digit = usize::from(next == Some(Kind::Digit));
                usize::from(self.length > 1) + self.length / BLANKS + before_digit
            }
            Kind::Break => 1 + self.length / BLANKS,
            // `_name`, `.name` and the like are often one token.
            Kind::Mark
                if self.length == 1
                    && next == Some(Kind::Letter)
                    && "_.-/([".contains(self.last) =>
            {
                0
            }
            Kind::Mark => {
                let different = self.length - self.repeated;
                different.div_ceil(4) + self.seldom + self.repeated / 8
            }
            Kind::Control => self.length,
            Kind::Script(twelfths) => (self.length * usize::from(twelfths)).div_ceil(12),
        }
    }
}

/// Characters that tokens are made of together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    Break,
    Mark,
    Control,
    /// What is not ASCII, with the twelfths of a token that a character costs.
    Script(u8),
}

impl Kind {
    fn of(letter: char) -> Self {
        match letter {
            'a'..='z' | 'A'..='Z' | 'À'..='ɏ' => Self::Letter,
            '0'..='9' => Self::Digit,
            ' ' | '\t' => Self::Space,
            '\n' | '\r' => Self::Break,
            '\0'..='\x1f' | '\x7f' => Self::Control,
            '!'..='~' => Self::Mark,
            _ => Self::Script(twelfths_of(letter)),
        }
    }
}

/// What a character of another script costs, as measured over words of it, in twelfths of a token.
fn twelfths_of(letter: char) -> u8 {
    match u32::from(letter) {
        0x370..=0x52f | 0x590..=0x6ff => 5,
        0x900..=0xd7f => 6,
        0xe00..=0xeff => 8,
        0x2010..=0x2027 | 0x2500..=0x257f | 0x3000..=0x303f | 0xff00..=0xff65 => 12,
        0x3040..=0x30ff | 0x4e00..=0x9fff | 0xac00..=0xd7a3 => 13,
        0x200d | 0xfe0f | 0xfffd => 14,
        0x80..=0xbf | 0x2000..=0x2fff => 24,
        0x1_f000..=0x1_faff => 27,
        0..0x1_0000 => 36,
        _ => 48,
    }
}

fn is_pair_of_letters(one: char, other: char) -> bool {
    let Some(follower) = place_of(other) else { return true };
    let Some(place) = place_of(one) else { return one == other };
    place == follower || FOLLOWERS[place] >> follower & 1 == 1
}

/// Where a letter stands in the alphabet.
fn place_of(letter: char) -> Option<usize> {
    letter.is_ascii_alphabetic().then(|| usize::from(letter as u8 & 31) - 1)
}

/// Sets of letters as bits.
const fn letters(sets: [&str; 26]) -> [u32; 26] {
    let mut bits = [0; 26];
    let mut at = 0;
    while at < 26 {
        let set = sets[at].as_bytes();
        let mut next = 0;
        while next < set.len() {
            bits[at] |= 1 << (set[next] - b'a');
            next += 1;
        }
        at += 1;
    }
    bits
}

/// Whether two marks often stand together in one token.
fn is_pair_of_marks(one: char, other: char) -> bool {
    let followers = match one {
        '"' => ":,}]/)>.;",
        '\'' => ":,]).;",
        '{' => "\"'}{",
        '}' => ",}]);",
        '[' => "\"'{]",
        ']' => ",]}):;.(",
        '(' => "\"')([{*/",
        ')' => ":;,.){}]",
        ',' => "\"'{",
        ':' => "\"'/:[{",
        '-' => ">-",
        '=' => "=>\"'",
        '<' => "/=<!",
        '/' => ">/*.",
        '>' => "=<",
        ';' => "}",
        '!' => "=",
        '*' => "*/",
        '.' => "./",
        '\\' => "\"\\",
        '&' | '|' | '#' | '_' | '`' | '~' | '%' | '+' => return one == other,
        _ => "",
    };
    (one == other && one != '[') || followers.contains(other)
}
