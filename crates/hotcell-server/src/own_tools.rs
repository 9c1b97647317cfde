//! Hotcell's own tools as code in a cell calls them: those of a dialect.

use std::sync::Arc;

use hotcell_model::{Error, OwnCall, OwnTools, Result};
use rmcp::model::CallToolResult;
use serde_json::{Map, Value};

use crate::encoded;
use hotcell_dialects::{Dialect, Outcome, Question, ToolCall};

/// Code looks for tools without one, and does not ask the user to change real files.
const NOT_FOR_CODE: &[&str] = &["tool_search", "workspace_apply", "workspace_discard"];

/// The tools of a dialect for code.
#[derive(Debug)]
pub struct DialectTools {
    dialect: Arc<dyn Dialect>,
    tools: Arc<[Value]>,
}

impl DialectTools {
    /// All of a dialect that are of use to code.
    #[must_use]
    pub fn new(dialect: Arc<dyn Dialect>) -> Self {
        let tools = dialect.tools().iter().filter(|tool| !NOT_FOR_CODE.contains(&&*tool.name));
        let tools = tools.filter_map(|tool| serde_json::to_value(tool).ok()).collect();
        Self { dialect, tools }
    }
}

impl OwnTools for DialectTools {
    fn tools(&self) -> Arc<[Value]> {
        Arc::clone(&self.tools)
    }

    fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<OwnCall> {
        if NOT_FOR_CODE.contains(&tool) {
            return Err(Error::unsupported(format!("{tool} cannot be called by code"))
                .hint("call it as a tool"));
        }
        let ToolCall::Asks(question) = self.dialect.call(tool, arguments)? else {
            return Err(Error::unsupported(format!("{tool} is not for code")));
        };
        let Question { request, show } = *question;
        let (dialect, tool) = (Arc::clone(&self.dialect), tool.to_owned());
        let value = Box::new(move |reply| {
            let shown = match show {
                Some(show) => show(Outcome { reply, site: None, starting: Vec::new() })?,
                None => dialect.result(&tool, reply?),
            };
            value_of(&tool, shown)
        });
        Ok(OwnCall { request, value })
    }
}

fn value_of(tool: &str, mut shown: CallToolResult) -> Result<Value> {
    encoded::decode(&mut shown);
    match shown.structured_content {
        Some(value) if shown.is_error != Some(true) => Ok(value),
        Some(_) | None => Err(Error::internal(format!("{tool} gave nothing that code can use"))),
    }
}
