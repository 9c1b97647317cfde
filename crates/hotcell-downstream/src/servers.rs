//! All declared servers: the port that the engine calls.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hotcell_model::{
    Error, Result, SecretName, SecretValue, ServerStanding, ToolAnswer, ToolCall, ToolListings,
    ToolServers,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::server::{Chores, Server, Unlisted};
use crate::spec::{ServerName, ServerSpec};

/// Looks a secret up. It may wait for files.
pub type ValueOf = Arc<dyn Fn(&SecretName) -> Result<SecretValue> + Send + Sync>;

/// What servers are started with, whichever they are.
pub struct Surroundings {
    /// Looks up the secrets that declarations name.
    pub value_of: ValueOf,
    /// `PATH`, `HOME` and `LANG`, as far as they are set. Nothing else of our environment is given on.
    pub env: BTreeMap<String, String>,
    /// Where a server runs that does not say where.
    pub directory: PathBuf,
    /// Where lists of tools are kept; nowhere if `None`.
    pub listings: Option<PathBuf>,
    /// Who is asked for addresses; the machine's own if none are named.
    pub nameservers: Vec<SocketAddr>,
    /// Certificates that are trusted besides the machine's.
    pub ca_file: Option<PathBuf>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("directory", &self.directory)
            .field("listings", &self.listings)
            .finish_non_exhaustive()
    }
}

/// The declared servers. Dropping it ends all of their processes.
#[derive(Debug)]
pub struct McpServers {
    servers: Vec<Arc<Server>>,
    version: watch::Sender<u64>,
    chores: Arc<Chores>,
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.chores.end();
        self.servers.iter().for_each(|server| server.kill());
    }
}

impl McpServers {
    /// Starts nothing yet.
    ///
    /// # Errors
    /// `invalid` for a declaration that is wrong, or a name that is there twice.
    pub fn new(
        declared: impl IntoIterator<Item = (ServerName, ServerSpec)>,
        surroundings: Surroundings,
    ) -> Result<Self> {
        let surroundings = Arc::new(surroundings);
        let version = watch::Sender::new(1);
        let chores = Arc::new(Chores::default());
        let mut by_name = BTreeMap::new();
        for (name, spec) in declared {
            spec.check().map_err(|error| Error {
                message: format!("the server {name}: {}", error.message),
                ..error
            })?;
            let (around, chores) = (Arc::clone(&surroundings), Arc::clone(&chores));
            let server = Server::new(name.clone(), spec, around, version.clone(), chores);
            if by_name.insert(name.clone(), Arc::new(server)).is_some() {
                return Err(Error::invalid(format!("the server {name} is declared twice"))
                    .hint("give one of them another name"));
            }
        }
        Ok(Self { servers: by_name.into_values().collect(), version, chores })
    }

    async fn collect(&self, unlisted: Unlisted) -> ToolListings {
        let version = *self.version.borrow();
        let mut asked = JoinSet::new();
        for (place, server) in self.servers.iter().enumerate() {
            let server = Arc::clone(server);
            asked.spawn(async move { (place, server.listed(unlisted).await) });
        }
        let mut servers = asked.join_all().await;
        servers.sort_by_key(|(place, _)| *place);
        ToolListings { version, servers: servers.into_iter().map(|(_, tools)| tools).collect() }
    }
}

#[async_trait]
impl ToolServers for McpServers {
    async fn listings(&self, within: Duration) -> Arc<ToolListings> {
        let first = self.collect(Unlisted::Started { within }).await;
        if first.version == *self.version.borrow() {
            return Arc::new(first);
        }
        // Servers were listed for the first time; what they said is in memory now.
        Arc::new(self.collect(Unlisted::Started { within }).await)
    }

    async fn known_listings(&self) -> Arc<ToolListings> {
        Arc::new(self.collect(Unlisted::LeftAlone).await)
    }

    async fn call(&self, call: ToolCall) -> Result<ToolAnswer> {
        let Some(server) = self.servers.iter().find(|server| server.name.as_str() == call.server)
        else {
            return Err(Error::not_found(format!("no server {:?} is declared", call.server))
                .hint("servers are declared in the configuration, under [toolbox]"));
        };
        server.call(call).await
    }

    async fn changed(&self, since: u64) -> u64 {
        let mut version = self.version.subscribe();
        // It cannot fail: the sender lives as long as this does.
        version.wait_for(|version| *version > since).await.map_or(since, |version| *version)
    }

    fn standing(&self) -> Vec<ServerStanding> {
        self.servers.iter().map(|server| server.standing()).collect()
    }
}
