//! What the shell makes of words: parameters, substitutions, braces, splitting.

use super::field::{Field, GAP};
use super::names::uses_name;
use super::state::State;
use super::variables::{hides_command, is_decisive, sets_decisive};
use super::{Input, Reach, Walker};
use crate::finding::Dynamic;
use crate::shell::{Chunk, Dialect, Param, Word};

/// So many words may come of one.
const MOST_FIELDS: usize = 256;
/// So deep may braces lie in each other.
const MOST_BRACES: usize = 12;
/// Braces are looked for in words of so many letters.
const LONGEST_BRACED: usize = 4096;
/// A longer text is not known.
const LONGEST: usize = 64 * 1024;

/// A piece of a word once its value is looked up.
#[derive(Debug, Clone, Default)]
struct Atom {
    text: String,
    quoted: bool,
    /// It comes of an expansion, so that braces and tildes in it are plain.
    expanded: bool,
    splits: bool,
    network: bool,
    /// It is the home directory, which nobody knows.
    home: bool,
    /// It is an array that the text has in full.
    array: bool,
}

impl Walker {
    /// The arguments that come of a word; commands in it are found on the way.
    pub(super) fn expand(
        &mut self,
        word: &Word,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) -> Vec<Field> {
        if let [piece] = word.pieces.as_slice()
            && let Chunk::Text(text) = &piece.chunk
            && (piece.quoted || !text.contains(['*', '?', '[', '{', '~']))
        {
            return vec![Field::known(text)];
        }
        let atoms = self.atoms(word, heredocs, state, reach);
        let words = if self.dialect == Dialect::Bash && has_braces(&atoms) {
            self.dialect_matters = true;
            match braces(&atoms) {
                Some(words) => words,
                None => return vec![Field::unknown()],
            }
        } else {
            self.dialect_matters |= has_braces(&atoms);
            vec![atoms]
        };
        let mut fields = Vec::new();
        for word in words {
            split(&word, state, &mut fields);
            if fields.len() > MOST_FIELDS {
                return vec![Field::unknown()];
            }
        }
        fields
    }

    /// The one text that comes of a word where it is not split, as in an assignment.
    pub(super) fn expand_whole(
        &mut self,
        word: &Word,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) -> Field {
        let atoms = self.atoms(word, heredocs, state, reach);
        let mut field = Field::default();
        for atom in atoms {
            let start = field.text.is_empty() && !atom.quoted && !atom.expanded;
            let tilde = start && atom.text.starts_with('~');
            push_at_home(&mut field, &atom.text, tilde || atom.home, state);
            field.network |= atom.network;
        }
        field
    }

    /// Finds the commands in an arithmetic expression.
    pub(super) fn arithmetic(
        &mut self,
        word: &Word,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        let field = self.expand_whole(word, heredocs, state, reach);
        // A name in arithmetic stands for its value, and a value may have a subscript with a command in it.
        let names =
            field.text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let values = || names.clone().filter_map(|name| state.find_variable(name));
        let runs = |text: &str| text.contains("$(") || text.contains('`');
        let hidden = values().any(runs);
        let decides = sets_decisive(&field.text) || values().any(sets_decisive);
        state.environment |= decides;
        if sets_variables(&field.text) {
            state.forget_variables();
        }
        if hidden || runs(&field.text) {
            self.note_code(word, reach, Dynamic::Code);
        }
    }

    /// A variable whose name is a value.
    fn indirect(&mut self, param: &Param, word: &Word, state: &mut State, reach: &Reach) {
        let name = state.find_variable(&param.name).map_or_else(Field::unknown, Field::known);
        if hides_command(&name.text) {
            self.subscript(&name.text, word.span, state, reach);
        }
        let before = state.environment;
        if uses_name(&name, state) {
            self.note_code(word, reach, Dynamic::Environment);
        }
        // Only looking at it changes nothing.
        state.environment = before || state.environment && param.op.ends_with('=');
        if param.op.ends_with('=') {
            state.forget_variables();
        }
    }

