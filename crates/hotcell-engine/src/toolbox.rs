//! The tools of other servers: what there is, what is decided about each, and calling them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotcell_model::{
    Caller, Error, ExecId, NamesFound, OWN_SERVER, OwnCall, OwnTools, PassedTool, PolicyDecision,
    Request, Result, Tenant, ToolAnswer, ToolCall, ToolDetail, ToolListings, ToolNames, ToolRan,
    ToolRun, ToolSearch, ToolServers, ToolsFound,
};
use hotcell_toolbox::{
    Catalog, CatalogChanges, MAX_HITS, Observations, SearchDetail, ServerListing, Tool, ToolIndex,
    ToolKey, ToolPolicy, ToolQuery, Trust, seeded_policy, show_hits,
};
use serde_json::Value;
use tokio::sync::Notify;

use crate::asked::bounded;
use crate::code_shown::cost_of;
use crate::engine::{Answer, Engine};
use crate::fault;
use crate::passed::passed;
use crate::policies::{line_that_allows, told_of_tool};
use crate::site::Site;

/// Names that are told where one was not found.
const MOST_NEAR: usize = 8;
/// Servers that are told of whose tools are not known.
const MOST_FAULTS: usize = 5;
/// How much is told of what is wrong with each.
const FAULT_CHARS: usize = 160;
/// How long servers that were never listed may take: less than the shortest timeout of clients.
const LISTED_WITHIN: Duration = Duration::from_secs(4);
/// How long a server may take of which a tool is called; its own timeout may be shorter.
const CALLED_WITHIN: Duration = Duration::from_secs(60);
/// How deep code may have code and commands run by Hotcell's own tools.
const MOST_DEPTH: u8 = 3;
/// What Hotcell says of its own tools.
const ABOUT_OWN: &str = "cells, commands and files of Hotcell itself";

/// The tools of other servers, as one process knows them.
#[derive(Debug, Default)]
pub(crate) struct Toolbox {
    /// Those of others.
    servers: Option<Arc<dyn ToolServers>>,
    /// Hotcell's own.
    own: Option<Arc<dyn OwnTools>>,
    /// What definitions may cost that are handed to clients as they are.
    pass_through_tokens: usize,
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
    pub(crate) version: u64,
    pub(crate) catalog: Catalog,
    /// Those that are handed to clients as they are.
    pub(crate) passed: Vec<PassedTool>,
    index: ToolIndex,
    trusted: BTreeSet<String>,
    /// The servers whose tools may be called without approval.
    allowed: BTreeSet<String>,
    faults: Vec<String>,
    /// The servers of whose tools nothing is known.
    unlisted: Vec<String>,
}

fn no_listings() -> Arc<ToolListings> {
    Arc::new(ToolListings { version: 0, servers: Vec::new() })
}

impl Shelf {
    /// The tools of no servers.
    pub(crate) fn empty() -> Self {
        Self::new(&no_listings(), None, 0)
    }

    fn new(listings: &ToolListings, own: Option<&[Value]>, pass_through_tokens: usize) -> Self {
        let of_others = listings.servers.iter().map(|server| {
            let mut listing = ServerListing::read(&server.name, &server.tools);
            listing.instructions = server.about.clone();
            listing
        });
        let own = own.map(|tools| {
            let mut listing = ServerListing::read(OWN_SERVER, tools);
            listing.instructions = Some(ABOUT_OWN.to_owned());
            listing
        });
        // The first of a name counts: nobody can stand in for Hotcell's own.
        let catalog = Catalog::new(own.into_iter().chain(of_others));
        let index = ToolIndex::new(&catalog);
        let trusted = listings.servers.iter().filter(|server| server.trusted);
        let trusted: BTreeSet<String> = trusted.map(|server| server.name.clone()).collect();
        let passed = passed(&catalog, pass_through_tokens, |server| trusted.contains(server));
        let allowed = listings.servers.iter().filter(|server| server.allowed);
        let unlisted = listings.servers.iter().filter(|server| server.fault.is_some());
        Self {
            version: listings.version,
            index,
            catalog,
            passed,
            trusted,
            allowed: allowed.map(|server| server.name.clone()).collect(),
            faults: faults_of(listings),
            unlisted: unlisted.map(|server| server.name.clone()).collect(),
        }
    }

