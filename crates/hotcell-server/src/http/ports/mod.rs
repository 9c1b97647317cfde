//! `/cells/{cell}/ports/{port}/…`: a service in a cell, reached through the server.
//!
//! What such a service answers was written by whatever runs in the cell, and comes from the
//! server's own origin. So a page of it is put into a sandbox, where it has no origin, and is
//! refused like any other page that is not the server's own (`visitors.rs`). Under a name of its own
//! (`own_name.rs`) a service has an origin, which is not the server's.

mod headers;
mod own_name;
mod piped;
mod places;
mod tunnel;

#[cfg(test)]
mod headers_tests;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use hotcell_model::{Error, PortDial};
use http::header::{HOST, LOCATION};
use http::{HeaderValue, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;

pub(super) use self::own_name::{ReachedUnder, lead_to_path};
pub(super) use self::tunnel::TunnelPlace;

use self::headers::{Address, is_worker_script, to_client, to_service, wanted_upgrade};
use self::own_name::own_place;
use self::piped::piped;
use self::tunnel::Tunnel;
use super::access::Admitted;
use super::answer::{Refusal, Shape};
use super::held::Held;
use super::routes::{Parts, Server};

const MOST_HEADERS: usize = 100;

/// Every path of services.
pub(super) fn router() -> Router<Arc<Parts>> {
    Router::new()
        .route("/cells/{cell}/ports/{port}", any(begin_below))
        .route("/cells/{cell}/ports/{port}/", any(answer))
        .route("/cells/{cell}/ports/{port}/{*rest}", any(answer))
}

/// Whether a path leads to a service in a cell.
pub(super) fn is_port(path: &str) -> bool {
    let mut words = path.split('/').skip(1);
    words.next() == Some("cells") && words.nth(1) == Some("ports")
}

/// Whether two paths lead to the same port of the same cell.
pub(super) fn is_same_port(one: &str, other: &str) -> bool {
    fn words(path: &str) -> Vec<&str> {
        path.splitn(6, '/').take(5).collect()
    }
    is_port(one) && words(one) == words(other) && words(one).len() == 5
}

/// Links of a page are relative to a directory.
async fn begin_below(request: Request) -> Response {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    if let Ok(to) = HeaderValue::from_str(&format!("{}/{query}", request.uri().path())) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

async fn answer(
    State(parts): Server,
    Extension(admitted): Extension<Admitted>,
    Path(named): Path<Vec<(String, String)>>,
    request: Request,
) -> Response {
    let mut named = named.into_iter().map(|(_, value)| value);
    let (cell, port) = (named.next().unwrap_or_default(), named.next().unwrap_or_default());
    match pass_on(&parts, &admitted, (&cell, &port), request).await {
        Ok(response) => response,
        Err(refusal) => Shape::Plain.refuse(refusal),
    }
}

async fn pass_on(
    parts: &Parts,
    admitted: &Admitted,
    (cell, port): (&str, &str),
    mut request: Request,
) -> Result<Response, Refusal> {
    let under = ReachedUnder::of(&request);
    if under == ReachedUnder::Path && is_worker_script(request.headers()) {
        // It would see every later request of the server's origin.
        return Err(Error::denied("a service in a cell may not have a service worker").into());
    }
    let port = port.parse().ok().filter(|port| *port > 0);
    let port: u16 = port.ok_or_else(|| Error::invalid("the path names no port from 1 to 65535"))?;
    let dial = PortDial { cell: cell.parse()?, port };
    let address = Address::of(&request, port, under)?;
    if under == ReachedUnder::Path
        && let Some(place) = own_place(&request, cell, port, &address.target)
    {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        response.headers_mut().insert(LOCATION, place);
        return Ok(response);
    }
    admitted.note(&dial.clone().into());
    let stream = parts.door.dial(&admitted.caller, dial).await?;

    let upgrade = wanted_upgrade(request.headers());
    let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let place = request.extensions().get::<TunnelPlace>().cloned();

    let silent = |error: hyper::Error| {
        Error::unavailable(format!("port {port} of the cell gave no answer of HTTP: {error}"))
            .hint("look at the service with `hotcell ps` and `hotcell logs`")
    };
    let mut tasks = JoinSet::new();
    let pipe = piped(stream, &mut tasks);
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(MOST_HEADERS)
        .handshake(TokioIo::new(pipe))
        .await
        .map_err(silent)?;
    tasks.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a port of a cell broke");
        }
    });
    let asked = ask(request, &address, upgrade.as_ref())?;
    let mut response = sender.send_request(asked).await.map_err(silent)?;

    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(client), Some(place)) = (client, place) else {
            let error = format!("port {port} of the cell changed the protocol without being asked");
            return Err(Error::unavailable(error).into());
        };
        let service = hyper::upgrade::on(&mut response);
        place.put(Tunnel { client, service, tasks, lease: admitted.lease.clone() });
        let (mut head, _) = response.into_parts();
        to_client(&mut head.headers, &address, upgrade.as_ref());
        return Ok(Response::from_parts(head, Body::empty()));
    }
    let (mut head, body) = response.into_parts();
    to_client(&mut head.headers, &address, None);
    // The connection is there as long as what comes over it is wanted.
    Ok(Response::from_parts(head, Body::new(Held::new(Body::new(body), (tasks, sender)))))
}

/// The request as the service sees it.
fn ask(
    request: Request,
    address: &Address,
    upgrade: Option<&HeaderValue>,
) -> Result<http::Request<Body>, Error> {
    let (head, body) = request.into_parts();
    let mut asked = http::Request::new(body);
    *asked.method_mut() = head.method;
    *asked.uri_mut() = address.target.parse::<Uri>().map_err(|error| {
        Error::invalid(format!("{:?} is no path of a request: {error}", address.target))
    })?;
    *asked.headers_mut() = head.headers;
    to_service(asked.headers_mut(), address, upgrade);
    asked.headers_mut().insert(HOST, address.host.clone());
    Ok(asked)
}
