//! Words that people use for the same thing. General ones: nothing here knows a single tool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::words::stem;

/// Words for what is done, of which each can stand for the others.
const ACTIONS: &[&[&str]] = &[
    &["create", "add", "new", "make", "open", "insert", "register", "start"],
    &[
        "delete", "remove", "drop", "erase", "trash", "discard", "destroy", "clear", "rid",
        "purge", "throw",
    ],
    &["list", "show", "enumerate", "browse", "see", "view", "display"],
    &[
        "get", "fetch", "read", "retrieve", "view", "show", "look", "load", "open", "details",
        "info",
    ],
    &["update", "edit", "modify", "change", "set", "adjust", "alter", "patch", "revise", "fix"],
    &["search", "find", "query", "lookup", "locate", "look", "filter"],
    &["send", "post", "deliver", "write", "submit", "publish", "tell", "say", "notify", "announce"],
    &["run", "execute", "invoke", "evaluate", "call", "launch", "perform", "trigger", "start"],
    &["stop", "halt", "cancel", "abort", "terminate", "kill", "end", "shut"],
    &["restart", "reboot", "bounce"],
    &["copy", "duplicate", "clone", "replicate"],
    &["move", "rename", "relocate", "transfer"],
    &["upload", "import", "push", "store", "save", "put"],
    &["download", "export", "pull", "save", "dump"],
    &["merge", "combine", "join", "integrate"],
    &["close", "resolve", "finish", "complete", "done", "settle", "shut"],
    &["assign", "delegate", "allocate", "give", "owner"],
    &["approve", "accept", "confirm", "allow", "grant"],
    &["reject", "decline", "refuse", "deny"],
    &["reply", "respond", "answer", "comment"],
    &["invite", "add", "attendee", "guest", "member"],
    &["mute", "silence", "snooze", "suppress", "pause"],
    &["acknowledge", "ack"],
    &["compare", "diff", "difference", "changes"],
    &["summary", "summarize", "overview", "digest"],
    &["translate", "convert", "transform"],
    &["click", "press", "tap", "push"],
    &["type", "fill", "enter", "input"],
    &["navigate", "open", "visit", "goto", "go", "browse"],
    &["capture", "screenshot", "snapshot", "grab"],
    &["calculate", "compute", "formula"],
    &["schedule", "plan", "book", "arrange", "reserve"],
    &["delete", "cancel", "withdraw"],
    &["create", "schedule", "book", "arrange", "organize", "setup"],
    &["write", "save", "store", "overwrite", "put"],
    &["update", "move", "reschedule", "postpone", "shift"],
    &["update", "upgrade", "modernize"],
    &["archive", "hide", "retire", "delete"],
    &["unsubscribe", "leave", "stop", "quit"],
    &["compress", "pack", "zip"],
    &["extract", "unpack", "unzip"],
    &["emulate", "simulate", "pretend", "mimic"],
    &["remind", "reminder", "notify"],
    &["watch", "subscribe", "follow", "monitor"],
    &["scale", "resize", "grow", "replicas"],
    &["deploy", "release", "ship", "rollout", "publish"],
    &["rollback", "revert", "undo", "restore"],
    &["count", "number", "many", "total"],
    &["mark", "flag", "label", "tag", "set"],
    &["attach", "link", "connect"],
    &["remember", "memorize", "store", "note", "save", "memory", "observe", "learn"],
    &["forget", "delete", "remove", "erase"],
    &["recall", "remember", "know", "memory", "knowledge"],
    &["begin", "start", "create", "new", "launch", "open"],
    &["fork", "copy", "clone", "duplicate"],
    &["switch", "checkout", "select", "change", "activate"],
    &["unstage", "reset", "undo", "restore"],
    &["undo", "reset", "rollback", "revert", "back"],
    &["append", "add", "insert", "attach", "extend"],
    &["transition", "move", "status", "done", "close", "resolve", "workflow"],
    &["download", "fetch", "get", "retrieve", "scrape"],
    &["measure", "trace", "profile", "benchmark", "audit", "performance"],
    &["choose", "select", "pick"],
    &["install", "setup", "deploy"],
    &["forward", "expose", "tunnel", "reach", "port"],
    &["apply", "deploy", "create"],
    &["increase", "scale", "raise", "grow", "decrease", "reduce"],
    &["group", "aggregate", "sum", "total", "pivot", "summarize"],
    &["react", "reaction", "like", "thumbs", "emoji"],
    &["record", "log", "track", "note", "engagement", "capture"],
    &["combine", "merge", "join", "concatenate", "unite"],
    &["inspect", "describe", "details", "examine", "explain", "look"],
    &["print", "console", "output", "log", "display"],
    &["wait", "sleep", "pause", "until"],
    &["convert", "transform", "translate", "change", "markdown"],
    &["echo", "repeat", "back", "same", "return"],
    &["put", "add", "insert", "place", "write"],
    &["hit", "press", "click", "strike"],
    &["drag", "pull", "slide"],
    &["remove", "take", "kick"],
    &["speed", "optimize", "faster", "accelerate", "improve"],
    &["tell", "message", "inform", "let"],
    &["happen", "history", "log", "activity"],
    &["mind", "remember", "memorize", "recall"],
    &["replace", "swap", "substitute", "edit"],
    &["split", "separate", "divide"],
    &["verify", "check", "validate", "test", "ensure"],
    &["sum", "plus", "add"],
    &["empty", "clear", "wipe", "blank"],
    &["complain", "error", "warning", "console"],
];

