//! The tools as clients of the original know them, and those that its documents promise.

use rmcp::model::Tool;
use serde_json::{Map, Value, json};

use crate::tool::{Effect, described};

pub(super) const HEALTH: &str = "health";
pub(super) const SPAWN: &str = "spawn";
pub(super) const ATTACH: &str = "attach";
pub(super) const KILL: &str = "kill";
pub(super) const EXEC_START: &str = "exec_start";
pub(super) const EXEC_CANCEL: &str = "exec_cancel";
pub(super) const EXEC_POLL: &str = "exec_poll";
pub(super) const FS_READ: &str = "fs_read";
pub(super) const FS_WRITE: &str = "fs_write";
pub(super) const FS_DELETE: &str = "fs_delete";
pub(super) const FS_STAT: &str = "fs_stat";
pub(super) const FS_LIST: &str = "fs_list";
pub(super) const RECONCILE: &str = "reconcile";
pub(super) const METRICS: &str = "metrics";
pub(super) const SYSTEM_STATUS: &str = "system_status";
pub(super) const GARBAGE_COLLECT: &str = "garbage_collect";
pub(super) const LIST_CONTAINERS: &str = "list_containers";
pub(super) const LIST_EXECS: &str = "list_execs";
// Promised, and never served by the original.
pub(super) const EXEC_SIGNAL: &str = "exec_signal";
pub(super) const FS_BATCH: &str = "fs_batch";
pub(super) const FS_TAR_READ: &str = "fs_tar_read";
pub(super) const FS_TAR_WRITE: &str = "fs_tar_write";
pub(super) const CONTAINER_STATS: &str = "container_stats";
pub(super) const POLICY_CHECK: &str = "policy_check";
pub(super) const CREATE_SNAPSHOT: &str = "create_snapshot";
pub(super) const LIST_SNAPSHOTS: &str = "list_snapshots";
pub(super) const DELETE_SNAPSHOT: &str = "delete_snapshot";
pub(super) const SPAWN_FROM_SNAPSHOT: &str = "spawn_from_snapshot";

/// Other names that the original's documents have for its tools.
const DOCUMENTED: &[(&str, &str)] = &[
    ("list", LIST_CONTAINERS),
    ("stats", CONTAINER_STATS),
    ("exec", EXEC_START),
    ("cancel", EXEC_CANCEL),
    ("export_tar", FS_TAR_READ),
    ("import_tar", FS_TAR_WRITE),
    ("metrics_dump", METRICS),
];

/// The name of a tool on the wire.
pub(super) fn wire_name(name: &str) -> &str {
    let known = DOCUMENTED.iter().find(|(documented, _)| *documented == name);
    known.map_or(name, |(_, wire)| wire)
}

pub(super) fn all() -> Vec<Tool> {
    [of_server(), of_containers(), of_execs(), of_files(), of_snapshots()].concat()
}

fn of_server() -> Vec<Tool> {
    let standing = [
        ("status", text("healthy or degraded")),
        ("docker_connected", flag("Whether containers can be run")),
        ("database_initialized", flag("Whether the state can be read")),
        ("version", text("Version of the server")),
    ];
    let counts = [
        ("active_containers", whole("Containers that run")),
        ("active_attachments", whole("Clients that work in them")),
    ];
    let of_status: Vec<Part> = standing.iter().chain(&counts).cloned().collect();
    let verdict = [
        ("allowed", flag("Whether it may be done")),
        ("decision", text("allow, ask or deny")),
        ("reason", text("Why")),
    ];
    vec![
        tool(HEALTH, "Tell whether the server works and containers can be run.", Effect::Reads)
            .without_input(&standing),
        tool(SYSTEM_STATUS, "Tell how the server stands and what runs.", Effect::Reads)
            .without_input(&of_status),
        tool(METRICS, "Show the metrics of the server, for Prometheus.", Effect::Reads)
            .without_input(&[("metrics", text("Metrics in the text format"))]),
        tool(
            RECONCILE,
            "Bring the records and the containers that are there together.",
            Effect::Adds,
        )
        .without_input(&[
            ("discovered", whole("Containers that were found")),
            ("adopted", whole("Of these, containers that were not known")),
            ("cleaned_up", whole("Containers that were over, and are gone now")),
            ("orphaned", whole("Remains of no container, gone now")),
            ("errors", whole("What could not be done")),
        ]),
        tool(GARBAGE_COLLECT, "Remove what is over or was kept long enough.", Effect::Destroys)
            .without_input(&[
                ("containers_removed", whole("Containers whose time was over")),
                ("execs_cleaned", whole("Records and output of old executions")),
                ("attachments_cleaned", whole("Notes of clients that did not come back")),
            ]),
        tool(
            POLICY_CHECK,
            "Tell whether an image or a command is allowed. Nothing is run.",
            Effect::Reads,
        )
        .takes(
            &[],
            &[
                ("image", maybe("string", "An image, or")),
                ("cmd", words("a command and its arguments")),
                ("as_root", yes_or_no(false, "Whether it would run as root")),
            ],
            &verdict,
        ),
    ]
}

