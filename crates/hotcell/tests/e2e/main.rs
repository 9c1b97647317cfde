//! End-to-end tests: the real program, as root and as ordinary users, with and without cgroups.
#![expect(clippy::disallowed_methods, reason = "tests start programs and read their own settings")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, and one that is skipped says so"
)]

#[macro_use]
mod world;

mod admission;
mod agents;
mod approvals;
mod audit;
mod bad_input;
mod bad_servers;
mod checkpoints;
mod client_settings;
mod clients;
mod clock_jumps;
mod code;
mod code_figures;
mod code_script;
mod code_sessions;
mod code_tools;
mod command_line;
mod containers;
mod containment;
mod damaged_state;
mod detached_execs;
mod diagnosis;
mod dialects;
mod docker;
mod docker_engines;
mod docker_faults;
mod docker_network;
mod docker_remote;
mod egress;
mod egress_lifetimes;
mod egress_names;
mod ends_of_execs;
mod everyday_programs;
mod files;
mod flattened_layers;
mod full_disk;
mod hostile_supervisors;
mod idle_processes;
mod images;
mod interactive_programs;
mod killed_processes;
mod lasting_cells;
mod ledger_evidence;
mod lifetimes;
mod many_execs;
mod output_of_execs;
mod own_tools;
mod packages;
mod passed_tools;
mod planted_links;
mod policy;
mod ports;
mod process_level;
mod project_conflicts;
mod project_followed;
mod project_interrupted;
mod project_replaced;
mod project_tools;
mod projects;
mod pulls;
mod races;
mod random_kills;
mod redaction;
mod resource_limits;
mod runaways;
mod running_commands;
mod secret_headers;
mod secrets;
mod serve_files;
mod serve_http;
mod serve_http_bounds;
mod serve_http_end;
mod serve_lifetimes;
mod serve_oidc;
mod serve_roles;
mod serve_socket;
mod serve_starts;
mod serve_stdio;
mod serve_subscriptions;
mod serve_tokens;
mod serve_traces;
mod serve_v1;
mod serve_waits;
mod shell_tools;
mod state_directory;
mod system_calls;
mod tenants;
mod terminal_answers;
mod terminals;
mod tools_tree;
mod tree_kill;
mod upkeep;
mod ways_out;
