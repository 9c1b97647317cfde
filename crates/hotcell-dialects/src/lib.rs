//! Sets of tools on top of Hotcell's requests.
//!
//! A dialect only translates: the call of a tool into what is asked of the engine, and replies into a
//! result. It is handed somebody to ask and knows of nothing else: this crate cannot name the engine, a
//! store or a driver. Beside what every dialect is there are those of servers that Hotcell takes the
//! place of, with their names, shapes, bounds and texts.

mod as_meant;
pub mod background_job;
pub mod devbench;
mod dialect;
mod starting_exec;
mod talk;
mod tool;
pub mod vibesbox;

pub use as_meant::as_meant;
pub use dialect::{AWAITING_APPROVAL, ClientTerms, Dialect, Outcome, Question, Show, ToolCall};
pub use starting_exec::{StartPhase, StartingExec};
pub use talk::{Asking, Progress, Talk, Telling, Told};
