//! Words of names and of sentences, brought to a stem.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words that say nothing about which tool is meant.
static STOP: LazyLock<BTreeSet<&str>> =
    LazyLock::new(|| include_str!("stop_words.txt").split_whitespace().collect());

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// In lower case and without accents.
    pub(crate) word: String,
    /// Whether it looks like a name or a value: a capital letter inside a text, digits, or what a text is about.
    pub(crate) is_name: bool,
}

/// Words after which a query says what a text, and not what a tool, is about.
const SUBJECT: &[&str] =
    &["about", "called", "containing", "mentioning", "named", "regarding", "saying", "titled"];

/// The words of a query in their order.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut is_subject = false;
    for (at, piece) in text.split_whitespace().enumerate() {
        let capital = piece.chars().find(|letter| letter.is_alphanumeric());
        let is_value = piece.contains(['@', '/', '\\', '#'])
            || piece.chars().any(|letter| letter.is_ascii_digit());
        // The name of a channel.
        if piece.starts_with('#') {
            tokens.push(Token { word: "channel".to_owned(), is_name: true });
        }
        let is_acronym = piece.chars().filter(|letter| letter.is_uppercase()).count() > 1;
        let is_name = is_subject
            || is_value
            || (at > 0 && !is_acronym && capital.is_some_and(char::is_uppercase));
        let words = split(&piece.replace(['\'', '’'], if is_elided(piece) { " " } else { "" }));
        is_subject |= SUBJECT.contains(&piece);
        tokens.extend(words.iter().map(|word| Token { word: fold(word), is_name }));
    }
    // A single letter says nothing, and a number is a value.
    let says = |word: &str| !word.is_ascii() || word.len() > 1;
    let is_number = |word: &str| word.bytes().all(|digit| digit.is_ascii_digit());
    tokens.retain(|token| says(&token.word) && !is_number(&token.word));
    tokens
}

/// Whether an apostrophe of a piece of text stands between two words: `l'issue`, but not `what's`.
fn is_elided(piece: &str) -> bool {
    piece.find(['\'', '’']).is_some_and(|at| at <= 2)
}

/// A word without the accents of its letters, as people type it who do not have them.
pub(crate) fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let mut folded = String::with_capacity(word.len());
    for letter in word.chars() {
        let plain = match letter {
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'ą' => 'a',
            'ç' | 'ć' | 'č' => 'c',
            'è' | 'é' | 'ê' | 'ë' | 'ę' => 'e',
            'ì' | 'í' | 'î' | 'ï' => 'i',
            'ł' => 'l',
            'ñ' | 'ń' => 'n',
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' => 'o',
            'ś' | 'š' => 's',
            'ù' | 'ú' | 'û' | 'ü' => 'u',
            'ź' | 'ż' | 'ž' => 'z',
            'ё' => 'е',
            'ß' => {
                folded.push('s');
                's'
            }
            other => other,
        };
        folded.push(plain);
    }
    folded
}

/// The words of a text in their order: split at everything that is no letter or digit, and inside
/// names such as `createIssue` and `HTTPServer2`.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let letters: Vec<char> = text.chars().collect();
    for (at, letter) in letters.iter().copied().enumerate() {
        if !letter.is_alphanumeric() {
            // The `'s` of a sentence is no word.
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            continue;
        }
        let before = at.checked_sub(1).map(|before| letters[before]);
        let behind = letters.get(at + 1);
        let begins = before.is_some_and(|before| {
            (before.is_lowercase() && letter.is_uppercase())
                || (before.is_uppercase()
                    && letter.is_uppercase()
                    && behind.is_some_and(|behind| behind.is_lowercase()))
        });
        if begins && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        word.extend(letter.to_lowercase());
    }
    words.extend((!word.is_empty()).then_some(word));
    words.retain(|word| word.len() > 1 || word.chars().all(|letter| letter.is_ascii_digit()));
    words
}

/// Words with which people ask for something to be shown rather than changed.
const ASKING: &[&str] = &[
    "any", "are", "did", "find", "get", "how", "is", "list", "look", "query", "read", "search",
    "see", "show", "view", "what", "when", "where", "which", "who", "whose", "why",
];

