//! What goes into an exec: text, open input, a terminal, signals.

use std::pin::pin;

use anyhow::{Result, bail, ensure};
use hotcell_link::{Ask, FollowEvent};
use hotcell_model::{EndCause, ErrorCode, ExecSpec, Signal, Stdin, Stream, TerminalSize};

use super::guest::{Guest, Outcome, open_sh, program, read_until, sh};
use super::{DriverPlace, refusal};

pub(super) async fn text_is_read_to_its_end(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = ExecSpec { stdin: Stdin::Text("a\nb".to_owned()), ..program(&["cat"]) };
    let outcome = guest.run(spec).await?;
    ensure!(outcome.text(Stream::Stdout) == "a\nb", "{outcome:?}");
    // More than a pipe holds.
    let long = "x".repeat(300_000);
    let spec = ExecSpec { stdin: Stdin::Text(long), ..sh("sleep 0; wc -c") };
    let outcome = guest.run(spec).await?;
    ensure!(outcome.text(Stream::Stdout).trim() == "300000", "{outcome:?}");
    let outcome = guest.run(program(&["cat"])).await?;
    ensure!(outcome.records.is_empty(), "input was not empty: {outcome:?}");
    // A text that nobody reads keeps nobody from ending.
    let spec = ExecSpec { stdin: Stdin::Text("y".repeat(300_000)), ..sh("exit 5") };
    ensure!(guest.run(spec).await?.end.exit_code == Some(5));
    Ok(())
}

pub(super) async fn open_input_waits_for_its_reader(place: &DriverPlace) -> Result<()> {
    const BYTES: usize = 1 << 20;
    let guest = Guest::start(place).await?;
    let spec = open_sh("read line; echo got $line; while [ ! -e go ]; do sleep 0.01; done; wc -c");
    let exec = spec.id.clone();
    let (_, mut following) = guest.link.start(spec).await?;
    guest.input(&exec, "a line\n").await?;
    read_until(&mut following, "got a line").await?;

    let blob = vec![b'x'; BYTES];
    let input = Ask::Input { exec: exec.clone(), eof: false };
    let mut taken = pin!(guest.ask(&input, &blob));
    tokio::select! {
        biased;
        taken = &mut taken => bail!("more was taken than a pipe holds: {taken:?}"),
        stats = guest.stats() => ensure!(stats?.running == 1),
    }
    guest.output_of("touch go").await?;
    taken.await?;
    guest.ask(&Ask::Input { exec: exec.clone(), eof: true }, &[]).await?;
    let after_end = guest.input(&exec, "more").await;
    ensure!(refusal(after_end)? == ErrorCode::Conflict, "input was taken after its end");
    let outcome = Outcome::of(following).await?;
    ensure!(outcome.text(Stream::Stdout).trim() == BYTES.to_string(), "{outcome:?}");
    Ok(())
}

pub(super) async fn input_that_nobody_reads_is_refused(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let closed = sh("echo up; sleep 717273");
    guest.start_until(closed.clone(), "up").await?;
    ensure!(refusal(guest.input(&closed.id, "x").await)? == ErrorCode::Conflict);
    let size = TerminalSize::default();
    let resize = Ask::Resize { exec: closed.id, size };
    ensure!(refusal(guest.ask(&resize, &[]).await)? == ErrorCode::Conflict);

    // It ends while input waits for it.
    let spec = open_sh("echo up; while [ ! -e go ]; do sleep 0.01; done");
    guest.start_until(spec.clone(), "up").await?;
    let input = Ask::Input { exec: spec.id, eof: false };
    let blob = vec![0; 1 << 20];
    let (taken, touched) = tokio::join!(guest.ask(&input, &blob), guest.output_of("touch go"));
    touched?;
    ensure!(refusal(taken)? == ErrorCode::Conflict, "input was taken that nobody read");
    Ok(())
}

pub(super) async fn a_terminal_has_a_size_that_changes(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let text = "test -t 0 && test -t 1 && test -t 2 && stty -echo && stty size; \
                read line; stty size; echo $line; cat; exit 6";
    let spec = ExecSpec { pty: Some(TerminalSize { rows: 33, cols: 101 }), ..sh(text) };
    let exec = spec.id.clone();
    let (_, mut following) = guest.link.start(spec).await?;
    let first = read_until(&mut following, "33 101").await?;
    ensure!(first.iter().all(|record| record.stream == Stream::Pty), "{first:?}");
    let size = TerminalSize { rows: 44, cols: 122 };
    guest.ask(&Ask::Resize { exec: exec.clone(), size }, &[]).await?;
    guest.input(&exec, "a word\n").await?;
    read_until(&mut following, "a word").await?;
    guest.ask(&Ask::Input { exec: exec.clone(), eof: true }, &[]).await?;
    let outcome = Outcome::of(following).await?;
    ensure!(outcome.end.exit_code == Some(6), "it ended as {:?}", outcome.end);
    let log = guest.log_of(&exec)?;
    ensure!(log.contains("33 101\r\n44 122\r\na word\r\n"), "the terminal showed {log:?}");
    ensure!(guest.journal_of(&exec)?.pty, "the journal knows of no terminal");
    Ok(())
}

pub(super) async fn signals_reach_the_process(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = sh("trap 'echo caught' USR1; echo up; while :; do sleep 0.01; done");
    let exec = spec.id.clone();
    let mut following = guest.start_until(spec, "up").await?;
    let signal = "USR1".parse::<Signal>()?;
    guest.ask(&Ask::Signal { exec: exec.clone(), signal }, &[]).await?;
    read_until(&mut following, "caught").await?;
    guest.ask(&Ask::Signal { exec: exec.clone(), signal: Signal::KILL }, &[]).await?;
    match following.next().await {
        Some(FollowEvent::Ended(end)) => {
            ensure!(end.cause == EndCause::Signaled, "it ended as {end:?}");
            ensure!(end.signal == Some(Signal::KILL), "it ended as {end:?}");
        }
        other => bail!("it did not end: {other:?}"),
    }
    Ok(())
}
