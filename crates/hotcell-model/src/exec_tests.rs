//! Tests of signals and of commands as they are shown.

use proptest::prelude::*;

use crate::{Command, EndCause, ErrorCode, ExecState, Signal};

#[test]
fn signals_are_named_as_the_kernel_numbers_them() {
    let table: Vec<String> = (1..=64)
        .filter_map(Signal::from_number)
        .map(|signal| format!("{} {signal}", signal.number()))
        .collect();
    assert_eq!(table.len(), 64);
    insta::assert_snapshot!(table[..31].join(", "), @"1 HUP, 2 INT, 3 QUIT, 4 ILL, 5 TRAP, 6 ABRT, 7 BUS, 8 FPE, 9 KILL, 10 USR1, 11 SEGV, 12 USR2, 13 PIPE, 14 ALRM, 15 TERM, 16 STKFLT, 17 CHLD, 18 CONT, 19 STOP, 20 TSTP, 21 TTIN, 22 TTOU, 23 URG, 24 XCPU, 25 XFSZ, 26 VTALRM, 27 PROF, 28 WINCH, 29 IO, 30 PWR, 31 SYS");
    assert!(table[31..].iter().all(|line| line.split_once(' ').is_some_and(|(a, b)| a == b)));
}

#[test]
fn signals_are_read_by_name_and_by_number() {
    for text in ["TERM", "term", "SIGTERM", "sigTerm", "15"] {
        assert_eq!(text.parse::<Signal>().unwrap(), Signal::TERM, "{text}");
    }
    assert_eq!("HUP".parse::<Signal>().unwrap(), Signal::HUP);
    assert_eq!("INT".parse::<Signal>().unwrap(), Signal::INT);
    assert_eq!("9".parse::<Signal>().unwrap(), Signal::KILL);
    assert_eq!("64".parse::<Signal>().unwrap().number(), 64);
    for text in ["", "0", "-1", "65", "SIG", "SIGSIGTERM", "TERMINATE", " TERM", "99999999999"] {
        let error = text.parse::<Signal>().unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{text:?}");
        assert!(error.message.ends_with(&format!("from 1 to 64, not {text:?}")), "{error}");
    }
    for number in [i32::MIN, -1, 0, 65, i32::MAX] {
        assert_eq!(Signal::from_number(number), None);
    }
}

#[test]
fn states_and_causes_are_written_as_they_are_sent() {
    for state in [ExecState::Queued, ExecState::Running, ExecState::Ended] {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    let causes = [
        EndCause::Exited,
        EndCause::Signaled,
        EndCause::TimedOut,
        EndCause::Cancelled,
        EndCause::OomKilled,
        EndCause::Lost,
    ];
    for cause in causes {
        assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
    }
}

#[test]
fn a_command_is_shown_so_that_a_shell_would_read_it() {
    let argv = |words: &[&str]| Command::Argv(words.iter().map(|&word| word.to_owned()).collect());
    assert_eq!(Command::Shell("a | b 'c'".to_owned()).to_string(), "a | b 'c'");
    assert_eq!(argv(&["ls", "-l", "/a.b"]).to_string(), "ls -l /a.b");
    assert_eq!(
        argv(&["echo", "", "a b", "it's", "$x"]).to_string(),
        r"echo '' 'a b' 'it'\''s' '$x'"
    );
    assert_eq!(argv(&[]).to_string(), "");
}

/// Reads words as a shell does, of those that are shown: plain, in quotes, or an escaped quote.
fn shell_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' => words.extend(word.take()),
            '\'' => {
                let quoted: String = characters.by_ref().take_while(|c| *c != '\'').collect();
                word.get_or_insert_with(String::new).push_str(&quoted);
            }
            '\\' => word.get_or_insert_with(String::new).extend(characters.next()),
            plain => word.get_or_insert_with(String::new).push(plain),
        }
    }
    words.extend(word);
    words
}

proptest! {
    #[test]
    fn shown_words_are_read_back_as_they_were(words in proptest::collection::vec(any::<String>(), 0..6)) {
        prop_assert_eq!(shell_words(&Command::Argv(words.clone()).to_string()), words);
    }

    #[test]
    fn signals_come_back_from_json(number in 1..=64) {
        let signal = Signal::from_number(number).unwrap();
        let json = serde_json::to_string(&signal).unwrap();
        prop_assert_eq!(serde_json::from_str::<Signal>(&json).unwrap(), signal);
    }
}