fn of_containers() -> Vec<Tool> {
    let spawned = spawned();
    vec![
        tool(SPAWN, "Create and start a container.", Effect::Adds).takes(
            &[("image", text("Image reference"))],
            &[
                ("persistent", yes_or_no(false, "Whether it stays until it is killed")),
                ("alias", maybe("string", "A name for it")),
                ("ttl_s", maybe("integer", "Seconds that a transient one lasts")),
                (
                    "idempotency_key",
                    maybe("string", "A second call with it makes no second container"),
                ),
            ],
            &spawned,
        ),
        tool(ATTACH, "Note that a client works in a container.", Effect::Adds).takes(
            &[
                ("target", text("Container ID or alias")),
                ("client_name", text("What the client calls itself")),
                ("session_id", text("The session of the client")),
            ],
            &[],
            &[
                ("container_id", text("Container ID")),
                ("alias", maybe("string", "Its alias")),
                ("roots", list(json!({ "type": "string" }), "Roots, such as workspace:c_…")),
            ],
        ),
        tool(
            KILL,
            "Stop and remove a container; the files of a persistent one are kept.",
            Effect::Destroys,
        )
        .takes(
            &[container_id()],
            &[("force", yes_or_no(false, "Without asking what runs to end first"))],
            &[("status", text("stopped"))],
        ),
        tool(LIST_CONTAINERS, "List containers.", Effect::Reads).may_take(
            &[("include_stopped", yes_or_no(false, "Also those that stopped"))],
            &[("containers", list(json!({ "type": "object" }), "Containers"))],
        ),
        tool(CONTAINER_STATS, "Show what a container uses.", Effect::Reads).takes(
            &[container_id()],
            &[],
            &[
                container_id(),
                (
                    "memory_limit_mb",
                    json!({ "type": "number", "description": "Memory it may use" }),
                ),
                ("timestamp", text("When")),
            ],
        ),
    ]
}

fn of_execs() -> Vec<Tool> {
    let exec_id = || ("exec_id", text("Execution ID"));
    let status = || ("status", text("What came of it"));
    let messages = list(json!({ "type": "object" }), "Output, and at last exit_code and usage");
    vec![
        tool(EXEC_START, "Start a command in a container.", Effect::Adds).takes(
            &[container_id(), ("cmd", list(json!({ "type": "string" }), "Command and arguments"))],
            &[
                ("cwd", text_or("/workspace", "Directory to start in")),
                ("env", variables()),
                ("as_root", yes_or_no(false, "Whether it runs as root of the container")),
                ("timeout_s", whole_or(600, "Seconds after which it is ended")),
                ("idempotency_key", maybe("string", "A second call with it runs nothing again")),
            ],
            &[exec_id(), status()],
        ),
        tool(EXEC_POLL, "Read what a command has printed, and how it ended.", Effect::Reads).takes(
            &[exec_id()],
            &[("after_seq", whole_or(0, "Only messages after this one"))],
            &[("messages", messages), ("complete", flag("Whether nothing comes any more"))],
        ),
        tool(EXEC_CANCEL, "End a command and all that it started.", Effect::Destroys).takes(
            &[exec_id()],
            &[],
            &[status(), exec_id()],
        ),
        tool(EXEC_SIGNAL, "Send a signal to a command.", Effect::Adds).takes(
            &[exec_id()],
            &[("signal", text_or("SIGTERM", "Such as SIGINT"))],
            &[status()],
        ),
        tool(LIST_EXECS, "List commands that run or wait.", Effect::Reads)
            .without_input(&[("execs", list(json!({ "type": "object" }), "Executions"))]),
    ]
}

