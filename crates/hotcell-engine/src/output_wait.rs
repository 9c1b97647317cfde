//! Waits for what an exec prints: until it is quiet, asks for input, matches a pattern, or ends.

use std::time::Duration;

use hotcell_journal::{Ended, LogReader};
use hotcell_link::{FollowEvent, Following, ProgramState};
use hotcell_model::{Exec, ExecState, Pace, Result, Timestamp, Until};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::exec_run::Questions;
use crate::exec_stream::ExecStream;
use crate::input_echo::{AnswerText, Reader};
use crate::page::compile;
use crate::pattern_match::{Found, Matching};
use crate::program_watch::{Asking, ProgramWatch, QUIET, QUIET_BLOCKED};
use crate::site::Site;
use crate::view::View;
use crate::{exec_poll, fault};

/// Input whose answer is waited for.
pub(crate) struct SentInput {
    /// The text that its terminal shows after it.
    pub(crate) answer: AnswerText,
    pub(crate) reader: Reader,
}

/// What came of a wait for output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) asking: Asking,
    /// Whether the pattern was found; `None` when none was waited for.
    pub(crate) matched: Option<bool>,
}

/// Reports when an exec that is waited for asks for input: it is blocked reading its terminal or
/// standard input after the beginning of a line, or for a second after a whole line.
pub(crate) struct QuestionWatch {
    watch: Option<ProgramWatch>,
    questions: Questions,
    seq: u64,
}

impl QuestionWatch {
    pub(crate) fn new(exec: &Exec, questions: Questions) -> Self {
        let watch = (questions != Questions::None).then(|| ProgramWatch::new(exec));
        Self { watch, questions, seq: 0 }
    }

    /// When to look next, if that makes sense.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.watch.as_ref().map(ProgramWatch::next_look)
    }

    /// Looks at the program.
    pub(crate) async fn look(&mut self, site: &Site, stream: &ExecStream) -> Asking {
        let Some(watch) = &mut self.watch else { return Asking::No };
        if stream.last_seq() > self.seq {
            self.seq = stream.last_seq();
            watch.note_output();
            return Asking::No;
        }
        let (state, asking) = watch.look_again(site, self.seq).await;
        // A program that works may watch its input beside that, or pause between lines.
        let is_sure =
            stream.ends_in_line() || watch.is_reading() && watch.quiet_for() >= QUIET_BLOCKED;
        if asking == Asking::Yes && !is_sure {
            watch.put_off();
        }
        if state == ProgramState::Unknown && self.questions == Questions::Possible {
            self.watch = None;
        }
        if is_sure { asking } else { Asking::No }
    }
}

/// Waits for an exec's output.
pub(crate) struct OutputWait<'a> {
    site: &'a Site,
    exec: Exec,
    view: &'a View,
    watch: ProgramWatch,
    following: Option<Following>,
    /// The last seq that is known of.
    seq: u64,
    /// When something was printed last that the caller has not seen.
    printed_at: Option<Instant>,
    /// How much was printed meanwhile.
    bytes: u64,
}

impl<'a> OutputWait<'a> {
    /// Waits for the output of `exec` after a seq.
    pub(crate) async fn new(
        site: &'a Site,
        exec: Exec,
        after_seq: u64,
        watch: ProgramWatch,
        view: &'a View,
    ) -> Result<Self> {
        let (seq, ts) = last_output(site, &exec).await?;
        let now = Instant::now();
        let printed_at = (seq > after_seq).then(|| now.checked_sub(age(ts)).unwrap_or(now));
        Ok(Self { site, exec, view, watch, following: None, seq, printed_at, bytes: 0 })
    }

    /// Waits until it is so, the exec has ended, or the deadline has passed. A pattern is searched for
    /// in the answer to `sent`.
    pub(crate) async fn wait(
        mut self,
        until: &Until,
        sent: Option<SentInput>,
        after_seq: u64,
        most_bytes: u64,
        deadline: Instant,
    ) -> Result<Waited> {
        let (asking, matched) = match until {
            Until::Match(pattern) => {
                let reader = sent.as_ref().map_or(Reader::Ready, |sent| sent.reader);
                let answer = sent.map(|sent| sent.answer);
                let pattern = compile("pattern", pattern)?;
                let pattern = Matching::new(pattern, &self.exec, after_seq, answer);
                (Asking::No, Some(self.wait_for_match(pattern, reader, deadline).await?))
            }
            Until::Output | Until::Settled | Until::Waiting | Until::End => {
                (self.wait_for_state(until, most_bytes, deadline).await?, None)
            }
        };
        let asking = match (until, self.exec.state) {
            (Until::Output | Until::Match(_) | Until::End, ExecState::Running) => {
                self.watch.asks_now(self.site, &self.exec, self.view).await?
            }
            (_, _) => asking,
        };
        Ok(Waited { asking, matched })
    }

