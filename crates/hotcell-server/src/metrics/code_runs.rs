//! What runs of code came to, whichever process began them: the ledger has it.

use hotcell_model::{Caller, CodeStats, ErrorCode, Result};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::door::Door;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    end: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Share {
    quantile: &'static str,
}

/// A tool that code called; a name that no server has is not counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tool {
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Place {
    place: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// What is known of runs.
pub(super) struct CodeRuns {
    runs: Family<End, Counter>,
    milliseconds: Family<Share, Gauge>,
    calls: Family<Tool, Counter>,
    failures: Family<Tool, Counter>,
    tokens: Family<Place, Gauge>,
    cut: Counter,
    anomalies: Family<Kind, Gauge>,
}

impl CodeRuns {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let known = Self {
            runs: Family::default(),
            milliseconds: Family::default(),
            calls: Family::default(),
            failures: Family::default(),
            tokens: Family::default(),
            cut: Counter::default(),
            anomalies: Family::default(),
        };
        registry.register("code_runs", "Runs of code that ended, by how", known.runs.clone());
        let about = "How long the latest runs of code took at most";
        registry.register("code_run_ms", about, known.milliseconds.clone());
        registry.register("code_tool_calls", "Calls of tools by code", known.calls.clone());
        let about = "Those of them that failed";
        registry.register("code_tool_errors", about, known.failures.clone());
        let about = "Tokens that answers about code showed and kept out, by estimate";
        registry.register("code_tokens", about, known.tokens.clone());
        registry.register("code_answers_cut", "Answers that were cut", known.cut.clone());
        let about = "What stands out in runs of code";
        registry.register("code_anomalies", about, known.anomalies.clone());
        known
    }

    /// Takes over what the ledger has.
    pub(super) async fn look(&mut self, door: &Door, own: &Caller) -> Result<()> {
        let figures = match door.ask(own, CodeStats::default()).await {
            // Where nothing is written down there is nothing to tell.
            Err(error) if error.code == ErrorCode::Unsupported => return Ok(()),
            figures => figures?,
        };
        for end in &figures.ends {
            raise(&self.runs.get_or_create(&End { end: end.name.clone() }), end.count);
        }
        let shares = [("0.5", figures.p50_ms), ("0.95", figures.p95_ms)];
        for (quantile, milliseconds) in shares {
            if let Some(milliseconds) = milliseconds {
                let most = i64::try_from(milliseconds).unwrap_or(i64::MAX);
                self.milliseconds.get_or_create(&Share { quantile }).set(most);
            }
        }
        for found in &figures.tools {
            let tool = Tool { tool: found.tool.clone() };
            raise(&self.calls.get_or_create(&tool), found.calls);
            raise(&self.failures.get_or_create(&tool), found.errors);
        }
        let tokens = [("shown", figures.tokens.shown), ("kept_out", figures.tokens.kept_out)];
        for (place, tokens) in tokens {
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            self.tokens.get_or_create(&Place { place }).set(tokens);
        }
        raise(&self.cut, figures.cut);
        self.anomalies.clear();
        for anomaly in &figures.anomalies {
            self.anomalies.get_or_create(&Kind { kind: anomaly.kind.as_str() }).inc();
        }
        Ok(())
    }
}

/// Brings a counter to what was counted elsewhere.
pub(super) fn raise(counter: &Counter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}
