//! `hotcell completions`: what a shell should know of the command line.

use crate::args::{Completions, command_line};
use crate::errors::Failure;
use crate::show::print;

/// Prints completions.
pub(super) fn completions(args: &Completions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command_line(), "hotcell", &mut script);
    print(script)?;
    Ok(0)
}
