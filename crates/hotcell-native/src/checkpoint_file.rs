//! What a checkpoint is on disk: which layers it is made of.

use std::path::PathBuf;

use hotcell_jail::ids::IdLayout;
use hotcell_jail::mounts::{Layer, Lower, LowerIds, Upper};
use hotcell_keeper::WhichProcess;
use hotcell_model::Checkpoint;
use serde::{Deserialize, Serialize};

use crate::order::Placed;
use crate::project::Drift;

/// A checkpoint, as its file in the cell's directory has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointFile {
    /// What callers see of it.
    pub(crate) checkpoint: Checkpoint,
    /// What each part of the cell's root is made of.
    pub(crate) lowers: Vec<Part>,
    /// The process that forks from it, if that is all it is for. It goes when that is done, or
    /// with the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked_by: Option<WhichProcess>,
    /// What was known of changes of the user in the cell's project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drift: Option<Drift>,
}

impl CheckpointFile {
    /// Whether it was left by a process that did not finish its forks.
    pub(crate) fn is_left(&self) -> bool {
        self.forked_by.as_ref().is_some_and(|process| !process.is_alive())
    }
}

/// One part of a root without what is written to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Where it appears in the cell.
    pub(crate) target: PathBuf,
    /// Its directories, the topmost first.
    pub(crate) lowers: Vec<Lower>,
}

impl Placed {
    /// What each part is made of, without what is written to it.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let part =
            |layer: &Layer| Part { target: layer.target.clone(), lowers: layer.lowers.clone() };
        self.layers.iter().map(part).collect()
    }

    /// The cell with what was written as a layer that nobody writes to, and `upper` for what comes.
    /// A part to which nothing was written stays as it is, unless it is `/` and others do not.
    pub(crate) fn stacked(&self, upper: PathBuf, is_written: impl Fn(&Upper) -> bool) -> Self {
        let written: Vec<bool> =
            self.layers.iter().map(|layer| layer.upper.as_ref().is_some_and(&is_written)).collect();
        let any = written.contains(&true);
        let layers = self.layers.iter().zip(written).map(|(layer, written)| {
            let stacks = written || (any && layer.target == *"/");
            match (&layer.upper, stacks) {
                (Some(old), true) => {
                    let frozen = Lower { path: old.data.clone(), ids: LowerIds::Own };
                    let lowers = std::iter::once(frozen).chain(layer.lowers.iter().cloned());
                    Layer {
                        target: layer.target.clone(),
                        lowers: lowers.collect(),
                        upper: Some(upper_of(old, &upper)),
                        shared: None,
                    }
                }
                (_, _) => layer.clone(),
            }
        });
        Self { layers: layers.collect(), upper: Some(upper.clone()), ..self.clone() }
    }

    /// The cell on other layers, with `upper` for what comes.
    pub(crate) fn on(&self, parts: &[Part], upper: PathBuf) -> Self {
        let layers = self.layers.iter().map(|layer| {
            let part = parts.iter().find(|part| part.target == layer.target);
            Layer {
                target: layer.target.clone(),
                lowers: part.map_or_else(|| layer.lowers.clone(), |part| part.lowers.clone()),
                upper: layer.upper.as_ref().map(|old| upper_of(old, &upper)),
                shared: layer.shared.clone(),
            }
        });
        Self { layers: layers.collect(), upper: Some(upper.clone()), ..self.clone() }
    }
}

/// The same part of another directory for writes.
fn upper_of(old: &Upper, upper: &std::path::Path) -> Upper {
    let name = old.data.parent().and_then(|part| part.file_name()).unwrap_or_default();
    Upper { data: upper.join(name).join("data"), work: upper.join(name).join("work") }
}

/// The parts of a cell as another one sees them, which may have ids of its own. What the one wrote is
/// never the other's.
pub(crate) fn seen_by_another(parts: &[Part], owner: &IdLayout) -> Vec<Part> {
    let foreign = |lower: &Lower| {
        let ids = match (lower.ids, owner) {
            (LowerIds::Own, IdLayout::Private { base }) => LowerIds::Other(*base),
            (
                LowerIds::Own,
                IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. },
            ) => LowerIds::Other(0),
            (ids @ (LowerIds::Image | LowerIds::Other(_) | LowerIds::Host { .. }), _) => ids,
        };
        Lower { path: lower.path.clone(), ids }
    };
    parts
        .iter()
        .map(|part| Part {
            target: part.target.clone(),
            lowers: part.lowers.iter().map(foreign).collect(),
        })
        .collect()
}
