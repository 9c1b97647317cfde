//! One connection to a server, from its greeting to its end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotcell_masking::{Masker, Masks};
use hotcell_model::{Error, ErrorCode, Result, ToolAnswer};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest,
    PaginatedRequestParams, PingRequest, ProtocolVersion, RequestId, ServerResult,
    SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RunningService,
    Subscription, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::http;
use crate::lines::LineTransport;
use crate::link::{Link, Watched};
use crate::listing::{Listing, Pages, json_bytes, shortened};
use crate::process::{Exit, Process, Tail};
use crate::servers::Surroundings;
use crate::spec::{Launch, ServerSpec, SpecText};

/// Words of a server in an error are cut after so many bytes.
const MOST_WORDS: usize = 2048;
/// How long a server may take to be heard from at all.
const PING: Duration = Duration::from_secs(5);

/// How long a server may take to end by itself.
const RETIRING: Duration = Duration::from_secs(3);

/// A connection that has been greeted.
pub(crate) struct Session {
    peer: Peer<RoleClient>,
    link: Arc<Link>,
    masks: Masks,
    about: Option<String>,
    said: Option<Tail>,
    exit: Option<Exit>,
    ending: tokio::sync::OnceCell<Error>,
    process: Mutex<Option<Process>>,
    /// What waits to be said after a call was given up.
    farewells: Mutex<JoinSet<()>>,
    _subscription: Option<Subscription>,
    running: RunningService<RoleClient, Client>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_gone", &self.link.is_gone()).finish_non_exhaustive()
    }
}

/// A client that answers no questions.
#[derive(Debug)]
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let program = Implementation::new("hotcell", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), program)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Why a server could not be greeted.
enum Unopened {
    /// It refuses the greeting of older protocols.
    OnlyNewest(Error),
    Failed(Error),
}

