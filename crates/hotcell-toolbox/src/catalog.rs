//! The tools of all servers, under the names that code calls them by.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::check::{ArgumentError, Checker};
use crate::listing::{MAX_NAME, RefusedTool, ServerListing, ToolListing};
use crate::names::{Use, identifiers};
use crate::observed::Observed;
use crate::signature::Signature;
use crate::stub::{Heading, ToolPolicy};
use crate::text::{Language, first_sentence};
use crate::written::of_words;
use crate::{python, python_line, shortened, typescript};

/// A tool by the names that the operator and its server gave.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolKey {
    /// Name of the server.
    pub server: String,
    /// Name of the tool on the wire.
    pub tool: String,
}

/// All servers and their tools, in the order of their identifiers.
#[derive(Debug, Default)]
pub struct Catalog {
    servers: Vec<Server>,
}

/// A server and its tools.
#[derive(Debug)]
pub struct Server {
    name: String,
    identifier: String,
    title: Option<String>,
    instructions: Option<String>,
    tools: Vec<Tool>,
    refused: Vec<RefusedTool>,
}

/// A tool.
#[derive(Debug)]
pub struct Tool {
    key: ToolKey,
    server: String,
    identifier: String,
    listing: ToolListing,
    checker: Checker,
}

impl Catalog {
    /// A catalog of what servers list. The same lists give the same catalog, in whatever order.
    #[must_use]
    pub fn new(listings: impl IntoIterator<Item = ServerListing>) -> Self {
        let mut by_name: BTreeMap<String, ServerListing> = BTreeMap::new();
        for listing in listings {
            if !listing.name.is_empty() && listing.name.len() <= MAX_NAME {
                by_name.entry(listing.name.clone()).or_insert(listing);
            }
        }
        let mut names = identifiers(by_name.keys().map(String::as_str), Use::Server);
        let mut servers: Vec<Server> = by_name
            .into_values()
            .filter_map(|listing| names.remove(&listing.name).map(|id| Server::new(listing, id)))
            .collect();
        servers.sort_by(|one, other| one.identifier.cmp(&other.identifier));
        Self { servers }
    }

    /// The servers, in the order of their identifiers.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// All tools, server by server.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.servers.iter().flat_map(|server| &server.tools)
    }

    /// A server by the identifier that code uses.
    #[must_use]
    pub fn find_server(&self, identifier: &str) -> Option<&Server> {
        let at = self.servers.binary_search_by(|server| server.identifier.as_str().cmp(identifier));
        at.ok().map(|at| &self.servers[at])
    }

    /// A tool by the identifiers that code uses. Names that no server listed do not exist.
    #[must_use]
    pub fn find(&self, server: &str, tool: &str) -> Option<&Tool> {
        self.find_server(server)?.find(tool)
    }

    /// A tool by the names on the wire.
    #[must_use]
    pub fn find_by_key(&self, key: &ToolKey) -> Option<&Tool> {
        let server = self.servers.iter().find(|server| server.name == key.server)?;
        server.tools.iter().find(|tool| tool.key == *key)
    }
}

impl Server {
    fn new(listing: ServerListing, identifier: String) -> Self {
        let mut by_name: BTreeMap<String, ToolListing> = BTreeMap::new();
        for tool in listing.tools {
            by_name.entry(tool.name.clone()).or_insert(tool);
        }
        let mut names = identifiers(by_name.keys().map(String::as_str), Use::Tool);
        let mut tools: Vec<Tool> = by_name
            .into_values()
            .filter_map(|tool| {
                let key = ToolKey { server: listing.name.clone(), tool: tool.name.clone() };
                let checker = Checker::new();
                names.remove(&tool.name).map(|name| Tool {
                    key,
                    server: identifier.clone(),
                    identifier: name,
                    listing: tool,
                    checker,
                })
            })
            .collect();
        tools.sort_by(|one, other| one.identifier.cmp(&other.identifier));
        Self {
            name: listing.name,
            identifier,
            title: listing.title,
            instructions: listing.instructions,
            tools,
            refused: listing.refused,
        }
    }

    /// The name that the operator gave it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its module in code.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Its tools, in the order of their identifiers.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Entries of its list that cannot be used.
    #[must_use]
    pub fn refused(&self) -> &[RefusedTool] {
        &self.refused
    }

