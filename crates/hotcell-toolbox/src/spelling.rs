//! Finds the known word that a misspelt one was meant to be.

/// The shortest word that is corrected.
const SHORTEST: usize = 4;
/// The shortest word in which two mistakes are corrected.
const TWO_MISTAKES: usize = 8;
/// The shortest word in which a replaced letter, or an added one that is not doubled, is corrected: among
/// short words that usually makes another word.
const REPLACED: usize = 6;
/// Letters that sound alike.
const SOUNDS: [&[u8]; 6] = [b"aeiouy", b"csz", b"ckq", b"mn", b"dt", b"vfb"];
/// Letters that are next to each other on a keyboard.
const ROWS: [&[u8]; 3] = [b"qwertyuiop", b"asdfghjkl", b"zxcvbnm"];
/// The longest word that is corrected.
const LONGEST: usize = 24;

/// Words that are spelt right.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    /// Each with the set of its letters.
    words: Vec<(Box<str>, u32)>,
}

impl Dictionary {
    /// A dictionary of words in lower case; other than ASCII words are left out.
    pub(crate) fn new<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let fits =
            |word: &&str| word.len() + 1 >= SHORTEST && word.len() <= LONGEST && word.is_ascii();
        let mut words: Vec<(Box<str>, u32)> =
            words.filter(fits).map(|word| (Box::from(word), letters(word))).collect();
        words.sort();
        words.dedup();
        words.shrink_to_fit();
        Self { words }
    }

    /// The word that is nearest to a misspelt one, if one is near enough.
    pub(crate) fn correct(&self, word: &str) -> Option<&str> {
        let length = word.len();
        if !(SHORTEST..=LONGEST).contains(&length) || !word.is_ascii() {
            return None;
        }
        let mistakes = if length >= TWO_MISTAKES { 2 } else { 1 };
        let set = letters(word);
        let bytes = word.as_bytes();
        let near = self.words.iter().filter(|(known, known_set)| {
            let known = known.as_bytes();
            known.len().abs_diff(length) <= mistakes
                && (known_set ^ set).count_ones() as usize <= 2 * mistakes
                // People get the first letter right, or swap it with the second.
                && (known[0] == bytes[0] || (known[0] == bytes[1] && known[1] == bytes[0]))
        });
        let ranked = near.filter_map(|(known, known_set)| {
            let distance = distance(bytes, known.as_bytes());
            let other_letters = (known_set ^ set).count_ones();
            (distance <= mistakes).then_some(((distance, other_letters), known))
        });
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, known)| &**known)
    }
}

/// The letters of a word as a set of bits.
fn letters(word: &str) -> u32 {
    word.bytes().filter(u8::is_ascii_lowercase).fold(0, |set, letter| set | 1 << (letter - b'a'))
}

/// How many letters were left out, added, swapped with the next one, or replaced by one that is easily
/// confused with it; any other replacement counts twice, since it usually makes another word.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let width = other.len() + 1;
    let mut before = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    let mut row = vec![0; width];
    for (at, letter) in one.iter().enumerate() {
        row[0] = at + 1;
        for (to, known) in other.iter().enumerate() {
            let is_neighbour = one.get(at + 1) == Some(letter) || at > 0 && one[at - 1] == *letter;
            let replaced = match letter == known {
                true => 0,
                false if one.len() < REPLACED => 2,
                false if is_neighbour || is_confused(*letter, *known) => 1,
                false => 2,
            };
            let added = if one.len() < REPLACED && !is_neighbour { 2 } else { 1 };
            let mut best = (last[to] + replaced).min(last[to + 1] + added).min(row[to] + 1);
            let swapped = at > 0 && to > 0 && *letter == other[to - 1] && one[at - 1] == *known;
            if swapped {
                best = best.min(before[to - 1] + 1);
            }
            row[to + 1] = best;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last[width - 1]
}

/// Whether two letters sound alike or are next to each other on a keyboard.
fn is_confused(one: u8, other: u8) -> bool {
    let next_to = |row: &[u8]| {
        let place = |letter| row.iter().position(|known| *known == letter);
        place(one).zip(place(other)).is_some_and(|(one, other)| one.abs_diff(other) == 1)
    };
    let both = |sound: &&[u8]| sound.contains(&one) && sound.contains(&other);
    SOUNDS.iter().any(both) || ROWS.iter().any(|row| next_to(row))
}