impl Unopened {
    fn into_error(self) -> Error {
        match self {
            Self::OnlyNewest(error) | Self::Failed(error) => error,
        }
    }
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Session {
    /// Starts or reaches a server and greets it; a greeting may take as long as a call.
    ///
    /// # Errors
    /// `unavailable` with what the server said; what looking up a secret failed with.
    pub(crate) async fn open(spec: &ServerSpec, surroundings: &Surroundings) -> Result<Self> {
        let newest = || vec![ProtocolVersion::LATEST];
        let either =
            ClientLifecycleMode::Auto { preferred_versions: newest(), legacy_version: None };
        let only_newest = ClientLifecycleMode::Discover { preferred_versions: newest() };
        let open = async {
            match Self::open_with(spec, surroundings, either).await {
                // It took so long to start that it was greeted in the old way as well, which a
                // server that has begun to speak the new one refuses for good.
                Err(Unopened::OnlyNewest(_)) => {
                    Self::open_with(spec, surroundings, only_newest).await
                }
                opened => opened,
            }
        };
        open.await.map_err(Unopened::into_error)
    }

    async fn open_with(
        spec: &ServerSpec,
        surroundings: &Surroundings,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, Unopened> {
        let mut masks = Masks::default();
        let link = Arc::new(Link::default());
        match &spec.launch {
            Launch::Stdio(stdio) => {
                let env = reveal(&stdio.env, surroundings, &mut masks).await?;
                let (process, (output, input)) = Process::start(stdio, &env, surroundings)?;
                let transport =
                    LineTransport::new(output, input, spec.most_bytes, Arc::clone(&link));
                Self::greet(spec, transport, lifecycle, link, masks, Some(process)).await
            }
            Launch::Http(http) => {
                let headers = reveal(&http.headers, surroundings, &mut masks).await?;
                let bearer = http.bearer.iter().map(|text| (String::new(), text.clone()));
                let bearer = reveal(&bearer.collect(), surroundings, &mut masks).await?;
                let bearer = bearer.into_values().next();
                let transport = http::transport(http, headers, bearer, spec, surroundings, &link)?;
                Self::greet(spec, transport, lifecycle, link, masks, None).await
            }
        }
    }

    async fn greet<T: Transport<RoleClient> + 'static>(
        spec: &ServerSpec,
        transport: T,
        lifecycle: ClientLifecycleMode,
        link: Arc<Link>,
        masks: Masks,
        process: Option<Process>,
    ) -> Result<Self, Unopened> {
        let said = process.as_ref().map(Process::said);
        let explain = |why: &str| {
            let error = link.why().unwrap_or_else(|| Error::unavailable(why.to_owned()));
            with_tail(error, said.as_ref(), &masks)
        };
        let transport = Watched::new(transport, Arc::clone(&link));
        let greeting = Box::pin(serve_client_with_lifecycle(Client, transport, lifecycle));
        let running = match timeout(spec.timeout, greeting).await {
            Ok(Ok(running)) => running,
            Ok(Err(error)) => {
                let why = if let ClientInitializeError::ConnectionClosed(_) = error {
                    "it ended before it answered".to_owned()
                } else {
                    let words = error.to_string();
                    format!("it cannot be greeted: {}", shortened(&words, MOST_WORDS))
                };
                // A process that has just ended may have its last words on the way.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let why = explain(&why);
                return Err(match is_only_newest(&error) {
                    true => Unopened::OnlyNewest(why),
                    false => Unopened::Failed(why),
                });
            }
            Err(_) => {
                let why = format!("it did not answer within {} s", spec.timeout.as_secs_f64());
                return Err(explain(&why).into());
            }
        };
        let info = running.peer_info();
        let about = info.as_ref().and_then(|info| info.instructions.clone());
        let is_modern = info.as_ref().is_some_and(|info| !info.protocol_version.has_initialize());
        let tells = info.and_then(|info| info.capabilities.tools.clone()?.list_changed);
        let mut subscription = None;
        if is_modern && tells == Some(true) {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            subscription = timeout(PING, running.listen(wanted)).await.ok().and_then(Result::ok);
        }
        Ok(Self {
            peer: running.peer().clone(),
            link,
            masks,
            about,
            said,
            exit: process.as_ref().map(Process::exit),
            ending: tokio::sync::OnceCell::new(),
            process: Mutex::new(process),
            farewells: Mutex::new(JoinSet::new()),
            _subscription: subscription,
            running,
        })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.link.is_gone()
    }

    /// Waits for the server to say that its list changed.
    pub(crate) async fn list_changed(&self) {
        self.link.list_changed().await;
    }

    /// Waits for the end: of the connection, or of the process.
    pub(crate) async fn ended(&self) {
        let exited = async {
            match &self.exit {
                Some(exit) => exit.seen().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.link.gone() => {}
            () = exited => {}
        }
    }

    /// Ends the connection and all processes of the server; why it had ended, if it had.
    pub(crate) async fn end(&self) -> Error {
        self.ending.get_or_init(|| self.find_end()).await.clone()
    }

    async fn find_end(&self) -> Error {
        let process = self.take_process();
        let status = match process {
            Some(mut process) => process.kill().await,
            None => None,
        };
        self.link.end();
        let error = self.link.why().unwrap_or_else(|| match status {
            Some(status) if !is_killed(status) => {
                Error::unavailable(format!("it ended by itself ({status})"))
            }
            Some(_) | None => Error::unavailable("the connection has ended"),
        });
        with_tail(error, self.said.as_ref(), &self.masks)
    }

    /// Ends a server that is no longer needed: its input ends, and what is then still there is killed.
    pub(crate) async fn retire(&self) {
        self.running.cancellation_token().cancel();
        if let Some(exit) = &self.exit {
            let _ = timeout(RETIRING, exit.seen()).await;
        }
        self.end().await;
    }

    /// Kills all processes of the server without waiting for it.
    pub(crate) fn kill(&self) {
        self.link.end();
        drop(self.take_process());
    }

    fn take_process(&self) -> Option<Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Every page of the list.
    ///
    /// # Errors
    /// As a call, and `limit_exceeded` for a list without an end.
    pub(crate) async fn list(&self, spec: &ServerSpec) -> Result<Listing> {
        let mut pages = Pages::new(spec.most_bytes);
        let mut cursor = None;
        let all = async {
            loop {
                let params = PaginatedRequestParams::default().with_cursor(cursor.take());
                let request =
                    ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
                let request = ClientRequest::ListToolsRequest(request);
                let mut page = self.ask(request, spec.timeout, "its list of tools").await?;
                self.mask(&mut page);
                match pages.take(page)? {
                    Some(next) => cursor = Some(next),
                    None => return Ok(()),
                }
            }
        };
        match timeout(spec.timeout, all).await {
            Ok(done) => done?,
            Err(_) => return Err(Error::timeout("its list of tools took too long")),
        }
        let about = self.about.as_deref().map(|text| masked(text, &self.masks).into_owned());
        Ok(pages.finish(about))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// See [`hotcell_model::ToolServers::call`].
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        patience: Duration,
        most_bytes: usize,
    ) -> Result<ToolAnswer> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut result = self.ask(request, patience, tool).await?;
        let bytes = json_bytes(&result);
        if bytes > most_bytes as u64 {
            return Err(too_long(tool, most_bytes));
        }
        self.mask(&mut result);
        match result.get("resultType").and_then(Value::as_str) {
            None | Some("complete") => {}
            Some(other) => {
                return Err(Error::unsupported(format!("{tool} answers with {other:?}"))
                    .hint("code cannot be asked for more; give the tool all that it needs"));
            }
        }
        let content = match result.get_mut("content").map(Value::take) {
            Some(Value::Array(content)) => content,
            Some(_) | None => Vec::new(),
        };
        let structured = result.get_mut("structuredContent").map(Value::take);
        Ok(ToolAnswer {
            structured: structured.filter(|value| !value.is_null()),
            content,
            is_error: result.get("isError").and_then(Value::as_bool).unwrap_or_default(),
            bytes,
        })
    }

    /// Whether the server is there.
    pub(crate) async fn is_well(&self) -> bool {
        // The newest protocol has no ping; its list is asked for instead.
        let is_modern =
            self.peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
        let request = match is_modern {
            true => ClientRequest::ListToolsRequest(ListToolsRequest::default()),
            false => ClientRequest::PingRequest(PingRequest::default()),
        };
        match self.ask(request, PING, "a ping").await {
            Ok(_) => true,
            // An answer, of whatever kind.
            Err(error) => !matches!(error.code, ErrorCode::Timeout) && !self.link.is_gone(),
        }
    }

    /// Ends the connection because the server was not heard from.
    pub(crate) fn give_up(&self) {
        self.link.cut(Error::unavailable(format!(
            "it was ended: it did not answer a ping within {} s",
            PING.as_secs()
        )));
    }

    async fn ask(&self, request: ClientRequest, patience: Duration, what: &str) -> Result<Value> {
        let asking = self.peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let asked = tokio::select! {
            asked = asking => asked,
            () = self.link.gone() => return Err(self.over(what).await),
            () = tokio::time::sleep(patience) => return Err(late(what, patience)),
        };
        let handle = match asked {
            Ok(handle) => handle,
            Err(error) => return Err(self.failed(error, None, what).await),
        };
        let mut given_up = GivenUp { session: self, id: Some(handle.id.clone()) };
        let answered = tokio::select! {
            answered = handle.rx => answered,
            () = self.link.gone() => {
                given_up.id = None;
                return Err(self.over(what).await);
            }
            () = tokio::time::sleep(patience) => return Err(late(what, patience)),
        };
        let id = given_up.id.take();
        match answered {
            Ok(Ok(ServerResult::CustomResult(result))) => Ok(result.0),
            Ok(Ok(result)) => serde_json::to_value(result)
                .map_err(|error| Error::internal(format!("cannot read an answer: {error}"))),
            Ok(Err(error)) => Err(self.failed(error, id.as_ref(), what).await),
            Err(_) => Err(self.over(what).await),
        }
    }

    /// What somebody is told who waited when the connection ended.
    async fn over(&self, what: &str) -> Error {
        let error = self.end().await;
        let message = format!("no answer to {what}: {}", error.message);
        Error { message, ..error }.hint("it is started again for the next call")
    }

    async fn failed(&self, error: ServiceError, id: Option<&RequestId>, what: &str) -> Error {
        let ServiceError::McpError(told) = error else {
            let is_over = matches!(error, ServiceError::TransportClosed) || self.link.is_gone();
            let words = shortened_words(&error.to_string(), &self.masks);
            return match is_over {
                true => self.over(what).await,
                false if words.contains(http::TOO_LONG) => {
                    Error::limit_exceeded(format!("the answer to {what}: {words}"))
                }
                false => Error::unavailable(format!("{what} could not be asked for: {words}")),
            };
        };
        if id.is_some_and(|id| self.link.take_oversized(id)) {
            return Error::limit_exceeded(format!(
                "the answer to {what} is too long: {}",
                told.message
            ))
            .hint("ask for less, or raise `most_bytes` of the server");
        }
        let words = shortened_words(&told.message, &self.masks);
        if words.contains(http::TOO_LONG) {
            return Error::limit_exceeded(format!("the answer to {what}: {words}"))
                .hint("ask for less, or raise `most_bytes` of the server");
        }
        let message = format!("the server refuses {what}: {words}");
        match told.code {
            rmcp::model::ErrorCode::INVALID_PARAMS => Error::invalid(message),
            rmcp::model::ErrorCode::METHOD_NOT_FOUND => Error::not_found(message),
            _ => Error::unavailable(message),
        }
    }

    /// Replaces every secret that this server was given.
    fn mask(&self, value: &mut Value) {
        if !self.masks.is_empty() {
            mask_value(value, &self.masks);
        }
    }

    fn say_cancelled(&self, id: RequestId) {
        let peer = self.peer.clone();
        let mut farewells = self.farewells.lock().unwrap_or_else(PoisonError::into_inner);
        while farewells.try_join_next().is_some() {}
        let reason = Some("nobody waits for it any longer".to_owned());
        let params = CancelledNotificationParam::new(Some(id), reason);
        farewells.spawn(async move {
            let told = CancelledNotification::new(params);
            let _ = timeout(PING, peer.send_notification(told.into())).await;
        });
    }
}

/// Tells the server when a request is given up before it was answered.
struct GivenUp<'a> {
    session: &'a Session,
    id: Option<RequestId>,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.session.say_cancelled(id);
        }
    }
}

