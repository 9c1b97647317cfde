//! Every operation of the API in one table, from which routes and description are made; those on
//! files stand in `file_table.rs`, those on checkpoints in `checkpoint_table.rs`.

use hotcell_model::{
    Approvals, Asked, Cell, CellDetails, CellKilled, Cells, Exec, ExecCancelled, Execs,
};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::asked::{
    CancelExec, FollowOutput, GiveApproval, KillCell, ListCells, ListExecs, ReadOutput, RunExec,
    SendInput, SpawnCell,
};
use super::audit::AUDIT_OPERATIONS;
use super::checkpoint_table::CHECKPOINT_OPERATIONS;
use super::file_table::FILE_OPERATIONS;
use super::shown::{InputShown, PageShown, RunShown};
use super::upkeep::UPKEEP_OPERATIONS;
use super::{Answering, Call, approvals, cells, execs};

/// Makes the schema of a type.
pub(super) type Describe = fn(&mut SchemaGenerator) -> Schema;

/// What an operation answers with.
pub(super) enum Shown {
    /// JSON.
    Json(Describe),
    /// Server-sent events.
    Events,
    /// Content as it is, of one of these types.
    Bytes(&'static [&'static str]),
}

/// One operation.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) query: Option<Describe>,
    pub(super) body: Option<Describe>,
    /// Of what was done; the first is the usual one.
    pub(super) statuses: &'static [u16],
    pub(super) shown: Shown,
    pub(super) answer: fn(Call) -> Answering,
}

impl Operation {
    /// The path as it is described: a part of it that holds slashes is like any other there.
    pub(super) fn shown_path(&self) -> String {
        self.path.replace("{*", "{")
    }
}

/// Every operation there is.
pub(super) fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS
        .iter()
        .chain(FILE_OPERATIONS)
        .chain(CHECKPOINT_OPERATIONS)
        .chain(AUDIT_OPERATIONS)
        .chain(UPKEEP_OPERATIONS)
}

pub(super) fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

pub(super) fn whole<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

const OPERATIONS: &[Operation] = &[
    Operation {
        method: Method::GET,
        path: "/v1/cells",
        name: "listCells",
        about: "List cells, the newest first.",
        query: Some(whole::<ListCells>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Cells>),
        answer: |call| Box::pin(cells::list(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/cells",
        name: "spawnCell",
        about: "Make a cell.",
        query: None,
        body: Some(reference::<SpawnCell>),
        statuses: &[201],
        shown: Shown::Json(reference::<Cell>),
        answer: |call| Box::pin(cells::spawn(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/cells/{cell}",
        name: "getCell",
        about: "Show a cell, what it uses, and what runs in it.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<CellDetails>),
        answer: |call| Box::pin(cells::info(call)),
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/cells/{cell}",
        name: "killCell",
        about: "End a cell. The files of a persistent one are kept unless volumes says otherwise.",
        query: Some(whole::<KillCell>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<CellKilled>),
        answer: |call| Box::pin(cells::kill(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/execs",
        name: "listExecs",
        about: "List execs, the newest first.",
        query: Some(whole::<ListExecs>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Execs>),
        answer: |call| Box::pin(execs::list(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/execs",
        name: "runExec",
        about: "Run a command; past wait_s it goes on and is handed back.",
        query: None,
        body: Some(reference::<RunExec>),
        statuses: &[201],
        shown: Shown::Json(reference::<RunShown>),
        answer: |call| Box::pin(execs::run(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/execs/{exec}",
        name: "getExec",
        about: "Show an exec.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Exec>),
        answer: |call| Box::pin(execs::get(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/approvals",
        name: "listApprovals",
        about: "List the commands and calls that wait for approval, the oldest first. For operators.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Approvals>),
        answer: |call| Box::pin(approvals::list(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/approvals/{approval}",
        name: "getApproval",
        about: "Show what waits for approval, or what became of it. For operators.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Asked>),
        answer: |call| Box::pin(approvals::get(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/approvals/{approval}",
        name: "giveApproval",
        about: "Let what waits for approval be done, or not. For operators, but not for the one who \
                asked for it.",
        query: None,
        body: Some(reference::<GiveApproval>),
        statuses: &[200],
        shown: Shown::Json(reference::<Asked>),
        answer: |call| Box::pin(approvals::give(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/execs/{exec}/input",
        name: "sendInput",
        about: "Send text, end of file, a signal or a size to a running exec.",
        query: None,
        body: Some(reference::<SendInput>),
        statuses: &[200],
        shown: Shown::Json(reference::<InputShown>),
        answer: |call| Box::pin(execs::input(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/execs/{exec}/cancel",
        name: "cancelExec",
        about: "End an exec and all its descendants.",
        query: None,
        body: Some(reference::<CancelExec>),
        statuses: &[200],
        shown: Shown::Json(reference::<ExecCancelled>),
        answer: |call| Box::pin(execs::cancel(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/execs/{exec}/output",
        name: "readOutput",
        about: "Read a page of an exec's output.",
        query: Some(whole::<ReadOutput>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<PageShown>),
        answer: |call| Box::pin(execs::output(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/execs/{exec}/stream",
        name: "followOutput",
        about: "Follow an exec's output. Events: `output` (a Message; the event's id is its seq), \
                `dropped` (a Dropped), `end` (the Exec), `error` (an Error). The header \
                Last-Event-ID takes the stream up again.",
        query: Some(whole::<FollowOutput>),
        body: None,
        statuses: &[200],
        shown: Shown::Events,
        answer: |call| Box::pin(execs::stream(call)),
    },
];
