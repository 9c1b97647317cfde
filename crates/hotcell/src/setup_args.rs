//! The command line of `hotcell setup`.

use clap::Args;

use crate::setup::{Client, Scope, http_url, server_name, variable_name};

/// Tell a client about the server: write its settings.
///
/// The client then starts `hotcell serve` by itself, or with --http reaches a server that runs. The
/// change is shown first, and nothing is written before you agree. A copy of the file as it was
/// stays beside it, and whatever else is in the file stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell setup claude-code
  hotcell setup vscode --scope project
  hotcell setup codex --approve-tools
  hotcell setup codex --http http://127.0.0.1:8000/mcp --token-env CELL_TOKEN
  hotcell setup gemini --print")]
pub(crate) struct Setup {
    /// Which client.
    pub(crate) client: Client,
    /// The address of a server that runs, instead of one that the client starts.
    #[arg(long, value_name = "URL", value_parser = http_url)]
    pub(crate) http: Option<String>,
    /// The variable in which the client finds the token for that server; the token itself is never
    /// written.
    #[arg(long, value_name = "NAME", requires = "http", value_parser = variable_name)]
    pub(crate) token_env: Option<String>,
    /// For you everywhere, or for whoever works in this directory.
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: Scope,
    /// Do not make the directory that the client is started in the workspace of the default cell.
    ///
    /// By default the agent sees the project it is started in, copy-on-write: the real files change
    /// only when you approve or apply its changes.
    #[arg(long, conflicts_with = "http")]
    pub(crate) no_project: bool,
    /// Codex only: let Codex call the server's tools without asking you about each call.
    ///
    /// Without it `codex exec` with the approval policy `never` refuses tools that are marked as
    /// destructive. What tools do stays in the cell either way, and changes to real files still need
    /// your approval.
    #[arg(long)]
    pub(crate) approve_tools: bool,
    /// What the client calls the server.
    #[arg(long, value_name = "NAME", default_value = "hotcell", value_parser = server_name)]
    pub(crate) name: String,
    /// Only print what belongs into the settings.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) print: bool,
    /// Write without asking.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