/// Whether the stem of a word is that of one that asks for something to be shown.
pub(crate) fn is_asking(word: &str) -> bool {
    ASKING.iter().any(|asking| stem(asking) == word)
}

/// Words that say nothing about which tool is meant.
pub(crate) fn stop_words() -> impl Iterator<Item = &'static str> {
    STOP.iter().copied()
}

/// Whether words ask for something to be shown.
pub(crate) fn asks(words: &[String]) -> bool {
    words.first().is_some_and(|first| ASKING.contains(&first.as_str()))
}

/// Whether a word says something about which tool is meant.
pub(crate) fn tells(word: &str) -> bool {
    !STOP.contains(word)
}

/// Endings and what takes their place, longer ones first.
const ENDINGS: &[(&str, &str)] = &[
    ("ification", "ifi"),
    ("ization", "iz"),
    ("isation", "iz"),
    ("ising", "iz"),
    ("ised", "iz"),
    ("ise", "iz"),
    ("ation", "at"),
    ("our", "or"),
    ("ment", ""),
    ("edly", ""),
    ("ing", ""),
    ("ion", ""),
    ("ive", ""),
    ("ed", ""),
    ("ly", ""),
    ("al", ""),
];

/// Endings that short words have without being made with them.
const LONG_WORDS: &[&str] = &["ment", "ion", "ive", "al"];

/// Endings of the plural, and of words that only look like one.
const PLURALS: &[(&str, &str)] = &[
    ("sses", "ss"),
    ("ies", "y"),
    ("xes", "x"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
];

/// The stem of a word: endings of English taken off, and nothing that would need a dictionary.
pub(crate) fn stem(word: &str) -> String {
    if !word.is_ascii() {
        return fold(word);
    }
    if word.len() < 4 {
        // Of a short name: `dbs`, but not `bus`.
        let plural = word.strip_suffix('s').filter(|one| one.len() == 2 && !one.ends_with(VOWELS));
        return plural.unwrap_or(word).to_owned();
    }
    let singular = without_plural(word);
    let stem = ENDINGS
        .iter()
        .find_map(|(ending, end)| {
            let stem = singular.strip_suffix(ending).filter(|stem| is_enough(stem))?;
            // The end of `deletion`, but not of `notion`.
            if LONG_WORDS.contains(ending) && syllables(stem) < 2 {
                return None;
            }
            Some(format!("{stem}{end}"))
        })
        .unwrap_or(singular);
    let mut stem = stem;
    let doubled = stem.len() > 3
        && stem.as_bytes()[stem.len() - 1] == stem.as_bytes()[stem.len() - 2]
        && !stem.ends_with(['l', 's', 'z', 'e', 'o']);
    if doubled {
        stem.pop();
    }
    for (ending, end) in [("ate", "at"), ("e", ""), ("y", "i")] {
        if let Some(shorter) = stem.strip_suffix(ending).filter(|shorter| shorter.len() > 2) {
            return format!("{shorter}{end}");
        }
    }
    stem
}

fn without_plural(word: &str) -> String {
    for (ending, end) in PLURALS {
        if let Some(stem) = word.strip_suffix(ending) {
            return format!("{stem}{end}");
        }
    }
    word.strip_suffix('s').unwrap_or(word).to_owned()
}

const VOWELS: [char; 6] = ['a', 'e', 'i', 'o', 'u', 'y'];

/// Whether what is left of a word is still one: three letters, of them a vowel.
fn is_enough(stem: &str) -> bool {
    stem.len() >= 3 && stem.contains(VOWELS)
}

/// How often a vowel is followed by a consonant.
fn syllables(stem: &str) -> usize {
    let mut count = 0;
    let mut open = false;
    for (at, letter) in stem.chars().enumerate() {
        let vowel = "aeiou".contains(letter) || (letter == 'y' && at > 0 && !open);
        count += usize::from(open && !vowel);
        open = vowel;
    }
    count
}
