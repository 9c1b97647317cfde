//! Asking one registry about one repository.

use std::time::Duration;

use bytes::Bytes;
use hotcell_egress::{HostAnswer, HostClient, is_loopback};
use hotcell_model::{Error, ImageName, Result};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RANGE, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::challenge::Challenge;
use crate::credentials::{Credentials, basic};
use crate::docker_config::DockerConfig;

/// A registry that takes longer for the head of an answer is not there.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
const MOST_REDIRECTS: usize = 5;
const MOST_TOKEN_BYTES: usize = 1 << 20;
const MOST_REFUSAL_BYTES: usize = 4096;
/// Whose registry answers at another name.
const DOCKER_IO: &str = "docker.io";
const DOCKER_IO_HOST: &str = "registry-1.docker.io";
const CLIENT_ID: &str = "hotcell";

/// One registry, one repository, and what they know of us.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    client: &'a HostClient,
    config: &'a DockerConfig,
    name: &'a ImageName,
    /// The header that was good last.
    authorization: Mutex<Option<String>>,
}

/// Some servers say it by one name, some by the other, and some by both.
#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

impl Token {
    fn text(self) -> Option<String> {
        [self.token, self.access_token].into_iter().flatten().find(|text| !text.is_empty())
    }
}

/// An answer, and who gave it.
struct Heard {
    answer: HostAnswer,
    /// Whether it was the registry, and not whoever it sent us to.
    from_registry: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        client: &'a HostClient,
        config: &'a DockerConfig,
        name: &'a ImageName,
    ) -> Self {
        Self { client, config, name, authorization: Mutex::new(None) }
    }

    /// Fetches what lies at a path below the repository; `from` bytes of it are there already.
    pub(crate) async fn get(&self, path: &str, accept: &str, from: u64) -> Result<HostAnswer> {
        let registry = self.name.registry();
        let host = if registry == DOCKER_IO { DOCKER_IO_HOST } else { registry };
        let scheme = if is_loopback(host_of(host)) { "http" } else { "https" };
        let address = format!("{scheme}://{host}/v2/{}/{path}", self.name.repository());
        let uri: Uri = address.parse().map_err(|error| self.failed(&format!("{error}")))?;
        let known = self.authorization.lock().await.clone();
        let mut heard = self.follow(uri.clone(), accept, from, known.as_deref()).await?;
        // Whoever else wants to know who we are is not told.
        if heard.from_registry && heard.answer.response.status() == StatusCode::UNAUTHORIZED {
            let shown = self.authorize(heard.answer.response.headers()).await?;
            heard = self.follow(uri.clone(), accept, from, Some(&shown)).await?;
            *self.authorization.lock().await = Some(shown);
        }
        if from > 0 && is_about_the_range(heard.answer.response.status()) {
            let known = self.authorization.lock().await.clone();
            heard = self.follow(uri, accept, 0, known.as_deref()).await?;
        }
        self.checked(heard.answer, path).await
    }

    /// Follows where content lies elsewhere. What was shown to the registry is for it alone.
    async fn follow(
        &self,
        uri: Uri,
        accept: &str,
        from: u64,
        authorization: Option<&str>,
    ) -> Result<Heard> {
        let mut at = uri.clone();
        for _ in 0..MOST_REDIRECTS {
            let from_registry = at.authority() == uri.authority();
            let mut request = Request::builder().method(Method::GET).header(ACCEPT, accept);
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            if let Some(shown) = authorization.filter(|_| from_registry) {
                request = request.header(AUTHORIZATION, shown);
            }
            let answer = self.ask(&at, request, Bytes::new()).await?;
            if !answer.response.status().is_redirection() {
                return Ok(Heard { answer, from_registry });
            }
            let to = answer.response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            at = to
                .and_then(|to| joined(&at, to))
                .ok_or_else(|| self.failed("it leads to an address that cannot be understood"))?;
        }
        Err(self.failed("it leads from one address to another without end"))
    }

    async fn ask(
        &self,
        uri: &Uri,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<HostAnswer> {
        let host = uri.host().unwrap_or_default();
        // A registry elsewhere does not send us to services of this machine.
        if is_loopback(host) && !is_loopback(host_of(self.name.registry())) {
            return Err(self.failed(&format!("it sends us to {host}, which is this machine")));
        }
        match timeout(ANSWERS_WITHIN, self.client.ask(uri, request, body)).await {
            Ok(answer) => answer.map_err(|why| self.unreachable(host, &why)),
            Err(_) => Err(self.unreachable(host, "it does not answer")),
        }
    }

    /// What the registry is shown for this challenge.
    async fn authorize(&self, headers: &HeaderMap) -> Result<String> {
        let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenge = challenges.filter_map(|it| it.to_str().ok()).find_map(Challenge::parse);
        let challenge = challenge
            .ok_or_else(|| self.failed("it wants to be asked in a way that is not known"))?;
        let credentials = self.config.credentials(self.name.registry()).await?;
        match (challenge, credentials) {
            (Challenge::Basic, Some(Credentials::Password { user, password })) => {
                Ok(basic(&user, &password))
            }
            (Challenge::Basic, _) => Err(self.refused()),
            (Challenge::Bearer { realm, service, scope }, credentials) => {
                let usual = format!("repository:{}:pull", self.name.repository());
                let mut wanted = vec![("scope", scope.unwrap_or(usual))];
                wanted.extend(service.map(|service| ("service", service)));
                self.token(&realm, wanted, credentials).await
            }
        }
    }

    async fn token(
        &self,
        realm: &str,
        mut wanted: Vec<(&str, String)>,
        credentials: Option<Credentials>,
    ) -> Result<String> {
        let parse = |text: &str| {
            text.parse::<Uri>().map_err(|_| {
                self.failed(&format!("it sends us for a token to {text:?}, which is no address"))
            })
        };
        let (uri, request, body) = match credentials {
            Some(Credentials::Token(token)) => {
                wanted.push(("grant_type", "refresh_token".to_owned()));
                wanted.push(("client_id", CLIENT_ID.to_owned()));
                wanted.push(("refresh_token", token));
                let request = Request::builder().method(Method::POST);
                let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
                (parse(realm)?, request, Bytes::from(encoded(&wanted)))
            }
            other => {
                let joint = if realm.contains('?') { '&' } else { '?' };
                let uri = parse(&format!("{realm}{joint}{}", encoded(&wanted)))?;
                let mut request = Request::builder().method(Method::GET);
                if let Some(Credentials::Password { user, password }) = other {
                    request = request.header(AUTHORIZATION, basic(&user, &password));
                }
                (uri, request, Bytes::new())
            }
        };
        let answer = self.ask(&uri, request, body).await?;
        match answer.response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.refused()),
            other => return Err(self.failed(&format!("{realm} gives no token: {other}"))),
        }
        let body = self.whole(answer, MOST_TOKEN_BYTES).await?;
        let token = serde_json::from_slice::<Token>(&body).ok().and_then(Token::text);
        let token = token.ok_or_else(|| self.failed(&format!("what {realm} gave is no token")))?;
        Ok(format!("Bearer {token}"))
    }

    /// All of an answer that is short.
    pub(crate) async fn whole(&self, answer: HostAnswer, most: usize) -> Result<Bytes> {
        let HostAnswer { response, .. } = answer;
        let body = Limited::new(response.into_body(), most).collect();
        match timeout(ANSWERS_WITHIN, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) => Err(self.failed(&error.to_string())),
            Err(_) => Err(self.failed("it does not finish its answer")),
        }
    }

    async fn checked(&self, answer: HostAnswer, path: &str) -> Result<HostAnswer> {
        let name = self.name;
        match answer.response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
            StatusCode::NOT_FOUND => {
                Err(Error::not_found(format!("{} has no {name}: no {path}", name.registry())))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.refused()),
            StatusCode::TOO_MANY_REQUESTS => Err(Error::unavailable(format!(
                "{} lets nobody pull so much: too many requests",
                name.registry()
            ))
            .hint("log in with `docker login`, or wait")),
            status => {
                let said = self.whole(answer, MOST_REFUSAL_BYTES).await.unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                // A registry does not write to our terminal.
                let said: String = said.chars().filter(|it| !it.is_control()).collect();
                Err(self.failed(&format!("it answers {status} to {path}: {said}")))
            }
        }
    }

    fn refused(&self) -> Error {
        let registry = self.name.registry();
        Error::denied(format!("{registry} does not let us pull {}", self.name))
            .hint(format!("is the name right? log in with `docker login {registry}`"))
    }

    fn unreachable(&self, host: &str, why: &str) -> Error {
        let registry = self.name.registry();
        Error::unavailable(format!("cannot reach the registry {registry} at {host}: {why}"))
    }

    pub(crate) fn failed(&self, why: &str) -> Error {
        let registry = self.name.registry();
        Error::unavailable(format!("cannot pull {} from {registry}: {why}", self.name))
    }
}

/// Whether an answer may mean that a part of the content cannot be had.
fn is_about_the_range(status: StatusCode) -> bool {
    let known = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND];
    let is_refusal = status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED;
    is_refusal && status != StatusCode::TOO_MANY_REQUESTS && !known.contains(&status)
}

fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or(authority),
    }
}

/// Where an address leads that may be a path alone.
fn joined(at: &Uri, to: &str) -> Option<Uri> {
    if to.starts_with('/') {
        let (scheme, authority) = (at.scheme_str()?, at.authority()?);
        return format!("{scheme}://{authority}{to}").parse().ok();
    }
    to.parse().ok()
}

fn encoded(pairs: &[(&str, String)]) -> String {
    let escaped = |text: &str| -> String {
        let mut out = String::with_capacity(text.len());
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    out.push(char::from(byte));
                }
                other => out.push_str(&format!("%{other:02X}")),
            }
        }
        out
    };
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={}", escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}
