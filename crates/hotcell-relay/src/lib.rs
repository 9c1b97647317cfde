//! A cell of another machine, as if it were here: one stream carries its sockets and a copy of its
//! records.
//!
//! The *far* end is where the cell is. It dials sockets there, and sends what changes in the directory
//! of the records. The *near* end listens at sockets of the same names, and writes the copy. Whatever
//! the stream is broken by, both ends end; another stream begins where the copy ends.
//!
//! What a supervisor says of its execs comes after what it has written of them, in the copy as at the
//! place itself: before the far end passes on a byte that it read from a socket, it sends everything
//! that was written by then. And what the journal says comes after the output that it speaks of.

mod changes;
mod channels;
mod copying;
mod far;
mod file_name;
mod frame;
mod held;
mod near;
mod outbox;
mod tail_sum;

#[cfg(test)]
mod changes_tests;
#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod relay_tests;

pub use far::{FarPlace, serve};
pub use near::{Near, NearPlace, relay};
