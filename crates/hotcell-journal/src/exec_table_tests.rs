//! Tests of the fold over entries.

use hotcell_model::{
    CellId, CloseReason, Command, EndCause, ExecEnd, ExecId, ExecState, Timestamp, Usage,
};

use crate::{Entry, ExecTable};

fn id(number: u64) -> ExecId {
    ExecId::from_random(number)
}

fn queued(number: u64) -> Entry {
    Entry::Queued {
        exec: id(number),
        command: Command::Shell("true".to_owned()),
        pty: false,
        as_root: false,
        keep_s: None,
        at: Timestamp(number),
    }
}

fn end(cause: EndCause) -> ExecEnd {
    ExecEnd {
        cause,
        exit_code: (cause == EndCause::Exited).then_some(3),
        signal: None,
        limit: None,
        limits_hit: Vec::new(),
        killed_descendants: 0,
        ended_at: Timestamp(50),
        usage: Usage::default(),
        session: None,
    }
}

fn opened(at: u64) -> Entry {
    Entry::Opened { at: Timestamp(at), boot: "b".to_owned(), software: "s".to_owned() }
}

fn table(entries: &[Entry]) -> ExecTable {
    let mut table = ExecTable::new(CellId::from_random(1));
    entries.iter().for_each(|entry| table.apply(entry));
    table
}

#[test]
fn an_exec_goes_through_its_life() {
    let mut table = table(&[opened(0), queued(2), queued(1)]);
    let order: Vec<_> = table.execs().map(|exec| exec.id.clone()).collect();
    assert_eq!(order, [id(2), id(1)]);
    assert_eq!(table.get(&id(1)).unwrap().state, ExecState::Queued);
    table.apply(&Entry::Started { exec: id(1), pid: None, at: Timestamp(9) });
    assert_eq!(table.get(&id(1)).unwrap().state, ExecState::Running);
    table.apply(&Entry::Ended { exec: id(1), end: end(EndCause::Exited) });
    let exec = table.get(&id(1)).unwrap();
    assert_eq!((exec.state, exec.started_at), (ExecState::Ended, Some(Timestamp(9))));
    assert_eq!(exec.end, Some(end(EndCause::Exited)));
}

#[test]
fn a_new_supervisor_means_that_open_execs_are_lost() {
    let table = table(&[
        queued(1),
        Entry::Ended { exec: id(1), end: end(EndCause::Exited) },
        queued(2),
        opened(77),
        queued(3),
    ]);
    let causes: Vec<_> = table.execs().map(|e| e.end.as_ref().map(|end| end.cause)).collect();
    assert_eq!(causes, [Some(EndCause::Exited), Some(EndCause::Lost), None]);
    assert_eq!(table.get(&id(2)).unwrap().end.as_ref().unwrap().ended_at, Timestamp(77));
}

#[test]
fn a_known_end_takes_the_place_of_lost_and_nothing_takes_its() {
    let mut table = table(&[queued(1)]);
    table.mark_lost(Timestamp(5));
    table.apply(&Entry::Ended { exec: id(1), end: end(EndCause::Exited) });
    table.apply(&Entry::Ended { exec: id(1), end: end(EndCause::Lost) });
    table.apply(&queued(1));
    table.apply(&Entry::Started { exec: id(1), pid: None, at: Timestamp(2) });
    let exec = table.get(&id(1)).unwrap();
    assert_eq!(exec.end.as_ref().unwrap().cause, EndCause::Exited);
    assert_eq!(exec.state, ExecState::Ended);
}

#[test]
fn only_what_entries_touched_has_changed() {
    let known = table(&[queued(1), queued(2)]);
    let mut table = ExecTable::new(CellId::from_random(1));
    known.execs().for_each(|exec| table.insert_known(exec.clone()));
    assert_eq!(table.changed(), []);
    table.apply(&Entry::Started { exec: id(2), pid: None, at: Timestamp(1) });
    table.apply(&Entry::Started { exec: id(9), pid: None, at: Timestamp(1) });
    assert_eq!(table.changed(), [table.get(&id(2)).unwrap().clone()]);
    table.mark_lost(Timestamp(3));
    assert_eq!(table.changed().len(), 2);
}

#[test]
fn closed_holds_as_long_as_it_is_the_last_word() {
    let closed = Entry::Closed { reason: CloseReason::Asleep, at: Timestamp(1) };
    let mut table = table(&[opened(0), closed]);
    assert_eq!(table.closed(), Some(CloseReason::Asleep));
    table.apply(&opened(2));
    assert_eq!(table.closed(), None);
}
