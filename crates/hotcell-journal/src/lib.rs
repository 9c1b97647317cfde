//! What a supervisor writes and everyone reads: the journal of execs and their output logs.
//!
//! A cell's records directory holds `journal` and `log/`. One supervisor writes, through a
//! descriptor of the directory because it sees no path to it; any number of processes read, at the
//! same time and after its death. Nothing is fsynced: what was written survives the death of any
//! process, and what a power failure took away is stated as far as it can be known.
//!
//! - The journal is lines of `crc32 json`, the first of which names the format's version. It is the
//!   truth for execs. A full disk delays entries and never loses one.
//! - An output log is a chain of segment files per exec, each a versioned header and records with
//!   checksums. Past its bound the segments in the middle are unlinked. A segment's name is the seq
//!   that follows the segment before it, so that a reader finds the next one without listing the
//!   directory; where that name is absent the middle was dropped, and the header of the segment
//!   that does follow tells how much.

mod align;
mod disk;
mod entry;
mod error;
mod exec_table;
mod grep;
mod journal;
mod journal_read;
mod kept_logs;
mod log_place;
mod log_reader;
mod output_log;
mod record_file;
mod removal;
mod report;
mod scan;
mod seek;
mod segment;
mod tail;
mod terminal_sizes;

#[cfg(test)]
mod align_tests;
#[cfg(test)]
mod before_tests;
#[cfg(test)]
mod exec_table_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod full_disk_tests;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod lines_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod race_tests;
#[cfg(test)]
mod record_file_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod terminal_sizes_tests;
#[cfg(test)]
mod testing;

pub use align::Utf8Aligner;
pub use entry::Entry;
pub use error::JournalError;
pub use exec_table::ExecTable;
pub use journal::JournalWriter;
pub use journal_read::{JournalTail, first_entry, journal_length, last_entry, read_journal};
pub use kept_logs::{KeptLog, forget_output, list_logs};
pub use log_reader::{Align, Batch, Ended, LogReader};
pub use output_log::OutputLog;
pub use record_file::{RecordError, open_record, open_records};
pub use removal::remove_records;
pub use report::{MAX_REPORT_BYTES, read_report, write_report};
pub use tail::last_lines;
pub use terminal_sizes::{SizeChange, read_terminal_sizes, write_terminal_size};
