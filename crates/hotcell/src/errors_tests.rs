//! Which failure ends with which exit code, and what is said.

use std::io;

use hotcell_model::{EndCause, Error, ErrorCode, ExecEnd, Signal, Timestamp, Usage};

use crate::args::EXIT_CODES;
use crate::errors::{Codes, Failure, exec_code};

fn end(cause: EndCause, exit_code: Option<i32>, signal: Option<Signal>) -> ExecEnd {
    ExecEnd {
        cause,
        exit_code,
        signal,
        limit: None,
        limits_hit: Vec::new(),
        killed_descendants: 0,
        ended_at: Timestamp(0),
        usage: Usage::default(),
        session: None,
    }
}

fn said(failure: &Failure) -> String {
    let mut said = Vec::new();
    failure.tell(&mut said);
    String::from_utf8(said).unwrap()
}

#[test]
fn an_exec_is_shown_by_its_code() {
    assert_eq!(exec_code(&end(EndCause::Exited, Some(0), None)), 0);
    assert_eq!(exec_code(&end(EndCause::Exited, Some(127), None)), 127);
    assert_eq!(exec_code(&end(EndCause::Signaled, None, Some(Signal::TERM))), 143);
    assert_eq!(exec_code(&end(EndCause::TimedOut, None, Some(Signal::KILL))), 124);
    assert_eq!(exec_code(&end(EndCause::Cancelled, None, Some(Signal::KILL))), 130);
    assert_eq!(exec_code(&end(EndCause::OomKilled, None, Some(Signal::KILL))), 137);
    assert_eq!(exec_code(&end(EndCause::Lost, None, None)), 125);
}

#[test]
fn failures_have_the_codes_of_the_model_or_one_of_their_own() {
    let refused = Failure::Refused(Error::not_found("no cell \"x\""));
    assert_eq!(refused.exit_code(Codes::Own), ErrorCode::NotFound.exit_code());
    assert_eq!(refused.exit_code(Codes::OfTheExec), 125);
    let full = Failure::Output(io::Error::from(io::ErrorKind::StorageFull));
    assert_eq!(full.exit_code(Codes::Own), 1);
    assert_eq!(full.exit_code(Codes::OfTheExec), 125);
}

#[test]
fn a_reader_that_went_away_needs_no_words() {
    let closed = Failure::Output(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(closed.exit_code(Codes::Own), 141);
    assert_eq!(closed.exit_code(Codes::OfTheExec), 141);
    assert_eq!(said(&closed), "");
}

#[test]
fn errors_come_with_their_hints() {
    let error =
        Error::conflict("cell c_4k7m2x9qpa has the alias work already").hint("choose another");
    insta::assert_snapshot!(said(&Failure::Refused(error)), @r"
    error: cell c_4k7m2x9qpa has the alias work already
    hint: choose another
    ");
    let full = Failure::Output(io::Error::other("no space left"));
    insta::assert_snapshot!(said(&full), @"error: cannot write to standard output: no space left");
}

#[test]
fn every_code_of_the_model_is_documented() {
    let codes = [
        ErrorCode::Invalid,
        ErrorCode::NotFound,
        ErrorCode::Conflict,
        ErrorCode::Denied,
        ErrorCode::LimitExceeded,
        ErrorCode::Timeout,
        ErrorCode::Cancelled,
        ErrorCode::Unsupported,
        ErrorCode::Unavailable,
        ErrorCode::Internal,
    ];
    for code in codes {
        let line = format!("\n  {:<4} ", code.exit_code());
        assert!(EXIT_CODES.contains(&line), "{code} is exit code {}", code.exit_code());
    }
}
