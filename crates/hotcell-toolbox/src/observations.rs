//! What was learned of the results of all tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::{Catalog, ToolKey};
use crate::changes::CatalogChanges;
use crate::observed::Observed;

/// Shapes of results by tool; written down as a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(ToolKey, Observed)>", into = "Vec<(ToolKey, Observed)>")]
pub struct Observations {
    by_tool: BTreeMap<ToolKey, Observed>,
}

impl From<Vec<(ToolKey, Observed)>> for Observations {
    fn from(list: Vec<(ToolKey, Observed)>) -> Self {
        Self { by_tool: list.into_iter().collect() }
    }
}

impl From<Observations> for Vec<(ToolKey, Observed)> {
    fn from(observations: Observations) -> Self {
        observations.by_tool.into_iter().collect()
    }
}

impl Observations {
    /// What is known of a tool's results.
    #[must_use]
    pub fn find(&self, key: &ToolKey) -> Option<&Observed> {
        self.by_tool.get(key)
    }

    /// Learns from a result. Tools that say what they give, or that nobody lists, are left out.
    pub fn learn(&mut self, catalog: &Catalog, key: &ToolKey, result: &Value) {
        let undeclared =
            catalog.find_by_key(key).is_some_and(|tool| tool.listing().output_schema.is_none());
        if undeclared {
            self.by_tool.entry(key.clone()).or_default().learn(result);
        }
    }

    /// Forgets tools that are gone or that are no longer what they were.
    pub fn forget_changed(&mut self, changes: &CatalogChanges) {
        for key in changes.removed.iter().chain(&changes.changed) {
            self.by_tool.remove(key);
        }
    }
}
