//! Words of names and of sentences, brought to a stem.

/// Words that say nothing about which tool is meant.
const STOP: &[&str] = &[
    "a", "all", "also", "an", "and", "another", "any", "are", "as", "at", "away", "be", "but",
    "by", "can", "could", "did", "do", "does", "for", "from", "given", "has", "have", "how", "i",
    "if", "in", "into", "is", "it", "its", "just", "let", "like", "me", "my", "need", "of", "off",
    "on", "one", "or", "our", "out", "please", "should", "so", "some", "than", "that", "the",
    "their", "them", "then", "there", "these", "this", "those", "to", "up", "us", "used", "using",
    "via", "want", "was", "we", "what", "which", "will", "with", "you", "your",
];

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

/// Whether words ask for something to be shown.
pub(crate) fn asks(words: &[String]) -> bool {
    words.first().is_some_and(|first| ASKING.contains(&first.as_str()))
}

/// Whether a word says something about which tool is meant.
pub(crate) fn tells(word: &str) -> bool {
    !STOP.contains(&word)
}

/// Endings and what takes their place, longer ones first.
const ENDINGS: &[(&str, &str)] = &[
    ("ification", "ifi"),
    ("ization", "iz"),
    ("isation", "iz"),
    ("ation", "at"),
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
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
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

/// Whether what is left of a word is still one: three letters, of them a vowel.
fn is_enough(stem: &str) -> bool {
    stem.len() >= 3 && stem.contains(['a', 'e', 'i', 'o', 'u', 'y'])
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
