//! What drivers share: files in the state directory that are written whole, the copy of the program
//! that cells run from, sockets at paths of any length, and who is who in a cell.

mod accounts;
mod image_env;
mod image_scan;
mod json_file;
mod program;
mod socket;

pub use accounts::{ACCOUNTS, Accounts};
pub use image_env::{add_image_env, keep_image_env};
pub use image_scan::ImageScan;
pub use json_file::{
    has_previous, is_damage, read_json, read_previous, remove_if_there, remove_previous, save_json,
    save_json_keeping_previous, save_whole, sync_directory_of, write_json, write_whole,
};
pub use program::{copy_of, show_own_program};
pub use socket::{connect_in, listen_in};
