//! Telling clients that a resource has changed, as long as they want to know.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotcell_model::{
    Caller, CellId, CellInfo, CellRef, Error, ErrorCode, FileCall, FileStat, Result,
};
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::handler::{McpHandler, protocol_error};
use super::{resources, workspaces};
use crate::door::Door;
use crate::watches::Listening;

/// How many resources one connection is told about.
const MOST: usize = 64;
/// How soon it is told again that the same resource has changed.
const PAUSE: Duration = Duration::from_millis(250);

/// What one connection has subscribed to. It ends with the connection.
#[derive(Debug, Clone)]
pub(super) struct Subscriptions {
    room: Arc<Semaphore>,
    under_way: Arc<Mutex<UnderWay>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    by_uri: HashMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MOST)), under_way: Arc::default() }
    }
}

impl Subscriptions {
    fn with<T>(&self, change: impl FnOnce(&mut UnderWay) -> T) -> T {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // Those whose cell is gone.
        while under_way.tasks.try_join_next().is_some() {}
        under_way.by_uri.retain(|_, task| !task.is_finished());
        change(&mut under_way)
    }

    fn has(&self, uri: &str) -> bool {
        self.with(|under_way| under_way.by_uri.contains_key(uri))
    }

    /// One that a client asks for twice is one.
    fn begin(&self, uri: String, task: impl Future<Output = ()> + Send + 'static) {
        self.with(|under_way| {
            let task = under_way.tasks.spawn(task);
            if let Some(other) = under_way.by_uri.insert(uri, task) {
                other.abort();
            }
        });
    }

    /// Stops telling a client of a session about a resource.
    pub(super) fn end(&self, uri: &str) {
        if let Some(task) = self.with(|under_way| under_way.by_uri.remove(uri)) {
            task.abort();
        }
    }

    fn take_room(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            Error::limit_exceeded(format!("this connection has {MOST} subscriptions"))
                .hint("end one of them, or subscribe to the directory that holds all of it")
        })
    }
}

/// Tells a client of a session about a resource from now on.
pub(super) async fn subscribe(
    handler: &McpHandler,
    uri: String,
    peer: Peer<RoleServer>,
) -> std::result::Result<(), ErrorData> {
    let subscriptions = &handler.subscriptions;
    if subscriptions.has(&uri) {
        return Ok(());
    }
    let named = workspaces::parse(&uri).ok_or_else(|| resources::unknown(&uri))?;
    let room = subscriptions.take_room().map_err(protocol_error)?;
    let listening = match listen_to(&handler.door, &handler.caller, named).await {
        Err(error) if error.code == ErrorCode::NotFound => return Err(resources::unknown(&uri)),
        listening => listening.map_err(protocol_error)?,
    };
    let told = Told { door: handler.door.clone(), uri: uri.clone(), to: Listener::Session(peer) };
    subscriptions.begin(uri, async move {
        let _room = room;
        told.of_changes(listening).await;
    });
    Ok(())
}

/// What stands for the list of tools among what a connection is told about.
const TOOLS: &str = "tools/list";

/// Tells a client of a session whenever there may be other tools.
pub(super) fn tell_of_tools(handler: &McpHandler, peer: Peer<RoleServer>) {
    if !handler.door.passes_tools() {
        return;
    }
    let (door, to) = (handler.door.clone(), Listener::Session(peer));
    handler.subscriptions.begin(TOOLS.to_owned(), async move {
        tokio::select! {
            () = tools_changed(&door, &to) => {}
            () = door.closing.cancelled() => {}
        }
    });
}

/// Says that there may be other tools each time, until nobody hears it.
async fn tools_changed(door: &Door, to: &Listener) {
    let mut known = door.passed_tools(None, None).await;
    loop {
        let listed = door.passed_tools(Some(known.version), None).await;
        if listed.tools != known.tools && to.other_tools().await.is_none() {
            return;
        }
        known = listed;
        sleep(PAUSE).await;
    }
}

