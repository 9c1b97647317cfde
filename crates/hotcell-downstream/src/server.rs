//! One declared server: started when it is needed, watched, started again, ended when it is not.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hotcell_model::{
    Error, ErrorCode, Result, ServerStanding, ServerState, ServerTools, Timestamp, ToolAnswer,
    ToolCall,
};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::listing::Listing;
use crate::listing_file::ListingFile;
use crate::servers::Surroundings;
use crate::session::Session;
use crate::spec::{ServerName, ServerSpec};

/// How long a server is left alone after it failed; twice as long after each further time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server that was there for so long is well again.
const HEALTHY: Duration = Duration::from_secs(60);
/// A pause that is over by then is waited for.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// How often a server that nobody calls is looked after, at least and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// A server and how it is doing.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: ServerName,
    spec: ServerSpec,
    surroundings: Arc<Surroundings>,
    file: Option<ListingFile>,
    room: Semaphore,
    /// Held by whoever starts it.
    starting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    version: watch::Sender<u64>,
    chores: Arc<Chores>,
}

/// What becomes of a server of which no list is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unlisted {
    /// It is started to be asked.
    Started {
        /// How long it may take; after that it goes on to start.
        within: Duration,
    },
    /// It is left as it is.
    LeftAlone,
}

/// What is being done for servers. It ends with them.
#[derive(Debug, Default)]
pub(crate) struct Chores(Mutex<JoinSet<()>>);

impl Chores {
    fn spawn(&self, chore: impl Future<Output = ()> + Send + 'static) {
        let mut chores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while chores.try_join_next().is_some() {}
        chores.spawn(chore);
    }

    pub(crate) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

#[derive(Debug, Default)]
struct State {
    session: Option<Arc<Session>>,
    /// Looks after the session; it ends with it.
    watching: Option<JoinSet<()>>,
    since: Option<Instant>,
    /// When the start began that is under way.
    starting_since: Option<Instant>,
    used: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    pause_until: Option<Instant>,
    listing: Option<Listing>,
    is_file_read: bool,
    starts: u64,
    restarts: u64,
    calls: u64,
    /// The numbers of calls that wait for an answer.
    under_way: BTreeSet<u64>,
    errors: u64,
    last_error: Option<Error>,
}

/// A call that waits for an answer.
struct UnderWay<'a> {
    server: &'a Server,
    number: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.server.state().under_way.remove(&self.number);
    }
}

impl State {
    fn is_current(&self, session: &Arc<Session>) -> bool {
        self.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session))
    }
}

