//! Waits a while for the end of an exec that was started before.

use std::sync::Arc;

use hotcell_model::{Command, CutStrategy, ExecResult, ExecWait, Pace, Result};
use tokio::time::Instant;

use crate::exec_run::{Questions, Showing, collect};
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
    let questions = match (&exec.command, exec.pty) {
        // A caller that wants no output waits for the end alone.
        _ if request.result_bytes == 0 => Questions::None,
        (Command::Code(_), _) => Questions::None,
        (Command::Shell(_) | Command::Argv(_), true) => Questions::Expected,
        (Command::Shell(_) | Command::Argv(_), false) => Questions::Possible,
    };
    let half_bytes = half_of(request.result_bytes);
    let stream = ExecStream::open(site, exec, 0, Pace::Free, view).await?.bounded(half_bytes);
    let shown = Showing { half_bytes, strategy: CutStrategy::Auto, questions };
    collect(site, stream, shown, deadline, view).await
}
