//! The two ways in which a cell is placed.

use hotcell_jail::Namespaces;
use hotcell_jail::ids::IdLayout;
use hotcell_model::{Error, IsolationLevel, Result};

use crate::diagnose::{self, Prospect};
use crate::driver::Native;
use crate::on_host;
use crate::order::Placed;

/// How a cell is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// In namespaces of its own, in which its supervisor is pid 1.
    InNamespaces,
    /// As processes of the host: level `process`.
    OnHost,
}

impl Way {
    /// The namespaces that a supervisor is born into.
    pub(crate) fn namespaces(self) -> Namespaces {
        match self {
            Self::InNamespaces => Namespaces::AT_BIRTH,
            Self::OnHost => Namespaces::NONE,
        }
    }
}

impl Placed {
    /// How it was placed. What lies on disk depends on it, so it stays that way.
    pub(crate) fn way(&self) -> Way {
        match self.ids {
            IdLayout::Private { .. } | IdLayout::Subordinate { .. } | IdLayout::Single { .. } => {
                Way::InNamespaces
            }
            IdLayout::Host { .. } => Way::OnHost,
        }
    }
}

impl Native {
    /// How a new cell is placed: as processes of the host only where nothing better can be made, and
    /// only if the operator said that this is enough.
    pub(crate) fn way(&self) -> Result<Way> {
        match self.settings.required.level {
            IsolationLevel::Limited | IsolationLevel::Full => return Ok(Way::InNamespaces),
            IsolationLevel::Process => {}
        }
        if let Some(way) = self.found_way.get() {
            return Ok(*way);
        }
        let way = match diagnose::prospect_of_namespaces(self)? {
            Prospect::Made => Way::InNamespaces,
            // Less than what may be possible is not taken for an answer, and it is tried again.
            Prospect::Unclear(refusal) => {
                return Err(Error::unavailable(format!(
                    "cannot try out a cell with namespaces, though nothing forbids them: {refusal}"
                ))
                .hint("see the remedy with `hotcell doctor`, and try again"));
            }
            Prospect::Forbidden => {
                on_host::check()?;
                on_host::check_place(&self.settings.state_dir)?;
                Way::OnHost
            }
        };
        Ok(*self.found_way.get_or_init(|| way))
    }
}

/// What a cell on the host cannot have, and what would change that.
pub(crate) fn not_on_host(what: &str) -> Error {
    Error::unsupported(format!("a cell of level process has {what}"))
        .hint("let the machine make user namespaces, see `hotcell doctor`")
}