    pub(super) fn note_code(&mut self, word: &Word, reach: &Reach, what: Dynamic) {
        let mut finding =
            crate::finding::Finding::new(crate::finding::Kind::Text, what.describe().to_owned());
        finding.is_dynamic(what);
        finding.as_root = reach.as_root;
        finding.via = reach.via.iter().map(|name| name.to_string()).collect();
        finding.span = Some(self.place(word.span));
        self.push(finding);
    }

    fn atoms(
        &mut self,
        word: &Word,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) -> Vec<Atom> {
        let mut atoms = Vec::with_capacity(word.pieces.len());
        for piece in &word.pieces {
            let quoted = piece.quoted;
            let mut atom = Atom { text: String::new(), quoted, expanded: true, ..Atom::default() };
            match &piece.chunk {
                Chunk::Text(text) => {
                    atom.text.push_str(text);
                    atom.expanded = false;
                }
                Chunk::Hole => unknown(&mut atom),
                Chunk::Param(param) => {
                    self.parameter(param, word, &mut atom, heredocs, state, reach);
                }
                Chunk::Command(script) => {
                    let before = self.found.len();
                    let mut inner = state.clone();
                    let reach = reach.reading(Input::Unknown);
                    self.script(script, heredocs, &mut inner, &reach);
                    unknown(&mut atom);
                    atom.network = self.used_network_since(before);
                }
                Chunk::Backquote(text, span) => {
                    let before = self.found.len();
                    let mut inner = state.clone();
                    let reach = reach.reading(Input::Unknown);
                    self.inner_text(text, *span, &mut inner, &reach);
                    unknown(&mut atom);
                    atom.network = self.used_network_since(before);
                }
                Chunk::Arith(inner) => {
                    self.arithmetic(inner, heredocs, state, reach);
                    atom.text.push(GAP);
                }
                Chunk::Process(script) => {
                    let before = self.found.len();
                    let mut inner = state.clone();
                    let reach = Reach { beside: true, ..reach.reading(Input::Unknown) };
                    self.script(script, heredocs, &mut inner, &reach);
                    atom.text.push_str("/dev/fd/");
                    atom.text.push(GAP);
                    atom.network = self.used_network_since(before);
                }
                Chunk::Array(words) => {
                    for word in words {
                        self.expand(word, heredocs, state, reach);
                    }
                    atom.text.push(GAP);
                    atom.array = true;
                }
            }
            if atom.text.len() > LONGEST && atom.expanded {
                atom.text = GAP.to_string();
            }
            atoms.push(atom);
        }
        atoms
    }

    fn parameter(
        &mut self,
        param: &Param,
        word: &Word,
        atom: &mut Atom,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        if let Some(index) = &param.index {
            self.arithmetic(index, heredocs, state, reach);
        }
        let mut prompt = false;
        if let Some(argument) = &param.argument {
            let field = self.expand_whole(argument, heredocs, state, reach);
            atom.network |= field.network;
            prompt = param.op == "@" && field.text.contains(['P', GAP]);
            if param.op == ":" {
                // Offsets are arithmetic.
                self.arithmetic(argument, heredocs, state, reach);
            }
        }
        if prompt {
            self.note_code(word, reach, Dynamic::Code);
        }
        if is_indirect(param) {
            self.indirect(param, word, state, reach);
        } else if param.op.ends_with('=') {
            state.set_variable(&param.name, None);
            state.environment |= is_decisive(&param.name);
        }
        let plain = param.prefix.is_none() && param.index.is_none() && param.op.is_empty();
        if plain && param.name == "HOME" && !state.is_home_moved() {
            atom.text.push('~');
            atom.home = true;
            return;
        }
        if plain
            && let Some(text) = state.find_variable(&param.name)
            && let Some(fuel) = self.fuel.checked_sub(text.len())
        {
            self.fuel = fuel;
            atom.text.push_str(text);
            return;
        }
        let positional = state.positional.as_ref().filter(|_| plain);
        if let Some(list) = positional {
            if let Ok(index) = param.name.parse::<usize>() {
                atom.text.push_str(list.get(index).map_or("", String::as_str));
                return;
            }
            if matches!(param.name.as_str(), "@" | "*") && list.len() <= MOST_FIELDS {
                let rest = list.get(1..).unwrap_or_default();
                if !atom.quoted || param.name == "*" || rest.len() == 1 {
                    atom.text.push_str(&rest.join(" "));
                    return;
                }
                // Kept apart by what no argument can have, to be taken apart again when words are made.
                atom.text.push_str(&rest.join(APART));
                atom.splits = rest.is_empty();
                return;
            }
        }
        unknown(atom);
        let several = param.name == "@"
            || param.prefix == Some('!')
            || param.index.as_ref().is_some_and(|index| {
                matches!(index.pieces.as_slice(), [piece] if matches!(&piece.chunk, Chunk::Text(text) if text == "@"))
            });
        atom.splits |= several;
    }
}

