//! The kernel's side of a cell: namespaces, ids, mounts, cgroups and processes.
//!
//! The only crate with `unsafe` code. Everything in it is synchronous, and each step that fails
//! names itself. What is policy (which ids, which limits, which layers) is decided elsewhere.
#![expect(unsafe_code, reason = "the kernel's interfaces that no safe crate covers")]

pub mod cgroup;
mod clone;
mod direct;
pub mod enter;
mod fdpass;
pub mod host;
pub mod ids;
mod inner_sockets;
pub mod input_wait;
pub mod landlock;
mod lists;
mod loopback;
mod memory;
pub mod mounts;
pub mod namespace_work;
mod overlay;
pub mod probe;
pub mod process;
pub mod proctree;
pub mod pty;
mod seccomp;
pub mod shown;
pub mod signals;
mod step;
mod surroundings;
pub mod swap;
mod title;
pub mod trusted;
pub mod views;
pub mod workdir;

pub use clone::{Forked, Namespaces, fork, fork_into_namespaces};
pub use fdpass::{connected_by, has_ended, receive_fds, send_fds};
pub use inner_sockets::{Asking, SocketKind, ask_for_socket, make_socket};
pub use memory::{keep_freed, release_code};
pub use seccomp::container_calls;
pub use step::{Step, StepError};
pub use title::rename_self;
