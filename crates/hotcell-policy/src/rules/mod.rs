//! Rules: what they say, how they are read, and whether one fits what was found.

mod fit;
mod glob;
mod reader;

#[cfg(test)]
mod glob_tests;

use serde::Serialize;

pub(crate) use self::fit::fits;
pub(crate) use self::glob::{Glob, NameSet};
pub(crate) use self::reader::{Rules, read};
use crate::finding::Dynamic;

/// What is decided, from mild to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may be done.
    Allow,
    /// A person is asked first.
    Ask,
    /// It is refused.
    Deny,
}

impl Decision {
    /// As rules write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// What a rule says about the network.
#[derive(Debug, Clone)]
pub(crate) enum OnNetwork {
    Used(bool),
    Hosts(Vec<Glob>),
}

/// What a rule says about what cannot be known.
#[derive(Debug, Clone)]
pub(crate) enum OnDynamic {
    Any(bool),
    Kinds(Vec<Dynamic>),
}

/// The conditions of a rule; all that are given must hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    pub(crate) command: Option<NameSet>,
    /// Each an option under all its names, of which one must be given.
    pub(crate) flags: Option<Vec<Vec<String>>>,
    pub(crate) args: Option<Vec<Glob>>,
    pub(crate) args_any: Option<Vec<Glob>>,
    pub(crate) args_first: Option<Vec<Glob>>,
    pub(crate) writes: Option<Vec<Glob>>,
    pub(crate) writes_outside: Option<Vec<Glob>>,
    pub(crate) redirects: Option<Vec<Glob>>,
    pub(crate) network: Option<OnNetwork>,
    pub(crate) dynamic: Option<OnDynamic>,
    /// What may be unknown although the rule allows.
    pub(crate) tolerates: Vec<Dynamic>,
    pub(crate) destructive: Option<bool>,
    pub(crate) overwrites: Option<bool>,
    pub(crate) as_root: Option<bool>,
    pub(crate) fork_bomb: Option<bool>,
    pub(crate) via: Option<Vec<Glob>>,
    pub(crate) direct: Option<bool>,
    pub(crate) sets: Option<Vec<Glob>>,
    pub(crate) imports: Option<Vec<Glob>>,
    pub(crate) calls: Option<Vec<Glob>>,
    pub(crate) image: Option<Vec<Glob>>,
    pub(crate) egress: Option<Vec<Glob>>,
    pub(crate) secret: Option<Vec<Glob>>,
    pub(crate) tool: Option<Vec<Glob>>,
}

/// One rule.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) decision: Decision,
    pub(crate) reason: String,
    /// Whether it also decides where its conditions may hold or not.
    pub(crate) on_unknown: bool,
    pub(crate) conditions: Conditions,
}
