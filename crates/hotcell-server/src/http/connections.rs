//! Takes connections, as many as there may be, and ends them in order.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::access::PeerUid;
use super::listener::Listener;
use super::ports::TunnelPlace;
use super::settings::HttpSettings;
use super::site::Site;
use super::stalling::Stalling;
use crate::Serving;
use crate::client_stream::ClientStream;
use crate::client_watch::ClientWatch;
use crate::door::Door;

/// How long to leave a machine alone that gives no connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const MOST_HEADERS: usize = 100;
const HEAD_BYTES: usize = 64 * 1024;
/// What a connection is told that is one too many.
const FULL: Away = Away {
    status: "503 Service Unavailable\r\nretry-after: 1",
    body: r#"{"code":"unavailable","message":"there are as many connections as there may be"}"#,
};
/// What another user of this machine is told.
const STRANGER: Away = Away {
    status: "403 Forbidden",
    body: r#"{"code":"denied","message":"this socket is not for your user of this machine"}"#,
};

/// The answer to a connection that is not taken.
struct Away {
    status: &'static str,
    body: &'static str,
}

/// Serves until `stop` is done, then lets what is under way come to its end.
///
/// # Errors
/// The listener cannot be used.
pub fn serve(
    listener: impl Into<Listener>,
    door: Door,
    settings: HttpSettings,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Serving {
    serve_until(listener.into(), door, settings, Box::pin(stop))
}

/// What ends a server.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

#[inline(never)]
fn serve_until(listener: Listener, door: Door, settings: HttpSettings, stop: Stop) -> Serving {
    Box::pin(take_connections(listener, door, settings, stop))
}

async fn take_connections(
    listener: Listener,
    door: Door,
    settings: HttpSettings,
    mut stop: Stop,
) -> io::Result<()> {
    let drain = settings.drain;
    let site = Arc::new(Site::new(listener.ip()?, &door, settings));
    let starting = door.starting.clone();
    let mut beside = JoinSet::new();
    beside.spawn(Arc::clone(&site).watch());
    beside.spawn(door.clone().adopt_cells(site.own_caller().clone()));
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Those that have ended take no room.
                    while connections.try_join_next().is_some() {}
                    if peer.is_some_and(|peer| !site.knows(peer)) {
                        tracing::debug!(?peer, "another user of this machine");
                        turn_away(&stream, &STRANGER);
                    } else if connections.len() < site.limits().connections {
                        let client = Client { stream, peer };
                        connections.spawn(converse(client, Arc::clone(&site), stopping.clone()));
                    } else {
                        turn_away(&stream, &FULL);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be taken");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = &mut stop => break,
        }
        site.metrics().connected(connections.len());
    }
    drop(listener);
    // Waits end early, connections take no other request, and what is open without an end is cut
    // once everything else has been answered.
    door.draining.cancel();
    stopping.cancel();
    site.under_way.close();
    let drained = timeout(drain, async {
        site.under_way.wait().await;
        site.streams_end.cancel();
        while connections.join_next().await.is_some() {}
    });
    if drained.await.is_err() {
        tracing::warn!(connections = connections.len(), "not everything was answered in time");
    }
    door.closing.cancel();
    connections.shutdown().await;
    starting.finish().await;
    Ok(())
}

/// A connection, and who is at its other end where that is known.
struct Client {
    stream: ClientStream,
    peer: Option<PeerUid>,
}

/// Answers the requests of one connection.
async fn converse(client: Client, site: Arc<Site>, stopping: CancellationToken) {
    let Client { stream, peer } = client;
    if let ClientStream::Tcp(stream) = &stream
        && let Err(error) = stream.set_nodelay(true)
    {
        tracing::debug!(%error, "a connection is gone already");
        return;
    }
    let stream = Arc::new(stream);
    let Ok(client) = ClientWatch::on(Arc::clone(&stream)) else { return };
    let limits = *site.limits();
    let tunnel = TunnelPlace::default();
    let (place, streams_end) = (tunnel.clone(), site.streams_end.clone());
    let answer = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        let site = Arc::clone(&site);
        request.extensions_mut().insert(place.clone());
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        async move { Ok::<_, std::convert::Infallible>(site.answer(request.map(Body::new)).await) }
    });
    let stream = TokioIo::new(Stalling::new(stream, limits.stall_time));
    let mut conversation = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_headers(MOST_HEADERS)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(stream, answer)
            .with_upgrades()
    );
    // Whoever waits for room to pass something on hears nothing of its own connection.
    let ended = tokio::select! {
        ended = conversation.as_mut() => ended,
        () = client.gone() => return,
        () = stopping.cancelled() => {
            conversation.as_mut().graceful_shutdown();
            tokio::select! {
                ended = conversation.as_mut() => ended,
                () = client.gone() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
        return;
    }
    tokio::select! {
        () = tunnel.carry() => {}
        () = client.gone() => {}
        () = streams_end.cancelled() => {}
    }
}

/// Says that a connection is not taken; nobody waits until that was heard.
fn turn_away(stream: &ClientStream, away: &Away) {
    let Away { status, body } = away;
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    match stream.try_write(answer.as_bytes()) {
        Ok(_) => tracing::debug!("a connection was turned away"),
        Err(error) => tracing::debug!(%error, "a connection was turned away unheard"),
    }
}
