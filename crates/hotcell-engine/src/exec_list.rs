//! Lists execs, newest first.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_model::{
    CellId, Error, Exec, ExecFilter, ExecId, ExecList, ExecStatusFilter, Execs, Result, Tenant,
    Tenants, Timestamp,
};

use crate::site::Site;

const MAX_LIMIT: u32 = 1000;

/// One page of the execs of these tenants.
pub(crate) async fn exec_list(site: &Site, tenants: Tenants, request: ExecList) -> Result<Execs> {
    if request.limit == 0 {
        return Err(Error::argument("limit", format!("between 1 and {MAX_LIMIT}"), 0));
    }
    let limit = request.limit.min(MAX_LIMIT);
    let before = request.cursor.as_deref().map(parse_cursor).transpose()?;
    let cell = match &request.cell {
        None => None,
        Some(cell) => Some(site.get_cell_or_ended(cell).await?.spec.id),
    };
    bring_up_to_date(site, &tenants, cell.as_ref()).await?;
    // One more than asked for tells whether there is another page.
    let status = request.status;
    let filter = ExecFilter { tenants, cell, status, limit: limit + 1, before };
    let mut execs = site.store.list_execs(&filter).await?;
    let more = execs.len() > limit as usize;
    execs.truncate(limit as usize);
    let next_cursor = execs.last().filter(|_| more).map(cursor);
    let tenants = match filter.tenants {
        Tenants::All => tenants_of(site, &execs).await?,
        Tenants::Of(_) => BTreeMap::new(),
    };
    let awaiting = site.calls_awaiting_approval(&execs).await;
    Ok(Execs { execs, next_cursor, awaiting, tenants })
}

/// Whose the cells of these execs are.
async fn tenants_of(site: &Site, execs: &[Exec]) -> Result<BTreeMap<CellId, Tenant>> {
    let mut tenants = BTreeMap::new();
    for exec in execs {
        if !tenants.contains_key(&exec.cell)
            && let Some(stored) = site.store.find_cell(&exec.cell).await?
        {
            tenants.insert(exec.cell.clone(), stored.spec.tenant);
        }
    }
    Ok(tenants)
}

/// Reads the journals, and ends what dead supervisors left.
pub(crate) async fn bring_up_to_date(
    site: &Site,
    tenants: &Tenants,
    cell: Option<&CellId>,
) -> Result<()> {
    if let Some(cell) = cell {
        return site.settle(cell).await;
    }
    site.rebuild_once().await;
    site.sync_all(tenants).await?;
    let live = ExecFilter {
        tenants: tenants.clone(),
        cell: None,
        status: Some(ExecStatusFilter::Live),
        limit: u32::MAX,
        before: None,
    };
    let live = site.store.list_execs(&live).await?;
    let cells: BTreeSet<CellId> = live.into_iter().map(|exec| exec.cell).collect();
    for cell in cells {
        if let Err(error) = site.settle(&cell).await {
            tracing::warn!(%cell, %error, "the execs of a cell may be shown as they were");
        }
    }
    Ok(())
}

fn cursor(exec: &Exec) -> String {
    format!("{}.{}", exec.queued_at.0, exec.id)
}

fn parse_cursor(text: &str) -> Result<(Timestamp, ExecId)> {
    let parsed = text.split_once('.').and_then(|(queued_at, exec)| {
        Some((Timestamp(queued_at.parse().ok()?), exec.parse().ok()?))
    });
    parsed.ok_or_else(|| {
        Error::argument("cursor", "the next_cursor of a page", format_args!("{text:?}"))
            .hint("leave cursor out for the first page")
    })
}
