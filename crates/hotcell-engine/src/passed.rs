//! Tools of other servers that are handed to clients as they are, where there are few.

use std::future::pending;
use std::time::Duration;

use hotcell_model::{OWN_SERVER, PassedTool, Result, ToolHints, ToolList, ToolsListed};
use hotcell_toolbox::{Catalog, Passed, Showing};

use crate::site::Site;

/// How long servers that were never listed may take until a list is given without them.
const LIST_WITHIN: Duration = Duration::from_secs(15);

/// The tools that are passed through: all, or none where they would cost a model more than that.
pub(crate) fn passed(
    catalog: &Catalog,
    most_tokens: usize,
    is_trusted: impl Fn(&str) -> bool,
) -> Vec<PassedTool> {
    let all = catalog.passed(OWN_SERVER);
    if Showing::of(&all, most_tokens) == Showing::Code {
        return Vec::new();
    }
    let shown = |Passed { name, tool }: Passed<'_>| {
        let hints = tool.listing().annotations.as_ref().filter(|_| is_trusted(&tool.key().server));
        PassedTool {
            name,
            server: tool.server_identifier().to_owned(),
            tool: tool.identifier().to_owned(),
            title: tool.shown_title(),
            description: tool.shown_description(),
            input_schema: tool.shown_schema(),
            hints: hints.map(|hints| ToolHints {
                read_only: hints.read_only_hint,
                destructive: hints.destructive_hint,
                idempotent: hints.idempotent_hint,
                open_world: hints.open_world_hint,
            }),
        }
    };
    all.into_iter().map(shown).collect()
}

/// Lists the tools that are handed to clients as they are.
pub(crate) async fn tool_list(site: &Site, request: ToolList) -> Result<ToolsListed> {
    let toolbox = site.toolbox.as_ref().filter(|toolbox| toolbox.may_pass());
    let Some((toolbox, servers)) = toolbox.and_then(|it| Some((it, it.servers()?))) else {
        return match request.after {
            None => Ok(ToolsListed::default()),
            Some(_) => pending().await,
        };
    };
    if let Some(after) = request.after {
        servers.changed(after).await;
    }
    let within = request.within_ms.map_or(LIST_WITHIN, Duration::from_millis);
    let shelf = toolbox.shelf_within(within.min(LIST_WITHIN)).await?;
    // A server that was listed just now changed the version: the caller waits from this one on.
    Ok(ToolsListed { version: shelf.version, tools: shelf.passed.clone() })
}
