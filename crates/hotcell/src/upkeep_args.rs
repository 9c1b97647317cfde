//! The arguments of `hotcell volume`, `hotcell gc` and `hotcell reconcile`.

use clap::{Args, Subcommand};
use hotcell_model::CellRef;

use crate::values;

/// See what ended cells left, bring them back, or remove it.
///
/// The files of a persistent cell are kept when it is ended, with its checkpoints, for as long as
/// volume_keep_s says.
#[derive(Debug, Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    pub(crate) action: VolumeAction,
}

/// What is done with volumes.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeAction {
    /// List them, the newest first.
    List {
        /// Show those of every tenant.
        #[arg(long)]
        all_tenants: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Bring a cell back as it was, with its files; its name must be free.
    Restore {
        /// Its id.
        #[arg(value_name = "CELL", value_parser = values::word::<CellRef>)]
        cell: CellRef,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove the files of cells that were ended.
    Rm {
        /// Their ids.
        #[arg(required = true, value_name = "CELL", value_parser = values::word::<CellRef>)]
        cells: Vec<CellRef>,
    },
}

/// Remove what is over or that nobody needs.
///
/// Cells whose time is over, old volumes, records and logs, images that were not used for long, layers
/// that nothing names, what killed processes left. A server does it every hour.
#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// Only tell what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare what is known of cells with what is there, and mend what differs.
///
/// Cells that are there and not known are known again, what belongs to no cell is removed, and so is what
/// was left half made or half removed. What other state directories have is not touched. A server does it
/// when it starts.
#[derive(Debug, Args)]
pub(crate) struct Reconcile {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
