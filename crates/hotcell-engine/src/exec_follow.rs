//! Follows an exec's output as it comes.

use std::sync::Arc;

use hotcell_model::{ExecFollow, Result};

use crate::ExecStream;
use crate::site::Site;
use crate::view::View;

/// The output after a seq, then what comes, then the end.
pub(crate) async fn exec_follow(
    site: &Arc<Site>,
    request: ExecFollow,
    view: &View,
) -> Result<ExecStream> {
    let exec = site.get_exec(&request.exec).await?;
    ExecStream::open(site, exec, request.after_seq, request.pace, view).await
}
