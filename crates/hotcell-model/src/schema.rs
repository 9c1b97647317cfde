//! The JSON Schemas of values that are written as text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    Alias, ApprovalId, CellId, CellRef, CheckpointId, ExecId, HeldId, NameRules, NetRule, Network,
    Signal, Tenant, Timestamp,
};

macro_rules! text {
    ($($kind:ident: $schema:tt),+ $(,)?) => {
        $(impl JsonSchema for $kind {
            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })+
    };
}

text! {
    CellId: {
        "description": "Names one cell for ever.",
        "type": "string",
        "pattern": "^c_[0-9a-hjkmnp-tv-z]{10}$"
    },
    ExecId: {
        "description": "Names one exec for ever.",
        "type": "string",
        "pattern": "^e_[0-9a-hjkmnp-tv-z]{10}$"
    },
    CheckpointId: {
        "description": "Names one checkpoint for ever.",
        "type": "string",
        "pattern": "^k_[0-9a-hjkmnp-tv-z]{10}$"
    },
    HeldId: {
        "description": "Names one call that waits for approval.",
        "type": "string",
        "pattern": "^h_[0-9a-hjkmnp-tv-z]{10}$"
    },
    ApprovalId: {
        "description": "What waits for approval: an exec or a held call.",
        "type": "string",
        "pattern": "^[eh]_[0-9a-hjkmnp-tv-z]{10}$"
    },
    Alias: {
        "description": "A name that a user gave to a cell.",
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
    },
    CellRef: {
        "description": "A cell by its id or its alias, or `default` for the caller's own.",
        "type": "string"
    },
    Signal: {
        "description": "A signal by its name, such as TERM, or its number.",
        "type": "string"
    },
    NetRule: {
        "description": "Names and ports: `name`, `name:port`, `*.suffix`, `*`; with `/raw` after it, connections are not inspected.",
        "type": "string"
    },
    Tenant: {
        "description": "Whose something is.",
        "type": "string",
        "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"
    },
    Timestamp: {
        "description": "RFC 3339 in UTC.",
        "type": "string",
        "format": "date-time"
    },
}

impl JsonSchema for Network {
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rules = generator.subschema_for::<NameRules>();
        json_schema!({
            "description": "What a cell can reach over the network.",
            "anyOf": [{ "const": "none" }, rules]
        })
    }
}