    /// A tool by the identifier that code uses.
    #[must_use]
    pub fn find(&self, identifier: &str) -> Option<&Tool> {
        let at = self.tools.binary_search_by(|tool| tool.identifier.as_str().cmp(identifier));
        at.ok().map(|at| &self.tools[at])
    }

    /// What it is for, on one line.
    #[must_use]
    pub fn about(&self) -> String {
        let said = [&self.title, &self.instructions].into_iter().flatten();
        let said: Vec<String> = said.map(|text| first_sentence(text, 120)).collect();
        let said = said.join(": ");
        if !said.is_empty() {
            return said;
        }
        let names: Vec<&str> = self.tools.iter().take(6).map(|tool| &*tool.identifier).collect();
        let more = if self.tools.len() > names.len() { ", …" } else { "" };
        format!("{}{more}", names.join(", "))
    }

    pub(crate) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Whether it says the same of itself as another.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.identifier == other.identifier && self.about() == other.about()
    }
}

impl Tool {
    /// Its names on the wire.
    #[must_use]
    pub fn key(&self) -> &ToolKey {
        &self.key
    }

    /// The name of the function in code.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// The module of its server in code.
    #[must_use]
    pub fn server_identifier(&self) -> &str {
        &self.server
    }

    /// What its server lists.
    #[must_use]
    pub fn listing(&self) -> &ToolListing {
        &self.listing
    }

    /// What it does, on one line.
    #[must_use]
    pub fn about(&self) -> String {
        let annotated = self.listing.annotations.as_ref().and_then(|known| known.title.as_ref());
        [self.listing.description.as_ref(), self.listing.title.as_ref(), annotated]
            .into_iter()
            .flatten()
            .map(|text| first_sentence(text, 100))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    }

    /// The stub on one line.
    #[must_use]
    pub fn line(&self, language: Language, observed: Option<&Observed>) -> String {
        let signature = self.signature(observed);
        match language {
            Language::Python => python_line::line(&signature, &self.identifier, &self.about()),
            Language::TypeScript => typescript::line(&signature, &self.identifier, &self.about()),
        }
    }

    /// The stub with types, words on every argument, an example and what the policy says.
    #[must_use]
    pub fn stub(
        &self,
        language: Language,
        observed: Option<&Observed>,
        policy: Option<&ToolPolicy>,
    ) -> String {
        let signature = self.signature(observed);
        let heading = self.heading(&signature, policy);
        match language {
            Language::Python => python::file(&signature, &heading),
            Language::TypeScript => typescript::file(&signature, &heading),
        }
    }

    /// The same in Python with as many words as a model is given of one tool.
    #[must_use]
    pub fn short_stub(&self, observed: Option<&Observed>, policy: Option<&ToolPolicy>) -> String {
        let signature = self.signature(observed);
        shortened::file(&signature, &self.heading(&signature, policy), &self.about())
    }

    fn heading<'a>(&'a self, signature: &Signature, policy: Option<&'a ToolPolicy>) -> Heading<'a> {
        Heading {
            server: &self.server,
            tool: &self.identifier,
            server_name: &self.key.server,
            tool_name: &self.key.tool,
            title: self.listing.title.as_deref().unwrap_or_default(),
            description: self.listing.description.as_deref().unwrap_or_default(),
            annotations: self.listing.annotations.as_ref(),
            policy,
            cut: signature.cut,
            shortened: false,
        }
    }

    /// The identifiers of arguments that code may give by place, in order.
    #[must_use]
    pub fn positional(&self) -> Vec<String> {
        self.signature(None).required().map(|argument| argument.identifier.clone()).collect()
    }

    /// Arguments as they go to the server, if they are what its schema says.
    ///
    /// # Errors
    /// Says every value that is not, where it stands and what was expected, and the stub.
    pub fn arguments(&self, given: Map<String, Value>) -> Result<Value, ArgumentError> {
        self.checker.arguments(self, given)
    }

    /// Arguments that were given as words of a command line, as its schema has them: `None` is a word
    /// without a value. What it does not know stays as it is, and is found wrong later.
    #[must_use]
    pub fn of_words(&self, words: Vec<(String, Option<String>)>) -> Map<String, Value> {
        of_words(self, words)
    }

    /// Whether an argument by its name on the wire may be this.
    pub(crate) fn takes(&self, argument: &str, value: &Value) -> bool {
        self.checker.takes(self, argument, value)
    }

    pub(crate) fn signature(&self, observed: Option<&Observed>) -> Signature {
        Signature::new(&self.listing, &self.identifier, observed)
    }
}