    /// Whether the pattern was printed before the exec ended or the deadline passed.
    async fn wait_for_match(
        &mut self,
        mut pattern: Matching,
        reader: Reader,
        deadline: Instant,
    ) -> Result<bool> {
        loop {
            // Read before the output: what is read after the end is complete.
            let has_ended = self.exec.state == ExecState::Ended;
            let look_at = match pattern.find(self.site, &self.exec, self.view).await? {
                Found::Yes if reader == Reader::Ready || has_ended => return Ok(true),
                Found::Yes => match self.quiet_left() {
                    Some(left) => Instant::now() + left,
                    None if !self.watch.has_unread_input(self.site).await => return Ok(true),
                    // It was printed before the program read the input.
                    None => {
                        pattern.ignore_so_far();
                        deadline
                    }
                },
                Found::NotYet(Some(left)) => Instant::now() + left,
                Found::NotYet(None) => deadline,
            };
            if has_ended || Instant::now() >= deadline {
                return Ok(false);
            }
            self.event_before(look_at.min(deadline)).await?;
        }
    }

    /// How long to wait until nothing was printed for a moment.
    fn quiet_left(&self) -> Option<Duration> {
        let left = QUIET.saturating_sub(self.printed_at?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    async fn wait_for_state(
        &mut self,
        until: &Until,
        most_bytes: u64,
        deadline: Instant,
    ) -> Result<Asking> {
        loop {
            if self.exec.state == ExecState::Ended {
                return Ok(Asking::No);
            }
            let look_at = match until {
                Until::Settled | Until::Waiting => self.watch.next_look(),
                Until::Output | Until::Match(_) | Until::End => deadline,
            };
            if *until == Until::Output && self.printed_at.is_some() {
                return Ok(Asking::No);
            }
            // What is more than a page cannot be returned anyway.
            if *until == Until::Settled && self.bytes > most_bytes {
                return Ok(Asking::No);
            }
            let is_over = Instant::now() >= deadline;
            if !is_over && self.event_before(look_at.min(deadline)).await? == Event::Came {
                continue;
            }
            let (Until::Settled | Until::Waiting) = until else {
                if is_over {
                    return Ok(Asking::No);
                }
                continue;
            };
            if !is_over && Instant::now() < look_at {
                continue;
            }
            let (mut state, asking) = self.watch.look_again(self.site, self.seq).await;
            if asking == Asking::Yes || is_over && state == ProgramState::Waiting {
                if self.watch.confirm(self.site, &self.exec, self.view).await? == Asking::Yes {
                    return Ok(Asking::Yes);
                }
                state = ProgramState::Blocked;
            }
            if is_over || self.is_settled(until, state) {
                return Ok(Asking::No);
            }
        }
    }

    fn is_settled(&self, until: &Until, state: ProgramState) -> bool {
        let quiet = match (state, until) {
            (ProgramState::Unknown, _) => QUIET,
            (ProgramState::Blocked, Until::Settled) => QUIET_BLOCKED,
            (ProgramState::Blocked | ProgramState::Running | ProgramState::Waiting, _) => {
                return false;
            }
        };
        self.printed_at.is_some_and(|at| at.elapsed() >= quiet)
    }

    /// Waits for output or the end, or until then.
    async fn event_before(&mut self, until: Instant) -> Result<Event> {
        if self.following.is_none() {
            let follow = self.site.find_following(&self.exec, self.seq, Pace::Free);
            self.following = match timeout_at(until, follow).await {
                Ok(following) => following?,
                Err(_) => return Ok(Event::None),
            };
        }
        let Some(following) = &mut self.following else {
            // There is no supervisor to follow; the state is read again.
            sleep_until(until.min(Instant::now() + exec_poll::LOOK_AGAIN)).await;
            self.exec = self.site.get_exec_in(&self.exec.cell, &self.exec.id).await?;
            return Ok(Event::None);
        };
        match timeout_at(until, following.next()).await {
            Ok(Some(FollowEvent::Record(record))) => {
                self.seq = self.seq.max(record.seq);
                self.bytes += record.bytes.len() as u64;
                self.printed_at = Some(Instant::now());
                self.watch.note_output();
                Ok(Event::Came)
            }
            Ok(Some(FollowEvent::Ended(_))) => {
                self.exec = self.site.get_exec_in(&self.exec.cell, &self.exec.id).await?;
                Ok(Event::Came)
            }
            Ok(None) => {
                self.following = None;
                self.exec = self.site.get_exec_in(&self.exec.cell, &self.exec.id).await?;
                Ok(Event::None)
            }
            Err(_) => Ok(Event::None),
        }
    }
}

/// Whether something came before the time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Came,
    None,
}

/// The seq of the last output so far, and when it was printed.
pub(crate) async fn last_output(site: &Site, exec: &Exec) -> Result<(u64, Option<Timestamp>)> {
    let (records, exec) = (site.records(&exec.cell), exec.id.clone());
    fault::blocking(move || {
        LogReader::at(&records, &exec)
            .and_then(|mut reader| reader.tail_lines(1, None, 1))
            .map(|batch| (batch.next_seq, batch.records.last().map(|record| record.ts)))
            .map_err(|error| fault::io(format_args!("read the output of exec {exec}"), &error))
    })
    .await
}

/// How long ago something was printed, as far as clocks agree; no more than matters here.
fn age(ts: Option<Timestamp>) -> Duration {
    let passed = ts.and_then(|ts| Timestamp::now().0.checked_sub(ts.0)).unwrap_or(0);
    Duration::from_millis(passed).min(QUIET_BLOCKED)
}

/// Whether all of an exec's output is there.
pub(crate) fn ended(exec: &Exec) -> Ended {
    match exec.state {
        ExecState::Ended => Ended::Yes,
        ExecState::Queued | ExecState::Running => Ended::NotYet,
    }
}
