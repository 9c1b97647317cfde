//! Who calls: tokens that are kept in a file, and tokens that an issuer signed.
//!
//! It proves who a caller is and what that caller may do; where the proof comes from and what is
//! done with it is the server's business.

mod algorithm;
mod claims;
mod digest;
mod fetch;
mod issuer_keys;
mod jwk;
mod jwt;
mod oidc;
mod settings;
mod token_file;

#[cfg(test)]
mod claims_tests;
#[cfg(test)]
mod issuer_keys_tests;
#[cfg(test)]
mod jwt_tests;
#[cfg(test)]
mod settings_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod token_file_tests;

pub use algorithm::Algorithm;
pub use digest::name_digest;
pub use oidc::{Identity, NotAdmitted, Oidc};
pub use settings::{OidcSettings, RoleRule, ScopeRule, TenantRule, check_url};
pub use token_file::FileTokenStore;
