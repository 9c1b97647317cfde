//! Pid 1 of a cell: starts execs, keeps their output, ends them on time, and has files served.
//!
//! One thread, one epoll loop, one owner of all state (`cell.rs`). It talks to any
//! number of engine processes over the link and needs none of them to go on.

mod approvals;
mod asks;
mod boot;
mod callers;
mod cell;
mod clock;
mod code;
mod connection;
mod container;
mod event_loop;
mod exec;
mod family;
mod files;
mod following;
mod ground;
mod input;
mod input_state;
mod launch;
mod lifetime;
mod output;
mod pacing;
mod pause;
mod ports;
mod processes;
mod queue;
mod sessions;
mod socket_door;
mod warm;

use std::io;

use hotcell_link::Plan;

pub use container::supervise_container;

/// The whole life of a supervisor. Its caller has made this process pid 1 of a cell, and left it
/// nothing open but the standard streams and the descriptors that the plan names.
///
/// # Errors
/// It could not begin, or not go on. There is nobody to tell: the keeper sees the end, and the
/// journal says what was last.
pub fn supervise(plan: Plan) -> io::Result<()> {
    boot::boot(plan).and_then(event_loop::run)
}
