//! Tests of batches: all or none, whatever happens in between.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use hotcell_model::{
    BatchOutcome, BatchPart, BatchResult, ErrorCode, FileBatch, FileDelete, FileEdit, FileImport,
    FileMakeDirectory, FileMove, FileOp, FileRead, FileWrite, Result, TextEdit,
};
use proptest::prelude::*;

use crate::batch::Ready;
use crate::crash::Crash;
use crate::import::{sweep, unpack};
use crate::testing::{Place, state, talk};
use crate::undo::recover;
use crate::unpacked::Bounds;

/// Does a batch; what came of it, and what it read.
fn try_do(
    place: &Place,
    batch: &FileBatch,
    content: &[u8],
    log: &mut File,
) -> Result<(BatchResult, Vec<u8>)> {
    let (done, read) = talk(content, |conversation| {
        let mut ready = Ready::new(&place.tree, batch, conversation)?;
        let done = ready.work(&place.tree, &place.ticks, batch, log)?;
        ready.send(conversation)?;
        Ok(done)
    });
    done.map(|done| (done, read))
}

/// One operation of a test, with its content.
#[derive(Debug, Clone)]
enum Op {
    Write(&'static str, String),
    Edit(&'static str, char, String),
    Delete(&'static str),
    MakeDirectory(&'static str),
    Move(&'static str, &'static str),
    Copy(&'static str, &'static str),
    Fail,
}

impl Op {
    fn part(&self) -> (BatchPart, Vec<u8>) {
        let mut content = Vec::new();
        let between = |from: &str, to: &str| FileMove {
            from: from.to_owned(),
            to: to.to_owned(),
            overwrite: true,
            ..FileMove::default()
        };
        let op = match self {
            Self::Write(path, text) => {
                content = text.clone().into_bytes();
                let path = (*path).to_owned();
                FileWrite { path, create_parents: true, ..FileWrite::default() }.into()
            }
            Self::Edit(path, old, new) => {
                let edit = TextEdit { old: old.to_string(), new: new.clone(), replace_all: true };
                let path = (*path).to_owned();
                FileEdit { path, edits: vec![edit], ..FileEdit::default() }.into()
            }
            Self::Delete(path) => {
                let path = (*path).to_owned();
                FileDelete { path, recursive: true, ..FileDelete::default() }.into()
            }
            Self::MakeDirectory(path) => {
                FileMakeDirectory { path: (*path).to_owned(), create_parents: true }.into()
            }
            Self::Move(from, to) => FileOp::Move(between(from, to)),
            Self::Copy(from, to) => FileOp::Copy(between(from, to)),
            Self::Fail => {
                let path = "never/there".to_owned();
                FileDelete { path, ..FileDelete::default() }.into()
            }
        };
        (BatchPart { op, content_bytes: content.len() as u64 }, content)
    }
}

fn batch_of(ops: &[Op], atomic: bool) -> (FileBatch, Vec<u8>) {
    let (operations, content): (Vec<_>, Vec<_>) = ops.iter().map(Op::part).unzip();
    (FileBatch { operations, atomic }, content.concat())
}

const PATHS: [&str; 7] = ["a", "b", "d", "d/a", "d/e", "d/e/f", "g/h"];

fn any_op() -> impl Strategy<Value = Op> {
    let path = || prop::sample::select(PATHS.to_vec());
    prop_oneof![
        4 => (path(), "[xyz]{0,4}").prop_map(|(path, text)| Op::Write(path, text)),
        2 => (path(), prop::sample::select(vec!['x', 'y']), "[xyz]{0,3}")
            .prop_map(|(path, old, new)| Op::Edit(path, old, new)),
        2 => path().prop_map(Op::Delete),
        2 => path().prop_map(Op::MakeDirectory),
        3 => (path(), path()).prop_map(|(from, to)| Op::Move(from, to)),
        3 => (path(), path()).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => Just(Op::Fail),
    ]
}

fn furnished() -> Place {
    let place = Place::new();
    place.put("a", "xx");
    place.put("d/a", "yx");
    place.put("d/e/f", "zz");
    place
}

/// What a batch's operations do, by their contract: files by path, directories as `None`.
type Model = BTreeMap<PathBuf, Option<String>>;

fn model_of(place: &Place) -> Model {
    let shown = state(&place.at(""));
    let parse = |shown: String| shown.split_once(' ').map(|(_, content)| content.to_owned());
    shown.into_iter().map(|(path, shown)| (path, parse(shown))).collect()
}

fn make_parents(model: &mut Model, path: &str) -> Option<()> {
    let mut parents: Vec<PathBuf> =
        PathBuf::from(path).ancestors().skip(1).map(Into::into).collect();
    parents.pop();
    for parent in parents.into_iter().rev() {
        if model.entry(parent).or_insert(None).is_some() {
            return None;
        }
    }
    Some(())
}

fn below(model: &Model, path: &str) -> Vec<(PathBuf, Option<String>)> {
    let found = model.iter().filter(|(at, _)| at.starts_with(path));
    found.map(|(at, content)| (at.clone(), content.clone())).collect()
}

/// Does one operation; `None` when it must fail.
fn apply(model: &mut Model, op: &Op) -> Option<()> {
    let at = |path: &str| PathBuf::from(path);
    match op {
        Op::Write(path, text) => {
            make_parents(model, path)?;
            if model.get(&at(path)) == Some(&None) {
                return None;
            }
            model.insert(at(path), Some(text.clone()));
        }
        Op::Edit(path, old, new) => {
            let text = model.get_mut(&at(path))?.as_mut()?;
            if !text.contains(*old) || *new == old.to_string() {
                return None;
            }
            *text = text.replace(*old, new);
        }
        Op::Delete(path) => {
            model.get(&at(path))?;
            model.retain(|other, _| !other.starts_with(path));
        }
        Op::MakeDirectory(path) => {
            make_parents(model, path)?;
            if model.entry(at(path)).or_insert(None).is_some() {
                return None;
            }
        }
        Op::Move(from, to) | Op::Copy(from, to) => {
            if at(to).starts_with(from) {
                return None;
            }
            model.get(&at(from))?;
            make_parents(model, to)?;
            match (model.get(&at(from)), model.get(&at(to))) {
                (_, Some(None)) | (Some(None), Some(_)) => return None,
                (_, _) => {}
            }
            let moved = below(model, from);
            model.remove(&at(to));
            if matches!(op, Op::Move(..)) {
                model.retain(|other, _| !other.starts_with(from));
            }
            for (path, content) in moved {
                let rest = path.strip_prefix(from).unwrap();
                let to = if rest.as_os_str().is_empty() { at(to) } else { at(to).join(rest) };
                model.insert(to, content);
            }
        }
        Op::Fail => return None,
    }
    Some(())
}

#[test]
fn content_that_does_not_fit_is_refused() {
    let place = furnished();
    let (batch, content) =
        batch_of(&[Op::Write("a", "1".into()), Op::Write("b", "22".into())], true);
    let before = state(place.root());
    let mut log = tempfile::tempfile().unwrap();
    for content in [&content[..2], b"1222"] {
        let error = try_do(&place, &batch, content, &mut log).unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{error}");
    }
    assert_eq!(state(place.root()), before);
    try_do(&place, &batch, &content, &mut log).unwrap();
    assert_eq!(fs::read_to_string(place.at("b")).unwrap(), "22");
}

#[test]
fn what_is_kept_meanwhile_is_in_nobodys_way() {
    let place = furnished();
    let empty = |path: &str| BatchPart {
        op: FileDelete { path: path.to_owned(), ..FileDelete::default() }.into(),
        content_bytes: 0,
    };
    let ops = [Op::Write("d/a", "1".into()), Op::Copy("d", "copy"), Op::Move("d", "moved")];
    let (mut batch, content) = batch_of(&ops, true);
    batch.operations.extend([
        empty("moved/e/f"),
        empty("moved/e"),
        empty("moved/a"),
        empty("moved"),
    ]);
    let mut log = tempfile::tempfile().unwrap();
    let (done, _) = try_do(&place, &batch, &content, &mut log).unwrap();
    assert!(!done.rolled_back, "{done:?}");
    let left: Vec<String> =
        state(&place.at("")).into_keys().map(|path| path.display().to_string()).collect();
    assert_eq!(left, ["a", "copy", "copy/a", "copy/e", "copy/e/f"]);
}

#[test]
fn nothing_that_was_kept_is_left() {
    let place = furnished();
    let ops = [
        Op::Write("d/a", "1".into()),
        Op::Delete("d/e/f"),
        Op::Move("d", "g/h"),
        Op::Write("g/h/a", "2".into()),
        Op::Move("g", "i"),
    ];
    let (batch, content) = batch_of(&ops, true);
    let mut log = tempfile::tempfile().unwrap();
    try_do(&place, &batch, &content, &mut log).unwrap();
    let left: Vec<String> =
        state(&place.at("")).into_keys().map(|path| path.display().to_string()).collect();
    assert_eq!(left, ["a", "i", "i/h", "i/h/a", "i/h/e"]);
}

#[test]
fn what_an_undone_batch_read_is_not_sent() {
    let place = furnished();
    let read = |path: &str| BatchPart {
        op: FileRead { path: path.to_owned(), ..FileRead::default() }.into(),
        content_bytes: 0,
    };
    let mut log = tempfile::tempfile().unwrap();
    let mut batch = FileBatch { operations: vec![read("a"), read("d/a")], atomic: true };
    assert_eq!(try_do(&place, &batch, &[], &mut log).unwrap().1, b"xxyx");
    batch.operations.push(read("missing"));
    let (done, sent) = try_do(&place, &batch, &[], &mut log).unwrap();
    assert!(done.rolled_back && sent.is_empty());
    batch.atomic = false;
    let (done, sent) = try_do(&place, &batch, &[], &mut log).unwrap();
    assert!(matches!(done.outcomes[2], BatchOutcome::Failed(_)));
    assert_eq!(sent, b"xxyx");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn a_batch_does_what_its_operations_say(ops in prop::collection::vec(any_op(), 1..7), atomic: bool) {
        let place = furnished();
        let before = model_of(&place);
        let mut expected = before.clone();
        let mut failed = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let mut next = expected.clone();
            match apply(&mut next, op) {
                Some(()) => expected = next,
                None => failed.push(at),
            }
            if atomic && !failed.is_empty() {
                expected = before.clone();
                break;
            }
        }
        let (batch, content) = batch_of(&ops, atomic);
        let mut log = tempfile::tempfile().unwrap();
        let (done, _) = try_do(&place, &batch, &content, &mut log).unwrap();
        let outcomes = done.outcomes.iter().enumerate();
        let found: Vec<usize> =
            outcomes.filter(|(_, o)| matches!(o, BatchOutcome::Failed(_))).map(|(at, _)| at).collect();
        prop_assert_eq!(&found, &failed, "{:?}", done);
        let mut after = model_of(&place);
        if !atomic {
            // What fails may have made the directories above it.
            after.retain(|path, content| content.is_some() || expected.contains_key(path));
        }
        prop_assert_eq!(after, expected);
        prop_assert_eq!(log.metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_batch_that_dies_anywhere_is_done_or_undone(ops in prop::collection::vec(any_op(), 1..5)) {
        let mut log = tempfile::tempfile().unwrap();
        let (batch, content) = batch_of(&ops, true);
        let whole = furnished();
        let before = state(&whole.at(""));
        try_do(&whole, &batch, &content, &mut log).unwrap();
        let after = state(&whole.at(""));
        for steps in 0.. {
            let place = furnished();
            Crash::after(steps);
            let done = try_do(&place, &batch, &content, &mut log);
            if !Crash::restart() {
                prop_assert!(done.is_ok());
                break;
            }
            recover(&place.tree, &mut log).unwrap();
            let found = state(&place.at(""));
            prop_assert!(found == before || found == after, "{} steps: {:?}", steps, found);
        }
    }
}

#[test]
fn an_import_that_dies_anywhere_is_done_or_undone() {
    let source = Place::new();
    for path in ["a", "d/a", "d/n/x", "n/m", "d/e/g"] {
        source.put(path, "new");
    }
    let request = hotcell_model::FileExport { path: ".".into(), ..Default::default() };
    let (_, archive) =
        talk(&[], |conversation| crate::export::export(&source.tree, &request, conversation));
    let mut log = tempfile::tempfile().unwrap();
    let request = FileImport { path: ".".into(), ..FileImport::default() };
    let before = state(&furnished().at(""));
    let (mut undone, mut done) = (0, 0);
    for steps in 0.. {
        let place = furnished();
        Crash::after(steps);
        let result = talk(&archive, |conversation| {
            let ready = unpack(&place.tree, &request, conversation, Bounds::default())?;
            ready.place(&place.tree, conversation, &mut log)
        });
        if !Crash::restart() {
            assert!(result.0.is_ok());
            assert_eq!(state(&place.at("")).len(), before.len() + 5);
            break;
        }
        recover(&place.tree, &mut log).unwrap();
        sweep(&place.tree);
        let found = state(&place.at(""));
        if found == before {
            undone += 1;
        } else {
            assert_eq!(found.len(), before.len() + 5, "{steps} steps: {found:?}");
            assert!(found.iter().all(|(path, shown)| {
                path.ends_with("f") || shown == "directory" || shown.ends_with("new")
            }));
            done += 1;
        }
    }
    assert!(undone > 5 && done > 0, "{undone} {done}");
}
