//! The use cases of Hotcell behind one door: [`Engine::call`].
//!
//! There is no daemon. Any number of engines, in as many processes, work on one state directory,
//! and any of them may die at any moment: what was begun is finished by the next one that needs
//! it. A cell's journal is the truth about its execs; the store is an index that can be rebuilt.

mod admission;
mod approvals;
mod asked;
mod audit;
mod audit_summary;
mod before;
mod cell_adopt;
mod cell_find;
mod cell_fork;
mod cell_info;
mod cell_kill;
mod cell_leave;
mod cell_list;
mod cell_ready;
mod cell_remove;
mod cell_spawn;
mod cell_standing;
mod check;
mod checkpoint;
mod code_calls;
mod code_counts;
mod code_images;
mod code_report;
mod code_shown;
mod code_stats;
mod collect;
mod default_cell;
mod diagnose;
mod digest;
mod disk_room;
mod emulator;
mod engine;
mod exec_cancel;
mod exec_find;
mod exec_follow;
mod exec_get;
mod exec_input;
mod exec_list;
mod exec_poll;
mod exec_room;
mod exec_run;
mod exec_stream;
mod exec_wait;
mod fault;
mod files;
mod fingerprint;
mod glass;
mod held;
mod housekeeping;
mod images;
mod in_line;
mod index;
mod input_echo;
mod journal_end;
mod key_names;
mod links;
mod long_text;
mod marker_guard;
mod masked_files;
mod masked_page;
mod network;
mod new_cell_policy;
mod new_id;
mod noted;
mod output_wait;
mod page;
mod passed;
mod pattern_match;
mod pending_calls;
mod plain_text;
mod policies;
mod pool;
mod ports;
mod probe;
mod program_watch;
mod project;
mod project_approval;
mod prompt;
mod rebuild;
mod recent;
mod reconcile;
mod recorded;
mod result_bound;
mod rights;
mod screen;
mod screen_highlight;
mod secrets;
mod settings;
mod site;
mod spawn_key;
mod sweep;
mod tenancy;
mod tenant_room;
mod tenant_table;
mod tokens;
mod tool_callers;
mod tool_tree;
mod toolbox;
mod tree_files;
mod turns;
mod veil;
mod view;
mod volumes;

#[cfg(test)]
mod audit_summary_tests;
#[cfg(test)]
mod cell_life_tests;
#[cfg(test)]
mod cell_spawn_tests;
#[cfg(test)]
mod cell_standing_tests;
#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod code_calls_tests;
#[cfg(test)]
mod code_stats_tests;
#[cfg(test)]
mod exec_control_tests;
#[cfg(test)]
mod exec_follow_tests;
#[cfg(test)]
mod exec_poll_tests;
#[cfg(test)]
mod exec_run_tests;
#[cfg(test)]
mod held_tests;
#[cfg(test)]
mod hostile_records_tests;
#[cfg(test)]
mod masked_tests;
#[cfg(test)]
mod new_cell_policy_tests;
#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod quota_tests;
#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod result_bound_tests;
#[cfg(test)]
mod sweep_tests;
#[cfg(test)]
mod tenancy_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testing_ledger;
#[cfg(test)]
mod testing_supervisor;
#[cfg(test)]
mod tree_files_tests;
#[cfg(test)]
mod upkeep_tests;

pub use admission::Admission;
pub use cell_leave::{Label, Serving};
pub use engine::{Answer, Answering, Engine};
pub use exec_stream::{ExecEvent, ExecStream};
pub use files::{ContentReceiver, ContentSender, FileTransfer, Transferred};
pub use hotcell_toolbox::PASS_THROUGH_TOKENS;
pub use policies::{Policies, PolicyUse};
pub use pool::PoolFigures;
pub use ports::PortStream;
pub use settings::{
    AllowedNames, AllowedSecrets, AllowedWorkspaces, CodeSettings, PoolSettings, Settings,
};
pub use tenant_table::{Allowed, Quota, TenantSettings, TenantTable};