/// Whether a parameter stands for the one that its value names: `${!x}`, but not `${!x*}` and `${!x[@]}`.
fn is_indirect(param: &Param) -> bool {
    let lists = param.op == "*" || param.op == "@" && param.argument.is_none();
    let numbered = matches!(param.name.as_str(), "#" | "?" | "OPTIND");
    param.prefix == Some('!') && param.index.is_none() && !lists && !numbered
}

/// Whether arithmetic changes a variable.
fn sets_variables(text: &str) -> bool {
    text.contains('=') || text.contains("++") || text.contains("--")
}

/// Stands between arguments that `"$@"` keeps apart.
const APART: &str = "\u{1}\u{0}\u{1}";

fn unknown(atom: &mut Atom) {
    atom.text.push(GAP);
    atom.splits |= !atom.quoted;
}

/// Makes words of the pieces of one.
fn split(atoms: &[Atom], state: &State, fields: &mut Vec<Field>) {
    let blanks = state.splits_at_blanks();
    let mut current: Option<Field> = None;
    for atom in atoms {
        if atom.quoted {
            let mut parts = atom.text.split(APART);
            let field = current.get_or_insert_default();
            push_at_home(field, parts.next().unwrap_or_default(), atom.home, state);
            field.splits |= atom.splits;
            field.network |= atom.network;
            for part in parts {
                fields.extend(current.take());
                current = Some(Field::known(part));
            }
            continue;
        }
        if !atom.expanded {
            let first = current.is_none();
            let field = current.get_or_insert_default();
            field.glob |= has_glob(&atom.text);
            push_at_home(field, &atom.text, first && atom.text.starts_with('~'), state);
            continue;
        }
        if atom.home {
            push_at_home(current.get_or_insert_default(), &atom.text, true, state);
            continue;
        }
        if !blanks && !atom.text.is_empty() {
            let field = current.get_or_insert_default();
            field.text.push(GAP);
            field.splits = true;
            field.network |= atom.network;
            field.array |= atom.array;
            continue;
        }
        let blank = |letter: char| matches!(letter, ' ' | '\t' | '\n');
        for (index, part) in atom.text.split(blank).enumerate() {
            if index > 0 {
                fields.extend(current.take());
            }
            if !part.is_empty() {
                let field = current.get_or_insert_default();
                field.text.push_str(part);
                field.glob |= has_glob(part);
                field.splits |= atom.splits;
                field.network |= atom.network;
                field.array |= atom.array;
            }
            if fields.len() > MOST_FIELDS {
                return;
            }
        }
    }
    fields.extend(current);
}

/// Adds text, which begins with the home directory if `home` says so.
fn push_at_home(field: &mut Field, text: &str, home: bool, state: &State) {
    let own = text == "~" || text.starts_with("~/");
    let (true, true) = (home, own) else {
        field.tilde |= home && field.text.is_empty();
        field.text.push_str(text);
        return;
    };
    match state.find_variable("HOME") {
        Some(known) => field.text.push_str(known),
        None if state.is_home_moved() || !field.text.is_empty() => field.text.push(GAP),
        None => {
            field.tilde = true;
            field.text.push('~');
        }
    }
    field.text.push_str(&text[1..]);
}

/// Whether the shell looks for files by the text.
pub(super) fn has_glob(text: &str) -> bool {
    text.contains(['*', '?'])
        || text.find('[').is_some_and(|at| text.get(at..).is_some_and(|rest| rest.contains(']')))
}

/// Whether bash may make several words of one.
fn has_braces(atoms: &[Atom]) -> bool {
    let plain = atoms.iter().filter(|atom| !atom.quoted && !atom.expanded);
    let has = |sign: &str| plain.clone().any(|atom| atom.text.contains(sign));
    has("{") && has("}") && (has(",") || has(".."))
}

