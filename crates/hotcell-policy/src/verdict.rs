//! What was decided, part by part, for programs and for people.

use std::fmt;

use serde::Serialize;

use crate::finding::{Finding, Kind};
use crate::rules::Decision;

/// One thing that was found, and what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub decision: Decision,
    /// The rule that decided; none if it was the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, in words.
    pub why: String,
    #[serde(flatten)]
    pub finding: Finding,
}

/// A decision about the whole: the strictest of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub decision: Decision,
    /// The rule that decided; none if it was the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, in words; empty if nothing was found that could be judged.
    pub reason: String,
    /// Something is removed that was there.
    pub destructive: bool,
    /// Something may be replaced that was there.
    pub overwrites: bool,
    /// Something in it cannot be known before it runs.
    pub dynamic: bool,
    pub parts: Vec<Part>,
}

impl Verdict {
    pub(crate) fn of(parts: Vec<Part>) -> Self {
        let decision = parts.iter().map(|part| part.decision).max().unwrap_or(Decision::Allow);
        let deciding = parts.iter().find(|part| part.decision == decision);
        Self {
            decision,
            rule: deciding.and_then(|part| part.rule.clone()),
            reason: deciding.map(|part| part.why.clone()).unwrap_or_default(),
            destructive: parts.iter().any(|part| part.finding.destructive),
            overwrites: parts.iter().any(|part| part.finding.overwrites),
            dynamic: parts.iter().any(|part| !part.finding.dynamic.is_empty()),
            parts,
        }
    }

    /// The part that decided.
    #[must_use]
    pub fn deciding(&self) -> Option<&Part> {
        self.parts.iter().find(|part| part.decision == self.decision)
    }

    /// One sentence for whoever is refused or asked: what, by which rule, and why.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(part) = self.deciding() else {
            return self.decision.name().to_owned();
        };
        let what = &part.finding.what;
        let by = match &part.rule {
            Some(rule) => format!("rule `{rule}`"),
            None => "the default of the policy".to_owned(),
        };
        let verb = match self.decision {
            Decision::Allow => "is allowed by",
            Decision::Ask => "must be approved by a person, says",
            Decision::Deny => "is denied by",
        };
        format!("`{what}` {verb} {by}: {}", part.why)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.decision.name(), self.sentence())?;
        for part in &self.parts {
            writeln!(f, "  {part}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finding = &self.finding;
        write!(f, "{:5} ", self.decision.name())?;
        if let Some(line) = finding.line {
            write!(f, "line {line}: ")?;
        }
        let kind = match finding.kind {
            Kind::Command | Kind::Redirect => "",
            Kind::Function => "function ",
            Kind::Text => "text: ",
            Kind::Import => "import ",
            Kind::Call => "call ",
            Kind::Image => "image ",
            Kind::Egress => "egress ",
            Kind::Secret => "secret ",
            Kind::Tool => "tool ",
            Kind::File => "file ",
        };
        write!(f, "{kind}{}", finding.what)?;
        let mut notes: Vec<String> = Vec::new();
        if !finding.via.is_empty() {
            notes.push(format!("through {}", finding.via.join(" → ")));
        }
        if finding.as_root {
            notes.push("as root".to_owned());
        }
        if finding.destructive {
            notes.push("destructive".to_owned());
        }
        if finding.overwrites {
            notes.push("overwrites".to_owned());
        }
        for touch in &finding.touches {
            notes.push(format!("writes {}", touch.path.text));
        }
        if let Some(hosts) = &finding.network {
            let hosts: Vec<&str> = hosts.iter().map(|host| host.text.as_str()).collect();
            notes.push(format!("network {}", hosts.join(" ")).trim_end().to_owned());
        }
        notes.extend(finding.dynamic.iter().map(|what| what.describe().to_owned()));
        if !notes.is_empty() {
            write!(f, "  [{}]", notes.join("; "))?;
        }
        match &self.rule {
            Some(rule) => write!(f, "  — rule {rule}: {}", self.why),
            None => write!(f, "  — {}", self.why),
        }
    }
}
