//! The tools of other servers: what there is, what is decided about each, and calling them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::{
    Error, NamesFound, PolicyDecision, Result, Tenant, ToolAnswer, ToolCall, ToolDetail,
    ToolListings, ToolNames, ToolRan, ToolRun, ToolSearch, ToolServers, ToolsFound,
};
use hotcell_toolbox::{
    Catalog, CatalogChanges, MAX_HITS, Observations, SearchDetail, ServerListing, Tool, ToolIndex,
    ToolKey, ToolPolicy, ToolQuery, Trust, seeded_policy, show_hits,
};
use serde_json::Value;
use tokio::sync::Notify;

use crate::code_shown::cost_of;
use crate::fault;
use crate::policies::told_of_tool;
use crate::site::Site;

/// Names that are told where one was not found.
const MOST_NEAR: usize = 8;

/// The tools of other servers, as one process knows them.
#[derive(Debug)]
pub(crate) struct Toolbox {
    servers: Arc<dyn ToolServers>,
    shelf: Mutex<Option<Arc<Shelf>>>,
    /// What tools were seen to answer, for each tenant by itself: what one was answered is nothing to
    /// another.
    seen: Mutex<std::collections::BTreeMap<Tenant, Observations>>,
    /// Told when there may be more to show at `/tools`.
    pub(crate) learned: Notify,
}

/// All tools, as they were listed together.
#[derive(Debug)]
pub(crate) struct Shelf {
    version: u64,
    pub(crate) catalog: Catalog,
    index: ToolIndex,
    trusted: BTreeSet<String>,
    faults: Vec<String>,
    /// The servers of whose tools nothing is known.
    unlisted: Vec<String>,
}

impl Shelf {
    /// The tools of no servers.
    pub(crate) fn empty() -> Self {
        Self::new(&ToolListings { version: 0, servers: Vec::new() })
    }

    fn new(listings: &ToolListings) -> Self {
        let catalog = Catalog::new(listings.servers.iter().map(|server| {
            let mut listing = ServerListing::read(&server.name, &server.tools);
            listing.instructions = server.about.clone();
            listing
        }));
        let index = ToolIndex::new(&catalog);
        let trusted = listings.servers.iter().filter(|server| server.trusted);
        let faults = listings.servers.iter().filter_map(|server| {
            server.fault.as_ref().map(|fault| format!("{}: {}", server.name, fault.message))
        });
        let unlisted = listings.servers.iter().filter(|server| server.fault.is_some());
        Self {
            version: listings.version,
            index,
            catalog,
            trusted: trusted.map(|server| server.name.clone()).collect(),
            faults: faults.collect(),
            unlisted: unlisted.map(|server| server.name.clone()).collect(),
        }
    }

    /// The servers of whose tools nothing is known.
    pub(crate) fn unlisted(&self) -> &[String] {
        &self.unlisted
    }

    /// What is decided about a tool of which no rule speaks.
    pub(crate) fn policy(&self, key: &ToolKey) -> ToolPolicy {
        let trust =
            if self.trusted.contains(&key.server) { Trust::Annotations } else { Trust::Nothing };
        match self.catalog.find_by_key(key) {
            Some(tool) => seeded_policy(tool.listing(), trust),
            None => ToolPolicy {
                decision: PolicyDecision::Ask,
                why: "no rule, and no server lists it".to_owned(),
            },
        }
    }

    /// A tool by the names that code uses.
    pub(crate) fn find(&self, server: &str, tool: &str) -> Result<&Tool> {
        let Some(found) = self.catalog.find_server(server) else {
            return Err(self.no_server(server));
        };
        found.find(tool).ok_or_else(|| {
            let names = found.tools().iter().map(Tool::identifier);
            let near = near(tool, names);
            Error::not_found(format!("the server {server} has no tool {tool:?}"))
                .hint(format!("it has {near}; look for others with tool_search"))
        })
    }

    fn no_server(&self, server: &str) -> Error {
        let names = self.catalog.servers().iter().map(hotcell_toolbox::Server::identifier);
        let known = near(server, names);
        Error::not_found(format!("there is no server {server:?} whose tools can be called"))
            .hint(format!("there are: {known}"))
    }
}

/// Those of some names that share most with another, as a list in words.
fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let shared = |name: &str| {
        let words: BTreeSet<&str> = wanted.split('_').collect();
        name.split('_').filter(|word| words.contains(word)).count()
    };
    let mut names: Vec<&str> = names.collect();
    names.sort_by_key(|name| std::cmp::Reverse(shared(name)));
    match names.len() {
        0 => "none".to_owned(),
        all if all > MOST_NEAR => {
            format!("{} and {} more", names[..MOST_NEAR].join(", "), all - MOST_NEAR)
        }
        _ => names.join(", "),
    }
}

impl Toolbox {
    pub(crate) fn new(servers: Arc<dyn ToolServers>) -> Self {
        Self { servers, shelf: Mutex::default(), seen: Mutex::default(), learned: Notify::new() }
    }

