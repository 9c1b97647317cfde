//! The policy in force: which rules there are, and what they decide.

use crate::act::{Act, found_in};
use crate::finding::{Dynamic, Finding, Kind};
use crate::lines::AllowedLines;
use crate::rules::{Conditions, Decision, NameSet, Rule, Rules, fits, read};
use crate::verdict::{Part, Verdict};
use crate::walk::Around;

/// Profiles that are always there: a name, and the rules.
const PROFILES: &[(&str, &str)] = &[
    ("open", include_str!("profiles/open.toml")),
    ("careful", include_str!("profiles/careful.toml")),
    ("allowlist", include_str!("profiles/allowlist.toml")),
    ("blocklist", include_str!("profiles/blocklist.toml")),
    ("dangerous", include_str!("profiles/dangerous.toml")),
    ("vibesbox", include_str!("profiles/vibesbox.toml")),
];

/// Why rules cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No profile has this name.
    #[error("no profile is called `{name}`; there are {known}")]
    Profile { name: String, known: String },
    /// The file is no TOML.
    #[error("{origin}, line {line}: {what}")]
    Syntax { origin: String, line: usize, what: String },
    /// A pattern of command lines cannot be used.
    #[error("the pattern {pattern:?} cannot be used: {why}")]
    Line { pattern: String, why: String },
    /// A key or a value is wrong.
    #[error("{origin}, line {line}: {}`{key}` {what}", .rule.as_ref().map(|rule| format!("rule `{rule}`: ")).unwrap_or_default())]
    Rule { origin: String, line: usize, rule: Option<String>, key: String, what: String },
}

impl PolicyError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Profile { .. } => "set policy.profile to one of them",
            Self::Syntax { .. } => "correct the line; docs/policy.md has examples",
            Self::Line { .. } => "policy.lines has regular expressions with commas between",
            Self::Rule { .. } => "correct the rule; docs/policy.md lists the keys of rules",
        }
    }
}

/// Rules in the order in which they are asked.
#[derive(Debug, Clone)]
pub struct Policy {
    profile: String,
    default: Decision,
    rules: Vec<Rule>,
    lines: AllowedLines,
}

impl Policy {
    /// The names of the profiles.
    pub fn profiles() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().map(|(name, _)| *name)
    }

    /// The rules of the operator, if there are any, followed by those of a profile.
    ///
    /// # Errors
    /// When the profile is not known, or the operator's rules are not right: with line, rule and key.
    pub fn parse(operator: Option<&str>, profile: &str) -> Result<Self, PolicyError> {
        let base = profile_rules(profile)?;
        let mut policy = Self {
            profile: profile.to_owned(),
            default: base.default.unwrap_or(Decision::Allow),
            rules: Vec::new(),
            lines: AllowedLines::default(),
        };
        if let Some(text) = operator {
            let own = read(text, "policy file")?;
            policy.default = own.default.unwrap_or(policy.default);
            policy.extend(own.rules);
            policy.include(&own.include)?;
        }
        // A profile has what it includes before its own rules: a block list is no use after them.
        policy.include(&base.include)?;
        policy.extend(base.rules);
        Ok(policy)
    }

    /// The same, where of what the rules allow only these command lines may be run.
    #[must_use]
    pub fn with_lines(self, lines: AllowedLines) -> Self {
        Self { lines, ..self }
    }

    fn include(&mut self, profiles: &[String]) -> Result<(), PolicyError> {
        for name in profiles {
            let included = profile_rules(name)?;
            self.include(&included.include)?;
            self.extend(included.rules);
        }
        Ok(())
    }

    /// Adds rules; one whose id is there already is left out.
    fn extend(&mut self, rules: Vec<Rule>) {
        for rule in rules {
            if !self.rules.iter().any(|known| known.id == rule.id) {
                self.rules.push(rule);
            }
        }
    }

    /// The profile it was made from.
    #[must_use]
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Whether whatever is asked is allowed, so that one need not ask.
    #[must_use]
    pub fn allows_all(&self) -> bool {
        self.default == Decision::Allow
            && self.lines.are_all()
            && self.rules.iter().all(|rule| rule.decision == Decision::Allow)
    }

    /// The commands that rules allow by name alone, where nothing else is allowed.
    #[must_use]
    pub fn allowed_commands(&self) -> Vec<&str> {
        let allows = |rule: &&Rule| {
            let Conditions { via, direct, .. } = &rule.conditions;
            rule.decision == Decision::Allow && via.is_none() && direct.is_none()
        };
        let mut names: Vec<&str> = match self.default {
            Decision::Deny => {
                let rules = self.rules.iter().filter(allows);
                let sets = rules.filter_map(|rule| rule.conditions.command.as_ref());
                sets.flat_map(NameSet::plain).collect()
            }
            Decision::Allow | Decision::Ask => Vec::new(),
        };
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Decides. Of the rules that fit a part the first decides, of the parts the strictest.
    #[must_use]
    pub fn decide(&self, act: &Act<'_>) -> Verdict {
        self.decide_in(act, Around::default())
    }

    /// Decides about something that starts with variables set, and reads what is known.
    #[must_use]
    pub fn decide_in(&self, act: &Act<'_>, around: Around<'_>) -> Verdict {
        let parts: Vec<Part> =
            found_in(act, around).into_iter().map(|finding| self.judge(finding)).collect();
        Verdict::of(parts)
    }

    fn judge(&self, finding: Finding) -> Part {
        let part = self.judge_by_rules(finding);
        if part.decision == Decision::Deny || !self.lines.refuse(&part.finding) {
            return part;
        }
        let (rule, why) = (Some(AllowedLines::RULE.to_owned()), "no allowed line fits".to_owned());
        Part { decision: Decision::Deny, rule, why, finding: part.finding }
    }

    fn judge_by_rules(&self, finding: Finding) -> Part {
        if let Some(rule) = self.rules.iter().find(|rule| fits(rule, &finding)) {
            let unread =
                finding.kind == Kind::Text && finding.dynamic.contains(&Dynamic::Unparsable);
            let why = match rule.reason.as_str() {
                "" => format!("rule `{}` fits", rule.id),
                reason if unread => format!("{reason}: {}", finding.what),
                reason => reason.to_owned(),
            };
            return Part { decision: rule.decision, rule: Some(rule.id.clone()), why, finding };
        }
        let (decision, why) = match finding.kind {
            Kind::Command | Kind::Text => {
                (self.default, format!("no rule fits, and the default is {}", self.default.name()))
            }
            Kind::Function => {
                (Decision::Allow, "a function of the text, whose body was looked at".to_owned())
            }
            Kind::Redirect
            | Kind::Import
            | Kind::Call
            | Kind::Image
            | Kind::Egress
            | Kind::Secret
            | Kind::Tool
            | Kind::File => (Decision::Allow, "no rule fits".to_owned()),
        };
        Part { decision, rule: None, why, finding }
    }
}

fn profile_rules(name: &str) -> Result<Rules, PolicyError> {
    match PROFILES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => read(text, name),
        None => Err(PolicyError::Profile {
            name: name.to_owned(),
            known: Policy::profiles().collect::<Vec<_>>().join(", "),
        }),
    }
}
