//! What a caller is shown of a run of code, within one budget of tokens, and what that spares it.

use hotcell_brief::{
    Brief, ErrorPart, Parts, ResultContent, ResultPart, Shown, ShownResult, Strategy, Text,
    estimate_tokens,
};
use hotcell_model::{
    CodeError, CodeOutcome, CodeReport, CodeShown, CodeStatus, CodeTerms, CodeTokens, CodeValue,
    CutStrategy, EndCause, Exec, ExecState, LimitHit, Record, Stream, ToolUse,
};

use crate::CodeSettings;

/// How much of a text is looked at to tell what all of it costs.
const LOOKED_AT: usize = 64 * 1024;

/// What a text costs; a long one by what its beginning costs.
pub(crate) fn cost_of(text: &str) -> u64 {
    if text.len() <= LOOKED_AT {
        return estimate_tokens(text) as u64;
    }
    let end = (0..=LOOKED_AT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let cost = estimate_tokens(&text[..end]) as u64;
    cost.saturating_mul(text.len() as u64) / (end as u64).max(1)
}

/// What there is to show of a run.
#[derive(Debug)]
pub(crate) struct ToShow<'a> {
    pub(crate) exec: &'a Exec,
    pub(crate) printed: Printed<'a>,
    pub(crate) report: Option<&'a CodeReport>,
    pub(crate) tools: &'a [ToolUse],
    pub(crate) strategy: CutStrategy,
    pub(crate) settings: &'a CodeSettings,
}

/// What code printed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Printed<'a> {
    /// All of it, within the bound of a result: it is shown within the budget.
    Here(&'a [Record]),
    /// This is shown as it is, beside the rest.
    Beside(&'a [Record]),
}

impl ToShow<'_> {
    /// What fits the budget.
    pub(crate) fn show(&self) -> (CodeStatus, CodeShown) {
        let status = status_of(self.exec, self.report);
        let error = self.report.and_then(|report| report.error.clone());
        let error = error.or_else(|| ended_by_force(self.exec, status, &self.settings.terms));
        let error = error.map(|error| explained(error, &self.settings.terms));
        let more = format!("exec_poll exec_id={}", self.exec.id);
        let usage = self.exec.end.as_ref().map(|end| end.usage);
        let (records, usage, beside) = match self.printed {
            Printed::Here(records) => (records, usage, 0),
            Printed::Beside(records) => (&[][..], None, cost_of_records(records)),
        };
        let totals = usage.map_or([0; 2], |usage| [usage.stdout_bytes, usage.stderr_bytes]);
        let streams = [Stream::Stdout, Stream::Stderr].map(|it| pieces(records, it));
        let [stdout, stderr] = [0, 1].map(|at| {
            let (head, tail) = &streams[at];
            let lines = [head, tail].map(|part| part.iter().filter(|byte| **byte == b'\n').count());
            Text::pieces(head, tail, totals[at], lines.iter().sum::<usize>() as u64).read_by(&more)
        });
        let file = self.report.and_then(|report| report.result_file.as_ref());
        let file = file.map(|path| format!("fs_read {path}"));
        let result = self.report.and_then(|report| report.result.as_ref());
        let parts = Parts {
            stdout,
            stderr,
            result: result.map(|value| ResultPart {
                content: match value {
                    CodeValue::Json(value) => ResultContent::Json(value),
                    CodeValue::Repr(text) | CodeValue::Preview(text) => {
                        ResultContent::Text(Text::whole(text))
                    }
                },
                more: file.as_deref(),
            }),
            error: error.as_ref().map(|error| ErrorPart {
                kind: &error.kind,
                message: &error.message,
                traceback: &error.traceback,
                more: None,
            }),
        };
        let shown = Brief::new(self.settings.tokens, strategy(self.strategy)).show(&parts);
        let printed = streams.iter().zip(totals).map(|((head, tail), total)| {
            let at_hand = (head.len() + tail.len()) as u64;
            let [head, tail] = [head, tail].map(|part| cost_of(&String::from_utf8_lossy(part)));
            let cost = head + tail;
            cost.saturating_mul(total.max(at_hand)) / at_hand.max(1)
        });
        let said = result.map_or(0, cost_of_value) + error.as_ref().map_or(0, cost_of_error);
        let own = printed.sum::<u64>() + said + beside;
        let answered: u64 = self.tools.iter().map(|tool| tool.tokens).sum();
        let tokens = tokens(own.max(answered), shown.tokens as u64 + beside);
        (status, told(shown, error.and_then(|error| error.line), tokens))
    }
}

