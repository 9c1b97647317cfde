//! By what is found again what belongs to a state directory.

use std::collections::HashMap;

use hotcell_model::CellId;

/// The cell that something belongs to.
pub(crate) const CELL: &str = "dev.hotcell.cell";
/// The state directory that the cell belongs to, by its id.
pub(crate) const STATE: &str = "dev.hotcell.state";

/// The state directory that a copy of the program was made for, by its id.
pub(crate) const PROGRAM: &str = "dev.hotcell.program";

/// What a copy of the program carries.
pub(crate) fn of_program(state: &str) -> HashMap<String, String> {
    HashMap::from([(PROGRAM.to_owned(), state.to_owned())])
}

/// What everything of a cell carries.
pub(crate) fn of_cell(cell: &CellId, state: &str) -> HashMap<String, String> {
    HashMap::from([(CELL.to_owned(), cell.to_string()), (STATE.to_owned(), state.to_owned())])
}
