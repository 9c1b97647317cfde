//! Paths as a command sees them: made absolute by the directory it runs in.

use super::field::{Field, GAP};
use super::state::{State, normal};
use crate::finding::{HOLE, Known, Touch, Touched, Value};
use crate::rules::Glob;

/// The paths that an argument names, one for each directory that may be the current one.
pub(super) fn touched(field: &Field, how: Touch, state: &State) -> Vec<Touched> {
    resolved(field, state).into_iter().map(|path| Touched { path, how }).collect()
}

/// Whether a part of a path is `.git`, or a pattern that fits it: no star means a leading dot.
pub(super) fn may_be_git_directory(part: &str) -> bool {
    let pattern = || Glob::name(&part.replace(['[', ']'], "*"));
    part == ".git" || part.starts_with('.') && pattern().fits_text(".git")
}

/// The absolute paths that an argument may mean. A pattern that fits what git keeps means that, too.
pub(super) fn resolved(field: &Field, state: &State) -> Vec<Value> {
    let mut paths = as_written(field, state);
    if field.glob {
        let part = |part| if may_be_git_directory(part) { ".git" } else { part };
        let text = field.text.split('/').map(part).collect::<Vec<_>>().join("/");
        if text != field.text {
            paths.extend(as_written(&Field { text, ..field.clone() }, state));
        }
    }
    paths
}

fn as_written(field: &Field, state: &State) -> Vec<Value> {
    let text = field.text.as_str();
    if field.is_blank() {
        return vec![Value::unknown()];
    }
    let whole = field.find().is_some();
    let value = |path: &str, known: bool| {
        let known = if known { Known::Fully } else { Known::Partly };
        Value { text: normal(path).replace(GAP, &HOLE.to_string()), known }
    };
    if text.starts_with('/') || field.tilde {
        return vec![value(text, whole)];
    }
    if text.starts_with(GAP) {
        let path = normal(text).replace(GAP, &HOLE.to_string());
        return vec![Value { text: path, known: Known::Partly }];
    }
    if state.directories().is_empty() {
        return vec![value(text, false)];
    }
    state.directories().iter().map(|from| value(&format!("{from}/{text}"), whole)).collect()
}
