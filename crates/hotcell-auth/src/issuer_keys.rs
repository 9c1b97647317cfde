//! The keys of an issuer: fetched when needed, believed for a while, and fetched again, seldom, when
//! a token names one that is not known.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::algorithm::Algorithm;
use crate::fetch::Fetcher;
use crate::jwk::{Jwk, read_set};
use crate::jwt::cut;
use crate::settings::{OidcSettings, check_url};

/// How soon an issuer is asked again at the soonest, whatever tokens say.
const PAUSE: Duration = Duration::from_secs(10);
/// So long somebody whose key is known waits at most to hear whether it still is one.
const HELD_UP: Duration = Duration::from_secs(1);
/// How long keys are used on whose issuer cannot be reached.
const USED_AT_MOST: Duration = Duration::from_secs(24 * 3600);

/// Why there is no key for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// The issuer has none that fits.
    Unknown(String),
    /// It could not be asked.
    Unreachable(String),
}

/// What an issuer told.
#[derive(Debug)]
struct Told {
    keys: Vec<Jwk>,
    at: Instant,
}

/// How the last attempt to ask it went.
#[derive(Debug, Default)]
struct Attempt {
    at: Option<Instant>,
    failure: Option<String>,
    /// One that goes on, whether or not whoever began it still waits: nobody can make us ask more
    /// often by going away.
    under_way: JoinSet<Result<Vec<Jwk>, String>>,
}

/// The keys of one issuer.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    source: Arc<Source>,
    kept: Duration,
    told: Mutex<Option<Arc<Told>>>,
    /// One asks, and the others wait for what it hears.
    attempt: AsyncMutex<Attempt>,
}

/// Where they come from.
#[derive(Debug)]
struct Source {
    issuer: String,
    jwks_url: Option<String>,
    fetcher: Fetcher,
}

#[derive(Debug, Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

impl IssuerKeys {
    pub(crate) fn new(settings: &OidcSettings) -> Self {
        let source = Source {
            issuer: settings.issuer.clone(),
            jwks_url: settings.jwks_url.clone(),
            fetcher: Fetcher::new(settings),
        };
        Self {
            source: Arc::new(source),
            kept: settings.keys_kept,
            told: Mutex::default(),
            attempt: AsyncMutex::default(),
        }
    }

    /// The key that a token of this algorithm was signed with, by the name that it gives.
    pub(crate) async fn find(&self, algorithm: Algorithm, id: Option<&str>) -> Result<Jwk, NoKey> {
        if let Some(key) = self.found(algorithm, id, self.kept) {
            return Ok(key);
        }
        let asked = self.ask_again(algorithm, id);
        let failure = match self.found(algorithm, id, USED_AT_MOST) {
            None => asked.await,
            // An issuer that is slow holds up nobody whose key is known.
            Some(_) => timeout(HELD_UP, asked).await.unwrap_or_default(),
        };
        if let Some(key) = self.found(algorithm, id, USED_AT_MOST) {
            return Ok(key);
        }
        match failure {
            Some(why) => Err(NoKey::Unreachable(why)),
            None => Err(NoKey::Unknown(match id {
                Some(id) => format!("no key {:?} for {algorithm}", cut(id)),
                None => format!("it names no key, and not one alone is for {algorithm}"),
            })),
        }
    }

    /// Asks the issuer, unless that was done a moment ago; why it could not be.
    async fn ask_again(&self, algorithm: Algorithm, id: Option<&str>) -> Option<String> {
        let mut attempt = self.attempt.lock().await;
        if self.found(algorithm, id, self.kept).is_some() {
            return None;
        }
        let is_due = attempt.at.is_none_or(|at| at.elapsed() >= PAUSE.min(self.kept));
        if is_due && attempt.under_way.is_empty() {
            let source = Arc::clone(&self.source);
            attempt.under_way.spawn(async move { source.fetch().await });
        }
        if let Some(fetched) = attempt.under_way.join_next().await {
            attempt.failure = match fetched.map_err(|error| error.to_string()).flatten() {
                Ok(keys) => {
                    let told = Arc::new(Told { keys, at: Instant::now() });
                    *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
                    None
                }
                Err(why) => {
                    let issuer = &self.source.issuer;
                    tracing::warn!(issuer, why, "the keys of an issuer cannot be had");
                    Some(why)
                }
            };
            attempt.at = Some(Instant::now());
        }
        attempt.failure.clone()
    }

    /// The key among what was told within this time.
    fn found(&self, algorithm: Algorithm, id: Option<&str>, within: Duration) -> Option<Jwk> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        if told.at.elapsed() >= within {
            return None;
        }
        let mut fitting = told
            .keys
            .iter()
            .filter(|key| key.is_for(algorithm) && id.is_none_or(|id| key.is_named(id)));
        let first = fitting.next()?;
        // Which of several is meant by a token that does not say is not tried out.
        (id.is_some() || fitting.next().is_none()).then(|| first.clone())
    }
}

impl Source {
    async fn fetch(&self) -> Result<Vec<Jwk>, String> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let keys =
            read_set(&self.fetcher.get(&url).await?).map_err(|why| format!("{url}: {why}"))?;
        tracing::debug!(issuer = self.issuer, keys = keys.len(), "the keys of an issuer");
        Ok(keys)
    }

    /// Where the issuer says its keys are: OpenID Connect Discovery, else RFC 8414.
    async fn discover(&self) -> Result<String, String> {
        let mut why = String::new();
        for url in descriptions(&self.issuer) {
            match self.fetcher.get(&url).await {
                Ok(bytes) => return self.read_description(&url, &bytes),
                Err(error) => why = if why.is_empty() { error } else { format!("{why}; {error}") },
            }
        }
        Err(why)
    }

    fn read_description(&self, url: &str, bytes: &[u8]) -> Result<String, String> {
        let description: Description = serde_json::from_slice(bytes)
            .map_err(|error| format!("{url} does not describe an issuer: {error}"))?;
        if description.issuer != self.issuer {
            let other = cut(&description.issuer);
            return Err(format!("{url} describes {other:?}, not {:?}", self.issuer));
        }
        check_url("jwks_uri", &description.jwks_uri).map_err(|error| error.message)?;
        Ok(description.jwks_uri)
    }
}

/// Where an issuer describes itself.
pub(crate) fn descriptions(issuer: &str) -> [String; 2] {
    let issuer = issuer.trim_end_matches('/');
    let rest = issuer.find("://").map_or(0, |at| at + 3);
    let host_end = issuer[rest..].find('/').map_or(issuer.len(), |at| rest + at);
    let (host, path) = issuer.split_at(host_end);
    [
        format!("{issuer}/.well-known/openid-configuration"),
        format!("{host}/.well-known/oauth-authorization-server{path}"),
    ]
}
