//! The tree `/tools`: which files there are, and what stands in each when somebody reads it.

use std::fmt::Write;

use crate::catalog::{Catalog, Server, Tool, ToolKey};
use crate::observations::Observations;
use crate::stub::ToolPolicy;
use crate::text::Language;

/// The file with a line for every server.
pub(crate) const INDEX: &str = "INDEX.md";
const PYTHON_LINES: &str = "__init__.pyi";
const TYPESCRIPT_LINES: &str = "index.d.ts";

/// The files of `/tools` for one catalog. Nothing is written before it is read.
pub struct ToolTree<'a> {
    catalog: &'a Catalog,
    observations: &'a Observations,
    policy: &'a dyn Fn(&ToolKey) -> ToolPolicy,
}

impl std::fmt::Debug for ToolTree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolTree").field("servers", &self.catalog.servers().len()).finish()
    }
}

impl<'a> ToolTree<'a> {
    /// The tree of a catalog; `policy` says what is decided about each tool.
    #[must_use]
    pub fn new(
        catalog: &'a Catalog,
        observations: &'a Observations,
        policy: &'a dyn Fn(&ToolKey) -> ToolPolicy,
    ) -> Self {
        Self { catalog, observations, policy }
    }

    /// The paths of all files, in order, relative to `/tools`.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths = vec![INDEX.to_owned()];
        for server in self.catalog.servers() {
            paths.extend(lines_of(server.identifier()));
            paths.extend(server.tools().iter().flat_map(own_paths));
        }
        paths.sort_unstable();
        paths
    }

    /// Whether a path is that of a list with a line for each tool of a server.
    #[must_use]
    pub fn is_list(path: &str) -> bool {
        path.split_once('/')
            .is_some_and(|(_, file)| [PYTHON_LINES, TYPESCRIPT_LINES].contains(&file))
    }

    /// What stands in a file; nothing if there is none at that path.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<String> {
        if path == INDEX {
            return Some(self.index());
        }
        let (server, file) = path.split_once('/')?;
        let server = self.catalog.find_server(server)?;
        match file {
            PYTHON_LINES => return Some(self.lines(server, Language::Python)),
            TYPESCRIPT_LINES => return Some(self.lines(server, Language::TypeScript)),
            _ => {}
        }
        let (tool, language) = match (file.strip_suffix(".pyi"), file.strip_suffix(".d.ts")) {
            (Some(tool), _) => (tool, Language::Python),
            (None, Some(tool)) => (tool, Language::TypeScript),
            (None, None) => return None,
        };
        let tool = server.find(tool)?;
        let policy = (self.policy)(tool.key());
        Some(tool.stub(language, self.observations.find(tool.key()), Some(&policy)))
    }

    fn index(&self) -> String {
        let mut out = String::from(
            "# Tools\n\n\
             A line per server. `SERVER/__init__.pyi` has a line per tool, `SERVER/TOOL.pyi` all about one \
             (`.d.ts` for TypeScript).\nIn code: `from tools.SERVER import TOOL`, or \
             `import { TOOL } from \"tools/SERVER\"`.\n\n",
        );
        for server in self.catalog.servers() {
            let (name, count) = (server.identifier(), server.tools().len());
            let _ = writeln!(out, "- {name} ({count}): {}", server.about());
        }
        out
    }

    fn lines(&self, server: &Server, language: Language) -> String {
        let mut out = match language {
            Language::Python => {
                format!("# {}\nfrom typing import Any, Literal, Never\n\n", server.about())
            }
            Language::TypeScript => format!("// {}\n", server.about()),
        };
        for tool in server.tools() {
            out.push_str(&tool.line(language, self.observations.find(tool.key())));
            out.push('\n');
        }
        out
    }
}

fn lines_of(server: &str) -> [String; 2] {
    [PYTHON_LINES, TYPESCRIPT_LINES].map(|file| format!("{server}/{file}"))
}

fn own_paths(tool: &Tool) -> [String; 2] {
    let (server, name) = (tool.server_identifier(), tool.identifier());
    [format!("{server}/{name}.pyi"), format!("{server}/{name}.d.ts")]
}

/// The files in which a tool stands.
pub(crate) fn paths_of(tool: &Tool) -> impl Iterator<Item = String> {
    own_paths(tool).into_iter().chain(lines_of(tool.server_identifier()))
}
