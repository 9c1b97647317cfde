//! What a server does about cells and the disk without being asked.

use std::time::{Duration, Instant};

use hotcell_model::Collect;

use crate::collect::collect;
use crate::reconcile::reconcile;
use crate::site::Site;

/// How often what is over or that nobody needs is removed.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How often it is looked whether there is room on the disk.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// A server that has just begun answers first.
const SETTLED: Duration = Duration::from_secs(3);

impl Site {
    /// Keeps house for as long as it is polled.
    pub(crate) async fn keep_house(&self) {
        tokio::time::sleep(SETTLED).await;
        match Box::pin(reconcile(self)).await {
            Ok(done) => tracing::info!(?done, "the index and what drivers have agree"),
            Err(error) => {
                tracing::warn!(%error, "the index and what drivers have could not be compared");
            }
        }
        let mut collected_at = None::<Instant>;
        loop {
            let is_due = collected_at.is_none_or(|at| at.elapsed() >= COLLECT_EVERY);
            if is_due || self.is_disk_scarce() {
                self.collect_unasked().await;
                collected_at = Some(Instant::now());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn collect_unasked(&self) {
        match Box::pin(collect(self, Collect { dry_run: false })).await {
            Ok(done) => {
                if !done.removed.is_empty() || !done.errors.is_empty() {
                    tracing::info!(?done, "what is over was removed");
                }
            }
            Err(error) => tracing::warn!(%error, "what is over could not be removed"),
        }
    }
}
