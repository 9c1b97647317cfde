//! What is known of the shell at a place in the text: variables, directory, functions.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::steps;

/// So many variables, and so many functions, are followed; others are unknown.
const MOST: usize = 64;
/// What a longer alias stands for is not looked at where it is used.
const LONGEST_ALIAS: usize = 1024;
/// A longer value is unknown.
const LONGEST: usize = 16 * 1024;
/// In a directory with a longer path, nobody knows where a command runs.
const LONGEST_DIRECTORY: usize = 1024;
/// So many directories may be the one in which a command runs; with more it is unknown.
const MOST_DIRECTORIES: usize = 4;

/// Variables whose value is not what was assigned last.
const SPECIAL: &[&str] = &[
    "_",
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "LINENO",
    "DIRSTACK",
    "GROUPS",
    "PIPESTATUS",
    "FUNCNAME",
    "PWD",
    "OLDPWD",
    "REPLY",
    "UID",
    "EUID",
    "PPID",
    "HISTCMD",
    "OPTARG",
    "OPTIND",
    "HOSTNAME",
    "SHELLOPTS",
    "MAPFILE",
    "COPROC",
];

type Directories = Vec<Rc<str>>;

/// Whether a function of that name is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defined {
    Surely,
    Perhaps,
}

/// What is known at one place.
#[derive(Debug, Clone)]
pub(crate) struct State {
    variables: BTreeMap<Rc<str>, Rc<str>>,
    functions: BTreeMap<Rc<str>, Defined>,
    /// More functions were defined than are followed, or by text that is not known.
    any_function: bool,
    /// What names may stand for.
    aliases: BTreeMap<Rc<str>, Rc<str>>,
    /// The directories that may be the current one; none if it is not known.
    directories: Directories,
    /// After `cd`: where one is if it worked, and if not.
    moved: Option<(Directories, Directories)>,
    /// Nothing that is assigned may be relied on.
    unreliable: bool,
    /// The home directory is another than at the start.
    home_moved: bool,
    /// What a name means was changed by a variable.
    pub(crate) environment: bool,
    /// A command that fails ends the script.
    pub(crate) errexit: bool,
    pub(crate) positional: Option<Rc<[String]>>,
}

impl State {
    pub(crate) fn new(directory: Option<&str>) -> Self {
        let mut variables = BTreeMap::new();
        // Shells do not take this one from their environment.
        variables.insert(Rc::from("IFS"), Rc::from(" \t\n"));
        Self {
            variables,
            functions: BTreeMap::new(),
            any_function: false,
            aliases: BTreeMap::new(),
            directories: directory.map(Rc::from).into_iter().collect(),
            moved: None,
            unreliable: false,
            home_moved: false,
            environment: false,
            errexit: false,
            positional: None,
        }
    }

    /// What is known at the start of a function or a trap: hardly anything.
    pub(crate) fn elsewhere(&self) -> Self {
        let mut state = self.clone();
        state.forget();
        state.errexit = false;
        for defined in state.functions.values_mut() {
            *defined = Defined::Perhaps;
        }
        state
    }

    /// What a new shell starts with.
    pub(crate) fn new_shell(&self) -> Self {
        let mut state = Self::new(None);
        state.directories.clone_from(&self.directories);
        state.environment = self.environment;
        state.home_moved = self.home_moved;
        state
    }

    /// Anything may have happened to variables and directory.
    pub(crate) fn forget(&mut self) {
        self.variables.clear();
        self.directories.clear();
        self.moved = None;
        self.positional = None;
    }

    pub(crate) fn forget_variables(&mut self) {
        self.variables.clear();
    }

    /// From here on no assignment is relied on.
    pub(crate) fn distrust(&mut self) {
        self.unreliable = true;
        self.variables.clear();
    }

    /// Whether variables may have been declared to be something else than text.
    pub(crate) fn is_distrusted(&self) -> bool {
        self.unreliable
    }

