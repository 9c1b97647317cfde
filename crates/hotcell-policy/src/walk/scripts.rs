//! Scripts of `awk` and `sed`: whether they run commands, and which files they write.

use super::field::{Field, GAP};
use super::options::{Spec, permuted};
use super::run::Call;
use crate::finding::Dynamic;

/// What a script does beyond working on text.
#[derive(Debug, Default)]
pub(super) struct ScriptDeeds {
    pub(super) dynamic: Vec<Dynamic>,
    /// Files that it writes; unknown where a name is put together.
    pub(super) writes: Vec<Field>,
}

impl ScriptDeeds {
    fn runs(&mut self, what: Dynamic) {
        if !self.dynamic.contains(&what) {
            self.dynamic.push(what);
        }
    }
}

/// Options of awk that take the next argument and mean nothing here.
const AWK_VALUES: &[&str] = &["-F", "-v", "--field-separator", "--assign"];
/// Options of awk that mean nothing here.
const AWK_PLAIN: &[&str] = &[
    "-F",
    "-v",
    "--field-separator=",
    "--assign=",
    "--posix",
    "--traditional",
    "--re-interval",
    "--version",
    "--help",
    "--lint",
    "--sandbox",
    "--csv",
];

/// Programs of awk run commands by `system`, by pipes and by `getline`.
pub(super) fn awk(call: &Call<'_>) -> ScriptDeeds {
    let mut deeds = ScriptDeeds::default();
    let mut programs: Vec<Field> = Vec::new();
    let mut operand: Option<&Field> = None;
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        let text = arg.text.as_str();
        if text == "--" {
            operand = args.next();
            break;
        }
        if !text.starts_with('-') || text == "-" {
            operand = Some(arg);
            break;
        }
        match text {
            "-e" | "--source" => programs.extend(args.next().cloned()),
            _ if AWK_VALUES.contains(&text) => {
                args.next();
            }
            _ if text.starts_with("--source=") || text.starts_with("-e") => {
                let attached = text.trim_start_matches("--source=");
                let attached = attached.strip_prefix("-e").unwrap_or(attached);
                programs.push(Field { text: attached.to_owned(), ..arg.clone() });
            }
            _ if AWK_PLAIN.iter().any(|plain| text.starts_with(plain)) => {}
            // A file with a program, a library, or an option that is not known.
            _ => deeds.runs(Dynamic::Script),
        }
    }
    if programs.is_empty() && deeds.dynamic.is_empty() {
        programs.extend(operand.cloned());
    }
    for program in programs {
        if program.find().is_none() && (program.text.contains(GAP) || program.splits) {
            deeds.runs(Dynamic::Code);
        }
        awk_program(&program.text, &mut deeds);
    }
    deeds
}

/// One sign of a program of awk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sign {
    Word(String),
    Text(String),
    /// A number or a pattern.
    Value,
    Other(char),
}

fn awk_program(program: &str, deeds: &mut ScriptDeeds) {
    let signs = awk_signs(program);
    let mut printing = false;
    let mut nesting = 0_usize;
    let mut at = 0;
    while at < signs.len() {
        match &signs[at] {
            Sign::Word(word) if word == "system" || word == "getline" => {
                deeds.runs(Dynamic::Language);
            }
            Sign::Word(word) if word == "print" || word == "printf" => {
                printing = true;
                nesting = 0;
            }
            Sign::Other('@') => deeds.runs(Dynamic::Language),
            Sign::Other('|') if signs.get(at + 1) == Some(&Sign::Other('|')) => at += 1,
            Sign::Other('|') => deeds.runs(Dynamic::Language),
            Sign::Other('(' | '[') => nesting += 1,
            Sign::Other(')' | ']') => nesting = nesting.saturating_sub(1),
            Sign::Other(';' | '\n' | '}' | '{') if nesting == 0 => printing = false,
            Sign::Other('>') if printing && nesting == 0 => {
                let twice = signs.get(at + 1) == Some(&Sign::Other('>'));
                at += usize::from(twice);
                let alone = !matches!(
                    signs.get(at + 2),
                    Some(Sign::Word(_) | Sign::Text(_) | Sign::Value | Sign::Other('(' | '$'))
                );
                deeds.writes.push(match signs.get(at + 1) {
                    Some(Sign::Text(file)) if alone => Field::known(file),
                    _ => Field::unknown(),
                });
                printing = false;
            }
            Sign::Word(_) | Sign::Text(_) | Sign::Value | Sign::Other(_) => {}
        }
        at += 1;
    }
}

