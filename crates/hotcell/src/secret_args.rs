//! The arguments of `hotcell secret`.

use clap::{Args, Subcommand};
use hotcell_model::SecretName;

use crate::values;

/// Keep secrets, and have cells use them by name.
///
/// A secret is kept sealed in the state directory. A cell that is granted it (`--secret NAME` of
/// `run` and `spawn`) has it as a variable; where its value is printed, its name is shown.
#[derive(Debug, Args)]
pub(crate) struct Secret {
    #[command(subcommand)]
    pub(crate) action: SecretAction,
}

/// What is done with secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretAction {
    /// Keep a secret: its value is read from standard input, or asked for without being shown.
    Set {
        /// Its name.
        #[arg(value_parser = values::word::<SecretName>)]
        name: SecretName,
    },
    /// List the names of secrets.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Forget a secret.
    Rm {
        /// Its name.
        #[arg(value_parser = values::word::<SecretName>)]
        name: SecretName,
    },
}
