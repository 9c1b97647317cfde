//! Waits a while for the end of an exec that was started before.

use std::sync::Arc;

use hotcell_model::{CutStrategy, ExecResult, ExecWait, Pace, Result};
use tokio::time::Instant;

use crate::exec_run::{Showing, collect};
use crate::result_bound::half_of;
use crate::site::Site;
use crate::view::View;
use crate::{ExecStream, check};

/// Answers as the run that began the exec would.
pub(crate) async fn exec_wait(
    site: &Arc<Site>,
    request: ExecWait,
    view: &View,
) -> Result<ExecResult> {
    let deadline = Instant::now() + check::wait(request.wait_s)?;
    let exec = site.get_exec(&request.exec).await?;
    let stream = ExecStream::open(site, exec, 0, Pace::Free, view).await?;
    let half_bytes = half_of(request.result_bytes);
    let shown = Showing { half_bytes, strategy: CutStrategy::Auto };
    collect(site, stream, shown, deadline, view).await
}
