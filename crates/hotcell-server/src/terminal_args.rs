//! What callers say about waiting for output, the form of output and keys.

use hotcell_model::{Error, OutputForm, OutputView, Result, Until, WaitBound};
use schemars::JsonSchema;
use serde::Deserialize;

/// How long a call waits that says what for, but not how long.
pub(crate) const DEFAULT_WAIT_S: f64 = 10.0;

/// What a call waits for, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UntilName {
    Output,
    Settled,
    Waiting,
    Match,
    End,
}

/// What a call waits for, and the form of its output.
pub(crate) fn output_view(
    until: Option<UntilName>,
    pattern: Option<String>,
    screen: bool,
) -> Result<OutputView> {
    let until = match (until, pattern) {
        (None, None) => None,
        (Some(UntilName::Match) | None, Some(pattern)) => Some(Until::Match(pattern)),
        (Some(UntilName::Match), None) => {
            return Err(Error::invalid("until: \"match\" needs a pattern").hint(
                "add pattern, a regular expression, for example \"listening on port \\\\d+\"",
            ));
        }
        (Some(_), Some(pattern)) => {
            return Err(Error::invalid(format!(
                "pattern {pattern:?} is only for until: \"match\""
            ))
            .hint("leave pattern out, or use until: \"match\""));
        }
        (Some(UntilName::Output), None) => Some(Until::Output),
        (Some(UntilName::Settled), None) => Some(Until::Settled),
        (Some(UntilName::Waiting), None) => Some(Until::Waiting),
        (Some(UntilName::End), None) => Some(Until::End),
    };
    let form = if screen { OutputForm::Screen } else { OutputForm::Records };
    Ok(OutputView { until, form, bound: WaitBound::Given })
}

/// How long a poll waits: not at all, unless it says what for.
pub(crate) fn poll_wait(wait_s: Option<f64>, view: &OutputView) -> f64 {
    wait_s.unwrap_or(if view.until.is_some() { DEFAULT_WAIT_S } else { 0.0 })
}

/// How long input waits for its answer. Where nothing is said, a program in a terminal has time to
/// settle, and any other one only a moment.
pub(crate) fn input_wait(wait_s: Option<f64>, view: &mut OutputView) -> f64 {
    if wait_s.is_none() && view.until.is_none() {
        view.bound = WaitBound::ByKind;
    }
    wait_s.unwrap_or(DEFAULT_WAIT_S)
}
