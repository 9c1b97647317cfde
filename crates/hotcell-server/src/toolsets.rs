//! Which tools a server shows.

use std::str::FromStr;

use hotcell_model::Error;

/// Tools that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    /// Making, finding and ending cells.
    Cell,
    /// Running commands.
    Exec,
    /// Reading and changing files.
    Fs,
    /// Running code that calls tools.
    Code,
    /// Asking what may be done.
    Admin,
}

impl Toolset {
    const ALL: [(&'static str, Self); 5] = [
        ("cell", Self::Cell),
        ("exec", Self::Exec),
        ("fs", Self::Fs),
        ("code", Self::Code),
        ("admin", Self::Admin),
    ];
}

/// The sets that were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolsets(Vec<Toolset>);

impl Toolsets {
    /// Whether a set is among them.
    #[must_use]
    pub fn has(&self, toolset: Toolset) -> bool {
        self.0.contains(&toolset)
    }
}

impl Default for Toolsets {
    fn default() -> Self {
        Self(vec![Toolset::Cell, Toolset::Exec, Toolset::Fs, Toolset::Code])
    }
}

impl FromStr for Toolsets {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let named = |name: &str| {
            let found = Toolset::ALL.iter().find(|(known, _)| *known == name.trim());
            found.map(|(_, toolset)| *toolset).ok_or_else(|| {
                Error::invalid(format!("there is no toolset {name:?}"))
                    .hint(format!("choose among {}", Toolset::ALL.map(|(name, _)| name).join(",")))
            })
        };
        text.split(',').map(named).collect::<Result<_, _>>().map(Self)
    }
}
