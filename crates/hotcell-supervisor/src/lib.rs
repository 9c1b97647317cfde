//! Pid 1 of a cell: starts execs, keeps their output, ends them on time, and has files served.
//!
//! One thread, one epoll loop, one owner of all state (`cell.rs`). It talks to any
//! number of engine processes over the link and needs none of them to go on.

mod asks;
mod boot;
mod cell;
mod clock;
mod connection;
mod event_loop;
mod exec;
mod files;
mod following;
mod input;
mod launch;
mod lifetime;
mod output;
mod pacing;
mod processes;
mod queue;

use std::ffi::OsString;
use std::process::ExitCode;

/// The whole life of a supervisor: `hotcell supervise PLAN_FD`.
#[must_use]
pub fn supervise(args: &[OsString]) -> ExitCode {
    match boot::boot(args).and_then(event_loop::run) {
        Ok(()) => ExitCode::SUCCESS,
        // There is nobody to tell: the keeper sees the end, and the journal says what was last.
        Err(_) => ExitCode::FAILURE,
    }
}
