//! What the foreground program of an exec is doing, found out when an engine asks, and the sizes that
//! its terminal has.

use std::os::fd::AsFd;

use hotcell_jail::input_wait::{self, InputLook, InputState as Found};
use hotcell_journal::{SizeChange, write_terminal_size};
use hotcell_link::{InputState, ProgramState};
use hotcell_model::{ExecId, Result, TerminalSize};

use crate::cell::Supervisor;
use crate::exec::{Running, State};
use crate::input::Input;
use crate::output::Output;

impl Supervisor {
    /// Looks at the processes of an exec. What they printed before they began to wait is in the log
    /// when this returns.
    pub(crate) fn input_state(&mut self, exec: &ExecId) -> Result<InputState> {
        let number = self.number(exec)?;
        let look = match self.execs.get(&number).map(|exec| &exec.state) {
            Some(State::Running(running)) => look_at(running),
            Some(State::Queued(_) | State::Ended(_)) | None => InputLook::only(Found::Unknown),
        };
        for slot in 0..2 {
            self.read_output(number, slot);
        }
        let is_held = match self.execs.get(&number).map(|exec| &exec.state) {
            Some(State::Running(running)) => running.outputs.iter().flatten().any(Output::holds),
            Some(State::Queued(_) | State::Ended(_)) | None => false,
        };
        let program = match look.state {
            // What may be the beginning of a secret is yet to be written.
            Found::Waiting | Found::Blocked if is_held => ProgramState::Running,
            Found::Waiting => ProgramState::Waiting,
            Found::Blocked => ProgramState::Blocked,
            Found::Running => ProgramState::Running,
            Found::Unknown => ProgramState::Unknown,
        };
        let last_seq = self.execs.get(&number).map_or(0, |exec| exec.last_seq);
        let InputLook { mark, timed, reading, unread, .. } = look;
        Ok(InputState { program, mark, timed, reading, unread, last_seq })
    }

    /// Records the size of an exec's terminal, for rendering its output later.
    pub(crate) fn note_terminal_size(&self, exec: &ExecId, size: TerminalSize, after_seq: u64) {
        // A disk that is full costs a well-rendered screen, not the exec.
        let _ = write_terminal_size(self.records.as_fd(), exec, SizeChange { after_seq, size });
    }
}

fn look_at(running: &Running) -> InputLook {
    if running.input.as_ref().is_some_and(Input::is_waiting) {
        return InputLook::unread();
    }
    match (&running.terminal, running.input.as_ref().and_then(Input::fd)) {
        (Some(terminal), _) => input_wait::look_at_terminal(terminal.as_fd()),
        (None, Some(pipe)) => input_wait::look_at_pipe(pipe, running.family.leader()),
        // Its input is closed: no answer can come.
        (None, None) => InputLook::only(Found::Unknown),
    }
}
