//! Looks whether the store can be reached and drivers be used.

use hotcell_model::{Probed, ProbedDriver};

use crate::site::Site;

/// One look at each, without changing anything.
pub(crate) async fn probe(site: &Site) -> Probed {
    let mut drivers = Vec::new();
    for driver in &site.drivers {
        let looked = match driver.capabilities().await {
            Ok(_) => driver.list().await.map(drop),
            Err(error) => Err(error),
        };
        drivers.push(ProbedDriver { driver: driver.name().to_owned(), error: looked.err() });
    }
    Probed { store: site.store.needs_rebuild().await.err(), drivers }
}
