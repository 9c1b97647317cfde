//! Looks at the program of an exec from time to time, and tells whether it waits for input.

use std::time::Duration;

use hotcell_link::{InputState, ProgramState};
use hotcell_model::{CellId, Exec, ExecId, Result};
use tokio::time::{Instant, sleep_until, timeout};

use crate::exec_input::find_link_to;
use crate::input_echo::Reader;
use crate::prompt::ends_in_prompt;
use crate::site::Site;
use crate::view::View;

/// Quiet for this long is settled, where nothing is known about the program.
pub(crate) const QUIET: Duration = Duration::from_millis(200);
/// The same where it is known to wait for something else than input.
pub(crate) const QUIET_BLOCKED: Duration = Duration::from_secs(1);
/// How soon after output the program is looked at, and how far two looks are apart that must agree.
const FIRST_LOOK: Duration = Duration::from_millis(8);
/// The longest pause between looks.
const LAST_PAUSE: Duration = Duration::from_millis(250);
/// After this the kernel has passed input on to the program that waits for it.
const INPUT_ARRIVED: Duration = Duration::from_millis(250);
/// How long a look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// How often a program is looked at that has just printed what was waited for.
const LOOKS_AFTER_OUTPUT: usize = 4;
/// A program that polls its input and shows no prompt may wait for something else: it counts as waiting
/// for input after this time without output, unless a timer will wake it.
const UNPROMPTED: Duration = Duration::from_secs(3);

/// Whether an exec was found to be blocked reading its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// It is.
    Yes,
    /// It is not, or that is not known.
    No,
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
    pub(crate) async fn before_input(&mut self, site: &Site) -> Reader {
        let found = self.look(site).await;
        self.before = found.filter(|found| found.mark != 0).map(|found| found.mark);
        match found.map(|found| found.program) {
            Some(ProgramState::Running | ProgramState::Blocked) => Reader::Busy,
            Some(ProgramState::Waiting | ProgramState::Unknown) | None => Reader::Ready,
        }
    }

    /// Whether the program has yet to read input that was sent to it.
    pub(crate) async fn has_unread_input(&self, site: &Site) -> bool {
        self.look(site).await.is_some_and(|found| found.unread)
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

    /// Whether the program waits for input right after something was printed. It may be about to.
    pub(crate) async fn asks_now(
        &mut self,
        site: &Site,
        exec: &Exec,
        view: &View,
    ) -> Result<Asking> {
        for _ in 0..LOOKS_AFTER_OUTPUT {
            let (state, asking) = self.look_again(site, u64::MAX).await;
            if asking == Asking::Yes {
                return self.confirm(site, exec, view).await;
            }
            match state {
                ProgramState::Waiting | ProgramState::Running => sleep_until(self.next_look).await,
                ProgramState::Blocked | ProgramState::Unknown => return Ok(Asking::No),
            }
        }
        Ok(Asking::No)
    }

    /// Whether a program that was found waiting waits for input. One that polls its input may wait for
    /// a timer or a child at the same time: it shows a prompt, or is quiet for long.
    pub(crate) async fn confirm(
        &mut self,
        site: &Site,
        exec: &Exec,
        view: &View,
    ) -> Result<Asking> {
        let is_timed = self.last.is_some_and(|found| found.timed);
        let is_long = !is_timed && self.quiet_for() >= UNPROMPTED;
        if self.is_reading() || is_long || ends_in_prompt(site, exec, view).await? {
            return Ok(Asking::Yes);
        }
        self.put_off();
        Ok(Asking::No)
    }

    /// How long nothing was printed, as far as is known.
    pub(crate) fn quiet_for(&self) -> Duration {
        self.quiet_since.elapsed()
    }

    /// Whether the last look found it inside a read of its input.
    pub(crate) fn is_reading(&self) -> bool {
        self.last.is_some_and(|found| found.reading)
    }

    pub(crate) fn put_off(&mut self) {
        self.next_look = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }
}