fn of_files() -> Vec<Tool> {
    let path = || ("path", text("Path in /workspace"));
    let etag = || ("etag", text("Changes whenever the content does"));
    let size = || ("size", whole("Size in bytes"));
    let encoding = || ("encoding", text_or("utf-8", "utf-8 or base64"));
    let mime_type = || ("mime_type", maybe("string", "What it is"));
    let globs = || {
        let patterns = || json!({ "type": "array", "items": { "type": "string" }, "default": [] });
        [("include_globs", patterns()), ("exclude_globs", patterns())]
    };
    let stat = [
        path(),
        size(),
        ("is_dir", flag("Whether it is a directory")),
        ("permissions", text("Permission bits, such as 644")),
        ("mtime", text("When it was last changed")),
        etag(),
        mime_type(),
    ];
    let from = ("path", text_or("/workspace", "Directory"));
    let packing: Vec<Part> = [from.clone()].into_iter().chain(globs()).collect();
    let packing = [packing, vec![("compress", yes_or_no(true, "Whether by gzip"))]].concat();
    let unpacking: Vec<Part> =
        [("dest", text_or("/workspace", "Directory"))].into_iter().chain(globs()).collect();
    let archive = || ("content", text("A tar archive in base64"));
    let writing = [
        ("if_match_etag", maybe("string", "Only if the file is there and has this etag")),
        encoding(),
        ("mode", maybe("integer", "Permission bits, such as 420")),
        ("create_parents", yes_or_no(true, "Whether directories on the way are made")),
    ];
    let all = yes_or_no(false, "Also what is in it");
    vec![
        tool(FS_READ, "Read a file; one that is no text comes in base64.", Effect::Reads).takes(
            &[container_id(), path()],
            &[encoding()],
            &[("content", text("Content")), etag(), size(), mime_type()],
        ),
        tool(FS_WRITE, "Write a file, wholly or not at all.", Effect::Adds).takes(
            &[container_id(), path(), ("content", text("Content"))],
            &writing,
            &[path(), etag(), size()],
        ),
        tool(FS_DELETE, "Delete a file or a directory.", Effect::Destroys).takes(
            &[container_id(), path()],
            &[("recursive", all.clone())],
            &[("status", text("deleted")), path()],
        ),
        tool(FS_STAT, "Show a file or a directory.", Effect::Reads).takes(
            &[container_id(), path()],
            &[],
            &stat,
        ),
        tool(FS_LIST, "List a directory.", Effect::Reads).takes(
            &[container_id()],
            &[from, ("recursive", all)],
            &[path(), ("entries", list(object(&stat, &[]), "Files and directories"))],
        ),
        tool(FS_BATCH, "Do several things with files, all or none of them.", Effect::Adds).takes(
            &[container_id(), ("operations", list(operation(), "What, in this order"))],
            &[],
            &[
                ("success", flag("Whether all was done")),
                ("results", list(json!({ "type": "object" }), "One for each")),
                ("rollback_performed", flag("Whether all was undone")),
            ],
        ),
        tool(FS_TAR_READ, "Pack files into a tar archive.", Effect::Reads).takes(
            &[container_id()],
            &packing,
            &[archive(), size()],
        ),
        tool(FS_TAR_WRITE, "Unpack a tar archive, wholly or not at all.", Effect::Adds).takes(
            &[container_id(), archive()],
            &unpacking,
            &[("files_created", whole("Files")), ("bytes_written", whole("Their size"))],
        ),
    ]
}

