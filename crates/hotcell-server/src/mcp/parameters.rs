//! What is wrong with the parameters of a request that could not be read.

use serde_json::Value;

/// What a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Object,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Object => "an object",
        }
    }

    fn is(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Object => value.is_object(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

use Kind::{Object, Text};
use Presence::{Optional, Required};

type Parameters = &'static [(&'static str, Kind, Presence)];

const PAGE: Parameters = &[("cursor", Text, Optional)];
const TASK: Parameters = &[("taskId", Text, Required)];
/// Methods that are answered.
const METHODS: &[(&str, Parameters)] = &[
    ("completion/complete", &[("ref", Object, Required), ("argument", Object, Required)]),
    ("resources/list", PAGE),
    ("resources/read", &[("uri", Text, Required)]),
    ("resources/templates/list", PAGE),
    ("server/discover", &[]),
    ("tasks/cancel", TASK),
    ("tasks/get", TASK),
    ("tasks/update", TASK),
    ("tools/call", &[("name", Text, Required), ("arguments", Object, Optional)]),
    ("tools/list", PAGE),
];
/// The same for what only the newest revision has.
const NEW_METHODS: &[(&str, Parameters)] =
    &[("subscriptions/listen", &[("notifications", Object, Required)])];
/// The same for what it has no more.
const OLD_METHODS: &[(&str, Parameters)] = &[
    (
        "initialize",
        &[
            ("protocolVersion", Text, Required),
            ("capabilities", Object, Required),
            ("clientInfo", Object, Required),
        ],
    ),
    ("ping", &[]),
    ("resources/subscribe", &[("uri", Text, Required)]),
    ("resources/unsubscribe", &[("uri", Text, Required)]),
];

/// Which methods there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Methods {
    Newest,
    Older,
}

/// What is wrong with the parameters of a method; `None` when there is no such method.
pub(super) fn find_fault(methods: Methods, method: &str, params: Option<&Value>) -> Option<String> {
    let own = match methods {
        Methods::Newest => NEW_METHODS,
        Methods::Older => OLD_METHODS,
    };
    let (_, parameters) = METHODS.iter().chain(own).find(|(name, _)| *name == method)?;
    let fault = match params {
        Some(params) if !params.is_object() => Some("params is to be an object".to_owned()),
        params => parameters.iter().find_map(|parameter| fault_of(*parameter, params)),
    };
    Some(match fault {
        Some(fault) => format!("{method}: {fault}"),
        None => format!("wrong parameters for {method}"),
    })
}

fn fault_of(
    (name, kind, presence): (&str, Kind, Presence),
    params: Option<&Value>,
) -> Option<String> {
    const SHOWN_CHARS: usize = 60;
    match params.and_then(|params| params.get(name)) {
        None => (presence == Required).then(|| format!("{name} is missing")),
        Some(value) if kind.is(value) => None,
        Some(value) => {
            let shown: String = value.to_string().chars().take(SHOWN_CHARS).collect();
            Some(format!("{name} is to be {}, not {shown}", kind.name()))
        }
    }
}
