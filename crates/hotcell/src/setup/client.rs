//! The clients: where each keeps its settings, how it writes a server, where it starts one.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hotcell_model::{Alias, Error, Result};
use serde_json::{Map, Value, json};

use super::Language;
use super::entry::{Entry, Server, bearer};
use crate::environment::Environment;

/// A program that uses MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Qwen Code.
    Qwen,
}

/// For whom a server is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// For you, in every project.
    User,
    /// For whoever works in this directory.
    Project,
}

/// What the place of a file depends on.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) environment: &'a Environment,
    /// The directory of the project.
    pub(crate) directory: &'a Path,
    /// The cell that belongs to that directory.
    pub(crate) directory_cell: Option<&'a Alias>,
}

impl Client {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
        }
    }

    /// The language of its settings.
    pub(crate) fn language(self) -> Language {
        match self {
            Self::Codex => Language::Toml,
            Self::ClaudeCode
            | Self::ClaudeDesktop
            | Self::Cursor
            | Self::Vscode
            | Self::Gemini
            | Self::Opencode
            | Self::Qwen => Language::Json,
        }
    }

    /// What its settings call the servers.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Opencode => "mcp",
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor | Self::Gemini | Self::Qwen => {
                "mcpServers"
            }
        }
    }

    /// The file in which it looks for servers.
    ///
    /// # Errors
    /// `unsupported` when it has no such file, `invalid` when the home directory is not known.
    pub(crate) fn file(self, scope: Scope, around: &Surroundings<'_>) -> Result<PathBuf> {
        let environment = around.environment;
        let home = || {
            environment.home.clone().ok_or_else(|| {
                Error::invalid(format!("there is no place for {}: HOME is not set", self.name()))
                    .hint("set HOME, or use --print")
            })
        };
        let config = || match &environment.config_home {
            Some(config) => Ok(config.clone()),
            None => home().map(|home| home.join(".config")),
        };
        let own_or = |own: &Option<PathBuf>, usual: &str| match own {
            Some(own) => Ok(own.clone()),
            None => home().map(|home| home.join(usual)),
        };
        Ok(match (self, scope) {
            (Self::ClaudeCode, Scope::User) => {
                own_or(&environment.claude_config, "")?.join(".claude.json")
            }
            (Self::ClaudeCode, Scope::Project) => around.directory.join(".mcp.json"),
            (Self::ClaudeDesktop, Scope::User) => {
                config()?.join("Claude/claude_desktop_config.json")
            }
            (Self::ClaudeDesktop, Scope::Project) => {
                return Err(Error::unsupported("claude-desktop has no settings for a project")
                    .hint("leave --scope out"));
            }
            (Self::Cursor, Scope::User) => home()?.join(".cursor/mcp.json"),
            (Self::Cursor, Scope::Project) => around.directory.join(".cursor/mcp.json"),
            (Self::Vscode, Scope::User) => config()?.join("Code/User/mcp.json"),
            (Self::Vscode, Scope::Project) => around.directory.join(".vscode/mcp.json"),
            (Self::Codex, Scope::User) => {
                own_or(&environment.codex_home, ".codex")?.join("config.toml")
            }
            (Self::Codex, Scope::Project) => around.directory.join(".codex/config.toml"),
            (Self::Gemini, Scope::User) => {
                own_or(&environment.gemini_home, "")?.join(".gemini/settings.json")
            }
            (Self::Gemini, Scope::Project) => around.directory.join(".gemini/settings.json"),
            (Self::Opencode, Scope::User) => config()?.join("opencode/opencode.json"),
            (Self::Opencode, Scope::Project) => around.directory.join("opencode.json"),
            (Self::Qwen, Scope::User) => home()?.join(".qwen/settings.json"),
            (Self::Qwen, Scope::Project) => around.directory.join(".qwen/settings.json"),
        })
    }

    /// The cell that its server must be told of, because the directory in which it is started says
    /// nothing: the root or the home directory, or not known.
    pub(crate) fn cell(self, scope: Scope, around: &Surroundings<'_>) -> Option<String> {
        match (self, scope) {
            // In a terminal the server starts where the client was started; VS Code is told to.
            (
                Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Opencode | Self::Qwen,
                Scope::User | Scope::Project,
            )
            | (Self::Vscode, Scope::Project) => None,
            (Self::Cursor, Scope::Project) => around.directory_cell.map(ToString::to_string),
            (Self::ClaudeDesktop, Scope::User | Scope::Project)
            | (Self::Cursor | Self::Vscode, Scope::User) => Some(self.name().to_owned()),
        }
    }

    /// The arguments that let its server work on the user's project, where the server is started in
    /// the directory of that project, or the settings belong to one.
    pub(crate) fn project_args(self, scope: Scope, around: &Surroundings<'_>) -> Vec<String> {
        let flag = || "--project".to_owned();
        match (self, scope) {
            (
                Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Opencode | Self::Qwen,
                Scope::User | Scope::Project,
            )
            | (Self::Vscode, Scope::Project) => vec![flag()],
            // Where it starts its servers is not documented.
            (Self::Cursor, Scope::Project) => match around.directory.to_str() {
                Some(directory) => vec![flag(), directory.to_owned()],
                None => Vec::new(),
            },
            (Self::ClaudeDesktop, Scope::User | Scope::Project)
            | (Self::Cursor | Self::Vscode, Scope::User) => Vec::new(),
        }
    }

    /// The entry of the server in its settings.
    ///
    /// # Errors
    /// `unsupported` when its settings cannot name a server that it does not start.
    pub(crate) fn entry(self, scope: Scope, server: &Server) -> Result<Entry> {
        let fields = match server {
            Server::Stdio { program, args } => self.stdio_fields(scope, program, args),
            Server::Http { url, token_variable } => {
                self.http_fields(url, token_variable.as_deref())?
            }
        };
        Ok(Entry { fields })
    }

    fn stdio_fields(
        self,
        scope: Scope,
        program: &str,
        args: &[String],
    ) -> Vec<(&'static str, Value)> {
        let mut fields = match self {
            Self::Opencode => {
                let command: Vec<&str> =
                    std::iter::once(program).chain(args.iter().map(String::as_str)).collect();
                return vec![
                    ("type", json!("local")),
                    ("command", json!(command)),
                    ("enabled", json!(true)),
                ];
            }
            Self::ClaudeCode | Self::Cursor | Self::Vscode => vec![("type", json!("stdio"))],
            Self::ClaudeDesktop | Self::Codex | Self::Gemini | Self::Qwen => Vec::new(),
        };
        fields.extend([("command", json!(program)), ("args", json!(args))]);
        if self == Self::Vscode && scope == Scope::Project {
            fields.push(("cwd", json!("${workspaceFolder}")));
        }
        fields
    }

    fn http_fields(self, url: &str, token: Option<&str>) -> Result<Vec<(&'static str, Value)>> {
        let (mut fields, reference) = match self {
            Self::ClaudeDesktop => {
                return Err(Error::unsupported(
                    "the settings of claude-desktop can only name servers that it starts",
                )
                .hint(
                    "leave --http out, or add the address as a connector in its window, if it can \
                     be reached from the internet",
                ));
            }
            Self::Codex => {
                let mut fields = vec![("url", json!(url))];
                fields.extend(token.map(|token| ("bearer_token_env_var", json!(token))));
                return Ok(fields);
            }
            Self::ClaudeCode | Self::Gemini => {
                (vec![("type", json!("http")), ("url", json!(url))], token.map(braced))
            }
            Self::Qwen => (vec![("httpUrl", json!(url))], token.map(braced)),
            Self::Opencode => {
                let fields = [("type", json!("remote")), ("url", json!(url))];
                let fields = fields.into_iter().chain([("enabled", json!(true))]).collect();
                (fields, token.map(|variable| format!("{{env:{variable}}}")))
            }
            Self::Cursor => (vec![("url", json!(url))], token.map(of_editor)),
            Self::Vscode => {
                (vec![("type", json!("http")), ("url", json!(url))], token.map(of_editor))
            }
        };
        fields.extend(reference.map(|reference| ("headers", bearer(&reference))));
        Ok(fields)
    }

    /// What a person would write into the file by hand.
    pub(crate) fn snippet(self, name: &str, entry: &Entry) -> Result<String> {
        let text = self.language().edit("", self.section(), name, entry);
        text.map_err(|unfit| Error::internal(unfit.problem))
    }

    /// The command of its own that does the same, where there is one.
    pub(crate) fn own_command(
        self,
        scope: Scope,
        name: &str,
        server: &Server,
        entry: &Entry,
    ) -> Option<Vec<String>> {
        let of_scope = match scope {
            Scope::User => "user",
            Scope::Project => "project",
        };
        let mut words: Vec<String> = Vec::new();
        let mut say = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        match (self, scope, server) {
            (Self::ClaudeCode, _, Server::Stdio { program, args }) => {
                say(&["claude", "mcp", "add", "--scope", of_scope, name, "--", program]);
                words.extend(args.iter().cloned());
            }
            (Self::ClaudeCode, _, Server::Http { url, token_variable }) => {
                say(&["claude", "mcp", "add", "--scope", of_scope, "--transport", "http"]);
                say(&[name, url]);
                if let Some(token) = token_variable {
                    say(&["--header", &format!("Authorization: Bearer {}", braced(token))]);
                }
            }
            (Self::Vscode, Scope::User, _) => {
                let named = [("name".to_owned(), json!(name))];
                let fields =
                    entry.fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
                let object: Map<String, Value> = named.into_iter().chain(fields).collect();
                say(&["code", "--add-mcp", &Value::Object(object).to_string()]);
            }
            (Self::Codex, Scope::User, Server::Stdio { program, args }) => {
                say(&["codex", "mcp", "add", name, "--", program]);
                words.extend(args.iter().cloned());
            }
            (Self::Codex, Scope::User, Server::Http { url, token_variable }) => {
                say(&["codex", "mcp", "add", name, "--url", url]);
                if let Some(token) = token_variable {
                    say(&["--bearer-token-env-var", token]);
                }
            }
            (Self::Gemini | Self::Qwen, _, Server::Stdio { program, args }) => {
                say(&[self.name(), "mcp", "add", "--scope", of_scope, name, program]);
                words.extend(args.iter().cloned());
            }
            (Self::Gemini | Self::Qwen, _, Server::Http { url, token_variable }) => {
                say(&[self.name(), "mcp", "add", "--scope", of_scope, "--transport", "http"]);
                say(&[name, url]);
                // Its flag takes every word that follows.
                if let Some(token) = token_variable {
                    say(&["--header", &format!("Authorization: Bearer {}", braced(token))]);
                }
            }
            (Self::ClaudeDesktop | Self::Cursor | Self::Opencode, _, _)
            | (Self::Vscode | Self::Codex, Scope::Project, _) => return None,
        }
        Some(words)
    }
}

fn braced(variable: &str) -> String {
    format!("${{{variable}}}")
}

fn of_editor(variable: &str) -> String {
    format!("${{env:{variable}}}")
}
