//! The arguments of `hotcell net`.

use clap::{Args, Subcommand};
use hotcell_model::{CellRef, NetRule};

use crate::values;

/// Show and change what a cell may reach over the network.
///
/// A cell reaches names that were allowed and nothing else. A change takes hold at once, also in a
/// cell that runs, and stays: connections to what is denied are cut.
#[derive(Debug, Args)]
#[command(after_help = "\
Names are written as name (ports 22, 80 and 443), name:port, *.suffix, *.suffix:port or *.
With /raw at the end, connections are not inspected.

Examples:
  hotcell net allow work pypi.org files.pythonhosted.org
  hotcell net allow work db.example.org:5432
  hotcell net deny work '*.example.org'
  hotcell net log work --json")]
pub(crate) struct Net {
    #[command(subcommand)]
    pub(crate) action: NetAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NetAction {
    /// Let a cell reach more names.
    Allow(ChangeNet),
    /// Let a cell reach names no more; a name without a port stands for all ports.
    Deny(ChangeNet),
    /// Show what a cell may reach, and what it carried.
    Show(ShowNet),
    /// Show what a cell did over the network, the newest last.
    Log(LogNet),
}

#[derive(Debug, Args)]
pub(crate) struct ChangeNet {
    /// The cell.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// The names.
    #[arg(required = true, value_name = "NAME", value_parser = values::word::<NetRule>)]
    pub(crate) names: Vec<NetRule>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowNet {
    /// The cell.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogNet {
    /// The cell; one that has ended by its id, as long as its logs are kept.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// Show so many lines at most.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    pub(crate) limit: u32,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}