/// What of all that a client wants to be told about it is told about.
pub(super) fn accepted(handler: &McpHandler, wanted: &SubscriptionFilter) -> SubscriptionFilter {
    let mut uris: Vec<&String> = Vec::new();
    for uri in wanted.resource_subscriptions.iter().flatten() {
        if !uris.contains(&uri) && workspaces::parse(uri).is_some() {
            uris.push(uri);
        }
        if uris.len() >= handler.subscriptions.room.available_permits() {
            break;
        }
    }
    let mut accepted = match uris.as_slice() {
        [] => SubscriptionFilter::new(),
        uris => SubscriptionFilter::builder().resource_subscriptions(uris.iter().copied()).build(),
    };
    let tools = wanted.tools_list_changed.filter(|wanted| *wanted && handler.door.passes_tools());
    accepted.tools_list_changed = tools;
    accepted
}

/// Tells a client about what was accepted until it hears no more, or nobody tells.
pub(super) async fn listen(handler: &McpHandler, context: &SubscriptionContext) {
    let mut tasks = JoinSet::new();
    for uri in context.accepted().resource_subscriptions.iter().flatten() {
        let (Some(named), Ok(room)) = (workspaces::parse(uri), handler.subscriptions.take_room())
        else {
            continue;
        };
        let (door, caller) = (handler.door.clone(), handler.caller.clone());
        let to = Listener::Stream(context.sink().clone());
        let told = Told { door: door.clone(), uri: uri.clone(), to };
        tasks.spawn(async move {
            let _room = room;
            match listen_to(&door, &caller, named).await {
                // It was acknowledged earlier: what changed since is not known.
                Ok(listening) => {
                    if told.once().await.is_some() {
                        told.of_changes(listening).await;
                    }
                }
                Err(error) => tracing::debug!(uri = told.uri, %error, "not listened to"),
            }
        });
    }
    if context.accepted().tools_list_changed == Some(true) {
        let (door, to) = (handler.door.clone(), Listener::Stream(context.sink().clone()));
        tasks.spawn(async move { tools_changed(&door, &to).await });
    }
    if tasks.is_empty() {
        // A stream on which nothing ever comes is nobody's wish.
        return;
    }
    tokio::select! {
        () = context.cancelled() => {}
        () = handler.door.draining.cancelled() => {}
        () = handler.door.closing.cancelled() => {}
    }
}

/// Begins to listen to a cell's files, which may be asleep.
async fn listen_to(
    door: &Door,
    caller: &Caller,
    (cell, path): (CellRef, String),
) -> Result<Listening> {
    let cell = find(door, caller, cell).await?;
    let listening = door.watches.listen(door, caller, cell, &path);
    tokio::select! {
        begun = listening.begun() => begun?,
        () = door.closing.cancelled() => return Err(Error::unavailable("the server ends")),
    }
    Ok(listening)
}

/// The cell that is meant now. The default one is made at its first use, and this is one.
async fn find(door: &Door, caller: &Caller, cell: CellRef) -> Result<CellId> {
    let info = CellInfo { cell: cell.clone() };
    match door.ask(caller, info.clone()).await {
        Err(error) if error.code == ErrorCode::NotFound && cell == CellRef::Default => {
            let look = FileStat { path: ".".to_owned() };
            door.ask(caller, FileCall::new(cell, look.into())).await?;
            Ok(door.ask(caller, info).await?.cell.id)
        }
        found => Ok(found?.cell.id),
    }
}

/// A client that is told about one resource.
struct Told {
    door: Door,
    uri: String,
    to: Listener,
}

/// How a client is told.
enum Listener {
    Session(Peer<RoleServer>),
    Stream(SubscriptionSink),
}

impl Listener {
    /// Says that there may be other tools; `None` when nobody hears it any more.
    async fn other_tools(&self) -> Option<()> {
        match self {
            Self::Session(peer) => peer.notify_tool_list_changed().await.ok(),
            Self::Stream(sink) => sink.notify_tool_list_changed().await.ok(),
        }
    }
}

impl Told {
    async fn of_changes(&self, mut listening: Listening) {
        let tell = async {
            while listening.changed().await.is_some() && self.once().await.is_some() {
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = tell => {}
            () = self.door.closing.cancelled() => {}
        }
    }

    /// Says that it has changed; `None` when nobody hears it any more.
    async fn once(&self) -> Option<()> {
        match &self.to {
            Listener::Session(peer) => {
                let told = ResourceUpdatedNotificationParam::new(self.uri.clone());
                peer.notify_resource_updated(told).await.ok()
            }
            Listener::Stream(sink) => sink.notify_resource_updated(self.uri.clone()).await.ok(),
        }
    }
}
