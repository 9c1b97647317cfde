//! Connections that nobody uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::connection::left_idle;

#[test]
fn a_connection_is_idle_once_one_side_has_ended_it_and_nothing_comes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (ended, count) = (Notify::new(), AtomicU64::new(0));
        let limit = Duration::from_millis(100);
        let waits = timeout(3 * limit, left_idle(&ended, || 0, limit)).await;
        assert!(waits.is_err(), "both sides are there");
        ended.notify_one();
        let busy = || count.fetch_add(1, Ordering::Relaxed);
        let waits = timeout(3 * limit, left_idle(&ended, busy, limit)).await;
        assert!(waits.is_err(), "something comes");
        ended.notify_one();
        left_idle(&ended, || 7, limit).await;
    });
}