    /// All tools as they are now.
    pub(crate) async fn shelf(&self) -> Result<Arc<Shelf>> {
        let listings = self.servers.listings().await;
        let known = self.shelf.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = &known
            && known.version == listings.version
        {
            return Ok(Arc::clone(known));
        }
        let shelf = Arc::new(fault::blocking(move || Ok(Shelf::new(&listings))).await?);
        if let Some(known) = known {
            let changes = CatalogChanges::between(&known.catalog, &shelf.catalog);
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.values_mut().for_each(|seen| seen.forget_changed(&changes));
        }
        *self.shelf.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shelf));
        Ok(shelf)
    }

    /// The tools that are known of already; no server is started.
    pub(crate) async fn known_shelf(&self) -> Result<Arc<Shelf>> {
        let listings = self.servers.known_listings().await;
        fault::blocking(move || Ok(Arc::new(Shelf::new(&listings)))).await
    }

    /// Waits until servers list other tools.
    pub(crate) async fn changed_since(&self, shelf: &Shelf) {
        self.servers.changed(shelf.version).await;
    }

    /// What tools were seen to answer to a tenant.
    pub(crate) fn seen_by(&self, tenant: &Tenant) -> Observations {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(tenant).cloned().unwrap_or_default()
    }

    fn learn(&self, tenant: &Tenant, catalog: &Catalog, key: &ToolKey, result: &Value) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(tenant.clone()).or_default().learn(catalog, key, result);
        self.learned.notify_one();
    }
}

impl Site {
    pub(crate) fn toolbox(&self) -> Result<&Toolbox> {
        self.toolbox.as_ref().ok_or_else(|| {
            Error::unsupported("no server is declared whose tools can be called")
                .hint("the operator declares servers as [toolbox.NAME] in hotcell.toml")
        })
    }
}

/// Calls a tool.
pub(crate) async fn tool_run(site: &Site, tenant: &Tenant, call: ToolRun) -> Result<ToolRan> {
    let toolbox = site.toolbox()?;
    let shelf = toolbox.shelf().await?;
    let tool = shelf.find(&call.server, &call.tool)?;
    let Value::Object(arguments) = tool.arguments(call.arguments)? else {
        return Err(Error::internal("the arguments of a tool are no object"));
    };
    let key = tool.key().clone();
    let ToolKey { server, tool } = key.clone();
    let answer = toolbox.servers.call(ToolCall { server, tool, arguments, timeout: None }).await?;
    let ran = value_of(answer);
    if !ran.failed {
        toolbox.learn(tenant, &shelf.catalog, &key, &ran.value);
    }
    Ok(ran)
}

/// What code gets of an answer: what is there for programs, else JSON in its text, else the text.
fn value_of(answer: ToolAnswer) -> ToolRan {
    let ToolAnswer { structured, content, is_error, bytes } = answer;
    let text_of = |block: &Value| Some(block.get("text")?.as_str()?.to_owned());
    let texts: Option<Vec<String>> = content.iter().map(text_of).collect();
    let value = match (structured, texts) {
        (Some(value), _) if !is_error => value,
        (_, Some(texts)) => {
            let text = texts.join("\n");
            match serde_json::from_str(&text) {
                Ok(value @ (Value::Object(_) | Value::Array(_))) if !is_error => value,
                Ok(_) | Err(_) => Value::String(text),
            }
        }
        (_, None) => Value::Array(content),
    };
    let tokens = value.as_str().map_or_else(|| cost_of(&value.to_string()), cost_of);
    ToolRan { value, failed: is_error, bytes, tokens }
}

/// Looks for tools.
pub(crate) async fn tool_search(
    site: &Site,
    tenant: &Tenant,
    request: ToolSearch,
) -> Result<ToolsFound> {
    let Some(toolbox) = &site.toolbox else {
        return Ok(ToolsFound { tools: Vec::new(), of: 0, faults: Vec::new() });
    };
    let shelf = toolbox.shelf().await?;
    if let Some(server) = &request.server
        && !shelf
            .catalog
            .servers()
            .iter()
            .any(|it| [it.name(), it.identifier()].contains(&server.as_str()))
    {
        return Err(shelf.no_server(server));
    }
    let limit = usize::try_from(request.limit).unwrap_or(MAX_HITS).clamp(1, MAX_HITS);
    let query = ToolQuery { text: request.query, server: request.server, limit };
    let hits = shelf.index.search(&query);
    let detail = match request.detail {
        ToolDetail::Name => SearchDetail::Name,
        ToolDetail::Stub => SearchDetail::Stub,
        ToolDetail::Full => SearchDetail::Full,
    };
    let seen = toolbox.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let unseen = Observations::default();
    let observations = seen.get(tenant).unwrap_or(&unseen);
    let policy = site.rules_obeyed();
    let told = |key: &_| told_of_tool(policy.as_deref(), &shelf, key);
    let tools = show_hits(&shelf.catalog, &hits, detail, observations, &told);
    let of = shelf.catalog.tools().count() as u64;
    Ok(ToolsFound { tools, of, faults: shelf.faults.clone() })
}

/// Lists the names that code can import.
pub(crate) async fn tool_names(site: &Site, request: ToolNames) -> Result<NamesFound> {
    let toolbox = match (&site.toolbox, &request.server) {
        (Some(toolbox), _) => toolbox,
        (None, None) => return Ok(NamesFound { names: Vec::new() }),
        (None, Some(server)) => {
            return Err(Error::not_found(format!("there is no server {server:?}"))
                .hint("the operator declares servers as [toolbox.NAME] in hotcell.toml"));
        }
    };
    let shelf = toolbox.shelf().await?;
    let names = match request.server {
        None => {
            shelf.catalog.servers().iter().map(|server| server.identifier().to_owned()).collect()
        }
        Some(server) => match shelf.catalog.find_server(&server) {
            Some(found) => found.tools().iter().map(|tool| tool.identifier().to_owned()).collect(),
            None => return Err(shelf.no_server(&server)),
        },
    };
    Ok(NamesFound { names })
}
