//! `hotcell cells`: which cells there are.

use hotcell_model::{Cell, CellList, Timestamp};

use crate::args::Cells;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{Table, or_dash, print, print_json};
use crate::values::short;

/// Lists cells.
pub(super) async fn cells(session: &Session, args: Cells) -> Result<u8, Failure> {
    let list = CellList { include_stopped: args.all };
    let found = match args.all_tenants {
        true => session.above_tenants().ask(list).await?,
        false => session.ask(list).await?,
    };
    if args.json {
        print_json(&found)?;
        return Ok(0);
    }
    let mut shown = table(&found.cells, Timestamp::now());
    if args.all_tenants {
        let tenants = found.cells.iter().map(|cell| cell.tenant.to_string());
        shown = shown.with_column("TENANT", tenants);
    }
    print(shown.to_string())?;
    Ok(0)
}

fn table(cells: &[Cell], now: Timestamp) -> Table {
    let mut table =
        Table::new(["CELL", "NAME", "STATE", "AGE", "ENDS IN", "IMAGE", "DRIVER", "ISOLATION"]);
    for cell in cells {
        let level = cell.isolation.as_ref().map(|isolation| isolation.level.as_str());
        table.row([
            cell.id.to_string(),
            or_dash(cell.alias.as_ref()),
            cell.state.as_str().to_owned(),
            short(cell.created_at.until(now)),
            or_dash(cell.expires_at.map(|at| short(now.until(at)))),
            cell.image.clone(),
            cell.driver.clone(),
            or_dash(level),
        ]);
    }
    table
}
