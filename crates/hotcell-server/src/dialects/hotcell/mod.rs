//! The default dialect: Hotcell's own tools.

mod admin_tools;
mod archive_tools;
pub(crate) mod arguments;
mod batch_tool;
mod cell_tools;
mod checkpoint_tools;
mod code_tools;
mod examples;
mod exec_tools;
mod file_tool;
mod file_tools;
mod mode_switches;
mod project_tools;
mod schema;
mod text;
mod tool;
mod views;

#[cfg(test)]
mod arguments_tests;
#[cfg(test)]
mod described_tests;
#[cfg(test)]
mod file_tools_tests;
#[cfg(test)]
mod hotcell_tests;
#[cfg(test)]
mod output_schema_tests;

use hotcell_model::{Command, Error, ExecResult, Result};
use rmcp::model::{CallToolResult, JsonObject, Tool};
use serde_json::Value;

use self::tool::ToolKind;
pub use self::tool::{Reach, ToolBounds};
use self::views::Detail;
use crate::project_offer::ProjectOffer;
use crate::toolsets::{Toolset, Toolsets};
use hotcell_dialects::{ClientTerms, Dialect, StartingExec, ToolCall};

/// Hotcell's own tools, as far as they were chosen.
#[derive(Debug)]
pub(crate) struct HotcellDialect {
    kinds: Vec<&'static ToolKind>,
    /// The arguments of each tool; those that clients see leave out that nothing else is accepted.
    inputs: Vec<JsonObject>,
    bounds: ToolBounds,
    reach: Reach,
    tools: Vec<Tool>,
    passes_tools: bool,
    instructions: String,
}

const INSTRUCTIONS: &str = "Hotcell gives you a computer of your own: cells are sandboxes with a \
persistent /workspace. Leave `cell` out to use your default cell. Jobs and their tools: \
run a command: exec_run. \
Long jobs: exec_run returns exec_id after wait_s while the command keeps running; exec_poll with \
after_seq = next_seq continues, exec_input answers prompts, exec_cancel stops it. \
Files: fs_read, fs_edit, fs_write, fs_list, fs_search; relative paths are below /workspace; pass an \
etag as if_match to avoid overwriting changes. \
Undo: cell_checkpoint create before a risky step, restore to go back; cell_fork tries alternatives. \
Code: code_run runs Python or JavaScript and can call tools of other servers (tool_search finds \
them). Output is never lost: a result that is cut says how to read the rest.";

/// The tool that does what a command of the command line does: agents have no command line.
const TOOLS_FOR_COMMANDS: &[(&str, &str)] = &[
    ("`hotcell approvals`", "`hotcell approvals` (ask the user to run it)"),
    ("`hotcell run -i` or `stdin_open`", "exec_run with stdin_open"),
    ("`hotcell cancel`", "exec_cancel"),
    ("`hotcell cells --all`", "cell_list with include_stopped"),
    ("`hotcell cells`", "cell_list"),
    ("`hotcell checkpoint list`", "cell_checkpoint with action list"),
    ("`hotcell cp CELL:PATH DIR`", "fs_export"),
    ("`hotcell cp`", "fs_export and fs_import"),
    ("`hotcell info`", "cell_info"),
    ("`hotcell kill --force`", "cell_kill with force"),
    ("`hotcell kill`", "cell_kill"),
    ("`hotcell logs`", "exec_poll"),
    ("`hotcell ls`", "fs_list"),
    ("`hotcell ps --all`", "exec_list"),
    ("`hotcell ps`", "exec_list with status live"),
    ("`hotcell run -i`", "exec_run with stdin_open"),
    ("`hotcell spawn`", "cell_spawn"),
];

impl HotcellDialect {
    /// The tools of these sets.
    pub(crate) fn new(toolsets: &Toolsets, bounds: ToolBounds, reach: Reach) -> Self {
        let all = [
            cell_tools::TOOLS,
            checkpoint_tools::TOOLS,
            exec_tools::TOOLS,
            code_tools::TOOLS,
            admin_tools::TOOLS,
            file_tools::TOOLS,
            batch_tool::TOOLS,
            archive_tools::TOOLS,
        ];
        let all = all.into_iter().flatten();
        let kinds: Vec<_> = all.filter(|kind| toolsets.has(kind.toolset)).collect();
        let tools = kinds.iter().map(|kind| kind.describe(reach)).collect();
        let inputs = kinds.iter().map(|kind| (kind.input)()).collect();
        let passes_tools = toolsets.has(Toolset::Code);
        let instructions = INSTRUCTIONS.to_owned();
        Self { kinds, inputs, bounds, reach, tools, passes_tools, instructions }
    }

