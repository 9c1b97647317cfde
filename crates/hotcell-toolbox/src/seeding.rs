//! What is decided about a tool before anybody wrote a rule for it.

use hotcell_model::PolicyDecision;

use crate::listing::ToolListing;
use crate::stub::ToolPolicy;

/// Whether an operator takes a server at its word. What a server says of its own tools is a claim:
/// only the operator's configuration may make it count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Its annotations count.
    Annotations,
    /// They do not.
    Nothing,
}

/// The decision about a tool of which no rule speaks.
#[must_use]
pub fn seeded_policy(tool: &ToolListing, trust: Trust) -> ToolPolicy {
    let hints = tool.annotations.clone().unwrap_or_default();
    let (decision, why) = match (trust, hints.read_only_hint, hints.destructive_hint) {
        (Trust::Annotations, Some(true), None | Some(false)) => {
            (PolicyDecision::Allow, "no rule; the server says that it only reads")
        }
        (Trust::Annotations, Some(true), Some(true)) => {
            (PolicyDecision::Ask, "no rule; the server says both that it reads only and destroys")
        }
        (Trust::Annotations, Some(false) | None, Some(true)) => {
            (PolicyDecision::Ask, "no rule; the server says that it may destroy")
        }
        (Trust::Annotations, Some(false), None | Some(false)) => {
            (PolicyDecision::Ask, "no rule; the server says that it changes things")
        }
        (Trust::Annotations, None, None | Some(false)) => {
            (PolicyDecision::Ask, "no rule, and the server does not say what it does")
        }
        (Trust::Nothing, _, _) => (PolicyDecision::Ask, "no rule"),
    };
    ToolPolicy { decision, why: why.to_owned() }
}
