//! Arguments that commands of the shell take for names of variables, and values that they take for arrays.

use super::field::{Field, GAP};
use super::options::{Options, Spec, options};
use super::run::Call;
use super::state::State;
use super::variables::{hides_command, is_decisive, sets_decisive};
use super::{Input, Reach, Walker};
use crate::finding::{Dynamic, Finding};

const READ: Spec = Spec { short: "ersa:d:i:n:N:p:t:u:", long: "" };
const MAPFILE: Spec = Spec { short: "td:n:O:s:u:C:c:", long: "" };
const WAIT: Spec = Spec { short: "fnp:", long: "" };
const UNSET: Spec = Spec { short: "fvn", long: "" };
const PRINTF: Spec = Spec { short: "v:", long: "" };

/// Commands that declare variables, with attributes and values.
const DECLARING: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

/// Takes a text for the name of a variable that is set. Tells whether it is not known: then it may be one
/// that decides what runs, and bash runs what stands in its subscript.
pub(super) fn uses_name(name: &Field, state: &mut State) -> bool {
    let unknown = name.text.contains(GAP);
    let (variable, index) = name.text.split_once('[').unwrap_or((&name.text, ""));
    state.environment |= unknown || is_decisive(variable) || sets_decisive(index);
    unknown
}

impl Walker {
    /// Notes what comes of arguments that are names of variables.
    pub(super) fn names_variables(
        &mut self,
        call: &Call<'_>,
        finding: &mut Finding,
        state: &mut State,
    ) {
        let mut names = names_of(call);
        // Words that come of a value may be options, and names after them.
        let takes_names = matches!(call.name, "read" | "mapfile" | "readarray" | "unset" | "wait");
        let hidden = |arg: &&Field| arg.splits && arg.text.contains(GAP);
        if takes_names {
            names.extend(call.args.iter().filter(hidden).cloned());
        }
        for name in &names {
            if uses_name(name, state) {
                finding.is_dynamic(Dynamic::Environment);
            }
        }
        if matches!(call.name, "mapfile" | "readarray") || has_letter(call.args, "a") {
            self.arrays.extend(names.into_iter().map(|name| name.text));
        }
    }

    /// `declare` and the like: which variables they set is seen, and which values bash reads as text.
    pub(super) fn declares(
        &mut self,
        call: &Call<'_>,
        finding: &mut Finding,
        state: &mut State,
        reach: &Reach,
    ) {
        let has = |letters: &str| has_letter(call.args, letters);
        let (arrays, numbers, renames) = (has("aA"), has("i"), call.name != "export" && has("n"));
        // Whichever it stands for is only known when it is set.
        state.environment |= renames;
        for arg in call.args.iter().filter(|arg| !arg.text.starts_with(['-', '+'])) {
            let (name, value) = assignment(&arg.text);
            if name.contains(GAP) || value.is_some() {
                let name = Field::known(name.trim_end_matches('+'));
                if uses_name(&name, state) {
                    finding.is_dynamic(Dynamic::Environment);
                }
            }
            let variable = name.split('[').next().unwrap_or_default().trim_end_matches('+');
            let is_array = arrays || has("g") || self.arrays.contains(variable);
            if arrays || arg.array {
                self.arrays.insert(variable.to_owned());
            }
            let Some(value) = value else { continue };
            let is_data = value.contains(GAP) && !arg.array;
            let literal = value.starts_with([GAP, '(']);
            if is_data && (is_array && literal || numbers) {
                finding.is_dynamic(Dynamic::Code);
            }
            if is_array && value.starts_with('(') && value.contains(['$', '`']) {
                self.subscript(value, call.span, state, reach);
            }
            state.environment |= numbers && sets_decisive(value);
            if arg.find().is_some() {
                self.value_of(variable, value, call.span, state, reach);
            }
        }
    }

    /// `read` and the like: which variables they change is seen, what to is not.
    pub(super) fn changes_variables(
        &mut self,
        call: &Call<'_>,
        finding: &mut Finding,
        state: &mut State,
        reach: &Reach,
    ) {
        let args = call.args;
        state.forget_variables();
        if let Input::Text(text) = &reach.input
            && hides_command(text)
        {
            self.subscript(text, call.span, state, reach);
        }
        match call.name {
            "let" => {
                state.environment |= args.iter().any(|arg| sets_decisive(&arg.text));
                if args.iter().any(Field::is_blank) {
                    finding.is_dynamic(Dynamic::Code);
                }
            }
            name if DECLARING.contains(&name) => {
                self.declares(call, finding, state, reach);
                if args.iter().any(|arg| arg.text.starts_with(['-', '+', GAP])) {
                    state.distrust();
                }
            }
            _ => self.names_variables(call, finding, state),
        }
        if matches!(call.name, "mapfile" | "readarray") && has_letter(args, "C") {
            finding.is_dynamic(Dynamic::Code);
        }
        self.push(finding.clone());
    }
}

/// The arguments of a command that are names of variables.
fn names_of(call: &Call<'_>) -> Vec<Field> {
    let args = call.args;
    let both = |given: Options<'_>, option: &[&str]| {
        let mut names: Vec<Field> = given.all(option).cloned().collect();
        names.extend_from_slice(given.rest);
        names
    };
    match call.name {
        "read" => both(options(READ, args), &["a"]),
        "mapfile" | "readarray" => both(options(MAPFILE, args), &[]),
        "unset" => both(options(UNSET, args), &[]),
        "getopts" => args.get(1).cloned().into_iter().collect(),
        "wait" => {
            let given = options(WAIT, args);
            let mut names: Vec<Field> = given.all(&["p"]).cloned().collect();
            names.extend(args.first().filter(|first| first.text.starts_with(GAP)).cloned());
            names
        }
        "printf" => {
            let mut names: Vec<Field> = options(PRINTF, args).all(&["v"]).cloned().collect();
            // A format that is not known may be the option.
            names.extend(match args {
                [first, _, ..] if first.text.starts_with(GAP) => Some(first.clone()),
                [only] if only.text.starts_with(GAP) && only.splits => Some(only.clone()),
                _ => None,
            });
            names
        }
        "test" | "[" => tested(args),
        _ => Vec::new(),
    }
}

/// What stands after `-v`, or after what may be that.
fn tested(args: &[Field]) -> Vec<Field> {
    let asks = |arg: &Field| matches!(arg.find(), Some("-v" | "-R")) || arg.is_blank();
    let pairs = args.windows(2).filter_map(|pair| match pair {
        [option, name] if asks(option) && (name.is_blank() || option.find().is_some()) => {
            Some(name.clone())
        }
        _ => None,
    });
    pairs.collect()
}

/// A name with its subscript, and the value that is assigned to it.
fn assignment(text: &str) -> (&str, Option<&str>) {
    let equals = text.find('=');
    let subscript = text.find('[').filter(|open| equals.is_none_or(|equals| *open < equals));
    let from = subscript.and_then(|open| text[open..].find(']').map(|close| open + close));
    match text[from.unwrap_or(0)..].find('=') {
        Some(at) => {
            let at = from.unwrap_or(0) + at;
            (&text[..at], Some(&text[at + 1..]))
        }
        None => (text, None),
    }
}

/// Whether one of these letters is among the options.
fn has_letter(args: &[Field], letters: &str) -> bool {
    let among = |arg: &Field| arg.text.contains(|letter: char| letters.contains(letter));
    args.iter().any(|arg| arg.text.starts_with('-') && among(arg))
}
