//! Cells on bare Linux, without a daemon: the driver, and the keeper of each cell.

mod base;
mod checkpoint_file;
mod checkpointer;
mod compare;
mod copy_layer;
mod diagnose;
mod disk;
mod disk_account;
mod driver;
mod flatten;
mod groups;
mod id_range;
mod image_base;
mod image_store;
mod images;
mod isolation;
mod keeper;
mod keeper_socket;
mod layer_store;
mod machine;
mod merge_layers;
mod network;
mod on_host;
mod order;
mod patch;
mod paths;
mod project;
mod pull_place;
mod removal;
mod served;
mod start;
#[cfg(test)]
mod start_tests;
mod stragglers;
mod task_count;
mod tree;
mod unpack;
mod watch;
mod way;

pub use driver::{CgroupUse, NativeDriver, NativeSettings};
pub use hotcell_egress::{EgressSettings, HostPin, IpRange, TenantBytes};
pub use hotcell_jail::cgroup::Together;
pub use hotcell_place::ImageScan;
pub use hotcell_registry::{DockerConfig as DockerCredentials, RegistrySettings};
pub use keeper::keep;
pub use start::Supervise;
