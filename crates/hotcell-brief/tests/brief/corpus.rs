//! Texts of many kinds, made the same way each time.

use std::fmt::Write;

/// A stream of numbers that is the same each time.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn letters(&mut self, alphabet: &str, count: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..count).map(|_| letters[self.below(letters.len())]).collect()
    }
}

const WORDS: &[&str] = &[
    "the",
    "of",
    "a",
    "river",
    "committee",
    "measured",
    "temperature",
    "between",
    "because",
    "nobody",
    "quickly",
    "architecture",
    "said",
    "yesterday",
    "and",
    "in",
    "to",
    "small",
    "understanding",
    "windows",
    "house",
    "transport",
    "government",
    "was",
    "not",
    "although",
];
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HAN: &str = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从";
const RARE_HAN: &str = "彧翀囍龘靐齉爨癵驫鱻麤灪籲鸞讟钂馕虋纞虪齾龖";
const KANA: &str = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをんアイウエオカキクケコサシスセソ日本語東京";
const HANGUL: &str = "가나다라마바사아자차카타파하고노도로모보소오조한국어서울대학교는을를이가에의";
const CYRILLIC: &[&str] =
    &["привет", "правительство", "быстро", "река", "между", "и", "в", "температура", "комитет"];
const ARABIC: &[&str] = &["مرحبا", "الحكومة", "بين", "في", "من", "درجة", "الحرارة", "سريع"];
const HINDI: &[&str] = &["नमस्ते", "सरकार", "के", "बीच", "तापमान", "में", "जल्दी"];
const THAI: &[&str] = &["สวัสดี", "รัฐบาล", "ระหว่าง", "อุณหภูมิ", "ใน"];
const RARE: &[&str] = &["ᚠᚢᚦᚨᚱᚲ", "ꓡꓲꓢꓴ", "𐌰𐌱𐌲", "ߒߞߏ", "ⴰⵣⵓⵍ", "ᏣᎳᎩ", "አማርኛ", "ភាសាខ្មែរ"];
const GERMAN: &[&str] =
    &["Überprüfung", "der", "Größe", "für", "Verfügbarkeit", "und", "natürlich", "Straße", "zwölf"];
const EMOJI: &[&str] =
    &["😀", "🎉", "🚀", "👩‍💻", "🏳️‍🌈", "🇩🇪", "❤️", "✅", "⚠️", "🧑🏽‍🚒", "🦑", "🪿", "🫠", "🀄"];
const PUNCTUATION: &str = "!@#$%^&*()_+-=[]{}|;':\",./<>?`~\\";

/// Adds a piece to a text; the last argument counts them.
type Push = fn(&mut Numbers, &mut String, usize);