    /// Whether it is what these listings make: they say the same, also of what is wrong.
    fn is_of(&self, listings: &ToolListings) -> bool {
        self.version == listings.version && self.faults == faults_of(listings)
    }

    /// Whether nothing is known of the tools of a declared server.
    fn lacks(&self, server: &str) -> bool {
        let found = self.catalog.find_server(server);
        found.is_some_and(|found| self.unlisted.iter().any(|name| name == found.name()))
    }

    /// The servers of whose tools nothing is known.
    pub(crate) fn unlisted(&self) -> &[String] {
        &self.unlisted
    }

    /// What is decided about a tool of which no rule speaks.
    pub(crate) fn policy(&self, key: &ToolKey) -> ToolPolicy {
        if self.allowed.contains(&key.server) && self.catalog.find_by_key(key).is_some() {
            let why = "the configuration allows all tools of this server".to_owned();
            return ToolPolicy { decision: PolicyDecision::Allow, why };
        }
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

/// What is wrong with servers of whose tools nothing is known.
fn faults_of(listings: &ToolListings) -> Vec<String> {
    let faults = listings.servers.iter().filter_map(|server| {
        let fault = server.fault.as_ref()?;
        Some(format!("{}: {}", server.name, bounded(&fault.message, FAULT_CHARS)))
    });
    faults.take(MOST_FAULTS).collect()
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
    pub(crate) fn call_tools_of(
        &mut self,
        servers: Arc<dyn ToolServers>,
        pass_through_tokens: usize,
    ) {
        self.servers = Some(servers);
        self.pass_through_tokens = pass_through_tokens;
    }

    pub(crate) fn offer(&mut self, own: Arc<dyn OwnTools>) {
        self.own = Some(own);
    }

    /// The servers of others, if there are any.
    pub(crate) fn servers(&self) -> Option<&Arc<dyn ToolServers>> {
        self.servers.as_ref()
    }

    /// Whether tools may be handed to clients as they are.
    pub(crate) fn may_pass(&self) -> bool {
        self.servers.is_some() && self.pass_through_tokens > 0
    }

    /// All tools as they are now. One server that does not answer does not keep the others waiting.
    pub(crate) async fn shelf(&self) -> Result<Arc<Shelf>> {
        self.shelf_within(LISTED_WITHIN).await
    }

    /// The same for a call of a server's tool: only that server is waited for, for all the time
    /// it may take, and only if it was never listed.
    pub(crate) async fn shelf_with(&self, server: &str) -> Result<Arc<Shelf>> {
        let known = self.known_listings().await;
        let last = self.last_shelf().filter(|last| last.version == known.version);
        let shelf = match last {
            Some(last) => last,
            None => self.keep_shelf_of(known).await?,
        };
        if shelf.lacks(server) { self.shelf_within(CALLED_WITHIN).await } else { Ok(shelf) }
    }

    /// The same with another time for servers that were never listed.
    pub(crate) async fn shelf_within(&self, within: Duration) -> Result<Arc<Shelf>> {
        let listings = match &self.servers {
            Some(servers) => servers.listings(within).await,
            None => no_listings(),
        };
        let last = self.last_shelf().filter(|last| last.is_of(&listings));
        match last {
            Some(last) => Ok(last),
            None => self.keep_shelf_of(listings).await,
        }
    }

    fn last_shelf(&self) -> Option<Arc<Shelf>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn keep_shelf_of(&self, listings: Arc<ToolListings>) -> Result<Arc<Shelf>> {
        let shelf = self.shelf_of(listings).await?;
        if let Some(last) = self.last_shelf() {
            let changes = CatalogChanges::between(&last.catalog, &shelf.catalog);
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.values_mut().for_each(|seen| seen.forget_changed(&changes));
        }
        *self.shelf.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shelf));
        Ok(shelf)
    }

    async fn shelf_of(&self, listings: Arc<ToolListings>) -> Result<Arc<Shelf>> {
        let own = self.own.as_ref().map(|own| own.tools());
        let most = self.pass_through_tokens;
        fault::blocking(move || Ok(Arc::new(Shelf::new(&listings, own.as_deref(), most)))).await
    }

    /// The tools that are known of already; no server is started.
    pub(crate) async fn known_shelf(&self) -> Result<Arc<Shelf>> {
        self.shelf_of(self.known_listings().await).await
    }

