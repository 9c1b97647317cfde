//! Command lines that may be run, as regular expressions: an allow-list of the operator's on top of the rules.

use regex::Regex;

use crate::finding::{Dynamic, Finding, Kind};
use crate::policy::PolicyError;
use crate::walk::takes_code;

/// The longest list: each line of a text is held against all of them.
const MOST_BYTES: usize = 64 << 10;

/// Patterns of which one has to fit every command that is run. It may fit anywhere, but for a command
/// that runs what cannot be seen, such as code of another language or a file: that is known by its
/// beginning.
#[derive(Debug, Clone, Default)]
pub struct AllowedLines {
    patterns: Vec<(String, Regex)>,
}

impl AllowedLines {
    /// The rule that a refusal names.
    pub const RULE: &'static str = "policy.lines";

    /// Patterns with commas between; one that is meant literally is `\,` or in braces such as `{2,3}`.
    ///
    /// # Errors
    /// One of them is no regular expression, or they are too long together.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        if text.len() > MOST_BYTES {
            let why = format!("the patterns are longer than {MOST_BYTES} bytes together");
            return Err(PolicyError::Line { pattern: String::new(), why });
        }
        let patterns = split(text).into_iter().map(|pattern| match Regex::new(&pattern) {
            Ok(regex) => Ok((pattern, regex)),
            Err(error) => {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim().to_owned();
                Err(PolicyError::Line { pattern, why })
            }
        });
        Ok(Self { patterns: patterns.collect::<Result<_, _>>()? })
    }

    /// Whether any line may be run.
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The patterns as they were written.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|(pattern, _)| pattern.as_str())
    }

    /// Whether something that was found may not be run. Of a text that cannot be read nothing is known.
    pub(crate) fn refuse(&self, finding: &Finding) -> bool {
        if self.are_all() {
            return false;
        }
        match finding.kind {
            Kind::Command => !self.fit(finding),
            Kind::Text => finding.dynamic.contains(&Dynamic::Unparsable),
            Kind::Function
            | Kind::Redirect
            | Kind::Import
            | Kind::Call
            | Kind::Image
            | Kind::Egress
            | Kind::Secret
            | Kind::Tool
            | Kind::File => false,
        }
    }

    fn fit(&self, finding: &Finding) -> bool {
        let line = line_of(finding);
        let name = finding.name.as_deref().unwrap_or_default();
        let hides = !finding.dynamic.is_empty() || finding.path.is_some() || takes_code(name);
        self.patterns
            .iter()
            .any(|(_, regex)| regex.find(&line).is_some_and(|found| !hides || found.start() == 0))
    }
}

/// A command as it would be typed, without quotes.
fn line_of(finding: &Finding) -> String {
    let name = finding.path.as_deref().or(finding.name.as_deref()).unwrap_or_default();
    let mut line = name.to_owned();
    for arg in &finding.args {
        line.push(' ');
        line.push_str(&arg.text);
    }
    line
}

/// Splits at commas that are not escaped and not within braces, brackets or parentheses.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut depth, mut escaped) = (0_u32, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => {}
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        part.push(letter);
    }
    parts.push(part);
    let parts = parts.into_iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}