const KINDS: &[(&str, Push)] = &[
    ("prose", |n, out, _| push_words(n, out, WORDS)),
    ("german", |n, out, _| push_words(n, out, GERMAN)),
    ("cyrillic", |n, out, _| push_words(n, out, CYRILLIC)),
    ("arabic", |n, out, _| push_words(n, out, ARABIC)),
    ("hindi", |n, out, _| push_words(n, out, HINDI)),
    ("thai", |n, out, _| push_words(n, out, THAI)),
    ("rare scripts", |n, out, _| push_words(n, out, RARE)),
    ("capitals", |n, out, _| out.push_str(&(n.of(WORDS).to_uppercase() + " "))),
    ("base64 lines", |n, out, _| out.push_str(&(n.letters(BASE64, 76) + "\n"))),
    ("base64", |n, out, _| out.push_str(&n.letters(BASE64, 64))),
    ("hex", |n, out, _| {
        let _ = write!(out, "{:016x}", n.next());
    }),
    ("upper hex", |n, out, _| {
        let _ = write!(out, "{:016X}", n.next());
    }),
    ("hex bytes", |n, out, _| {
        let _ = write!(out, "\\x{:02x}", n.below(256));
    }),
    ("hex dump", |n, out, at| {
        let _ = writeln!(
            out,
            "{:08x}  {:02x} {:02x} {:02x} {:02x}",
            at * 4,
            n.below(256),
            n.below(256),
            n.below(256),
            n.below(256)
        );
    }),
    ("uuids", |n, out, _| {
        let _ = writeln!(
            out,
            "{:08x}-{:04x}-4{:03x}-{:012x}",
            n.next() as u32,
            n.below(65536),
            n.below(4096),
            n.next() >> 16
        );
    }),
    ("random lower", |n, out, _| {
        out.push_str(&(n.letters("abcdefghijklmnopqrstuvwxyz", 12) + " "))
    }),
    ("one run of random lower", |n, out, _| {
        out.push_str(&n.letters("abcdefghijklmnopqrstuvwxyz", 12))
    }),
    ("one run of random upper", |n, out, _| {
        out.push_str(&n.letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 12))
    }),
    ("dna", |n, out, _| out.push_str(&n.letters("ACGT", 60))),
    ("one letter", |_, out, _| out.push_str("aaaaaaaaaaaaaaaa")),
    ("han", |n, out, _| out.push_str(&(n.letters(HAN, 12) + "，"))),
    ("rare han", |n, out, _| out.push_str(&n.letters(RARE_HAN, 12))),
    ("kana", |n, out, _| out.push_str(&(n.letters(KANA, 12) + "。"))),
    ("hangul", |n, out, _| out.push_str(&(n.letters(HANGUL, 4) + " "))),
    ("emoji", |n, out, _| out.push_str(n.of(EMOJI))),
    ("emoji words", |n, out, _| {
        push_words(n, out, WORDS);
        out.push_str(n.of(EMOJI));
    }),
    ("punctuation", |n, out, _| out.push_str(&n.letters(PUNCTUATION, 20))),
    ("rulers", |_, out, _| out.push_str("==================== --------------------\n")),
    ("boxes", |n, out, _| {
        let _ = writeln!(out, "│ {} │ {} ║\n├────────┼──────┤", n.of(WORDS), n.below(100));
    }),
    ("spaces", |n, out, _| {
        out.push_str(&" ".repeat(n.below(120)));
        out.push('x');
    }),
    ("blank lines", |n, out, _| {
        out.push_str(&"\n".repeat(1 + n.below(6)));
        out.push('x');
    }),
    ("tabs", |n, out, _| {
        let _ = write!(out, "{}\t\t{}\t", n.below(10), n.below(10));
    }),
    ("numbers", |n, out, _| {
        let _ = write!(out, "{}, ", n.next());
    }),
    ("floats", |n, out, _| {
        let _ = write!(out, "{}.{} ", n.below(1000), n.next());
    }),
    ("long digits", |n, out, _| {
        let _ = write!(out, "{}", n.next());
    }),
    ("controls", |n, out, _| out.push(char::from(u8::try_from(n.below(32)).unwrap()))),
    ("bytes", |n, out, _| {
        let raw: Vec<u8> = (0..32).map(|_| u8::try_from(n.below(256)).unwrap()).collect();
        out.push_str(&String::from_utf8_lossy(&raw));
    }),
    ("latin-1", |n, out, _| {
        out.extend((0..8).map(|_| char::from(u8::try_from(n.below(256)).unwrap())))
    }),
    ("ansi", |n, out, _| {
        let _ = writeln!(out, "\x1b[1;{}m{}\x1b[0m {}", 30 + n.below(8), n.of(WORDS), n.of(WORDS));
    }),
    ("any characters", |n, out, _| {
        out.extend(char::from_u32(u32::try_from(n.below(0x11_0000)).unwrap()))
    }),
    ("log", log_line),
    ("json", json_object),
    ("csv", |n, out, at| {
        let _ = writeln!(
            out,
            "{at},{},{}.{:02},2026-0{}-1{},{}",
            n.of(WORDS),
            n.below(900),
            n.below(100),
            1 + n.below(9),
            n.below(10),
            n.of(&["yes", "no"])
        );
    }),
    ("source", |n, out, at| {
        let _ = writeln!(
            out,
            "    def {}_{}(self, {}: int = {at}) -> dict[str, Any]:\n        return self._{}.get(\"{}\", None)\n",
            n.of(WORDS),
            n.of(WORDS),
            n.of(WORDS),
            n.of(WORDS),
            n.of(WORDS)
        );
    }),
    ("urls", |n, out, at| {
        let _ = writeln!(
            out,
            "https://example.com/{}/{at}?q={}&id={:x}",
            n.of(WORDS),
            n.of(WORDS),
            n.below(1 << 30)
        );
    }),
    ("deep nesting", |_, out, at| {
        out.push_str(if at % 2 == 0 { "[[{\"a\":" } else { "[[{\"b\":[" })
    }),
    ("escaped", |n, out, _| {
        let _ = write!(out, "\\\"{}\\\\n\\u{:04x}\\t", n.of(WORDS), n.below(65536));
    }),
    ("traceback", |n, out, at| {
        let _ = writeln!(
            out,
            "  File \"/workspace/{}.py\", line {at}, in {}\n    {}({})",
            n.of(WORDS),
            n.of(WORDS),
            n.of(WORDS),
            n.below(99)
        );
    }),
    ("minified", |n, out, _| {
        let _ = write!(
            out,
            "function {}({},{}){{return {}[{}]}}var {}=",
            n.letters("abcdefgt", 1),
            n.letters("aeno", 1),
            n.letters("rst", 1),
            n.letters("aeno", 2),
            n.letters("rst", 1),
            n.letters("abcXYZ", 2)
        );
    }),
];

/// A text of each kind, of about this many bytes or more.
pub(crate) fn texts(bytes: usize) -> Vec<(&'static str, String)> {
    let mut made = Vec::new();
    for (at, (name, push)) in KINDS.iter().enumerate() {
        let mut numbers = Numbers::new(at as u64);
        let mut text = String::new();
        let mut line = 0;
        while text.len() < bytes {
            push(&mut numbers, &mut text, line);
            line += 1;
        }
        made.push((*name, text));
    }
    made
}

fn push_words(numbers: &mut Numbers, out: &mut String, words: &[&str]) {
    for _ in 0..11 {
        out.push_str(numbers.of(words));
        out.push(' ');
    }
    out.push_str(numbers.of(words));
    out.push_str(numbers.of(&[".\n", ". ", ", ", "? "]));
}

fn log_line(n: &mut Numbers, out: &mut String, at: usize) {
    let level = if at % 97 == 13 { "ERROR" } else { n.of(&["INFO", "INFO", "DEBUG", "WARN"]) };
    let _ = writeln!(
        out,
        "2026-11-16T13:{:02}:{:02}.{:03}Z {level} [worker-{}] {}.{}: request {:08x} took {} ms",
        at / 60 % 60,
        at % 60,
        n.below(1000),
        n.below(16),
        n.of(WORDS),
        n.of(WORDS),
        n.below(1 << 31),
        n.below(5000),
    );
}

fn json_object(n: &mut Numbers, out: &mut String, at: usize) {
    let _ = write!(
        out,
        "{{\"id\":{at},\"name\":\"{} {}\",\"tags\":[\"{}\",\"{}\"],\"price\":{}.{},\"nested\":{{\"ok\":true,\"note\":null}}}},",
        n.of(WORDS),
        n.of(WORDS),
        n.of(WORDS),
        n.of(WORDS),
        n.below(1000),
        n.below(100),
    );
}