impl Server {
    pub(crate) fn new(
        name: ServerName,
        spec: ServerSpec,
        surroundings: Arc<Surroundings>,
        version: watch::Sender<u64>,
        chores: Arc<Chores>,
    ) -> Self {
        let file = surroundings.listings.clone();
        Self {
            file: file.map(|directory| ListingFile::new(directory, &name, &spec)),
            room: Semaphore::new(spec.parallel.clamp(1, Semaphore::MAX_PERMITS)),
            name,
            spec,
            surroundings,
            starting: tokio::sync::Mutex::new(()),
            state: Mutex::default(),
            version,
            chores,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it offers, from memory, from disk or from the server itself.
    pub(crate) async fn listed(self: &Arc<Self>, unlisted: Unlisted) -> ServerTools {
        let mut listing = self.known().await;
        let mut fault = None;
        if let (None, Unlisted::Started { within }) = (&listing, unlisted) {
            fault = self.start_within(within).await.err();
            listing = self.state().listing.clone();
        }
        if listing.is_none() && fault.is_none() {
            let last = self.state().last_error.clone();
            fault = Some(last.unwrap_or_else(|| Error::unavailable("it was not listed yet")));
        }
        let (about, tools) = match listing {
            Some(listing) => {
                fault = None;
                (listing.about, listing.tools)
            }
            None => (None, Arc::from([])),
        };
        let name = self.name.as_str().to_owned();
        let (trusted, allowed) = (self.spec.trust_annotations, self.spec.allow_tools);
        ServerTools { name, about, tools, trusted, allowed, fault }
    }

    /// Starts it, and waits so long at most, also together with those who waited for it before.
    async fn start_within(self: &Arc<Self>, within: Duration) -> Result<()> {
        let waited = self.state().starting_since.map_or(Duration::ZERO, |since| since.elapsed());
        let patience = within.saturating_sub(waited);
        let late = || {
            Error::unavailable("it was started and has not listed its tools yet")
                .retry_after(within.as_secs() + 1)
        };
        if patience.is_zero() {
            return Err(late());
        }
        match timeout(patience, self.session(Instant::now() + self.spec.timeout)).await {
            Ok(session) => session.map(drop),
            Err(_) => Err(late()),
        }
    }

    async fn known(&self) -> Option<Listing> {
        {
            let state = self.state();
            if state.listing.is_some() || state.is_file_read {
                return state.listing.clone();
            }
        }
        let kept = match self.file.clone() {
            Some(file) => tokio::task::spawn_blocking(move || file.load()).await.ok().flatten(),
            None => None,
        };
        let mut state = self.state();
        state.is_file_read = true;
        if state.listing.is_none() {
            state.listing = kept;
        }
        state.listing.clone()
    }

    /// Calls a tool.
    pub(crate) async fn call(self: &Arc<Self>, call: ToolCall) -> Result<ToolAnswer> {
        let patience = call.timeout.map_or(self.spec.timeout, |asked| asked.min(self.spec.timeout));
        let deadline = Instant::now() + patience;
        let number = {
            let mut state = self.state();
            state.calls += 1;
            state.calls
        };
        let answered = self.call_by(call, number, deadline, patience).await;
        let is_error = answered.as_ref().map_or(true, |answer| answer.is_error);
        let mut state = self.state();
        state.errors += u64::from(is_error);
        if let Err(error) = &answered {
            state.last_error = Some(error.clone());
        }
        answered.map_err(|error| self.named(error))
    }

    async fn call_by(
        self: &Arc<Self>,
        call: ToolCall,
        number: u64,
        deadline: Instant,
        patience: Duration,
    ) -> Result<ToolAnswer> {
        let late =
            |what: &str| Error::timeout(format!("{what} within {} s", patience.as_secs_f64()));
        let _room = match timeout_at(deadline, self.room.acquire()).await {
            Ok(room) => room.map_err(|_| Error::unavailable("the server is being ended"))?,
            Err(_) => return Err(late("other calls of the server did not end")),
        };
        let session = match timeout_at(deadline, self.session(deadline)).await {
            Ok(session) => session?,
            Err(_) => return Err(late("the server was not there")),
        };
        self.state().used = Some(Instant::now());
        let left = deadline.saturating_duration_since(Instant::now());
        self.state().under_way.insert(number);
        let _under_way = UnderWay { server: self, number };
        let answered = session.call(&call.tool, call.arguments, left, self.spec.most_bytes).await;
        self.state().used = Some(Instant::now());
        if answered.as_ref().is_err_and(|error| error.code == ErrorCode::Timeout) {
            self.look_soon(&session, number);
        }
        answered
    }

    /// Has a server that let a call wait looked after.
    fn look_soon(self: &Arc<Self>, session: &Arc<Session>, number: u64) {
        let (server, session) = (Arc::downgrade(self), Arc::clone(session));
        self.chores.spawn(async move { see_whether_well(&server, &session, number).await });
    }

    /// Whether the server may be at work on a call that came before this one.
    fn is_busy_since_before(&self, number: u64) -> bool {
        self.state().under_way.first().is_some_and(|first| *first < number)
    }

    /// The connection, made if there is none. A start goes on when whoever waits for it gives up:
    /// a server that takes long would never be there for callers in a hurry.
    async fn session(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Session>> {
        if let Some(session) = self.live() {
            return Ok(session);
        }
        let (tell, told) = oneshot::channel();
        let server = Arc::clone(self);
        self.chores.spawn(async move {
            let _starting = server.starting.lock().await;
            if !tell.is_closed() {
                server.state().starting_since = Some(Instant::now());
                let made = server.make_session(deadline).await;
                server.state().starting_since = None;
                let _ = tell.send(made);
            }
        });
        told.await.unwrap_or_else(|_| Err(Error::unavailable("the server is being ended")))
    }

    async fn make_session(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Session>> {
        if let Some(session) = self.live() {
            return Ok(session);
        }
        let before = self.state().session.clone();
        if let Some(before) = before {
            self.part(&before).await;
        }
        self.sit_out(deadline).await?;
        let started = Box::pin(self.start()).await;
        started.map_err(|error| self.fail(error))
    }

    fn live(&self) -> Option<Arc<Session>> {
        self.state().session.clone().filter(|session| !session.is_gone())
    }

    /// Waits until the server may be started again, if that is soon.
    async fn sit_out(&self, deadline: Instant) -> Result<()> {
        let (until, error) = {
            let state = self.state();
            (state.pause_until, state.last_error.clone())
        };
        let Some(until) = until else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if left > SHORT_PAUSE || until > deadline {
            let why = error.map_or_else(String::new, |error| format!(": {}", error.message));
            return Err(Error::unavailable(format!("it failed and is left alone for now{why}"))
                .retry_after(left.as_secs() + 1));
        }
        sleep_until(until).await;
        Ok(())
    }

    async fn start(self: &Arc<Self>) -> Result<Arc<Session>> {
        let session = Arc::new(Session::open(&self.spec, &self.surroundings).await?);
        let listed = session.list(&self.spec).await;
        let listing = match listed {
            Ok(listing) => listing,
            Err(error) => {
                session.kill();
                return Err(error);
            }
        };
        self.take_listing(listing).await;
        let mut watching = JoinSet::new();
        watching.spawn(look_after(Arc::downgrade(self), Arc::clone(&session)));
        let mut state = self.state();
        let now = Instant::now();
        (state.since, state.used) = (Some(now), Some(now));
        state.pause_until = None;
        state.restarts += u64::from(state.failures > 0 && state.starts > 0);
        state.starts += 1;
        state.session = Some(Arc::clone(&session));
        state.watching = Some(watching);
        Ok(session)
    }

    async fn take_listing(&self, listing: Listing) {
        {
            let mut state = self.state();
            state.is_file_read = true;
            if state.listing.as_ref() == Some(&listing) {
                return;
            }
            state.listing = Some(listing.clone());
        }
        self.version.send_modify(|version| *version += 1);
        if let Some(file) = self.file.clone() {
            let name = self.name.clone();
            let stored = tokio::task::spawn_blocking(move || file.store(&listing)).await;
            if let Ok(Err(error)) = stored {
                tracing::warn!(server = %name, %error, "its list of tools cannot be kept");
            }
        }
    }

    /// Notes that it did not start, or ended by itself.
    fn fail(&self, error: Error) -> Error {
        let mut state = self.state();
        if state.since.take().is_some_and(|since| since.elapsed() >= HEALTHY) {
            state.failures = 0;
        }
        let doubled = 1u32.checked_shl(state.failures).unwrap_or(u32::MAX);
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        state.failures = (state.failures + 1).min(31);
        state.pause_until = Some(Instant::now() + pause);
        state.last_error = Some(error.clone());
        error
    }

    /// Lets go of a connection that has ended by itself.
    async fn part(&self, session: &Arc<Session>) {
        let error = session.end().await;
        let is_current = {
            let mut state = self.state();
            let is_current = state.is_current(session);
            if is_current {
                state.session = None;
            }
            is_current
        };
        if is_current {
            let error = self.fail(error);
            tracing::warn!(server = %self.name, error = %error.message, "a server of tools ended");
        }
    }

    /// Ends its processes at once.
    pub(crate) fn kill(&self) {
        if let Some(session) = self.state().session.take() {
            session.kill();
        }
    }

    /// Lets go of a connection that nobody has used for a while; whether it was so.
    fn let_go(&self, session: &Arc<Session>) -> bool {
        let mut state = self.state();
        let is_old = state.used.is_none_or(|used| used.elapsed() >= self.spec.idle);
        // A call has its room before it asks for the connection.
        let is_unneeded = is_old && !self.is_called() && state.is_current(session);
        if is_unneeded {
            (state.session, state.since, state.failures) = (None, None, 0);
        }
        is_unneeded
    }

    fn is_called(&self) -> bool {
        self.room.available_permits() < self.spec.parallel
    }

    fn named(&self, error: Error) -> Error {
        Error { message: format!("{}: {}", self.name, error.message), ..error }
    }

    pub(crate) fn standing(&self) -> ServerStanding {
        let is_starting = self.starting.try_lock().is_err();
        let state = self.state();
        let now = Instant::now();
        let is_live = state.session.as_ref().is_some_and(|session| !session.is_gone());
        let doing = match state.pause_until {
            _ if is_live => ServerState::Ready,
            Some(until) if until > now => {
                let left = u64::try_from((until - now).as_millis()).unwrap_or(u64::MAX);
                ServerState::BackingOff { until: Timestamp::now().plus_millis(left) }
            }
            _ if is_starting => ServerState::Starting,
            Some(_) => ServerState::Failed,
            None => ServerState::Idle,
        };
        ServerStanding {
            name: self.name.as_str().to_owned(),
            state: doing,
            restarts: state.restarts,
            calls: state.calls,
            errors: state.errors,
            last_error: state.last_error.as_ref().map(|error| error.message.clone()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Looks after a connection until it ends.
async fn look_after(server: Weak<Server>, session: Arc<Session>) {
    let Some(pause) = server.upgrade().map(|server| (server.spec.idle / 4).clamp(LOOKS.0, LOOKS.1))
    else {
        return;
    };
    loop {
        tokio::select! {
            () = session.ended() => {
                if let Some(server) = server.upgrade() {
                    server.part(&session).await;
                }
                return;
            }
            () = session.list_changed() => {
                let Some(server) = server.upgrade() else { return };
                match session.list(&server.spec).await {
                    Ok(listing) => server.take_listing(listing).await,
                    Err(error) => server.state().last_error = Some(error),
                }
            }
            () = sleep(pause) => {
                let Some(server) = server.upgrade() else { return };
                if server.let_go(&session) {
                    drop(server);
                    session.retire().await;
                    return;
                }
                drop(server);
            }
        }
    }
}

/// Ends a connection to a server that cannot be heard any more. A server that does one thing at a
/// time and is at one is left alone.
async fn see_whether_well(server: &Weak<Server>, session: &Arc<Session>, number: u64) {
    // Calls that came later may wait for nothing but the end of the one that was given up.
    let is_busy = || server.upgrade().is_none_or(|server| server.is_busy_since_before(number));
    if !is_busy() && !session.is_well().await && !is_busy() {
        session.give_up();
    }
}
