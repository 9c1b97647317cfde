//! Looks at everything that cells need on this machine.

use hotcell_model::{Diagnoses, Result};

use crate::site::Site;

/// What each driver finds.
pub(crate) async fn diagnose(site: &Site) -> Result<Diagnoses> {
    let mut drivers = Vec::new();
    for driver in &site.drivers {
        drivers.push(driver.diagnose().await);
    }
    Ok(Diagnoses { drivers })
}
