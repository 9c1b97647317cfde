//! Clients that are slow, silent or somebody else, on real connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hotcell_engine::{Engine, Settings};
use hotcell_model::{Caller, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::testing::AbsentStore;
use super::{AccessSettings, HttpLimits, HttpSettings, Principal, Token, serve};
use crate::{Door, Reach, ToolBounds, Toolsets, hotcell_dialect};

const SOON: Duration = Duration::from_millis(100);
const FIRST: &str = "first-token-of-sixteen";
const SECOND: &str = "second-token-of-sixteen";

/// A server on an engine that has nothing to work on.
struct Served {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinSet<io::Result<()>>,
}

impl Served {
    async fn start(limits: HttpLimits, tokens: &[&str]) -> Self {
        let engine = Engine::new(
            "/nonexistent".into(),
            Arc::new(AbsentStore),
            Vec::new(),
            Settings::default(),
        );
        let door = Door::new(
            Arc::new(engine),
            hotcell_dialect(
                &Toolsets::default(),
                ToolBounds::default(),
                Reach::default(),
                &crate::ProjectOffer::None,
            ),
        );
        let caller = |name: &str| Caller::of(name.to_owned(), Role::Agent);
        let principal =
            |token: &&str| Principal { caller: caller(token), token: Token::new(token).unwrap() };
        let open = AccessSettings::open(caller("local:0"));
        let access = match tokens {
            [] => open,
            tokens => {
                let principals = tokens.iter().map(principal).collect();
                AccessSettings { open: None, principals, ..open }
            }
        };
        let settings = HttpSettings {
            mcp_path: "/mcp".to_owned(),
            access,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            drain: Duration::from_secs(60),
            limits,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, door, settings, async { drop(stopped.await) }));
        Self { address, stop: Some(stop), serving }
    }

    /// All that comes back for these bytes, up to the end of the connection.
    async fn send(&self, bytes: &str) -> String {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        connection.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn post(&self, head: &str, body: &str) -> String {
        self.send(&format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nconnection: close\r\n{head}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await
    }

    async fn end(mut self) {
        drop(self.stop.take());
        self.serving.join_next().await.unwrap().unwrap().unwrap();
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let limits = HttpLimits { head_time: SOON, ..HttpLimits::default() };
    let served = Served::start(limits, &[]).await;
    assert_eq!(served.send("GET /health HTTP/1.1\r\nhost: localh").await, "");
    let whole = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(status(&served.send(whole).await), "200");
    served.end().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let limits = HttpLimits { body_time: SOON, ..HttpLimits::default() };
    let served = Served::start(limits, &[]).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{";
    assert_eq!(status(&served.send(head).await), "408");
    assert_eq!(status(&served.post("", "[]").await), "400");
    served.end().await;
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let served = Served::start(HttpLimits::default(), &[]).await;
    let get = |headers: String| {
        format!("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
    };
    let many = |count: usize| (0..count).map(|at| format!("x-{at}: 1\r\n")).collect::<String>();
    assert_eq!(status(&served.send(&get(many(50))).await), "200");
    assert_eq!(status(&served.send(&get(many(150))).await), "431");
    served.end().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_left() {
    let limits = HttpLimits { stall_time: SOON, ..HttpLimits::default() };
    let served = Served::start(limits, &[]).await;
    let mut stalled = TcpStream::connect(served.address).await.unwrap();
    let request = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // Asks until neither side takes any more: the server is waiting for its answers to be read.
    let mut asked = 0;
    while let Ok(Ok(())) = tokio::time::timeout(5 * SOON, stalled.write_all(request)).await {
        asked += 1;
    }
    // What was on the way comes, and then the end: most of what was asked for is never answered.
    let mut rest = Vec::new();
    let _ = stalled.read_to_end(&mut rest).await;
    let answered = String::from_utf8_lossy(&rest).matches("HTTP/1.1 200").count();
    assert!(answered > 0 && answered < asked, "{answered} of {asked}");
    served.end().await;
}

#[tokio::test]
async fn a_session_belongs_to_whoever_opened_it() {
    let served = Served::start(HttpLimits::default(), &[FIRST, SECOND]).await;
    let bearer = |token: &str| format!("authorization: Bearer {token}\r\n");
    let opened = served
        .post(
            &bearer(FIRST),
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        )
        .await;
    let session = opened.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let head = |token: &str| format!("{}{session}\r\n", bearer(token));
    assert_eq!(status(&served.post(&head(FIRST), told).await), "202");
    assert_eq!(status(&served.post(&head(SECOND), list).await), "404");
    assert_eq!(status(&served.post(&head(FIRST), list).await), "200");
    served.end().await;
}

#[tokio::test]
async fn a_server_without_its_store_is_alive_and_not_ready() {
    let served = Served::start(HttpLimits::default(), &[]).await;
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert_eq!(status(&served.send(&get("/health")).await), "200");
    let ready = served.send(&get("/ready")).await;
    assert_eq!(status(&ready), "503");
    assert!(ready.contains(r#""part":"store""#) && ready.contains("absent"), "{ready}");
    served.end().await;
}
