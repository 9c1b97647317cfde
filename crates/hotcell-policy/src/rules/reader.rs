//! Reads rules from TOML; whatever is wrong is named with its line, its rule and its key.

use toml_edit::{Document, Item, Table, Value};

use super::glob::{Glob, NameSet};
use super::{Conditions, Decision, OnDynamic, OnNetwork, Rule};
use crate::finding::Dynamic;
use crate::policy::PolicyError;

/// A file of rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) default: Option<Decision>,
    /// Profiles whose rules follow.
    pub(crate) include: Vec<String>,
    pub(crate) rules: Vec<Rule>,
}

struct Reader<'t> {
    text: &'t str,
    /// The file, as errors name it.
    origin: &'t str,
    /// The rule that is read.
    rule: Option<String>,
}

type Read<T> = Result<T, PolicyError>;

const TOP_KEYS: &[&str] = &["default", "include", "rule"];
const RULE_KEYS: &[&str] = &[
    "id",
    "verdict",
    "reason",
    "unknown",
    "command",
    "flags",
    "args",
    "args_any",
    "args_first",
    "writes",
    "writes_outside",
    "redirects",
    "network",
    "dynamic",
    "tolerates",
    "destructive",
    "overwrites",
    "as_root",
    "fork_bomb",
    "via",
    "direct",
    "sets",
    "imports",
    "calls",
    "image",
    "egress",
    "secret",
    "tool",
];

/// Reads a file of rules.
pub(crate) fn read(text: &str, origin: &str) -> Read<Rules> {
    let mut reader = Reader { text, origin, rule: None };
    let document = Document::parse(text).map_err(|error| PolicyError::Syntax {
        origin: origin.to_owned(),
        line: error.span().map_or(1, |span| reader.line(span.start)),
        what: error.message().to_owned(),
    })?;
    let mut rules = Rules::default();
    for (key, item) in document.as_table().iter() {
        let at = place(document.as_table(), key);
        match key {
            "default" => rules.default = Some(reader.decision(key, item, at)?),
            "include" => rules.include = reader.strings(key, item, at)?,
            "rule" => {
                let Some(list) = item.as_array_of_tables() else {
                    return Err(reader.bad(key, at, "must be written as [[rule]]"));
                };
                for table in list.iter() {
                    let rule = reader.rule(table)?;
                    if rules.rules.iter().any(|known: &Rule| known.id == rule.id) {
                        let at = place(table, "id");
                        return Err(reader.bad("id", at, "another rule has this id"));
                    }
                    reader.rule = None;
                    rules.rules.push(rule);
                }
            }
            _ => return Err(reader.unknown(key, at, TOP_KEYS)),
        }
    }
    Ok(rules)
}

