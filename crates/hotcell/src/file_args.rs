//! The commands for files, with their flags and help.

use clap::Args;
use hotcell_model::LineRange;

use crate::cell_path::{CellDirectory, CellPath, Place};
use crate::values;

/// List a directory of a cell.
///
/// CELL:PATH names it; a relative path is below /workspace, and :PATH is in the default cell, the
/// one of this directory.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Which: a cell, or a directory in it.
    #[arg(value_name = "CELL[:PATH]", default_value = ":", hide_default_value = true,
          value_parser = values::word::<CellDirectory>)]
    pub(crate) directory: CellDirectory,
    /// List what is below it, too.
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    /// Show mode, size and time.
    #[arg(long, short)]
    pub(crate) long: bool,
    /// Only paths that this pattern matches, such as '**/*.rs'.
    #[arg(long, value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print files of a cell as they are.
#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// Which; :PATH is in the default cell.
    #[arg(required = true, value_name = "CELL:PATH", value_parser = values::word::<CellPath>)]
    pub(crate) files: Vec<CellPath>,
    /// Only these lines of each: 10-20, 10- or 10.
    #[arg(long, value_name = "LINES", value_parser = values::word::<LineRange>)]
    pub(crate) lines: Option<LineRange>,
    /// Print one JSON object for each file.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy files and directories into a cell, out of one, or from one to another.
///
/// CELL:PATH is in a cell; a relative path is below /workspace, and :PATH is in the default cell,
/// the one of this directory. What has a slash before its first colon is on this machine. An
/// existing directory as DST gets SRC into it. `-` is our standard input or output; a directory is
/// written there as a tar archive.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell cp data.csv work:in/
  hotcell cp work:out/report.pdf .
  hotcell cp src work:src
  make-data | hotcell cp - :data.bin
  hotcell cp :src - | tar t")]
pub(crate) struct Cp {
    /// What to copy.
    #[arg(value_name = "SRC", value_parser = values::word::<Place>)]
    pub(crate) from: Place,
    /// Where to.
    #[arg(value_name = "DST", value_parser = values::word::<Place>)]
    pub(crate) to: Place,
    /// For habit: directories come with everything in them anyway.
    #[arg(short, hide = true)]
    pub(crate) r: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Change a file of a cell.
///
/// With --old and --new a text is replaced, which must be in the file exactly once, and the diff is
/// printed. Without them the file is opened in $VISUAL, $EDITOR or vi and written back afterwards,
/// unless it was changed meanwhile: then your text is kept beside.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell edit work:src/main.rs
  hotcell edit :config.toml --old 'debug = true' --new 'debug = false'")]
pub(crate) struct Edit {
    /// Which; :PATH is in the default cell.
    #[arg(value_name = "CELL:PATH", value_parser = values::word::<CellPath>)]
    pub(crate) file: CellPath,
    /// The text to replace.
    #[arg(long, value_name = "TEXT", requires = "new", allow_hyphen_values = true)]
    pub(crate) old: Option<String>,
    /// What takes its place.
    #[arg(long, value_name = "TEXT", requires = "old", allow_hyphen_values = true)]
    pub(crate) new: Option<String>,
    /// Replace it wherever it is.
    #[arg(long, requires = "old")]
    pub(crate) all: bool,
    /// Only show what would change.
    #[arg(long, requires = "old")]
    pub(crate) dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Look for text in the files of a cell.
///
/// Prints PATH:LINE:TEXT. The exit code is 1 when nothing was found.
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// A regular expression.
    pub(crate) pattern: String,
    /// Where: a cell, or a directory or file in it.
    #[arg(value_name = "CELL[:PATH]", default_value = ":", hide_default_value = true,
          value_parser = values::word::<CellDirectory>)]
    pub(crate) directory: CellDirectory,
    /// The pattern is plain text.
    #[arg(long, short = 'F')]
    pub(crate) literal: bool,
    /// Upper and lower case count as the same.
    #[arg(long, short)]
    pub(crate) ignore_case: bool,
    /// Only files whose path this pattern matches, such as '*.rs'.
    #[arg(long, short, value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Show so many lines before and after each match.
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0)]
    pub(crate) context: u32,
    /// Look in paths instead of lines.
    #[arg(long)]
    pub(crate) names: bool,
    /// Also in hidden files, and in those that .gitignore names.
    #[arg(long)]
    pub(crate) hidden: bool,
    /// How many matches at most.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Go on where a page ended: the `next_cursor` of its JSON.
    #[arg(long, value_name = "CURSOR", requires = "json")]
    pub(crate) cursor: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
