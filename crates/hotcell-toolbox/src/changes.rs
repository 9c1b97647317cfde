//! What is different between two catalogs.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{Catalog, Tool, ToolKey};
use crate::tree;

/// What is different in a catalog from an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogChanges {
    /// Tools that were not there.
    pub added: Vec<ToolKey>,
    /// Tools that are no longer there.
    pub removed: Vec<ToolKey>,
    /// Tools that are listed differently, or have another name in code.
    pub changed: Vec<ToolKey>,
    /// Files of `/tools` that are new, gone or different, in order.
    pub paths: Vec<String>,
}

impl CatalogChanges {
    /// What is different in `new` from `old`.
    #[must_use]
    pub fn between(old: &Catalog, new: &Catalog) -> Self {
        let by_key = |catalog| -> BTreeMap<ToolKey, &Tool> {
            Catalog::tools(catalog).map(|tool| (tool.key().clone(), tool)).collect()
        };
        let (before, after) = (by_key(old), by_key(new));
        let mut changes = Self::default();
        let mut paths = BTreeSet::new();
        for (key, tool) in &after {
            match before.get(key) {
                None => changes.added.push(key.clone()),
                Some(known) if is_same(known, tool) => continue,
                Some(known) => {
                    changes.changed.push(key.clone());
                    paths.extend(tree::paths_of(known));
                }
            }
            paths.extend(tree::paths_of(tool));
        }
        for (key, tool) in &before {
            if !after.contains_key(key) {
                changes.removed.push(key.clone());
                paths.extend(tree::paths_of(tool));
            }
        }
        if !paths.is_empty() || !servers_are_same(old, new) {
            paths.insert(tree::INDEX.to_owned());
        }
        changes.paths = paths.into_iter().collect();
        changes
    }

    /// Whether nothing is different.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

fn is_same(one: &Tool, other: &Tool) -> bool {
    one.identifier() == other.identifier()
        && one.server_identifier() == other.server_identifier()
        && one.listing() == other.listing()
}

fn servers_are_same(old: &Catalog, new: &Catalog) -> bool {
    let (old, new) = (old.servers(), new.servers());
    old.len() == new.len() && old.iter().zip(new).all(|(one, other)| one.says_the_same(other))
}
