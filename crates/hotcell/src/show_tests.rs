//! How tables and lines look.

use hotcell_model::{
    CellId, Command, EndCause, Exec, ExecEnd, ExecId, ExecState, Timestamp, Usage,
};

use crate::show::{Table, exec_table, one_line};

fn exec(random: u64, command: Command) -> Exec {
    Exec {
        id: ExecId::from_random(random),
        cell: CellId::from_random(7),
        state: ExecState::Running,
        command,
        pty: false,
        as_root: false,
        queued_at: Timestamp(1_000),
        approval: None,
        checkpoint: None,
        started_at: Some(Timestamp(2_000)),
        pid: Some(7),
        keep_s: None,
        end: None,
    }
}

#[test]
fn execs_in_a_table() {
    let running = exec(1, Command::Shell("for i in 1 2\ndo\techo \x1b[31m$i\ndone".to_owned()));
    let queued = Exec {
        state: ExecState::Queued,
        started_at: None,
        ..exec(2, Command::Argv(vec!["sleep".to_owned(), "1 2".to_owned()]))
    };
    let ended = Exec {
        state: ExecState::Ended,
        end: Some(ExecEnd {
            cause: EndCause::Exited,
            exit_code: Some(3),
            signal: None,
            limit: None,
            limits_hit: Vec::new(),
            killed_descendants: 0,
            ended_at: Timestamp(5_000),
            usage: Usage { wall_ms: 250, ..Usage::default() },
            session: None,
        }),
        ..exec(3, Command::Shell("x".repeat(100)))
    };
    let table = exec_table(&[running, queued, ended], Timestamp(63_000));
    insta::assert_snapshot!(table.to_string(), @r"
    EXEC          CELL          STATE     AGE  TIME   COMMAND
    e_1000000000  c_7000000000  running   62s  61s    for i in 1 2\ndo\techo \u{1b}[31m$i\ndone
    e_2000000000  c_7000000000  queued    62s  -      sleep '1 2'
    e_3000000000  c_7000000000  exited 3  62s  250ms  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
    ");
}

#[test]
fn columns_fit_their_widest_cell() {
    let mut table = Table::new(["A", "LONGER"]);
    table.row(["wide cell".to_owned(), "é".to_owned()]);
    assert_eq!(table.to_string(), "A          LONGER\nwide cell  é\n");
    let wider = table.with_column("B", ["b".to_owned()]);
    assert_eq!(wider.to_string(), "A          B  LONGER\nwide cell  b  é\n");
}

#[test]
fn lines_are_cut_and_harmless() {
    assert_eq!(one_line("abc", 3), "abc");
    assert_eq!(one_line("abcd", 3), "abc…");
    assert_eq!(one_line("a\r\u{9b}b", 9), "a\\u{d}\\u{9b}b");
}