    /// The same for a server that has to do with directories of the user.
    pub(crate) fn with_project(mut self, project: &ProjectOffer) -> Self {
        if project.has_changes() {
            self.kinds.extend(project_tools::TOOLS);
            self.tools.extend(project_tools::TOOLS.iter().map(|kind| kind.describe(self.reach)));
            self.inputs.extend(project_tools::TOOLS.iter().map(|kind| (kind.input)()));
        }
        self.instructions.push_str(&project.instructions().unwrap_or_default());
        self
    }

    fn unknown(&self, tool: &str) -> Error {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_ref()).collect();
        Error::not_found(format!("there is no tool {tool:?}"))
            .hint(format!("the tools are {}", names.join(", ")))
    }
}

impl Dialect for HotcellDialect {
    fn instructions(&self) -> Option<&str> {
        Some(&self.instructions)
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn tools_for(&self, client: ClientTerms) -> Vec<Tool> {
        let bounds = self.bounds.for_client(client);
        let mut tools = self.tools.clone();
        for tool in &mut tools {
            let schema = std::sync::Arc::make_mut(&mut tool.input_schema);
            let Some(wait) = schema.get_mut("properties").and_then(|all| all.get_mut("wait_s"))
            else {
                continue;
            };
            if let Some(Value::String(about)) = wait.get_mut("description") {
                *about = about
                    .replace("default 20", &format!("default {}", bounds.wait_s))
                    .replace("at most 50", &format!("at most {}", bounds.most_wait_s));
            }
        }
        tools
    }

    fn has_tasks(&self) -> bool {
        true
    }

    fn passes_tools(&self) -> bool {
        self.passes_tools
    }

    fn example(&self, tool: &str, refusal: &str) -> Option<String> {
        let known = self.kinds.iter().zip(&self.inputs).find(|(kind, _)| kind.name == tool);
        known.map(|(kind, input)| examples::example_for(kind, input, refusal))
    }

    fn hint(&self, hint: &str) -> String {
        let replace = |hint: String, (command, tool): &(&str, &str)| hint.replace(command, tool);
        let mut hint = TOOLS_FOR_COMMANDS.iter().fold(hint.to_owned(), replace);
        let is_addressed = ["user", "operator", "person"].iter().any(|word| hint.contains(word));
        if hint.contains("`hotcell ") && !is_addressed {
            hint.push_str("; ask the user to run `hotcell` commands");
        }
        hint
    }

    fn call(&self, tool: &str, arguments: JsonObject) -> Result<ToolCall> {
        self.call_for(ClientTerms::default(), tool, arguments)
    }

    fn call_for(&self, client: ClientTerms, tool: &str, arguments: JsonObject) -> Result<ToolCall> {
        let known = self.kinds.iter().zip(&self.inputs).find(|(kind, _)| kind.name == tool);
        let (kind, input) = known.ok_or_else(|| self.unknown(tool))?;
        let bounds = self.bounds.for_client(client);
        let arguments = arguments::prepare(kind, input, bounds, arguments)?;
        (kind.call)(arguments, bounds).map(ToolCall::from)
    }

    fn starting(&self, tool: &str, exec: &StartingExec) -> CallToolResult {
        match (exec.failure(), tool) {
            (Some(error), _) => self.failure(tool, &error),
            (None, "code_run") => code_tools::starting(exec),
            (None, _) => exec_tools::starting(tool, exec),
        }
    }

    fn exec_result(&self, result: ExecResult) -> CallToolResult {
        // Also where the tool itself is not shown.
        match &result.exec.command {
            Command::Code(_) => code_tools::ran(result, Detail::Brief),
            Command::Shell(_) | Command::Argv(_) => exec_tools::ran(result, Detail::Brief),
        }
    }
}