/// One unit of a word that braces are looked for in.
#[derive(Debug, Clone)]
enum Unit {
    Letter(char),
    Atom(Atom),
}

/// The words that come of braces; none if they are too many.
fn braces(atoms: &[Atom]) -> Option<Vec<Vec<Atom>>> {
    let mut units = Vec::new();
    for atom in atoms {
        if atom.quoted || atom.expanded {
            units.push(Unit::Atom(atom.clone()));
        } else {
            units.extend(atom.text.chars().map(Unit::Letter));
        }
    }
    if units.len() > LONGEST_BRACED {
        return None;
    }
    let mut room = MOST_FIELDS * 64;
    let words = alternatives(&units, 0, &mut room)?;
    Some(words.into_iter().map(joined).collect())
}

fn joined(units: Vec<Unit>) -> Vec<Atom> {
    let mut atoms: Vec<Atom> = Vec::new();
    let mut open = false;
    for unit in units {
        match unit {
            Unit::Atom(atom) => {
                atoms.push(atom);
                open = false;
            }
            Unit::Letter(letter) => {
                if open && let Some(last) = atoms.last_mut() {
                    last.text.push(letter);
                } else {
                    atoms.push(Atom { text: letter.to_string(), ..Atom::default() });
                    open = true;
                }
            }
        }
    }
    atoms
}

/// Expands the first braces and, in what comes of it, those after and within them.
fn alternatives(units: &[Unit], depth: usize, room: &mut usize) -> Option<Vec<Vec<Unit>>> {
    if depth > MOST_BRACES {
        return None;
    }
    let mut results: Vec<Vec<Unit>> = vec![Vec::new()];
    let mut at = 0;
    while at < units.len() {
        let options = match (&units[at], closing(units, at)) {
            (Unit::Letter('{'), Some((end, commas))) => {
                let mut starts = vec![at + 1];
                starts.extend(commas.iter().map(|comma| comma + 1));
                let mut stops = commas;
                stops.push(end);
                let mut options = Vec::new();
                if starts.len() == 1 {
                    // `{1..9}`: something of the kind, and several of it.
                    options.push(vec![Unit::Atom(Atom {
                        text: GAP.to_string(),
                        expanded: true,
                        splits: true,
                        ..Atom::default()
                    })]);
                }
                for (start, stop) in starts.iter().zip(&stops).filter(|_| starts.len() > 1) {
                    options.extend(alternatives(units.get(*start..*stop)?, depth + 1, room)?);
                }
                at = end + 1;
                options
            }
            (unit, _) => {
                for result in &mut results {
                    result.push(unit.clone());
                }
                *room = room.checked_sub(results.len())?;
                at += 1;
                continue;
            }
        };
        if results.len().saturating_mul(options.len()) > MOST_FIELDS {
            return None;
        }
        let mut next = Vec::with_capacity(results.len() * options.len());
        for result in &results {
            for option in &options {
                *room = room.checked_sub(result.len() + option.len() + 1)?;
                let mut both = result.clone();
                both.extend(option.iter().cloned());
                next.push(both);
            }
        }
        results = next;
    }
    Some(results)
}

/// Where the brace that opens at `at` closes, with the commas between; none if it is a plain brace.
fn closing(units: &[Unit], at: usize) -> Option<(usize, Vec<usize>)> {
    if !matches!(units[at], Unit::Letter('{')) {
        return None;
    }
    let mut nesting = 0_usize;
    let mut commas = Vec::new();
    let mut dots = false;
    for (index, unit) in units.iter().enumerate().skip(at + 1) {
        let Unit::Letter(letter) = unit else {
            continue;
        };
        match letter {
            '{' => nesting += 1,
            '}' if nesting > 0 => nesting -= 1,
            '}' => {
                return (!commas.is_empty() || dots).then_some((index, commas));
            }
            ',' if nesting == 0 => commas.push(index),
            '.' if nesting == 0 => {
                dots |= matches!(units.get(index + 1), Some(Unit::Letter('.')));
            }
            _ => {}
        }
    }
    None
}
