//! The files of a cell, served by a process inside it, under the ids of its commands.
//!
//! Every path is walked by the kernel below a descriptor (`tree.rs`), so that no link, `..` or race
//! leads outside. A file is changed in one step (`staged.rs`), and several files too (`undo.rs`). An
//! archive is unpacked aside before anything is put in place (`import.rs`).

#[cfg(test)]
mod archive_tests;
mod batch;
#[cfg(test)]
mod batch_tests;
mod changes;
mod conversation;
mod copying;
#[cfg(test)]
mod crash;
mod edit;
mod etag;
mod export;
mod fault;
mod ignored;
mod import;
mod import_place;
mod kinds;
mod list;
#[cfg(test)]
mod list_tests;
mod nearest;
mod packing;
mod path;
#[cfg(test)]
mod path_tests;
mod pattern;
#[cfg(test)]
mod race_tests;
mod read;
mod removal;
mod search;
mod search_found;
mod search_lines;
#[cfg(test)]
mod search_tests;
mod search_walk;
mod server;
#[cfg(test)]
mod server_tests;
mod settled;
mod staged;
#[cfg(test)]
mod testing;
mod tree;
mod undo;
mod unpacked;
mod watch;
mod watch_pending;
#[cfg(test)]
mod watch_tests;
mod write;

pub use server::serve;
pub use tree::Roots;