    pub(crate) fn find_variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| &**value)
    }

    pub(crate) fn set_variable(&mut self, name: &str, value: Option<&str>) {
        self.home_moved |= name == "HOME";
        let special = SPECIAL.contains(&name)
            || name.starts_with("BASH")
            || name.starts_with("COMP")
            || name.starts_with("HIST");
        match value {
            Some(value)
                if !self.unreliable
                    && !special
                    && value.len() <= LONGEST
                    && (self.variables.len() < MOST || self.variables.contains_key(name)) =>
            {
                self.variables.insert(Rc::from(name), Rc::from(value));
            }
            _ => {
                self.variables.remove(name);
            }
        }
    }

    pub(crate) fn is_home_moved(&self) -> bool {
        self.home_moved
    }

    /// What a function may have changed for good, wherever it is called.
    pub(crate) fn keep_from(&mut self, body: &Self) {
        self.environment |= body.environment;
        self.home_moved |= body.home_moved;
    }

    /// Whether unquoted values are split at blanks and nothing else.
    pub(crate) fn splits_at_blanks(&self) -> bool {
        self.find_variable("IFS") == Some(" \t\n")
    }

    pub(crate) fn define(&mut self, name: &str) {
        if self.functions.len() >= MOST && !self.functions.contains_key(name) {
            self.any_function = true;
            return;
        }
        self.functions.insert(Rc::from(name), Defined::Surely);
    }

    pub(crate) fn undefine_all(&mut self) {
        for defined in self.functions.values_mut() {
            *defined = Defined::Perhaps;
        }
    }

    pub(crate) fn find_function(&self, name: &str) -> Option<Defined> {
        let found = self.functions.get(name).copied();
        found.or(self.any_function.then_some(Defined::Perhaps))
    }

    pub(crate) fn set_alias(&mut self, name: &str, text: &str) {
        if self.aliases.len() < MOST && text.len() <= LONGEST_ALIAS {
            self.aliases.insert(Rc::from(name), Rc::from(text));
        } else {
            self.environment = true;
        }
    }

    pub(crate) fn find_alias(&self, name: &str) -> Option<Rc<str>> {
        self.aliases.get(name).map(Rc::clone)
    }

    pub(crate) fn forget_aliases(&mut self) {
        self.aliases.clear();
    }

    pub(crate) fn directories(&self) -> &[Rc<str>] {
        &self.directories
    }

    /// A change of directory, to `target` or to nobody knows where.
    pub(crate) fn change_directory(&mut self, target: Option<&str>) {
        let old = std::mem::take(&mut self.directories);
        let too_long = |directory: &Rc<str>| directory.len() > LONGEST_DIRECTORY;
        let mut new: Vec<Rc<str>> = match target {
            Some(target) if target.starts_with('/') => vec![Rc::from(normal(target))],
            Some(target) => {
                old.iter().map(|from| Rc::from(normal(&format!("{from}/{target}")))).collect()
            }
            None => Vec::new(),
        };
        if new.iter().any(too_long) {
            new.clear();
        }
        self.directories = if self.errexit { new.clone() } else { either(&new, &old) };
        self.moved = Some((new, old));
    }

    /// A command other than `cd` was run.
    pub(crate) fn went_on(&mut self) {
        self.moved = None;
    }

    /// What is known if the command just run succeeded.
    pub(crate) fn succeeded(mut self) -> Self {
        if let Some((new, _)) = self.moved.take() {
            self.directories = new;
        }
        self
    }

    /// What is known if the command just run failed.
    pub(crate) fn failed(mut self) -> Self {
        if let Some((_, old)) = self.moved.take() {
            self.directories = old;
        }
        self
    }

    fn size(&self) -> usize {
        let directories: usize = self.directories.iter().map(|directory| directory.len()).sum();
        self.variables.len() + self.functions.len() + self.aliases.len() + directories
    }

    /// What is known where two ways meet.
    pub(crate) fn meet(&mut self, other: &Self) {
        steps::count(self.size() + other.size());
        self.variables.retain(|name, value| other.variables.get(name) == Some(value));
        for (name, defined) in &mut self.functions {
            if other.functions.get(name) != Some(&Defined::Surely) {
                *defined = Defined::Perhaps;
            }
        }
        for name in other.functions.keys() {
            if !self.functions.contains_key(name) {
                self.functions.insert(Rc::clone(name), Defined::Perhaps);
            }
        }
        if self.functions.len() > MOST {
            self.any_function = true;
            self.functions.clear();
        }
        self.any_function |= other.any_function;
        for (name, text) in &other.aliases {
            if self.aliases.len() >= MOST && !self.aliases.contains_key(name) {
                self.environment = true;
                break;
            }
            self.aliases.entry(Rc::clone(name)).or_insert_with(|| Rc::clone(text));
        }
        self.directories = either(&self.directories, &other.directories);
        self.moved = None;
        self.unreliable |= other.unreliable;
        self.home_moved |= other.home_moved;
        self.environment |= other.environment;
        self.errexit &= other.errexit;
        if self.positional != other.positional {
            self.positional = None;
        }
    }
}

fn either(one: &[Rc<str>], other: &[Rc<str>]) -> Vec<Rc<str>> {
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let mut both = one.to_vec();
    for directory in other {
        if !both.contains(directory) {
            both.push(Rc::clone(directory));
        }
    }
    if both.len() > MOST_DIRECTORIES { Vec::new() } else { both }
}

/// A path without `.`, `..`, doubled and trailing slashes.
pub(crate) fn normal(path: &str) -> String {
    steps::count(path.len());
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                let up = parts.last().is_some_and(|last| *last != ".." && !last.contains('\0'));
                if up {
                    parts.pop();
                } else if !absolute || !parts.is_empty() {
                    parts.push("..");
                }
            }
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute {
        format!("/{joined}")
    } else if joined.is_empty() {
        ".".to_owned()
    } else {
        joined
    }
}
