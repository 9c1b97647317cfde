//! Waits for what an exec prints: until it is quiet, asks for input, matches a pattern, or ends.

use std::time::Duration;

use hotcell_journal::{Ended, LogReader};
use hotcell_link::{FollowEvent, Following, InputState, ProgramState};
use hotcell_model::{
    CellId, Exec, ExecId, ExecState, Pace, Result, TerminalScreen, Timestamp, Until,
};
use regex::bytes::Regex;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::emulator::last_line;
use crate::exec_input::find_link_to;
use crate::exec_run::Questions;
use crate::exec_stream::ExecStream;
use crate::page::{Wanted, compile};
use crate::plain_text::PlainText;
use crate::site::Site;
use crate::view::View;
use crate::{exec_poll, fault};

/// Quiet for this long is settled, where nothing is known about the program.
const QUIET: Duration = Duration::from_millis(200);
/// The same where it is known to wait for something else than input.
const QUIET_BLOCKED: Duration = Duration::from_secs(1);
/// How soon after output the program is looked at, and how far two looks are apart that must agree.
const FIRST_LOOK: Duration = Duration::from_millis(8);
/// The longest pause between looks.
const LAST_PAUSE: Duration = Duration::from_millis(250);
/// After this the kernel has passed input on to the program that waits for it.
const INPUT_ARRIVED: Duration = Duration::from_millis(250);
/// How long a look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// How much of new output a pattern is matched against: the last of it.
const MATCHED_BYTES: usize = 256 * 1024;
/// How much of the end of the output may be its last line.
const PROMPT_BYTES: u64 = 4096;
/// The longest prompt that is returned, in characters.
const MOST_PROMPT: usize = 200;

/// Whether an exec was found to be blocked reading its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// It is.
    Yes,
    /// It is not, or that is not known.
    No,
}

/// What came of a wait for output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) asking: Asking,
    /// Whether the pattern was found; `None` when none was waited for.
    pub(crate) matched: Option<bool>,
}

/// Looks at the program of an exec from time to time, and tells whether it waits for input.
pub(crate) struct ProgramWatch {
    cell: CellId,
    exec: ExecId,
    /// The wait for input that was there before input was sent.
    before: Option<u64>,
    began: Instant,
    /// When it printed last, as far as is known, or got input.
    quiet_since: Instant,
    last: Option<InputState>,
    pause: Duration,
    next_look: Instant,
}

impl ProgramWatch {
    pub(crate) fn new(exec: &Exec) -> Self {
        Self {
            cell: exec.cell.clone(),
            exec: exec.id.clone(),
            before: None,
            began: Instant::now(),
            quiet_since: Instant::now(),
            last: None,
            pause: FIRST_LOOK,
            next_look: Instant::now() + FIRST_LOOK,
        }
    }