/// Takes a program apart. Where a slash begins a pattern is told by what stands before it.
fn awk_signs(program: &str) -> Vec<Sign> {
    let mut signs: Vec<Sign> = Vec::new();
    let mut letters = program.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' | ';' => signs.push(Sign::Other(letter)),
            '\\' if letters.peek() == Some(&'\n') => {
                letters.next();
            }
            '#' => while letters.next_if(|letter| *letter != '\n').is_some() {},
            '"' => {
                let mut text = String::new();
                while let Some(letter) = letters.next() {
                    match letter {
                        '"' => break,
                        '\\' => {
                            // What an escape stands for is not looked at: the text is not known then.
                            text.push(GAP);
                            letters.next();
                        }
                        _ => text.push(letter),
                    }
                }
                signs.push(Sign::Text(text));
            }
            '/' if begins_pattern(signs.last()) => {
                let mut bracket = false;
                while let Some(letter) = letters.next() {
                    match letter {
                        '\\' => {
                            letters.next();
                        }
                        '[' => bracket = true,
                        ']' => bracket = false,
                        '/' if !bracket => break,
                        '\n' => break,
                        _ => {}
                    }
                }
                signs.push(Sign::Value);
            }
            _ if letter.is_whitespace() => {}
            _ if letter.is_ascii_alphabetic() || letter == '_' => {
                let mut word = String::from(letter);
                while let Some(next) =
                    letters.next_if(|next| next.is_ascii_alphanumeric() || *next == '_')
                {
                    word.push(next);
                }
                signs.push(Sign::Word(word));
            }
            _ if letter.is_ascii_digit() => {
                while letters.next_if(|next| next.is_ascii_alphanumeric() || *next == '.').is_some()
                {
                }
                signs.push(Sign::Value);
            }
            _ => signs.push(Sign::Other(letter)),
        }
    }
    signs
}

fn begins_pattern(before: Option<&Sign>) -> bool {
    match before {
        None => true,
        Some(Sign::Word(word)) => {
            matches!(word.as_str(), "print" | "printf" | "return" | "in" | "case" | "else" | "do")
        }
        Some(Sign::Text(_) | Sign::Value) => false,
        Some(Sign::Other(sign)) => !matches!(sign, ')' | ']' | '$'),
    }
}

/// Options of sed. Where those of others differ they have fewer, and refuse what they do not know.
const SED: Spec = Spec {
    short: "bsnrzuEe:f:l:i::V:",
    long: "binary debug expression= file= follow-symlinks help in-place? line-length= null-data posix quiet regexp-extended sandbox separate silent unbuffered version zero-terminated",
};

/// A command line of sed, taken apart.
#[derive(Debug)]
pub(super) struct SedCall {
    /// Scripts among the arguments. Some of them may be no scripts for every sed.
    scripts: Vec<Field>,
    /// A script is in a file.
    from_file: bool,
    /// Files that are read.
    pub(super) files: Vec<Field>,
    /// What is added to names of files that are edited in place and kept; empty if they are not kept.
    pub(super) in_place: Option<Field>,
}

impl SedCall {
    pub(super) fn read(args: &[Field]) -> Self {
        let (given, operands) = permuted(SED, args);
        let mut files: Vec<Field> = operands.into_iter().cloned().collect();
        let from_file = given.has(&["f", "file"]);
        let mut scripts: Vec<Field> = given.all(&["e", "expression"]).cloned().collect();
        if scripts.is_empty() && !from_file {
            // Where `-l` takes no value, what follows it is the script.
            scripts.extend(given.all(&["l"]).cloned());
            if !files.is_empty() {
                scripts.push(files.remove(0));
            }
        }
        let in_place = given
            .has(&["i", "in-place"])
            .then(|| given.find(&["i", "in-place"]).cloned().unwrap_or_default());
        Self { scripts, from_file, files, in_place }
    }
}