/// Words for what it is done to.
const THINGS: &[&[&str]] = &[
    &["repository", "repo", "project", "codebase"],
    &["pr", "merge", "review"],
    &["commit", "revision", "changeset", "history"],
    &["issue", "ticket", "bug", "task", "story", "defect"],
    &["message", "dm", "chat", "text", "note"],
    &["private", "direct", "dm"],
    &["channel", "room", "conversation"],
    &["email", "mail", "letter", "inbox", "unread"],
    &["database", "db", "sql"],
    &["table", "relation", "sheet"],
    &["column", "field", "attribute"],
    &["row", "record", "entry", "line"],
    &["schema", "structure", "columns"],
    &["image", "picture", "photo", "screenshot"],
    &["page", "document", "doc", "article", "wiki"],
    &["website", "site", "url", "web", "page", "webpage"],
    &["directory", "folder", "dir"],
    &["file", "document", "content"],
    &["file", "object", "blob"],
    &["mkdir", "directory"],
    &[
        "date",
        "day",
        "time",
        "when",
        "today",
        "tomorrow",
        "yesterday",
        "week",
        "weekend",
        "month",
        "year",
        "upcoming",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ],
    &["sun", "sunset", "sunrise", "dusk", "dawn", "sunny"],
    &["newsletter", "mailing", "unsubscribe", "bulk"],
    &["phone", "iphone", "android", "mobile", "device"],
    &["format", "style", "bold", "font", "color", "colour"],
    &["ip", "dns"],
    &["event", "meeting", "appointment"],
    &["calendar", "agenda", "schedule"],
    &["free", "available", "availability", "busy", "slot"],
    &["invoice", "bill", "statement"],
    &["payment", "pay", "charge", "money", "transaction"],
    &["refund", "reimburse", "money", "back"],
    &["customer", "client", "buyer", "account"],
    &["subscription", "plan", "recurring", "membership"],
    &["contact", "person", "people", "lead"],
    &["deal", "opportunity", "sale"],
    &["company", "organization", "org", "account", "firm", "business"],
    &["user", "member", "person", "people", "teammate", "colleague", "employee"],
    &["team", "group"],
    &["directions", "route", "way", "drive", "path", "navigate"],
    &["place", "location", "spot", "venue", "nearby"],
    &["address", "geocode", "coordinates", "latitude", "location"],
    &["distance", "far", "travel", "duration"],
    &["server", "instance", "vm", "machine", "host"],
    &["bucket", "storage", "blob", "object"],
    &["function", "lambda", "serverless"],
    &["container", "pod", "docker"],
    &["log", "logs", "trace", "output"],
    &["metric", "measurement", "graph", "chart", "timeseries", "usage"],
    &["alert", "alarm", "notification", "monitor", "warning"],
    &["incident", "outage", "downtime", "emergency"],
    &["dashboard", "board", "panel"],
    &["cost", "price", "billing", "spend", "bill", "expense"],
    &["secret", "credential", "password", "key"],
    &["branch", "ref"],
    &["pipeline", "workflow", "build", "ci", "action", "job"],
    &["javascript", "js", "script", "code"],
    &["spreadsheet", "sheet", "excel", "workbook", "worksheet"],
    &["cell", "range", "value"],
    &["sprint", "iteration", "cycle"],
    &["comment", "remark", "note", "feedback"],
    &["reaction", "emoji", "thumbs"],
    &["attachment", "file"],
    &["draft", "unsent"],
    &["label", "tag", "category"],
    &["permission", "access", "share", "sharing", "rights", "role"],
    &["weather", "forecast", "temperature", "rain", "warm", "hot", "cold"],
    &["error", "exception", "failure", "crash", "failed", "fail"],
    &["slow", "performance", "explain", "latency"],
    &["balance", "funds", "money"],
    &["discount", "coupon", "promo", "promotion"],
    &["product", "item", "catalog", "goods"],
    &["console", "devtools", "browser"],
    &["tab", "window"],
    &["timezone", "time", "clock"],
    &["currency", "exchange", "rate"],
    &["network", "http", "request"],
    &["status", "state", "health", "progress"],
    &["size", "disk", "space"],
    &["note", "memo", "reminder"],
    &["version", "revision", "release"],
    &["dns", "domain"],
    &["queue", "topic"],
    &["backup", "snapshot", "dump"],
    &["fact", "observation", "knowledge", "information", "detail"],
    &["entity", "person", "people", "node", "object", "thing"],
    &["relation", "relationship", "association", "link", "connection", "dependency", "duplicate"],
    &["who", "user", "author", "member", "assignee", "people", "profile"],
    &["when", "date", "time", "schedule"],
    &["where", "location", "place", "path", "address"],
    &["elevation", "height", "altitude", "high", "sea"],
    &["restaurant", "cafe", "coffee", "shop", "hotel", "place", "store", "business"],
    &["hours", "time", "worklog", "timesheet", "effort", "spent", "worked"],
    &["recent", "recently", "latest", "history", "log"],
    &["ci", "status", "check", "build", "pipeline"],
    &["crm", "customer", "contact", "company", "deal", "lead", "object"],
    &["property", "field", "attribute", "column"],
    &["call", "phone", "engagement", "conversation", "activity"],
    &["popup", "dialog", "alert", "prompt", "modal", "confirm"],
    &["dropdown", "select", "option", "combobox", "menu"],
    &["browser", "page", "tab", "website"],
    &["3g", "network", "throttle", "slow", "connection", "offline"],
    &["mouse", "pointer", "cursor", "hover"],
    &["keyboard", "key", "press"],
    &["paragraph", "block", "text", "content", "section"],
    &["internet", "web", "online"],
    &["news", "article", "search"],
    &["markdown", "content", "text", "html"],
    &["tree", "structure", "hierarchy", "recursive"],
    &["config", "configuration", "setting", "option"],
    &["replica", "scale", "instance", "deployment"],
    &["yaml", "manifest", "resource", "apply"],
    &["cluster", "kubernetes", "kubectl", "k8s", "node", "pod"],
    &["pod", "kubectl", "workload"],
    &["chart", "helm", "release"],
    &["select", "query", "sql", "statement"],
    &["mongo", "mongodb", "collection"],
    &["document", "record", "collection"],
    &["filter", "query", "criteria", "condition"],
    &["thread", "reply", "discussion", "answer"],
    &["workspace", "organization", "team", "account"],
    &["number", "sum", "arithmetic", "integer", "digit"],
    &["staging", "stage", "index", "cached"],
    &["priority", "severity", "importance", "field"],
    &["wiki", "confluence", "page"],
    &["space", "wiki", "confluence"],
    &["ticket", "jira", "issue", "bug"],
    &["link", "url", "href", "map"],
    &["price", "product", "data", "structured"],
    &["bold", "italic", "format", "font", "style"],
    &["box", "field", "input", "textbox"],
    &["documentation", "docs", "wiki", "page", "document"],
    &["reviewer", "review"],
    &["tracker", "issue", "jira", "ticket", "backlog"],
    &["slow", "fast", "speed", "performance", "load", "lag", "trace"],
    &["street", "address", "geocode", "town", "city", "country"],
    &["near", "nearby", "around", "close", "place"],
    &["mountain", "hill", "peak", "elevation"],
    &["globe", "map", "earth", "coordinates", "geocode"],
    &["todo", "task", "issue", "item"],
    &["nested", "recursive", "tree", "hierarchy"],
    &["child", "children", "sub", "subpage", "below", "under", "beneath", "nested"],
    &["parent", "ancestor", "above"],
    &["inside", "content", "contain", "within"],
    &["xlsx", "xls", "excel", "workbook", "spreadsheet", "sheet"],
    &["csv", "spreadsheet", "table", "import", "export"],
    &["txt", "file", "text"],
    &["md", "markdown", "file"],
    &["py", "rs", "ts", "python", "file", "code"],
    &["yml", "yaml", "config", "file", "manifest"],
    &["json", "data", "structured", "file"],
    &["png", "jpg", "jpeg", "gif", "image"],
    &["pdf", "document", "file"],
    &["signal", "reception", "offline", "network", "connection"],
    &["test", "check", "ci", "pass", "green", "status"],
    &["machine", "node", "host", "worker"],
    &["maintenance", "drain", "cordon", "evict"],
    &["blog", "article", "site", "page"],
    &["handbook", "wiki", "page", "document", "manual", "guide"],
    &["shell", "terminal", "exec", "command", "bash"],
    &["laptop", "local", "localhost", "computer"],
    &["boss", "colleague", "coworker", "teammate", "user"],
    &["difference", "changed", "diff"],
    &["todays", "today", "date", "current"],
    &["ongoing", "current", "active", "running"],
    &["late", "time", "clock", "oclock"],
    &["morning", "evening", "noon", "midnight", "time"],
    &["firm", "company", "employer", "business"],
    &["broken", "bug", "defect", "crash", "issue"],
    &["several", "multiple", "batch", "bulk", "many"],
    &["big", "size", "large", "small", "huge", "smaller", "bigger"],
    &["mobile", "phone", "emulate", "device", "viewport"],
    &["blind", "accessibility", "a11y", "reader"],
    &["previous", "back", "last", "earlier", "history"],
    &["source", "citation", "reference", "research"],
    &["opinion", "review", "rating", "think"],
    &["chart", "diagram", "graph", "plot"],
    &["thumbs", "emoji", "reaction", "smiley"],
    &["consumption", "usage", "metric", "top"],
    &["login", "auth", "sign", "authenticate"],
];