fn of_snapshots() -> Vec<Tool> {
    let snapshot_id = || ("snapshot_id", text("Snapshot ID"));
    let size_mb = ("size_mb", maybe("number", "What it holds that none before it does"));
    vec![
        tool(CREATE_SNAPSHOT, "Keep a container's files as they are.", Effect::Adds).takes(
            &[container_id()],
            &[
                ("snapshot_name", maybe("string", "A name, which is not kept")),
                ("description", maybe("string", "A description, which is not kept")),
            ],
            &[snapshot_id(), ("image_tag", text("What spawn takes as its image")), size_mb],
        ),
        tool(LIST_SNAPSHOTS, "List the snapshots of a container.", Effect::Reads).takes(
            &[container_id()],
            &[],
            &[("snapshots", list(json!({ "type": "object" }), "Oldest first"))],
        ),
        tool(DELETE_SNAPSHOT, "Forget a snapshot.", Effect::Destroys).takes(
            &[snapshot_id()],
            &[],
            &[("status", text("deleted")), snapshot_id()],
        ),
        tool(SPAWN_FROM_SNAPSHOT, "Create a container that begins with a snapshot.", Effect::Adds)
            .takes(
                &[snapshot_id()],
                &[
                    ("persistent", yes_or_no(false, "Whether it stays until it is killed")),
                    ("alias", maybe("string", "A name for it")),
                    ("ttl_s", maybe("integer", "Seconds that a transient one lasts")),
                    (
                        "idempotency_key",
                        maybe("string", "A second call with it makes no second container"),
                    ),
                ],
                &spawned(),
            ),
    ]
}

/// A property and its schema.
type Part = (&'static str, Value);

/// A tool that is being described.
struct Described {
    name: &'static str,
    about: &'static str,
    effect: Effect,
}

fn tool(name: &'static str, about: &'static str, effect: Effect) -> Described {
    Described { name, about, effect }
}

impl Described {
    fn takes(self, needed: &[Part], optional: &[Part], output: &[Part]) -> Tool {
        self.whole(object(&[("input_data", object(needed, optional))], &[]), output)
    }

    fn may_take(self, optional: &[Part], output: &[Part]) -> Tool {
        self.whole(object(&[], &[("input_data", object(&[], optional))]), output)
    }

    fn without_input(self, output: &[Part]) -> Tool {
        self.whole(object(&[], &[]), output)
    }

    fn whole(self, input: Value, output: &[Part]) -> Tool {
        let title = (self.name, self.name);
        described(title, self.about, self.effect, (input, Some(object(output, &[]))))
    }
}

fn object(needed: &[Part], optional: &[Part]) -> Value {
    let all = needed.iter().chain(optional);
    let properties: Map<String, Value> =
        all.map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !needed.is_empty() {
        schema["required"] = needed.iter().map(|(name, _)| *name).collect();
    }
    schema
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn text_or(default: &str, about: &str) -> Value {
    json!({ "type": "string", "default": default, "description": about })
}

fn whole(about: &str) -> Value {
    json!({ "type": "integer", "description": about })
}

fn whole_or(default: u64, about: &str) -> Value {
    json!({ "type": "integer", "default": default, "description": about })
}

fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

fn yes_or_no(default: bool, about: &str) -> Value {
    json!({ "type": "boolean", "default": default, "description": about })
}

fn list(items: Value, about: &str) -> Value {
    json!({ "type": "array", "items": items, "description": about })
}

fn maybe(kind: &str, about: &str) -> Value {
    json!({ "anyOf": [{ "type": kind }, { "type": "null" }], "default": null, "description": about })
}

fn words(about: &str) -> Value {
    let words = json!({ "type": "array", "items": { "type": "string" } });
    json!({ "anyOf": [words, { "type": "null" }], "default": null, "description": about })
}

fn variables() -> Value {
    let variables = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "anyOf": [variables, { "type": "null" }],
        "default": null,
        "description": "Environment variables",
    })
}

fn container_id() -> Part {
    ("container_id", text("Container ID"))
}

fn spawned() -> [Part; 3] {
    [container_id(), ("alias", maybe("string", "Its alias")), ("status", text("running"))]
}

fn operation() -> Value {
    let kinds = ["read", "write", "delete", "move", "copy"];
    object(
        &[("op_type", json!({ "type": "string", "enum": kinds })), ("path", text("Path"))],
        &[
            ("content", maybe("string", "What is written")),
            ("encoding", text_or("utf-8", "utf-8 or base64")),
            ("dest_path", maybe("string", "Where it is moved or copied to")),
            ("if_match_etag", maybe("string", "Only if it has this etag")),
        ],
    )
}