/// Scripts of sed run commands by `e` and write files by `w`.
pub(super) fn sed(call: &Call<'_>) -> ScriptDeeds {
    let mut deeds = ScriptDeeds::default();
    let read = SedCall::read(call.args);
    if read.from_file {
        deeds.runs(Dynamic::Script);
    }
    for script in read.scripts {
        if script.text.contains(GAP) || script.splits {
            deeds.runs(Dynamic::Code);
        }
        SedScript { letters: script.text.chars().collect(), at: 0 }.read(&mut deeds);
    }
    deeds
}

/// A script of sed, and how far it is read.
struct SedScript {
    letters: Vec<char>,
    at: usize,
}

impl SedScript {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn read(&mut self, deeds: &mut ScriptDeeds) {
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                // Addresses, and what may stand between commands.
                '/' => self.pattern('/'),
                '\\' => {
                    if let Some(delimiter) = self.peek() {
                        self.at += 1;
                        self.pattern(delimiter);
                    }
                }
                '#' => self.line(),
                'e' => {
                    deeds.runs(Dynamic::Language);
                    self.line();
                }
                'w' | 'W' => self.written(deeds),
                's' => {
                    let Some(delimiter) = self.peek() else { break };
                    self.at += 1;
                    self.pattern(delimiter);
                    self.replacement(delimiter);
                    self.flags(deeds);
                }
                'y' => {
                    let Some(delimiter) = self.peek() else { break };
                    self.at += 1;
                    self.replacement(delimiter);
                    self.replacement(delimiter);
                }
                'a' | 'i' | 'c' => self.text(),
                'r' | 'R' => self.line(),
                'b' | 't' | 'T' | ':' => {
                    while self.peek().is_some_and(|letter| !matches!(letter, ';' | '\n' | '}')) {
                        self.at += 1;
                    }
                }
                // The letter of an address such as `/x/I`, numbers, and commands without more to them.
                _ => {}
            }
        }
    }

    fn line(&mut self) {
        while self.peek().is_some_and(|letter| letter != '\n') {
            self.at += 1;
        }
    }

    /// Text that is added: lines that end with a backslash go on.
    fn text(&mut self) {
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '\\' => self.at += 1,
                '\n' => break,
                _ => {}
            }
        }
    }

    fn pattern(&mut self, delimiter: char) {
        let mut bracket = false;
        let mut first = false;
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '\\' if !bracket => self.at += 1,
                ']' if bracket && !first => bracket = false,
                '[' if !bracket => {
                    bracket = true;
                    first = true;
                    if self.peek() == Some('^') {
                        self.at += 1;
                    }
                    continue;
                }
                _ if letter == delimiter && !bracket => return,
                '\n' if !bracket => return,
                _ => {}
            }
            first = false;
        }
    }

    fn replacement(&mut self, delimiter: char) {
        while let Some(letter) = self.peek() {
            self.at += 1;
            if letter == '\\' {
                self.at += 1;
            } else if letter == delimiter {
                return;
            }
        }
    }

    fn flags(&mut self, deeds: &mut ScriptDeeds) {
        while let Some(letter) = self.peek() {
            match letter {
                'e' => deeds.runs(Dynamic::Language),
                'w' => {
                    self.at += 1;
                    self.written(deeds);
                    return;
                }
                'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => {}
                _ => return,
            }
            self.at += 1;
        }
    }

    fn written(&mut self, deeds: &mut ScriptDeeds) {
        let start = self.at;
        self.line();
        let file: String = self.letters.get(start..self.at).unwrap_or_default().iter().collect();
        let file = file.trim();
        if !file.is_empty() {
            deeds.writes.push(Field::known(file));
        }
    }
}
