//! The default dialect: Hotcell's own tools.

mod admin_tools;
mod archive_tools;
mod cell_tools;
mod checkpoint_tools;
mod code_tools;
mod exec_tools;
mod file_tool;
mod file_tools;
mod schema;
mod text;
mod tool;
mod views;

#[cfg(test)]
mod file_tools_tests;
#[cfg(test)]
mod hotcell_tests;

use hotcell_model::{Command, Error, ExecResult, Reply, Request, Result};
use rmcp::model::{CallToolResult, JsonObject, Tool};

pub use self::file_tool::FileBounds;
use self::file_tool::FileTool;
use self::tool::ToolKind;
use crate::toolsets::{Toolset, Toolsets};
use hotcell_dialects::{Dialect, Question, ToolCall};

/// Hotcell's own tools, as far as they were chosen.
#[derive(Debug)]
pub(crate) struct HotcellDialect {
    kinds: Vec<&'static ToolKind>,
    file_tools: Vec<&'static FileTool>,
    bounds: FileBounds,
    tools: Vec<Tool>,
    passes_tools: bool,
}

const INSTRUCTIONS: &str = "Cells are sandboxes with a persistent /workspace. Leave `cell` out to \
use your default cell. exec_run waits wait_s for the end and then hands back exec_id: the command \
goes on, follow it with exec_poll (pass next_seq as after_seq) and end it with exec_cancel. Output \
is never lost; long results are cut in the middle and say how to read the rest. fs_* tools read \
and change files; relative paths are below /workspace. An etag passed as if_match keeps a change \
from going over somebody else's.";

/// What a person does by a command, an agent does by a tool.
const TOOLS_FOR_COMMANDS: &[(&str, &str)] = &[
    ("`hotcell cells --all`", "cell_list"),
    ("`hotcell cp`", "fs_export and fs_import"),
    ("`hotcell ls`", "fs_list"),
    ("`hotcell info`", "cell_info"),
    ("`hotcell kill --force`", "cell_kill with force"),
    ("`hotcell kill`", "cell_kill"),
    ("`hotcell logs`", "exec_poll"),
    ("`hotcell ps --all`", "exec_list"),
    ("`hotcell spawn`", "cell_spawn"),
];

impl HotcellDialect {
    /// The tools of these sets.
    pub(crate) fn new(toolsets: &Toolsets, bounds: FileBounds) -> Self {
        let cells = cell_tools::TOOLS.iter().chain(checkpoint_tools::TOOLS);
        let all = cells.chain(exec_tools::TOOLS).chain(code_tools::TOOLS).chain(admin_tools::TOOLS);
        let kinds: Vec<_> = all.filter(|kind| toolsets.has(kind.toolset)).collect();
        let file_tools: Vec<_> = if toolsets.has(Toolset::Fs) {
            file_tools::TOOLS.iter().chain(archive_tools::TOOLS).collect()
        } else {
            Vec::new()
        };
        let tools = kinds.iter().map(|kind| kind.describe());
        let tools = tools.chain(file_tools.iter().map(|tool| tool.describe())).collect();
        let passes_tools = toolsets.has(Toolset::Code);
        Self { kinds, file_tools, bounds, tools, passes_tools }
    }

    fn file_tool(&self, tool: &str) -> Option<&'static FileTool> {
        self.file_tools.iter().copied().find(|known| known.name == tool)
    }

    fn request(&self, tool: &str, arguments: JsonObject) -> Result<Request> {
        let kind = self.kind(tool).ok_or_else(|| {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_ref()).collect();
            Error::not_found(format!("there is no tool {tool:?}"))
                .hint(format!("the tools are {}", names.join(", ")))
        })?;
        (kind.request)(arguments)
    }

    fn kind(&self, tool: &str) -> Option<&'static ToolKind> {
        self.kinds.iter().copied().find(|kind| kind.name == tool)
    }
}

impl Dialect for HotcellDialect {
    fn instructions(&self) -> Option<&str> {
        Some(INSTRUCTIONS)
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn has_tasks(&self) -> bool {
        true
    }

    fn passes_tools(&self) -> bool {
        self.passes_tools
    }

    fn hint(&self, hint: &str) -> String {
        TOOLS_FOR_COMMANDS
            .iter()
            .fold(hint.to_owned(), |hint, (command, tool)| hint.replace(command, tool))
    }

    fn call(&self, tool: &str, arguments: JsonObject) -> Result<ToolCall> {
        match self.file_tool(tool) {
            Some(file_tool) => (file_tool.call)(arguments, self.bounds).map(ToolCall::from),
            None => {
                let request = self.request(tool, arguments)?;
                Ok(Question { request, show: None }.into())
            }
        }
    }

    fn result(&self, tool: &str, reply: Reply) -> CallToolResult {
        let encoded = self.kind(tool).and_then(|kind| (kind.result)(reply));
        encoded.unwrap_or_else(|| {
            self.failure(tool, &Error::internal(format!("{tool} got the reply to another request")))
        })
    }

    fn exec_result(&self, result: ExecResult) -> CallToolResult {
        // Also where the tool itself is not shown.
        match &result.exec.command {
            Command::Code(_) => code_tools::ran(result),
            Command::Shell(_) | Command::Argv(_) => exec_tools::ran(result),
        }
    }
}
