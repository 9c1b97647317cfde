//! The operator's secrets: kept in one file that a key file opens, or had from a variable or a file
//! at run time.

mod image;
mod key;
mod sealed;
mod store;

#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod store_tests;

pub use image::leave_no_image;
pub use key::KeyFile;
pub use store::{ElsewhereSource, SealedStore};
