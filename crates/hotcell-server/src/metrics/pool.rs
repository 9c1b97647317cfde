//! What came of cells that were made ahead of need.

use hotcell_engine::PoolFigures;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::code_runs::raise;
use crate::door::Door;

/// The figures of the pool of this server.
#[derive(Debug, Default)]
pub(super) struct PoolMetrics {
    ready: Gauge,
    given: Counter,
    missed: Counter,
    made: Counter,
    discarded: Counter,
}

impl PoolMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let about = "Cells that were made ahead of need and wait to be given out";
        registry.register("pool_ready", about, self.ready.clone());
        let about = "Spawns that got a cell that was made ahead of need";
        registry.register("pool_given", about, self.given.clone());
        let about = "Spawns that could have had one if there had been any";
        registry.register("pool_missed", about, self.missed.clone());
        registry.register("pool_made", "Cells made ahead of need", self.made.clone());
        let about = "Cells made ahead of need that were not well or too old";
        registry.register("pool_discarded", about, self.discarded.clone());
    }

    pub(super) fn look(&self, door: &Door) {
        let PoolFigures { ready, given, missed, made, discarded } = door.pool_figures();
        self.ready.set(i64::try_from(ready).unwrap_or(i64::MAX));
        raise(&self.given, given);
        raise(&self.missed, missed);
        raise(&self.made, made);
        raise(&self.discarded, discarded);
    }
}
