//! Commands in containers.

use hotcell_model::{
    CancelStatus, Command, Dropped, EndCause, ErrorCode, Exec, ExecCancel, ExecEnd, ExecId,
    ExecInput, ExecList, ExecPage, ExecPoll, ExecRun, ExecState, ExecStatusFilter, ExecWait,
    LimitHit, OutputFilter, OutputView, Record, Signal,
};
use serde_json::{Value, json};

use super::cells::container;
use super::errors::{About, Refused};
use super::{Answered, Bench, inputs};
use crate::tool::answer;

/// Between the request to end and the end.
pub(super) const GRACE_S: f64 = 10.0;
const CANCEL_GRACE_S: f64 = 5.0;
/// What is ended has ended so much after that.
const ENDED_WITHIN_S: f64 = 5.0;
const PAGE_BYTES: u64 = 4 << 20;
const LISTED_AT_ONCE: u32 = 1000;
/// The exit code of a command of which nobody knows one.
const NO_EXIT_CODE: i32 = -1;

fn exec_id(name: &str) -> Result<ExecId, Refused> {
    name.parse().map_err(|_| Refused::no_exec(name))
}

fn of_exec(name: &str) -> impl FnOnce(hotcell_model::Error) -> Refused {
    move |error| match error.code == ErrorCode::NotFound {
        true => Refused::no_exec(name),
        false => About::Rest.refused()(error),
    }
}

impl Bench {
    pub(super) async fn exec_start(&self, input: inputs::ExecStart) -> Answered {
        let run = ExecRun {
            cwd: input.cwd,
            env: input.env.unwrap_or_default(),
            as_root: input.as_root,
            timeout_s: Some(f64::from(input.timeout_s)),
            idempotency_key: input.idempotency_key,
            ..ExecRun::new(container(&input.container_id)?, Command::Argv(input.cmd))
        };
        let begun = match self.asking.ask(run).await {
            Ok(begun) => begun,
            Err(error) => {
                let refused = About::Start.refused()(error);
                return Err(self.in_container(&input.container_id, refused).await);
            }
        };
        Ok(answer(&json!({ "exec_id": begun.exec.id, "status": "running" })))
    }

    pub(super) async fn exec_poll(&self, input: inputs::ExecPoll) -> Answered {
        let inputs::ExecPoll { exec_id: name, after_seq } = input;
        let exec = exec_id(&name)?;
        let ExecPage { exec: of, records, next_seq, complete, dropped, .. } =
            self.page(&exec, after_seq, PAGE_BYTES).await.map_err(of_exec(&name))?;
        let is_told = complete && records.is_empty() && after_seq > 0 && {
            // Whoever has seen the last message of all polls after that.
            let before = self.page(&exec, after_seq - 1, 1).await.map_err(of_exec(&name))?;
            before.records.is_empty()
        };
        let last_seq = records.last().map_or(next_seq, |record| record.seq.max(next_seq));
        let mut messages: Vec<Value> = records.into_iter().map(message).collect();
        if let (true, false, Some(end)) = (complete, is_told, &of.end) {
            messages.push(json!({
                "seq": last_seq + 1,
                "stream": null,
                "data": null,
                "ts": end.ended_at,
                "exit_code": exit_code(end),
                "usage": usage(end),
                "complete": true,
            }));
        }
        let mut told = json!({ "messages": messages, "complete": complete });
        if let Some(Dropped { dropped_bytes, from_seq, to_seq }) = dropped {
            told["dropped"] =
                json!({ "bytes": dropped_bytes, "from_seq": from_seq, "to_seq": to_seq });
        }
        Ok(answer(&told))
    }

    async fn page(
        &self,
        exec: &ExecId,
        after_seq: u64,
        max_bytes: u64,
    ) -> hotcell_model::Result<ExecPage> {
        let filter = OutputFilter::default();
        let poll = ExecPoll {
            exec: exec.clone(),
            after_seq,
            wait_s: 0.0,
            filter,
            max_bytes,
            view: OutputView::first_output(),
        };
        self.asking.ask(poll).await
    }

    pub(super) async fn exec_cancel(&self, input: inputs::OfExec) -> Answered {
        let name = input.exec_id;
        let exec = exec_id(&name)?;
        let status = match self.ask_to_end(&exec, CANCEL_GRACE_S).await? {
            CancelStatus::Cancelled => {
                self.wait_for_end(&exec, CANCEL_GRACE_S).await?;
                "cancelled"
            }
            CancelStatus::AlreadyEnded => "completed",
            CancelStatus::NotFound => return Err(Refused::no_exec(&name)),
        };
        Ok(answer(&json!({ "status": status, "exec_id": name })))
    }

