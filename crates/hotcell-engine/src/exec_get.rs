//! Shows one exec.

use hotcell_model::{Exec, ExecGet, Result};

use crate::site::Site;

/// One exec as it stands now.
pub(crate) async fn exec_get(site: &Site, request: ExecGet) -> Result<Exec> {
    site.get_exec(&request.exec).await
}