fn place(table: &Table, key: &str) -> Option<usize> {
    let key = table.key(key)?;
    key.span().map(|span| span.start)
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn bad(&self, key: &str, at: Option<usize>, what: &str) -> PolicyError {
        PolicyError::Rule {
            origin: self.origin.to_owned(),
            line: at.map_or(1, |at| self.line(at)),
            rule: self.rule.clone(),
            key: key.to_owned(),
            what: what.to_owned(),
        }
    }

    fn unknown(&self, key: &str, at: Option<usize>, known: &[&str]) -> PolicyError {
        self.bad(key, at, &format!("is not known here; known are {}", known.join(", ")))
    }

    fn rule(&mut self, table: &Table) -> Read<Rule> {
        let start = table.span().map(|span| span.start);
        let id = match table.get("id").and_then(Item::as_str) {
            Some(id) if is_id(id) => id.to_owned(),
            Some(_) => {
                let at = place(table, "id");
                return Err(self.bad(
                    "id",
                    at,
                    "must be made of letters, digits, `-`, `_` and `.`",
                ));
            }
            None => return Err(self.bad("id", start, "every rule needs an id, in quotes")),
        };
        self.rule = Some(id.clone());
        let mut decision = None;
        let mut reason = String::new();
        let mut on_unknown = false;
        let mut conditions = Conditions::default();
        let mut any = false;
        for (key, item) in table.iter() {
            let at = place(table, key);
            match key {
                "id" => {}
                "verdict" => decision = Some(self.decision(key, item, at)?),
                "reason" => reason = self.string(key, item, at)?,
                "unknown" => {
                    on_unknown = match self.string(key, item, at)?.as_str() {
                        "match" => true,
                        "skip" => false,
                        other => {
                            return Err(self.bad(
                                key,
                                at,
                                &format!("is `match` or `skip`, not `{other}`"),
                            ));
                        }
                    }
                }
                _ if RULE_KEYS.contains(&key) => {
                    any |= key != "tolerates";
                    self.condition(&mut conditions, key, item, at)?;
                }
                _ => return Err(self.unknown(key, at, RULE_KEYS)),
            }
        }
        let Some(decision) = decision else {
            return Err(self.bad(
                "verdict",
                start,
                "every rule needs a verdict: allow, ask or deny",
            ));
        };
        if decision != Decision::Allow && !conditions.tolerates.is_empty() {
            let at = place(table, "tolerates");
            return Err(self.bad("tolerates", at, "is for rules with the verdict allow"));
        }
        if !any {
            return Err(self.bad(
                "command",
                start,
                "the rule has no condition; `command = \"*\"` is every command",
            ));
        }
        Ok(Rule { id, decision, reason, on_unknown, conditions })
    }

    fn condition(
        &self,
        conditions: &mut Conditions,
        key: &str,
        item: &Item,
        at: Option<usize>,
    ) -> Read<()> {
        let names = || self.globs(key, item, at, Glob::name);
        match key {
            "command" => conditions.command = Some(NameSet::new(names()?)),
            "args" => conditions.args = Some(names()?),
            "args_any" => conditions.args_any = Some(names()?),
            "args_first" => conditions.args_first = Some(names()?),
            "via" => conditions.via = Some(names()?),
            "sets" => conditions.sets = Some(names()?),
            "imports" => conditions.imports = Some(names()?),
            "calls" => conditions.calls = Some(names()?),
            "image" => conditions.image = Some(names()?),
            "egress" => conditions.egress = Some(names()?),
            "secret" => conditions.secret = Some(names()?),
            "tool" => conditions.tool = Some(names()?),
            "writes" => conditions.writes = Some(self.paths(key, item, at)?),
            "writes_outside" => conditions.writes_outside = Some(self.paths(key, item, at)?),
            "redirects" => conditions.redirects = Some(self.paths(key, item, at)?),
            "flags" => conditions.flags = Some(self.flags(key, item, at)?),
            "network" => {
                conditions.network = Some(match item.as_bool() {
                    Some(used) => OnNetwork::Used(used),
                    None => OnNetwork::Hosts(names()?),
                });
            }
            "dynamic" => {
                conditions.dynamic = Some(match item.as_bool() {
                    Some(any) => OnDynamic::Any(any),
                    None => OnDynamic::Kinds(self.kinds(key, item, at)?),
                });
            }
            "tolerates" => conditions.tolerates = self.kinds(key, item, at)?,
            "direct" => conditions.direct = Some(self.truth(key, item, at)?),
            "destructive" => conditions.destructive = Some(self.truth(key, item, at)?),
            "overwrites" => conditions.overwrites = Some(self.truth(key, item, at)?),
            "as_root" => conditions.as_root = Some(self.truth(key, item, at)?),
            "fork_bomb" => conditions.fork_bomb = Some(self.truth(key, item, at)?),
            _ => return Err(self.unknown(key, at, RULE_KEYS)),
        }
        Ok(())
    }

    fn decision(&self, key: &str, item: &Item, at: Option<usize>) -> Read<Decision> {
        match self.string(key, item, at)?.as_str() {
            "allow" => Ok(Decision::Allow),
            "ask" => Ok(Decision::Ask),
            "deny" => Ok(Decision::Deny),
            other => Err(self.bad(key, at, &format!("is allow, ask or deny, not `{other}`"))),
        }
    }

    fn string(&self, key: &str, item: &Item, at: Option<usize>) -> Read<String> {
        item.as_str()
            .map(str::to_owned)
            .ok_or_else(|| self.bad(key, at, "must be a text in quotes"))
    }

    fn truth(&self, key: &str, item: &Item, at: Option<usize>) -> Read<bool> {
        item.as_bool().ok_or_else(|| self.bad(key, at, "must be true or false"))
    }

    /// A text, or a list of texts.
    fn strings(&self, key: &str, item: &Item, at: Option<usize>) -> Read<Vec<String>> {
        if let Some(one) = item.as_str() {
            return Ok(vec![one.to_owned()]);
        }
        let Some(list) = item.as_array() else {
            return Err(self.bad(key, at, "must be a text, or a list of texts"));
        };
        let texts: Option<Vec<String>> =
            list.iter().map(|value: &Value| value.as_str().map(str::to_owned)).collect();
        match texts {
            Some(texts) if !texts.is_empty() => Ok(texts),
            Some(_) => Err(self.bad(key, at, "is an empty list, which nothing fits")),
            None => Err(self.bad(key, at, "must be a list of texts")),
        }
    }

    fn globs(
        &self,
        key: &str,
        item: &Item,
        at: Option<usize>,
        make: fn(&str) -> Glob,
    ) -> Read<Vec<Glob>> {
        let texts = self.strings(key, item, at)?;
        if texts.iter().any(String::is_empty) {
            return Err(self.bad(key, at, "has an empty pattern, which nothing fits"));
        }
        Ok(texts.iter().map(|text| make(text)).collect())
    }

    fn paths(&self, key: &str, item: &Item, at: Option<usize>) -> Read<Vec<Glob>> {
        let texts = self.strings(key, item, at)?;
        for text in &texts {
            if !text.starts_with(['/', '~']) && !text.starts_with("**") {
                let what =
                    format!("`{text}` must be an absolute path, or begin with `~/` or `**/`");
                return Err(self.bad(key, at, &what));
            }
        }
        self.globs(key, item, at, Glob::path)
    }

    fn flags(&self, key: &str, item: &Item, at: Option<usize>) -> Read<Vec<Vec<String>>> {
        let mut flags = Vec::new();
        for text in self.strings(key, item, at)? {
            let names: Vec<String> = text
                .split('|')
                .map(|name| name.trim().trim_start_matches('-').to_owned())
                .collect();
            if names.iter().any(String::is_empty) {
                return Err(self.bad(key, at, &format!("`{text}` has an empty name")));
            }
            flags.push(names);
        }
        Ok(flags)
    }

    fn kinds(&self, key: &str, item: &Item, at: Option<usize>) -> Read<Vec<Dynamic>> {
        let mut kinds = Vec::new();
        for text in self.strings(key, item, at)? {
            match Dynamic::ALL.iter().find(|(name, _)| *name == text) {
                Some((_, kind)) => kinds.push(*kind),
                None => {
                    let known: Vec<&str> = Dynamic::ALL.iter().map(|(name, _)| *name).collect();
                    let what = format!("has `{text}`; known are {}", known.join(", "));
                    return Err(self.bad(key, at, &what));
                }
            }
        }
        Ok(kinds)
    }
}

fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