    /// Ends execs, all at once, and waits until they and all their descendants are gone.
    pub(super) async fn end_all(&self, execs: &[ExecId], grace_s: f64) -> Result<(), Refused> {
        let mut ending = Vec::new();
        for exec in execs {
            if self.ask_to_end(exec, grace_s).await? == CancelStatus::Cancelled {
                ending.push(exec);
            }
        }
        for exec in ending {
            self.wait_for_end(exec, grace_s).await?;
        }
        Ok(())
    }

    async fn ask_to_end(&self, exec: &ExecId, grace_s: f64) -> Result<CancelStatus, Refused> {
        let cancel = ExecCancel { exec: exec.clone(), signal: Signal::TERM, grace_s };
        let cancelled = self.asking.ask(cancel).await.map_err(About::Rest.refused())?;
        Ok(cancelled.status)
    }

    async fn wait_for_end(&self, exec: &ExecId, grace_s: f64) -> Result<(), Refused> {
        let wait_s = grace_s + ENDED_WITHIN_S;
        let wait = ExecWait { exec: exec.clone(), wait_s, result_bytes: 0 };
        self.asking.ask(wait).await.map_err(About::Rest.refused())?;
        Ok(())
    }

    pub(super) async fn exec_signal(&self, input: inputs::ExecSignal) -> Answered {
        let name = input.exec_id;
        let signal: Signal = input.signal.parse()?;
        let sent = ExecInput { signal: Some(signal), ..ExecInput::to(exec_id(&name)?) };
        self.asking.ask(sent).await.map_err(of_exec(&name))?;
        Ok(answer(&json!({ "status": "signaled", "exec_id": name })))
    }

    pub(super) async fn list_execs(&self) -> Answered {
        let mut execs: Vec<Value> = Vec::new();
        let mut cursor = None;
        loop {
            let status = Some(ExecStatusFilter::Live);
            let list = ExecList { cell: None, status, limit: LISTED_AT_ONCE, cursor };
            let page = self.asking.ask(list).await.map_err(About::Rest.refused())?;
            execs.extend(page.execs.iter().map(listed));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(answer(&json!({ "execs": execs })));
            }
        }
    }
}

fn message(record: Record) -> Value {
    json!({
        "seq": record.seq,
        "stream": record.stream,
        "data": String::from_utf8_lossy(&record.bytes),
        "ts": record.ts,
        "exit_code": null,
        "usage": null,
        "complete": false,
    })
}

/// As a shell tells it.
fn exit_code(end: &ExecEnd) -> i32 {
    let signaled = || end.signal.map(|signal| 128 + signal.number());
    end.exit_code.or_else(signaled).unwrap_or(NO_EXIT_CODE)
}

fn usage(end: &ExecEnd) -> Value {
    let mut usage = json!({
        "wall_ms": end.usage.wall_ms,
        "stdout_bytes": end.usage.stdout_bytes,
        "stderr_bytes": end.usage.stderr_bytes,
        "cpu_ms": end.usage.cpu_ms,
        "max_rss_kb": end.usage.max_rss_kb,
    });
    let why = match end.cause {
        EndCause::Exited | EndCause::Signaled => None,
        EndCause::TimedOut => Some("timeout"),
        EndCause::Cancelled => Some("cancelled"),
        EndCause::OomKilled => Some("oom_killed"),
        EndCause::Lost => Some("lost"),
        EndCause::Denied => Some("denied"),
    };
    if let Some(why) = why {
        usage[why] = true.into();
    }
    if end.limits_hit.contains(&LimitHit::Output) {
        usage["output_dropped"] = true.into();
    }
    usage
}

fn listed(exec: &Exec) -> Value {
    let cmd = match &exec.command {
        Command::Argv(words) => words.clone(),
        Command::Shell(_) | Command::Code(_) => vec![exec.command.to_string()],
    };
    let status = match exec.state {
        ExecState::Queued => "queued",
        ExecState::Running => "running",
        ExecState::Ended => "completed",
    };
    json!({
        "exec_id": exec.id,
        "container_id": exec.cell,
        "cmd": cmd,
        "as_root": exec.as_root,
        "started_at": exec.started_at.unwrap_or(exec.queued_at),
        "status": status,
    })
}
