//! Looks whether the store can be reached and the driver be used.

use std::sync::Arc;

use hotcell_model::{Driver, Probed, ProbedDriver};

use crate::site::Site;

/// One look at each, without changing anything.
pub(crate) async fn probe(site: &Site) -> Probed {
    let mut drivers = Vec::new();
    // Whoever names another one is told what it lacks.
    let usual = |driver: &&Arc<dyn Driver>| driver.name() == site.settings.default_driver;
    for driver in site.drivers.iter().filter(usual) {
        let looked = match driver.reach().await {
            Ok(()) => driver.list().await.map(drop),
            Err(error) => Err(error),
        };
        drivers.push(ProbedDriver { driver: driver.name().to_owned(), error: looked.err() });
    }
    Probed { store: site.store.needs_rebuild().await.err(), drivers }
}