/// What of all that there was in a run is shown, and what is not.
fn tokens(inside: u64, shown: u64) -> CodeTokens {
    CodeTokens { shown, kept_out: inside.saturating_sub(shown) }
}

fn strategy(chosen: CutStrategy) -> Strategy {
    match chosen {
        CutStrategy::Auto => Strategy::Auto,
        CutStrategy::Truncate => Strategy::Truncate,
        CutStrategy::Summarise => Strategy::Summarise,
        CutStrategy::Sample => Strategy::Sample,
    }
}

/// What output costs that is shown as it is.
pub(crate) fn cost_of_records(records: &[Record]) -> u64 {
    records.iter().map(|record| cost_of(&String::from_utf8_lossy(&record.bytes))).sum()
}

fn cost_of_value(value: &CodeValue) -> u64 {
    match value {
        CodeValue::Json(value) => cost_of(&value.to_string()),
        CodeValue::Repr(text) | CodeValue::Preview(text) => cost_of(text),
    }
}

fn cost_of_error(error: &CodeError) -> u64 {
    [&error.kind, &error.message, &error.traceback].into_iter().map(|text| cost_of(text)).sum()
}

fn told(shown: Shown, line: Option<u64>, tokens: CodeTokens) -> CodeShown {
    CodeShown {
        stdout: shown.stdout,
        stderr: shown.stderr,
        result: shown.result.map(|shown| match shown {
            ShownResult::Json(value) => value,
            ShownResult::Text(text) => text.into(),
        }),
        error: shown.error.map(|shown| CodeError {
            kind: shown.kind,
            message: shown.message,
            traceback: shown.traceback,
            line,
        }),
        cut: shown.cut.iter().filter_map(|cut| serde_json::to_value(cut).ok()).collect(),
        tokens,
    }
}

/// The beginning and the end of a stream; the end is empty where nothing is missing between them.
fn pieces(records: &[Record], stream: Stream) -> (Vec<u8>, Vec<u8>) {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut last = 0;
    let mut after_gap = false;
    for record in records {
        after_gap |= record.seq > last + 1;
        last = record.seq;
        if record.stream == stream {
            let part = if after_gap { &mut tail } else { &mut head };
            part.extend_from_slice(&record.bytes);
        }
    }
    (head, tail)
}

fn status_of(exec: &Exec, report: Option<&CodeReport>) -> CodeStatus {
    match (exec.state, exec.end.as_ref().map(|end| (end.cause, end.exit_code))) {
        (ExecState::Queued | ExecState::Running, _) | (ExecState::Ended, None) => {
            CodeStatus::Running
        }
        (ExecState::Ended, Some((EndCause::TimedOut, _))) => CodeStatus::TimedOut,
        (ExecState::Ended, Some((EndCause::Cancelled, _))) => CodeStatus::Cancelled,
        (ExecState::Ended, Some((EndCause::Denied, _))) => CodeStatus::Denied,
        (ExecState::Ended, Some((EndCause::Exited, Some(0))))
            if report.is_none_or(|report| report.status == CodeOutcome::Ok) =>
        {
            CodeStatus::Ok
        }
        (
            ExecState::Ended,
            Some((EndCause::Exited | EndCause::Signaled | EndCause::OomKilled | EndCause::Lost, _)),
        ) => CodeStatus::Error,
    }
}

/// What stands for an error of code that could not report one.
fn ended_by_force(exec: &Exec, status: CodeStatus, terms: &CodeTerms) -> Option<CodeError> {
    let end = exec.end.as_ref().filter(|_| status != CodeStatus::Ok)?;
    let message = match (end.limit, end.exit_code, end.signal) {
        (Some(LimitHit::Cpu), ..) => {
            let seconds = terms.cpu_ms.unwrap_or(end.usage.cpu_ms) as f64 / 1000.0;
            format!("the run used {seconds} s of CPU time, which is the most (code.cpu_s)")
        }
        (_, Some(code), _) => format!("the process exited with code {code}"),
        (_, None, Some(signal)) => format!("the process was ended by {signal}"),
        (_, None, None) => "the process never ran or was lost".to_owned(),
    };
    Some(CodeError { kind: end.cause.as_str().to_owned(), message, ..CodeError::default() })
}

/// Python says nothing of how much memory there was.
fn explained(mut error: CodeError, terms: &CodeTerms) -> CodeError {
    if let ("MemoryError", true, Some(most)) =
        (error.kind.as_str(), error.message.is_empty(), terms.memory_mb)
    {
        error.message = format!("a process of the run may have {most} MiB (code.memory_mb)");
    }
    error
}