fn is_only_newest(error: &ClientInitializeError) -> bool {
    let code = rmcp::model::ErrorCode::UNSUPPORTED_PROTOCOL_VERSION;
    matches!(error, ClientInitializeError::JsonRpcError(refusal) if refusal.code == code)
}

fn late(what: &str, patience: Duration) -> Error {
    Error::timeout(format!("no answer to {what} within {} s", patience.as_secs_f64()))
        .hint("the server was told to stop; it may have done it all the same")
}

fn too_long(what: &str, most: usize) -> Error {
    Error::limit_exceeded(format!("the answer to {what} has more than {most} bytes"))
        .hint("ask for less, or raise `most_bytes` of the server")
}

fn is_killed(status: std::process::ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status)
        == Some(rustix::process::Signal::KILL.as_raw())
}

fn with_tail(error: Error, said: Option<&Tail>, masks: &Masks) -> Error {
    let words = said.map(Tail::text).unwrap_or_default();
    let words = if words.is_empty() { words } else { format!("; it said: {words}") };
    let message = masked(&format!("{}{words}", error.message), masks).into_owned();
    Error { message, ..error }
}

fn shortened_words(text: &str, masks: &Masks) -> String {
    shortened(&masked(text, masks), MOST_WORDS).to_owned()
}

fn masked<'a>(text: &'a str, masks: &Masks) -> Cow<'a, str> {
    if masks.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masker = Masker::default();
    let mut bytes = masker.take(masks, text.as_bytes());
    bytes.extend(masker.release(masks));
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn mask_value(value: &mut Value, masks: &Masks) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => *text = masked(text, masks).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| mask_value(value, masks)),
        Value::Object(fields) => {
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(name, mut value)| {
                    mask_value(&mut value, masks);
                    (masked(&name, masks).into_owned(), value)
                })
                .collect();
        }
    }
}

/// The texts of a declaration as they are, secrets looked up; those are masked from then on.
async fn reveal(
    texts: &BTreeMap<String, SpecText>,
    surroundings: &Surroundings,
    masks: &mut Masks,
) -> Result<BTreeMap<String, String>> {
    let mut revealed = BTreeMap::new();
    for (key, text) in texts {
        let value = match text {
            SpecText::Plain(text) => text.clone(),
            SpecText::Secret(name) => {
                let (look_up, wanted) = (Arc::clone(&surroundings.value_of), name.clone());
                // Secrets are in files.
                let looked_up = tokio::task::spawn_blocking(move || look_up(&wanted)).await;
                let value = looked_up.map_err(|error| Error::internal(error.to_string()))??;
                masks.add(name.as_str(), value.expose().as_bytes());
                value.expose().to_owned()
            }
        };
        revealed.insert(key.clone(), value);
    }
    Ok(revealed)
}
