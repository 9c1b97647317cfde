//! The files of a cell, served by a process inside it, under the ids of its commands.
//!
//! Every path is walked by the kernel below a descriptor (`tree.rs`), so that no link, `..` or race
//! leads outside. A file is changed in one step (`staged.rs`), and several files too (`undo.rs`).

#[cfg(test)]
mod archive_tests;
mod batch;
mod changes;
mod conversation;
mod edit;
mod etag;
mod export;
mod fault;
mod ignored;
mod import;
mod import_place;
mod kinds;
mod list;
mod nearest;
mod packing;
mod path;
mod pattern;
mod read;
mod removal;
mod search;
mod search_lines;
#[cfg(test)]
mod search_tests;
mod search_walk;
mod server;
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
