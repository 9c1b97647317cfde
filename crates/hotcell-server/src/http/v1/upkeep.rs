//! `/v1/volumes`, `/v1/reconcile` and `/v1/garbage`.

use hotcell_model::{
    Cell, Collect, Collected, Reconcile, Reconciled, Volume, VolumeList, VolumeRemove,
    VolumeRestore, VolumesList,
};
use http::Method;

use super::asked::{CollectGarbage, Nothing};
use super::table::{Operation, Shown, reference, whole};
use super::{Answer, Call, ok};

async fn list(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    ok(&call.ask(VolumesList).await?)
}

async fn restore(call: Call) -> Answer {
    let Nothing {} = call.body()?;
    ok(&call.ask(VolumeRestore { cell: call.cell()? }).await?)
}

async fn remove(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    ok(&call.ask(VolumeRemove { cell: call.cell()? }).await?)
}

async fn reconcile(call: Call) -> Answer {
    let Nothing {} = call.body()?;
    ok(&call.ask(Reconcile).await?)
}

async fn collect(call: Call) -> Answer {
    let CollectGarbage { dry_run } = call.body()?;
    ok(&call.ask(Collect { dry_run }).await?)
}

/// The operations of keeping house.
pub(super) const UPKEEP_OPERATIONS: &[Operation] = &[
    Operation {
        method: Method::GET,
        path: "/v1/volumes",
        name: "listVolumes",
        about: "List the files that persistent cells left when they were ended.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<VolumeList>),
        answer: |call| Box::pin(list(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/volumes/{cell}/restore",
        name: "restoreVolume",
        about: "Bring a cell back with its files. Its name must be free.",
        query: None,
        body: Some(whole::<Nothing>),
        statuses: &[200],
        shown: Shown::Json(reference::<Cell>),
        answer: |call| Box::pin(restore(call)),
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/volumes/{cell}",
        name: "removeVolume",
        about: "Remove the files that a cell left.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Volume>),
        answer: |call| Box::pin(remove(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/reconcile",
        name: "reconcile",
        about: "Bring what is known of cells and what is there together.",
        query: None,
        body: Some(whole::<Nothing>),
        statuses: &[200],
        shown: Shown::Json(reference::<Reconciled>),
        answer: |call| Box::pin(reconcile(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/garbage",
        name: "collectGarbage",
        about: "Remove what is over or that nobody needs, or tell what that would be.",
        query: None,
        body: Some(whole::<CollectGarbage>),
        statuses: &[200],
        shown: Shown::Json(reference::<Collected>),
        answer: |call| Box::pin(collect(call)),
    },
];
