//! What a call that reads an exec's output waits for, and a terminal's screen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TerminalSize;

/// What a call waits for before it returns an exec's output. The end of the exec and the call's
/// deadline end every wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// The first new output.
    Output,
    /// The program waits for input again, or has printed something and is quiet.
    Settled,
    /// The foreground program is blocked reading its terminal or standard input. Where that cannot be
    /// known, the same as `Settled`.
    Waiting,
    /// This regular expression matches new output.
    Match(String),
    /// The end of the exec.
    End,
}

/// The form in which output is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputForm {
    /// As it was printed.
    #[default]
    Records,
    /// As the screen of its terminal shows it.
    Screen,
}

/// How long to wait for an exec's output, where that depends on the exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitBound {
    /// For the whole wait of the call.
    #[default]
    Given,
    /// For the whole wait of the call if the exec has a terminal, else only for a moment.
    ByKind,
}

/// What of an exec's output to wait for, and how to return it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputView {
    /// What to wait for. Default: `Settled` if the exec has a terminal, else `Output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The form of the output.
    #[serde(default)]
    pub form: OutputForm,
    /// How long to wait.
    #[serde(default)]
    pub bound: WaitBound,
}

impl OutputView {
    /// The first new output as it was printed, whatever kind of exec it is.
    #[must_use]
    pub fn first_output() -> Self {
        Self { until: Some(Until::Output), ..Self::default() }
    }
}

/// Where a terminal's cursor is, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorPlace {
    /// Its row.
    pub row: u16,
    /// Its column.
    pub col: u16,
}

/// Text that stands out on a terminal's screen: in reverse video, or on another background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Highlight {
    /// Its row, counted from zero.
    pub row: u16,
    /// Its first column, counted from zero.
    pub col: u16,
    /// The text.
    pub text: String,
}

/// The screen of an exec's terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalScreen {
    /// Its rows as text, without blanks at their ends and without empty rows at the bottom.
    pub rows: Vec<String>,
    /// Where its cursor is; none if it is hidden.
    pub cursor: Option<CursorPlace>,
    /// What stands out, such as the selected item of a menu.
    pub highlighted: Vec<Highlight>,
    /// The title that the program gave it.
    pub title: Option<String>,
    /// Whether it is the alternate screen, as of full-screen programs.
    pub alternate: bool,
    /// Its size.
    pub size: TerminalSize,
    /// Whether output before it was not kept or not read, so that parts of it may be missing.
    pub partial: bool,
    /// The rows and columns that are rendered, if the screen is larger than that.
    pub cut_to: Option<TerminalSize>,
}
