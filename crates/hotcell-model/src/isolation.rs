//! What really separates a cell from its host: reported, never assumed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How well a cell is separated, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// Every layer that this version of Hotcell applies is in force.
    Full,
    /// All namespaces are in force, but some limit or layer is missing; `missing` names it.
    Limited,
}

/// A layer that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// Its name, such as `user_namespace` or `memory_limit`.
    pub name: String,
    /// By which means, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
}

/// A layer that is not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingLayer {
    /// Its name.
    pub name: String,
    /// Why this machine cannot enforce it.
    pub reason: String,
    /// What would change that.
    pub remedy: String,
}

/// The effective isolation of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// In one word.
    pub level: IsolationLevel,
    /// What is in force.
    pub layers: Vec<Layer>,
    /// What is not.
    pub missing: Vec<MissingLayer>,
}

impl Isolation {
    /// The isolation that follows from these layers.
    #[must_use]
    pub fn from_layers(layers: Vec<Layer>, missing: Vec<MissingLayer>) -> Self {
        let level = if missing.is_empty() { IsolationLevel::Full } else { IsolationLevel::Limited };
        Self { level, layers, missing }
    }
}
