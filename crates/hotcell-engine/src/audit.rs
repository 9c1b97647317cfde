//! Reads the ledger: entries, whether they are as they were written, and what stands out.

use std::sync::Arc;

use hotcell_model::{
    AuditPage, AuditQuery, AuditSummary, Caller, CellRef, Error, Ledger, LedgerFilter,
    LedgerRecord, LedgerSummary, Reply, Result, Tenant, Tenants,
};

use crate::audit_summary::Summing;
use crate::fault;
use crate::noted::no_ledger;
use crate::site::Site;

/// The most entries that are told at once.
const MOST_ENTRIES: u32 = 10_000;

/// What of the ledger exists for a caller.
#[derive(Debug, Clone)]
pub(crate) enum Sight {
    /// All of it.
    All,
    /// The entries of one tenant, without what tells of others.
    Own(Tenant),
}

impl Sight {
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller.is_local_operator() {
            true => Self::All,
            false => Self::Own(caller.tenant.clone()),
        }
    }

    /// The tenant to look for; `None` when what is asked for does not exist for the caller.
    pub(crate) fn tenant(&self, asked: Option<Tenant>) -> Option<Option<Tenant>> {
        match (self, asked) {
            (Self::All, asked) => Some(asked),
            (Self::Own(own), Some(asked)) if asked != *own => None,
            (Self::Own(own), _) => Some(Some(own.clone())),
        }
    }
}

/// What is asked of the ledger.
#[derive(Debug)]
pub(crate) enum AuditCall {
    /// Entries.
    Query(AuditQuery),
    /// What stands out.
    Summary(AuditSummary),
}

/// Answers it.
pub(crate) async fn audit(site: &Site, caller: &Caller, call: AuditCall) -> Result<Reply> {
    Ok(match call {
        AuditCall::Query(request) => {
            Reply::AuditPage(Box::pin(audit_query(site, caller, request)).await?)
        }
        AuditCall::Summary(request) => {
            Reply::LedgerSummary(Box::pin(audit_summary(site, caller, request)).await?)
        }
    })
}

/// Reads entries.
async fn audit_query(site: &Site, caller: &Caller, request: AuditQuery) -> Result<AuditPage> {
    let ledger = ledger(site)?;
    if request.limit == 0 || request.limit > MOST_ENTRIES {
        let range = format!("between 1 and {MOST_ENTRIES}");
        return Err(Error::argument("limit", range, request.limit));
    }
    let sight = Sight::of(caller);
    if let (Sight::Own(_), Some(_)) = (&sight, request.after) {
        return Err(Error::denied("only who sees the whole ledger asks for entries by number")
            .hint("ask by time, with since and until"));
    }
    let Some(tenant) = sight.tenant(request.tenant.clone()) else {
        return Ok(AuditPage { entries: Vec::new() });
    };
    site.bring_ledger_up_to_date().await?;
    let filter = LedgerFilter {
        after: request.after,
        since: request.since,
        until: request.until,
        cells: match &request.cell {
            Some(cell) => site.names_of(&caller.tenant, cell).await?,
            None => Vec::new(),
        },
        exec: request.exec,
        principal: request.principal,
        tenant,
        verdict: request.verdict,
        kind: request.kind,
        outcome: request.outcome,
        call_id: request.call_id,
    };
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let entries = fault::blocking(move || ledger.query(&filter, limit)).await?;
    let entries = match sight {
        Sight::All => entries,
        Sight::Own(_) => entries.into_iter().map(without_number).collect(),
    };
    Ok(AuditPage { entries })
}

/// Tells what stands out.
async fn audit_summary(
    site: &Site,
    caller: &Caller,
    request: AuditSummary,
) -> Result<LedgerSummary> {
    let ledger = ledger(site)?;
    let Some(tenant) = Sight::of(caller).tenant(request.tenant) else {
        return Ok(LedgerSummary::default());
    };
    site.bring_ledger_up_to_date().await?;
    let filter = LedgerFilter {
        since: request.since,
        until: request.until,
        tenant,
        ..LedgerFilter::default()
    };
    fault::blocking(move || {
        let mut summing = Summing::default();
        ledger.scan(&filter, &mut |record| summing.add(&record))?;
        Ok(summing.finish())
    })
    .await
}

pub(crate) fn ledger(site: &Site) -> Result<Arc<dyn Ledger>> {
    site.ledger.as_ref().map(Arc::clone).ok_or_else(no_ledger)
}

/// Numbers tell how much others did.
fn without_number(record: LedgerRecord) -> LedgerRecord {
    LedgerRecord { n: 0, mac: String::new(), ..record }
}

impl Site {
    /// Takes over into the ledger all that happened in cells so far.
    pub(crate) async fn bring_ledger_up_to_date(&self) -> Result<()> {
        self.bring_ends_up_to_date().await?;
        for cell in self.cells_on_disk()? {
            self.note_network(&cell).await;
        }
        Ok(())
    }

    /// Takes over into the ledger which execs have ended.
    pub(crate) async fn bring_ends_up_to_date(&self) -> Result<()> {
        crate::exec_list::bring_up_to_date(self, &Tenants::All, None).await
    }

    /// What a cell may be called in the ledger: its id, and the name it was asked for by.
    async fn names_of(&self, tenant: &Tenant, cell: &CellRef) -> Result<Vec<String>> {
        let mut names = vec![cell.to_string()];
        if let CellRef::Alias(alias) = cell
            && let Some(found) = self.find_alias(tenant, alias).await?
        {
            names.push(found.spec.id.to_string());
        }
        Ok(names)
    }
}