/// Words for what somebody has to have asked for.
const REMOVALS: &[&str] = &[
    "abort",
    "archive",
    "cancel",
    "clear",
    "delete",
    "destroy",
    "discard",
    "drain",
    "drop",
    "end",
    "erase",
    "forget",
    "kill",
    "leave",
    "purge",
    "remove",
    "rid",
    "shut",
    "stop",
    "terminate",
    "throw",
    "trash",
    "uninstall",
    "unsubscribe",
    "withdraw",
];

/// Verbs that fit nearly every tool: alone they do not say what is wanted.
const VERBS: &str = include_str!("verbs.txt");

/// Words that are one word when they stand together.
const PHRASES: &[[&str; 3]] = &[
    ["pull", "request", "pr"],
    ["merge", "request", "pr"],
    ["direct", "message", "dm"],
    ["work", "item", "issue"],
    ["time", "zone", "timezone"],
    ["log", "in", "login"],
    ["sign", "in", "login"],
    ["data", "base", "database"],
    ["get", "rid", "delete"],
    ["look", "up", "lookup"],
    ["look", "for", "search"],
    ["turn", "off", "stop"],
    ["power", "off", "stop"],
    ["switch", "off", "stop"],
    ["throw", "away", "delete"],
    ["shut", "down", "stop"],
    ["hand", "over", "assign"],
    ["roll", "back", "rollback"],
    ["give", "back", "refund"],
    ["on", "call", "oncall"],
    ["object", "storage", "bucket"],
    ["virtual", "machine", "vm"],
    ["log", "hours", "worklog"],
    ["working", "copy", "unstaged"],
    ["working", "tree", "unstaged"],
    ["working", "directory", "unstaged"],
    ["log", "time", "worklog"],
    ["hours", "worked", "worklog"],
    ["report", "bug", "issue"],
    ["knowledge", "graph", "memory"],
    ["phone", "call", "engagement"],
    ["staging", "area", "staged"],
    ["works", "at", "relation"],
    ["web", "page", "webpage"],
    ["web", "site", "website"],
    ["go", "back", "back"],
    ["sea", "level", "elevation"],
    ["drop", "down", "dropdown"],
    ["pop", "up", "popup"],
    ["note", "down", "record"],
    ["write", "down", "record"],
    ["find", "out", "get"],
    ["set", "up", "create"],
    ["own", "copy", "fork"],
    ["time", "worked", "worklog"],
    ["file", "bug", "issue"],
    ["get", "from", "route"],
];

