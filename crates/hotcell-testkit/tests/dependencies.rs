//! Checks what the workspace is built on against `deny.toml`: licences, sources, and crates that are banned.
//! It is the file of cargo-deny, which takes minutes to build and also knows of advisories.

mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::workspace::{array, metadata, text, workspace_root};

/// A crate from elsewhere, and who names it in a manifest.
#[derive(Debug)]
struct Foreign {
    name: String,
    source: String,
    licence: String,
    named_by: BTreeSet<String>,
}

#[test]
fn only_what_was_decided_on_is_built_on() -> Result<()> {
    let text = fs::read_to_string(workspace_root()?.join("deny.toml"))?;
    let rules: Value = toml::from_str(&text)?;
    let metadata = metadata()?;
    let foreign = foreign(&metadata)?;
    ensure!(foreign.len() > 50, "cargo metadata named only {} crates", foreign.len());
    let mut found = wildcards(&metadata)?;
    for one in &foreign {
        found.extend(faults(one, &rules)?);
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn the_checks_of_dependencies_can_fail() -> Result<()> {
    let rules = json!({
        "licenses": {
            "allow": ["MIT", "Zlib"],
            "exceptions": [{ "crate": "ring", "allow": ["ISC"] }],
        },
        "sources": { "allow-registry": ["https://a"] },
        "bans": { "deny": [
            { "crate": "openssl", "reason": "static" },
            { "crate": "rusqlite", "wrappers": ["hotcell-store"], "reason": "one owner" },
        ] },
    });
    let one = |name: &str, licence: &str| Foreign {
        name: name.to_owned(),
        source: "registry+https://a".to_owned(),
        licence: licence.to_owned(),
        named_by: BTreeSet::from(["hotcell-store".to_owned()]),
    };
    for (name, licence) in [
        ("a", "MIT"),
        ("a", "MIT OR GPL-3.0"),
        ("a", "GPL-3.0/MIT"),
        ("a", "(MIT OR GPL-3.0) AND Zlib"),
        ("a", "GPL-3.0 OR MIT AND Zlib"),
        ("ring", "MIT AND ISC"),
        ("rusqlite", "MIT"),
    ] {
        assert_eq!(faults(&one(name, licence), &rules)?, Vec::<String>::new(), "{name} {licence}");
    }
    let elsewhere = |source: &str| Foreign { source: source.to_owned(), ..one("a", "MIT") };
    let by_another = BTreeSet::from(["hotcell-store".to_owned(), "hotcell".to_owned()]);
    for bad in [
        one("a", ""),
        one("a", "GPL-3.0"),
        one("a", "MIT AND ISC"),
        one("a", "MIT WITH Other-exception"),
        one("a", "(MIT OR Zlib) AND (GPL-3.0 OR ISC)"),
        one("a", "(MIT"),
        one("a", "MIT Zlib"),
        one("openssl", "MIT"),
        Foreign { named_by: by_another, ..one("rusqlite", "MIT") },
        elsewhere("git+https://a"),
        elsewhere("registry+https://b"),
    ] {
        assert_eq!(faults(&bad, &rules)?.len(), 1, "{bad:?}");
    }
    Ok(())
}

#[test]
fn the_check_of_wildcards_can_fail() -> Result<()> {
    let named = |source: Value, version: &str| {
        let dependency = json!({ "name": "b", "source": source, "req": version });
        let member = json!({ "name": "a", "source": null, "dependencies": [dependency] });
        wildcards(&json!({ "packages": [member] }))
    };
    assert_eq!(named(json!("registry+https://a"), "*")?.len(), 1);
    assert_eq!(named(json!("registry+https://a"), "^1")?.len(), 0);
    assert_eq!(named(Value::Null, "*")?.len(), 0, "crates of the workspace have paths");
    Ok(())
}

/// What manifests of the workspace name without a version.
fn wildcards(metadata: &Value) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for package in array(&metadata["packages"])?.iter().filter(|it| it["source"].is_null()) {
        for named in array(&package["dependencies"])?.iter().filter(|it| !it["source"].is_null()) {
            if named["req"] == "*" {
                found.push(format!("{} takes any version of {}", package["name"], named["name"]));
            }
        }
    }
    Ok(found)
}

/// What is wrong with building on a crate.
fn faults(one: &Foreign, rules: &Value) -> Result<Vec<String>> {
    let Foreign { name, source, licence, named_by } = one;
    let mut found = Vec::new();
    let registries = array(&rules["sources"]["allow-registry"])?;
    let registry = source.strip_prefix("registry+").map(|registry| json!(registry));
    if !registry.is_some_and(|registry| registries.contains(&registry)) {
        found.push(format!("{name} comes from {source}"));
    }
    let mut allowed = array(&rules["licenses"]["allow"])?.clone();
    for exception in array(&rules["licenses"]["exceptions"])? {
        if exception["crate"] == *name {
            allowed.extend_from_slice(array(&exception["allow"])?);
        }
    }
    if !Licence::new(licence).holds(&|name| allowed.contains(&json!(name))) {
        found.push(format!("{name} has the licence {licence:?}"));
    }
    for ban in array(&rules["bans"]["deny"])? {
        let wrappers = ban["wrappers"].as_array();
        let is_wrapped =
            wrappers.is_some_and(|by| named_by.iter().all(|it| by.contains(&json!(it))));
        if ban["crate"] == *name && !is_wrapped {
            found.push(format!("{name} is used by {named_by:?}: {}", text(&ban["reason"])?));
        }
    }
    Ok(found)
}

/// An expression of licences that is being read: `OR` joins what `AND` joins.
struct Licence {
    words: Vec<String>,
    next: usize,
}

impl Licence {
    fn new(text: &str) -> Self {
        let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        Self { words: spaced.split_whitespace().map(str::to_owned).collect(), next: 0 }
    }

    /// Whether all that has to be allowed is; nothing that cannot be understood.
    fn holds(mut self, is_allowed: &dyn Fn(&str) -> bool) -> bool {
        let is_met = self.any(is_allowed);
        is_met && self.next == self.words.len()
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.next).is_some_and(|it| it == word);
        self.next += usize::from(is_next);
        is_next
    }

    fn any(&mut self, is_allowed: &dyn Fn(&str) -> bool) -> bool {
        let mut is_met = self.all(is_allowed);
        while self.take("OR") {
            is_met |= self.all(is_allowed);
        }
        is_met
    }

    fn all(&mut self, is_allowed: &dyn Fn(&str) -> bool) -> bool {
        let mut is_met = self.one(is_allowed);
        while self.take("AND") {
            is_met &= self.one(is_allowed);
        }
        is_met
    }

    fn one(&mut self, is_allowed: &dyn Fn(&str) -> bool) -> bool {
        if self.take("(") {
            let is_met = self.any(is_allowed);
            return self.take(")") && is_met;
        }
        let Some(mut name) = self.words.get(self.next).cloned() else { return false };
        self.next += 1;
        if self.take("WITH") {
            name =
                format!("{name} WITH {}", self.words.get(self.next).cloned().unwrap_or_default());
            self.next += 1;
        }
        is_allowed(&name)
    }
}

fn foreign(metadata: &Value) -> Result<Vec<Foreign>> {
    let mut names = BTreeMap::new();
    for package in array(&metadata["packages"])? {
        names.insert(text(&package["id"])?, text(&package["name"])?);
    }
    let mut named_by: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for node in array(&metadata["resolve"]["nodes"])? {
        let by = names.get(text(&node["id"])?).context("a node without its package")?;
        for dependency in array(&node["deps"])? {
            named_by.entry(text(&dependency["pkg"])?).or_default().insert((*by).to_owned());
        }
    }
    let mut foreign = Vec::new();
    for package in array(&metadata["packages"])? {
        // Those of the workspace have no source.
        let Some(source) = package["source"].as_str() else { continue };
        foreign.push(Foreign {
            name: text(&package["name"])?.to_owned(),
            source: source.to_owned(),
            licence: package["license"].as_str().unwrap_or_default().to_owned(),
            named_by: named_by.get(text(&package["id"])?).cloned().unwrap_or_default(),
        });
    }
    Ok(foreign)
}