    async fn known_listings(&self) -> Arc<ToolListings> {
        match &self.servers {
            Some(servers) => servers.known_listings().await,
            None => no_listings(),
        }
    }

    /// Waits until servers list other tools.
    pub(crate) async fn changed_since(&self, shelf: &Shelf) {
        match &self.servers {
            Some(servers) => drop(servers.changed(shelf.version).await),
            None => std::future::pending().await,
        }
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
pub(crate) async fn tool_run(engine: &Engine, caller: &Caller, call: ToolRun) -> Result<ToolRan> {
    let toolbox = engine.site().toolbox()?;
    let shelf = toolbox.shelf_with(&call.server).await?;
    let tool = shelf.find(&call.server, &call.tool)?;
    let Value::Object(arguments) = tool.arguments(call.arguments)? else {
        return Err(Error::internal("the arguments of a tool are no object"));
    };
    let key = tool.key().clone();
    let ToolKey { server, tool } = key.clone();
    if server == OWN_SERVER {
        let (Some(own), Some(exec)) = (&toolbox.own, call.exec) else {
            return Err(Error::internal("only code calls Hotcell's tools so"));
        };
        return own_run(engine, caller, exec, own.call(&tool, arguments)?).await;
    }
    let servers = toolbox.servers().ok_or_else(|| shelf.no_server(&server))?;
    let answer = servers.call(ToolCall { server, tool, arguments, timeout: None }).await?;
    let as_it_came = call.exec.is_none().then(|| Box::new(answer.clone()));
    let ran = ToolRan { answer: as_it_came, ..value_of(answer) };
    if !ran.failed {
        toolbox.learn(&caller.tenant, &shelf.catalog, &key, &ran.value);
    }
    Ok(ran)
}

/// Does for code what one of Hotcell's own tools does for its caller: through the same door, under the same
/// rules.
async fn own_run(engine: &Engine, caller: &Caller, exec: ExecId, call: OwnCall) -> Result<ToolRan> {
    let OwnCall { request, value } = call;
    let depth = caller.depth.saturating_add(1);
    if depth > MOST_DEPTH && matches!(request, Request::ExecRun(_)) {
        return Err(Error::limit_exceeded(format!(
            "code that was run by code may start others {MOST_DEPTH} deep"
        ))
        .hint("do it in the run that began"));
    }
    let caller = Caller { depth, code_of: Some(exec), ..caller.clone() };
    let reply = match engine.call(&caller, request).await {
        Ok(Answer::Reply(reply)) => Ok(reply),
        Ok(Answer::Stream(_) | Answer::Files(_) | Answer::Port(_)) => {
            Err(Error::internal("a stream answered a call"))
        }
        Err(error) => Err(error),
    };
    let value = value(reply)?;
    let text = value.to_string();
    let (bytes, tokens) = (text.len() as u64, cost_of(&text));
    Ok(ToolRan { value, failed: false, bytes, tokens, answer: None })
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
    ToolRan { value, failed: is_error, bytes, tokens, answer: None }
}

/// Looks for tools.
pub(crate) async fn tool_search(
    site: &Site,
    tenant: &Tenant,
    request: ToolSearch,
) -> Result<ToolsFound> {
    let Some(toolbox) = &site.toolbox else {
        return Ok(ToolsFound::default().with_hint());
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
        ToolDetail::Whole => SearchDetail::Whole,
    };
    let seen = toolbox.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let unseen = Observations::default();
    let observations = seen.get(tenant).unwrap_or(&unseen);
    let policy = site.rules_of_tools();
    let told = |key: &_| told_of_tool(policy.as_deref(), &shelf, key);
    let tools = show_hits(&shelf.catalog, &hits, detail, observations, &told);
    let of = shelf.catalog.tools().count() as u64;
    let asking: BTreeSet<&str> = hits
        .iter()
        .filter(|hit| told(&hit.key).decision == PolicyDecision::Ask)
        .map(|hit| hit.key.server.as_str())
        .collect();
    let approval = asking.into_iter().map(|server| {
        format!("calls of {server}.* await the user's approval; {}", line_that_allows(server))
    });
    let approval = approval.collect();
    let faults = shelf.faults.clone();
    Ok(ToolsFound { tools, of, faults, approval, hint: None }.with_hint())
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
    let shelf = match &request.server {
        Some(server) => toolbox.shelf_with(server).await?,
        None => toolbox.shelf().await?,
    };
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