/// What a word for the same action counts for: they are vague.
const ACTION: f64 = 0.5;
/// What a word for the same thing counts for.
const THING: f64 = 0.6;

/// For the stem of a word, those of the words that can stand for it, and what each counts for.
#[derive(Debug)]
pub(crate) struct Synonyms {
    by_stem: BTreeMap<String, BTreeMap<String, f64>>,
    actions: BTreeMap<String, BTreeSet<String>>,
    removals: BTreeSet<String>,
    verbs: BTreeSet<String>,
    phrases: Vec<[String; 3]>,
}

/// The table, made at the first use: all indexes share it.
pub(crate) static SYNONYMS: LazyLock<Synonyms> = LazyLock::new(Synonyms::new);

impl Synonyms {
    fn new() -> Self {
        let mut by_stem: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for (groups, weight) in [(ACTIONS, ACTION), (THINGS, THING)] {
            for group in groups {
                let stems: BTreeSet<String> = group.iter().map(|word| stem(word)).collect();
                for one in &stems {
                    let others = stems.iter().filter(|other| *other != one);
                    let known = by_stem.entry(one.clone()).or_default();
                    known.extend(others.map(|other| (other.clone(), weight)));
                }
            }
        }
        let mut actions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for group in ACTIONS {
            let stems: BTreeSet<String> = group.iter().map(|word| stem(word)).collect();
            for one in &stems {
                actions.entry(one.clone()).or_default().extend(stems.iter().cloned());
            }
        }
        let removals = REMOVALS.iter().map(|word| stem(word)).collect();
        let verbs = VERBS.split_whitespace().map(stem).collect();
        let phrases = PHRASES.iter().map(|phrase| (*phrase).map(stem)).collect();
        Self { by_stem, actions, removals, verbs, phrases }
    }

