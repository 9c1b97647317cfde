//! The default dialect: Hotcell's own tools.

mod cell_tools;
mod checkpoint_tools;
mod exec_tools;
mod schema;
mod text;
mod tool;
mod views;

#[cfg(test)]
mod hotcell_tests;

use hotcell_model::{Error, ExecResult, Reply, Request, Result};
use rmcp::model::{CallToolResult, JsonObject, Tool};

use self::tool::ToolKind;
use crate::dialect::Dialect;
use crate::toolsets::Toolsets;

/// Hotcell's own tools, as far as they were chosen.
#[derive(Debug)]
pub(crate) struct HotcellDialect {
    kinds: Vec<&'static ToolKind>,
    tools: Vec<Tool>,
}

const INSTRUCTIONS: &str = "Cells are sandboxes with a persistent /workspace. Leave `cell` out to \
use your default cell. exec_run waits wait_s for the end and then hands back exec_id: the command \
goes on, follow it with exec_poll (pass next_seq as after_seq) and end it with exec_cancel. Output \
is never lost; long results are cut in the middle and say how to read the rest.";

/// What a person does by a command, an agent does by a tool.
const TOOLS_FOR_COMMANDS: &[(&str, &str)] = &[
    ("`hotcell cells --all`", "cell_list"),
    ("`hotcell info`", "cell_info"),
    ("`hotcell kill --force`", "cell_kill with force"),
    ("`hotcell kill`", "cell_kill"),
    ("`hotcell logs`", "exec_poll"),
    ("`hotcell ps --all`", "exec_list"),
    ("`hotcell spawn`", "cell_spawn"),
];

impl HotcellDialect {
    /// The tools of these sets.
    pub(crate) fn new(toolsets: &Toolsets) -> Self {
        let cells = cell_tools::TOOLS.iter().chain(checkpoint_tools::TOOLS);
        let all = cells.chain(exec_tools::TOOLS);
        let kinds: Vec<_> = all.filter(|kind| toolsets.has(kind.toolset)).collect();
        let tools = kinds.iter().map(|kind| kind.describe()).collect();
        Self { kinds, tools }
    }

    fn kind(&self, tool: &str) -> Option<&'static ToolKind> {
        self.kinds.iter().copied().find(|kind| kind.name == tool)
    }
}

impl Dialect for HotcellDialect {
    fn instructions(&self) -> &str {
        INSTRUCTIONS
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn hint(&self, hint: &str) -> String {
        TOOLS_FOR_COMMANDS
            .iter()
            .fold(hint.to_owned(), |hint, (command, tool)| hint.replace(command, tool))
    }

    fn request(&self, tool: &str, arguments: JsonObject) -> Result<Request> {
        let kind = self.kind(tool).ok_or_else(|| {
            let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name).collect();
            Error::not_found(format!("there is no tool {tool:?}"))
                .hint(format!("the tools are {}", names.join(", ")))
        })?;
        (kind.request)(arguments)
    }

    fn result(&self, tool: &str, reply: Reply) -> CallToolResult {
        let encoded = self.kind(tool).and_then(|kind| (kind.result)(reply));
        encoded.unwrap_or_else(|| {
            self.failure(tool, &Error::internal(format!("{tool} got the reply to another request")))
        })
    }

    fn exec_result(&self, result: ExecResult) -> CallToolResult {
        // Also where the tool itself is not shown.
        exec_tools::ran(result)
    }
}
