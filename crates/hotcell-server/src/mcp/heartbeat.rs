//! Signs of life for calls that take long: clients that reset their timeout on progress keep waiting.

use std::convert::Infallible;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::{Instant, interval_at};

/// How often a call that has nothing new to tell still sends progress.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(3);

/// Sends progress for as long as it is polled, if the client wants any.
pub(super) async fn beat(context: &RequestContext<RoleServer>) -> Infallible {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let began = Instant::now();
    let mut ticks = interval_at(began + HEARTBEAT, HEARTBEAT);
    loop {
        ticks.tick().await;
        let progress = began.elapsed().as_secs_f64();
        let notification = ProgressNotificationParam::new(token.clone(), progress);
        // A client that is gone is noticed elsewhere.
        let _ = context.peer.notify_progress(notification).await;
    }
}