    /// The stems that pairs of stems stand for.
    pub(crate) fn phrases(&self, stems: &[String]) -> Vec<String> {
        let known = |pair: &[String]| {
            let phrase = self.phrases.iter().find(|phrase| pair == &phrase[..2]);
            phrase.map(|phrase| phrase[2].clone())
        };
        stems.windows(2).filter_map(known).collect()
    }

    /// The words for the same action as a word, itself too; nothing if it is no action.
    pub(crate) fn actions_like(&self, stem: &str) -> impl Iterator<Item = &str> {
        self.actions.get(stem).into_iter().flatten().map(String::as_str)
    }

    /// Whether a word means that something goes away or comes to an end.
    pub(crate) fn is_removal(&self, stem: &str) -> bool {
        self.removals.contains(stem)
    }

    /// Whether a stem is that of a verb that fits nearly every tool.
    pub(crate) fn is_verb(&self, stem: &str) -> bool {
        self.verbs.contains(stem)
    }

    /// Whether a stem has others that can stand for it.
    pub(crate) fn knows(&self, stem: &str) -> bool {
        self.by_stem.contains_key(stem)
    }

    /// All words of the table, as they are written.
    pub(crate) fn words() -> impl Iterator<Item = &'static str> {
        ACTIONS.iter().chain(THINGS).flat_map(|group| group.iter().copied())
    }

    pub(crate) fn of(&self, stem: &str) -> impl Iterator<Item = (&str, f64)> {
        let known = self.by_stem.get(stem).into_iter().flatten();
        known.map(|(other, weight)| (other.as_str(), *weight))
    }
}
