//! A native cell, as whoever carries its connections sees it.

use std::os::fd::BorrowedFd;

use hotcell_jail::ids::IdLayout;
use hotcell_jail::swap::CellNamespaces;
use hotcell_keeper::{Door, Served};

use crate::order::Placed;
use crate::paths::CellPaths;

/// The cell, with the namespaces of its supervisor if they are within reach.
pub(crate) fn served<'a>(
    paths: &'a CellPaths,
    placed: &'a Placed,
    namespaces: Option<&'a CellNamespaces>,
    supervisor: BorrowedFd<'a>,
) -> Served<'a> {
    Served {
        place: paths.kept(),
        spec: &placed.spec,
        records: &placed.records,
        owner: placed.ids.supervisor(),
        becomes: match placed.ids {
            IdLayout::Private { base } => Some((base, base)),
            IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => None,
        },
        door: namespaces.map(|namespaces| Door::Namespaces(namespaces, supervisor)),
    }
}