    /// What the program is doing right now; `None` where that cannot be known.
    async fn look(&self, site: &Site) -> Option<InputState> {
        let link = find_link_to(site, &self.cell).await.ok().flatten()?;
        match timeout(LOOK_WITHIN, link.input_state(self.exec.clone())).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Remembers the wait that input is about to end.
    pub(crate) async fn before_input(&mut self, site: &Site) {
        self.before = self.look(site).await.filter(|found| found.mark != 0).map(|found| found.mark);
    }

    /// Input was sent: a program still in the same wait has not received it yet.
    pub(crate) fn input_sent(&mut self) {
        self.began = Instant::now();
        self.note_output();
    }

    /// Output came: the next look is soon.
    pub(crate) fn note_output(&mut self) {
        self.last = None;
        self.pause = FIRST_LOOK;
        self.quiet_since = Instant::now();
        self.next_look = self.quiet_since + FIRST_LOOK;
    }

    pub(crate) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks, and tells what the program does and whether it certainly waits for input: two looks in
    /// a row found the same wait and no new output.
    pub(crate) async fn look_again(
        &mut self,
        site: &Site,
        seen_seq: u64,
    ) -> (ProgramState, Asking) {
        let Some(found) = self.look(site).await else {
            self.put_off();
            return (ProgramState::Unknown, Asking::No);
        };
        let is_stale = self.before == Some(found.mark) && self.began.elapsed() < INPUT_ARRIVED;
        let state = match found.program {
            ProgramState::Waiting if is_stale => ProgramState::Running,
            state @ (ProgramState::Waiting
            | ProgramState::Blocked
            | ProgramState::Running
            | ProgramState::Unknown) => state,
        };
        let is_same = self.last == Some(found) && found.last_seq <= seen_seq;
        self.last = Some(found);
        if state == ProgramState::Waiting {
            // One that waits for a time only, as for the rest of a key, may go on by itself.
            let quiet_at = self.quiet_since + if found.timed { QUIET } else { Duration::ZERO };
            let now = Instant::now();
            self.next_look = quiet_at.max(now + FIRST_LOOK);
            let is_certain = is_same && now >= quiet_at;
            return (state, if is_certain { Asking::Yes } else { Asking::No });
        }
        self.put_off();
        (state, Asking::No)
    }

    /// Whether the last look found it inside a read of its input.
    fn is_reading(&self) -> bool {
        self.last.is_some_and(|found| found.reading)
    }

    fn put_off(&mut self) {
        self.next_look = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }
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
        let is_sure = stream.ends_in_line()
            || watch.is_reading() && watch.quiet_since.elapsed() >= QUIET_BLOCKED;
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

    /// Waits until it is so, the exec has ended, or the deadline has passed.
    pub(crate) async fn wait(
        mut self,
        until: &Until,
        after_seq: u64,
        most_bytes: u64,
        deadline: Instant,
    ) -> Result<Waited> {
        if let Until::Match(pattern) = until {
            let pattern = Matching::new(compile("pattern", pattern)?, &self.exec, after_seq);
            let matched = Some(self.wait_for_match(pattern, deadline).await?);
            return Ok(Waited { asking: Asking::No, matched });
        }
        let asking = self.wait_for_state(until, most_bytes, deadline).await?;
        Ok(Waited { asking, matched: None })
    }

    /// Whether the pattern was printed before the exec ended or the deadline passed.
    async fn wait_for_match(&mut self, mut pattern: Matching, deadline: Instant) -> Result<bool> {
        loop {
            // Read before the output: what is read after the end is complete.
            let has_ended = self.exec.state == ExecState::Ended;
            let look_at = match pattern.find(self.site, &self.exec, self.view).await? {
                Found::Yes => return Ok(true),
                Found::NotYet(Some(left)) => Instant::now() + left,
                Found::NotYet(None) => deadline,
            };
            if has_ended || Instant::now() >= deadline {
                return Ok(false);
            }
            self.event_before(look_at.min(deadline)).await?;
        }
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
            let (state, asking) = self.watch.look_again(self.site, self.seq).await;
            if asking == Asking::Yes || is_over && state == ProgramState::Waiting {
                return Ok(Asking::Yes);
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

/// New output that is searched for a pattern, as the caller sees it.
struct Matching {
    pattern: Regex,
    after_seq: u64,
    /// Where it is printed to a terminal: without escape sequences.
    terminal: Option<PlainText>,
    text: Vec<u8>,
}

enum Found {
    Yes,
    /// Not in what can be shown; more can be shown after this time.
    NotYet(Option<Duration>),
}

impl Matching {
    fn new(pattern: Regex, exec: &Exec, after_seq: u64) -> Self {
        let terminal = exec.pty.then(PlainText::default);
        Self { pattern, after_seq, terminal, text: Vec::new() }
    }

    async fn find(&mut self, site: &Site, exec: &Exec, view: &View) -> Result<Found> {
        let wanted = Wanted { tail_lines: None, grep: None, stream: None, max_bytes: 1 << 20 };
        // A secret may be put together from parts with escape sequences between them.
        let glass = match &self.terminal {
            Some(_) => view.glass(site, &exec.cell).await?,
            None => None,
        };
        loop {
            let page = exec_poll::read(site, exec, &wanted, self.after_seq, view).await?;
            let went_on = page.next_seq > self.after_seq;
            self.after_seq = page.next_seq;
            for record in page.records {
                match &mut self.terminal {
                    Some(terminal) => terminal.append_to(&mut self.text, &record.bytes),
                    None => self.text.extend_from_slice(&record.bytes),
                }
            }
            let is_match = match &glass {
                Some(glass) => {
                    let seen = glass.text(&String::from_utf8_lossy(&self.text));
                    self.pattern.is_match(seen.as_bytes())
                }
                None => self.pattern.is_match(&self.text),
            };
            if is_match {
                return Ok(Found::Yes);
            }
            let surplus = self.text.len().saturating_sub(MATCHED_BYTES);
            self.text.drain(..surplus);
            if page.at_end || page.waits.is_some() || !went_on {
                return Ok(Found::NotYet(page.waits));
            }
        }
    }
}

/// The last line of an exec's output, as the caller may see it; of a program that uses the whole
/// screen, the line with the cursor.
pub(crate) async fn prompt_of(site: &Site, exec: &Exec, view: &View) -> Result<String> {
    if exec.pty {
        let TerminalScreen { rows, cursor, alternate, .. } =
            site.screen_of(exec, view).await?.screen;
        if alternate {
            let row = rows.get(usize::from(cursor.row)).map_or("", |row| row.trim());
            return Ok(row.chars().take(MOST_PROMPT).collect());
        }
    }
    let wanted = Wanted { tail_lines: Some(1), grep: None, stream: None, max_bytes: PROMPT_BYTES };
    let page = exec_poll::read(site, exec, &wanted, 0, view).await?;
    let mut bytes: Vec<u8> = page.records.into_iter().flat_map(|record| record.bytes).collect();
    // A question may be a whole line.
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    let mut line: String = last_line(&bytes).chars().take(MOST_PROMPT).collect();
    if let Some(glass) = view.glass(site, &exec.cell).await? {
        line = glass.text(&line);
    }
    Ok(line)
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
