//! What waits for a person's word, and how a person is shown it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Approval, Error, ExecId, HeldId, Tenant, Timestamp};

/// What of one text a person is shown.
const SHOWN_CHARS: usize = 4000;

/// What waits for approval, by the name under which it is answered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalId {
    /// A command, which waits in its cell.
    Exec(ExecId),
    /// Any other call, which waits at the door.
    Held(HeldId),
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(exec) => exec.fmt(f),
            Self::Held(held) => held.fmt(f),
        }
    }
}

impl FromStr for ApprovalId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Ok(exec) = text.parse() {
            return Ok(Self::Exec(exec));
        }
        text.parse().map(Self::Held).map_err(|_: Error| {
            Error::invalid(format!("{text:?} is nothing that waits for approval"))
                .hint("what waits is named e_… or h_…; list it with `hotcell approvals`")
        })
    }
}

impl Serialize for ApprovalId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ApprovalId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// By which name it is answered.
    pub id: ApprovalId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What rules about tools call it.
    pub tool: String,
    /// The cell it is about, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// The exec whose code makes the call, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecId>,
    /// What is to be done: the command, or the call in a few words.
    pub what: String,
    /// Since when it waits.
    pub asked_at: Timestamp,
    /// What asks and why, what it is about, and the answer once there is one.
    pub approval: Approval,
    /// When the call was let through that the approval was given for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Timestamp>,
}

/// All of it, as it is put before a person.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, tenant, tool, cell, exec, what, asked_at, approval, used_at } = self;
        writeln!(f, "{}\n", legible(what))?;
        write!(f, "{tool}")?;
        if let Some(cell) = cell {
            write!(f, " in cell {}", legible(cell))?;
        }
        if let Some(exec) = exec {
            write!(f, ", called by {exec}")?;
        }
        writeln!(
            f,
            ", asked for by {} of tenant {tenant} at {asked_at}",
            legible(&approval.asked_by)
        )?;
        for fact in &approval.facts {
            let (name, value) = (legible(&fact.name), legible(&fact.value));
            match value.contains('\n') {
                true => writeln!(f, "{name}:\n  {}", value.trim_end().replace('\n', "\n  "))?,
                false => writeln!(f, "{name}: {value}")?,
            }
        }
        writeln!(f, "\n{} (rule {})", legible(&approval.reason), approval.rule)?;
        for part in &approval.parts {
            let rule = part.rule.as_deref().unwrap_or("default");
            writeln!(f, "  asks {rule}: {}: {}", legible(&part.what), legible(&part.why))?;
        }
        match &approval.answer {
            Some(answer) => {
                let by = legible(&answer.by);
                writeln!(f, "{id} was {} by {by} at {}", answer.verdict.as_str(), answer.at)?;
            }
            None => writeln!(f, "{id} waits until {}", approval.until)?,
        }
        match used_at {
            Some(at) => writeln!(f, "used at {at}"),
            None => Ok(()),
        }
    }
}

/// Everything that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approvals {
    /// Oldest first.
    pub approvals: Vec<Asked>,
}

/// A call that waits for approval, bound to who made it and to all that it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCall {
    /// What a person sees of it.
    pub asked: Asked,
    /// The keyed digest of the whole request.
    pub digest: String,
}

impl HeldCall {
    /// Who made it.
    #[must_use]
    pub fn caller(&self) -> &str {
        &self.asked.approval.asked_by
    }
}

/// What became of a call that was to be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holding {
    /// It is held now.
    New,
    /// The same call of the same caller is held already, or was answered and not done yet.
    Held(Box<HeldCall>),
    /// So many of its tenant wait that no other may.
    Full(u64),
}

/// A text as it is, without what could hide a part of it from whoever reads; of a long one the
/// beginning.
#[must_use]
pub fn legible(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars().take(SHOWN_CHARS) {
        match char {
            '\n' | '\t' => shown.push(char),
            other if other.is_control() || is_directional(other) => {
                shown.extend(other.escape_unicode());
            }
            other => shown.push(other),
        }
    }
    let more = text.chars().count().saturating_sub(SHOWN_CHARS);
    if more > 0 {
        shown.push_str(&format!("… and {more} more characters"));
    }
    shown
}

/// Characters that make a text look other than it is.
fn is_directional(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
