//! What a server says of its tools in `tools/list`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::text::one_line;

/// The most tools of one server that are taken.
pub const MAX_TOOLS: usize = 2_000;
/// The most entries of a list of which it is said that they cannot be used.
const MAX_REFUSED: usize = 100;
/// The longest name of a tool or a server.
pub const MAX_NAME: usize = 256;

/// A server and its tools, as it lists them.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerListing {
    /// The name that the operator gave it.
    pub name: String,
    /// What it calls itself.
    pub title: Option<String>,
    /// What it says of itself.
    pub instructions: Option<String>,
    /// Its tools.
    pub tools: Vec<ToolListing>,
    /// Entries of its list that cannot be used.
    pub refused: Vec<RefusedTool>,
}

/// A tool as its server lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolListing {
    /// Its name on the wire.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of its arguments.
    #[serde(default = "any_object")]
    pub input_schema: Value,
    /// The schema of its structured results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the server claims of its effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
}

/// What a server claims of the effects of a tool. Nobody has checked it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolAnnotations {
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Called again it does nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches things beyond the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// An entry of a list that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTool {
    /// What it calls itself, on one line.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

fn any_object() -> Value {
    json!({ "type": "object" })
}

impl ServerListing {
    /// Reads the entries of `tools/list`, all pages of it. What cannot be used is left out and said.
    #[must_use]
    pub fn read(name: &str, tools: &[Value]) -> Self {
        let mut listing = Self {
            name: name.to_owned(),
            title: None,
            instructions: None,
            tools: Vec::new(),
            refused: Vec::new(),
        };
        for entry in tools {
            match ToolListing::read(entry) {
                Ok(_) if listing.tools.len() == MAX_TOOLS => {
                    listing.refuse(entry, format!("only {MAX_TOOLS} tools of a server are taken"));
                    break;
                }
                Ok(tool) if listing.tools.iter().any(|known| known.name == tool.name) => {
                    listing.refuse(entry, "the list has another tool of that name".to_owned());
                }
                Ok(tool) => listing.tools.push(tool),
                Err(why) => listing.refuse(entry, why),
            }
        }
        listing
    }

    fn refuse(&mut self, entry: &Value, why: String) {
        if self.refused.len() == MAX_REFUSED {
            return;
        }
        let name = one_line(entry["name"].as_str().unwrap_or("(no name)"), 64);
        self.refused.push(RefusedTool { name, why });
    }
}

impl ToolListing {
    /// Reads one entry. A part that is beside the point (annotations, a title) may be malformed.
    fn read(entry: &Value) -> Result<Self, String> {
        let name = entry["name"].as_str().ok_or("it has no name")?;
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(format!("its name has {} bytes, not 1 to {MAX_NAME}", name.len()));
        }
        let text = |key: &str| entry[key].as_str().map(str::to_owned);
        let input_schema = match &entry["inputSchema"] {
            Value::Null => any_object(),
            schema @ (Value::Object(_) | Value::Bool(_)) => schema.clone(),
            Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err("its inputSchema is no schema".to_owned());
            }
        };
        let output_schema = entry["outputSchema"].is_object();
        Ok(Self {
            name: name.to_owned(),
            title: text("title"),
            description: text("description"),
            input_schema,
            output_schema: output_schema.then(|| entry["outputSchema"].clone()),
            annotations: serde_json::from_value(entry["annotations"].clone()).ok(),
        })
    }
}
