//! What keepers of cells do, whatever their driver: they keep a carrier for the cell's connections and
//! an account of what it writes, and can be asked for both.
//!
//! A keeper is a process on the host's side with one thread, which needs no other and nobody waits for.

mod asking;
mod authority;
mod carrier;
#[cfg(test)]
mod carrier_tests;
mod disk_meter;
mod disk_pace;
#[cfg(test)]
mod disk_pace_tests;
mod disk_use;
mod disk_walk;
mod order;
mod place;
mod socket;
mod streams;
mod tenant_egress;
mod watch_link;
mod which_process;

pub use asking::{ask_patiently, carrier_stats, network_log, network_log_after};
pub use authority::{ensure_authority, find_certificate};
pub use carrier::{Door, KeptCarrier, Served};
pub use disk_meter::DiskMeter;
pub use disk_use::{HIDDEN, Used, bytes_of, used_below};
pub use disk_walk::{Seen, walk};
pub use order::{Side, answer_order, belong_to_nobody, is_awaited, order_keeper, take_order};
pub use place::{
    CARRIER_SOCKET, DISK_USED, HeldLock, KEEPER_SOCKET, KeptPlace, LockWait, NETWORK, lock_in,
};
pub use socket::{answer_one, ask_keeper};
pub use streams::let_go_of_streams;
pub use watch_link::WatchLink;
pub use which_process::WhichProcess;
