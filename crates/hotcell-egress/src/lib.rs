//! What a cell reaches by name. A process on the host's side, the carrier, answers the cell's
//! lookups, takes its connections, and dials in its place: it alone decides where they go.

mod address;
mod authority;
mod carrier;
mod client_hello;
mod connection;
mod control;
mod dial;
mod dns;
mod host_client;
mod http_requests;
mod inspected;
mod inspection;
mod intercept;
mod lending;
mod lookup_pace;
mod masked_body;
mod meter;
mod name_table;
mod plain_file;
mod plan;
mod proxy;
mod records;
mod records_after;
mod resolve;
mod settings;
mod socket_maker;
mod trust;

#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod authority_tests;
#[cfg(test)]
mod client_hello_tests;
#[cfg(test)]
mod connection_tests;
#[cfg(test)]
mod dns_tests;
#[cfg(test)]
mod http_requests_tests;
#[cfg(test)]
mod inspection_tests;
#[cfg(test)]
mod lending_tests;
#[cfg(test)]
mod masked_body_tests;
#[cfg(test)]
mod meter_tests;
#[cfg(test)]
mod name_table_tests;
#[cfg(test)]
mod proxy_tests;
#[cfg(test)]
mod records_after_tests;
#[cfg(test)]
mod records_tests;
#[cfg(test)]
mod resolve_tests;
#[cfg(test)]
mod socket_maker_tests;

pub use address::IpRange;
pub use authority::AuthorityFile;
pub use carrier::carry;
pub use control::{CarrierAsk, CarrierTell, ask_carrier};
pub use host_client::{HostAnswer, HostClient};
pub use lending::HeaderPlan;
pub use meter::{Allowance, used_today};
pub use plan::CarryPlan;
pub use records::{RecordLog, read_records};
pub use records_after::{has_records, read_after};
pub use resolve::{HostLookup, is_loopback};
pub use settings::{EgressSettings, HostPin, TenantBytes};
pub use socket_maker::make_sockets;
pub use trust::{BUNDLES, Trust};
