//! Execs: what they print, how they end, what they find around them.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use hotcell_link::Ask;
use hotcell_model::{
    EndCause, ErrorCode, ExecSpec, ExecState, Signal, Stream, TerminalSize, Timestamp,
};
use tokio::task::JoinSet;

use super::guest::{Guest, Outcome, program, sh};
use super::{DriverPlace, refusal};

pub(super) async fn streams_codes_and_usage_are_told(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let before = Timestamp::now();
    let text = "printf 'out\\377'; echo wrong >&2; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 7";
    let outcome = guest.run(sh(text)).await?;
    let raw: Vec<u8> = outcome
        .records
        .iter()
        .filter(|record| record.stream == Stream::Stdout)
        .flat_map(|record| record.bytes.clone())
        .collect();
    ensure!(raw == b"out\xFF", "stdout was {raw:?}");
    ensure!(outcome.text(Stream::Stderr) == "wrong\n", "{outcome:?}");
    let seqs: Vec<u64> = outcome.records.iter().map(|record| record.seq).collect();
    ensure!(seqs == (1..=seqs.len() as u64).collect::<Vec<_>>(), "seqs are {seqs:?}");

    let end = outcome.end;
    ensure!(end.cause == EndCause::Exited, "it ended as {end:?}");
    ensure!(end.exit_code == Some(7) && end.signal.is_none(), "it ended as {end:?}");
    ensure!(end.killed_descendants == 0 && end.limit.is_none(), "it ended as {end:?}");
    ensure!(end.ended_at >= before, "it ended before it began");
    let usage = end.usage;
    ensure!(usage.stdout_bytes == 4 && usage.stderr_bytes == 6, "{usage:?}");
    ensure!(usage.cpu_ms > 0 && usage.max_rss_kb > 0, "{usage:?}");
    Ok(())
}

pub(super) async fn a_signal_that_ends_an_exec_is_told(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let end = guest.run(sh("kill -9 $$")).await?.end;
    ensure!(end.cause == EndCause::Signaled, "it ended as {end:?}");
    ensure!(end.signal == Some(Signal::KILL) && end.exit_code.is_none(), "it ended as {end:?}");
    Ok(())
}

pub(super) async fn directory_and_variables_are_set(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start_with(place, |spec| {
        spec.env = [("OF_CELL", "cell"), ("OF_BOTH", "cell")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    })
    .await?;
    guest.output_of("mkdir -p sub/dir").await?;
    let mut spec = sh("pwd; echo $OF_CELL $OF_BOTH $OF_EXEC; env | wc -l");
    spec.cwd = "sub/dir".to_owned();
    spec.env = [("OF_BOTH", "exec"), ("OF_EXEC", "two words")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let outcome = guest.run(spec).await?;
    let text = outcome.text(Stream::Stdout);
    let lines: Vec<&str> = text.lines().collect();
    ensure!(lines[0].ends_with("/workspace/sub/dir"), "{text}");
    ensure!(!guest.own_root || lines[0] == "/workspace/sub/dir", "{text}");
    ensure!(lines[1] == "cell exec two words", "{text}");
    // Those named here, the usual ones, and what a shell sets: nothing of whoever started it.
    let variables: usize = lines[2].trim().parse()?;
    ensure!(variables < 16, "there are {variables} variables");
    let home =
        guest.output_of("cd && pwd && test -w . && test -w ${WORKSPACE:-/workspace}").await?;
    ensure!(home.starts_with('/'), "no home: {home}");
    Ok(())
}

pub(super) async fn what_cannot_be_run_is_refused(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let nowhere = ExecSpec { cwd: "no/such/directory".to_owned(), ..sh("true") };
    for (spec, expected) in [
        (program(&[]), ErrorCode::Invalid),
        (program(&["sh", "-c", "true\0"]), ErrorCode::Invalid),
        (program(&["no-such-program"]), ErrorCode::NotFound),
        (program(&["./no-such-program"]), ErrorCode::NotFound),
        (nowhere, ErrorCode::NotFound),
    ] {
        let id = spec.id.clone();
        let told = refusal(guest.link.start(spec.clone()).await)?;
        ensure!(told == expected, "{spec:?} was refused as {told}");
        ensure!(guest.journal()?.get(&id).is_none(), "the journal knows what was refused");
    }
    let ended = sh("true");
    guest.run(ended.clone()).await?;
    let (unknown, ended) = (sh("true").id, ended.id);
    let size = TerminalSize::default();
    for (ask, expected) in [
        (Ask::Signal { exec: unknown.clone(), signal: Signal::TERM }, ErrorCode::NotFound),
        (Ask::Input { exec: unknown.clone(), eof: true }, ErrorCode::NotFound),
        (Ask::Resize { exec: unknown, size }, ErrorCode::NotFound),
        (Ask::Signal { exec: ended.clone(), signal: Signal::TERM }, ErrorCode::Conflict),
        (Ask::Input { exec: ended.clone(), eof: true }, ErrorCode::Conflict),
        (Ask::Resize { exec: ended, size }, ErrorCode::Conflict),
    ] {
        let told = refusal(guest.ask(&ask, &[]).await)?;
        ensure!(told == expected, "{ask:?} was refused as {told}");
    }
    let unknown = sh("true").id;
    ensure!(refusal(guest.link.follow(unknown, 0).await)? == ErrorCode::NotFound);
    ensure!(guest.output_of("echo well").await? == "well\n", "the cell took harm");
    Ok(())
}

pub(super) async fn a_second_start_is_the_same_exec(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = ExecSpec {
        stdin: hotcell_model::Stdin::Open,
        ..sh("echo once | tee -a runs; read word; exit 3")
    };
    let following = guest.start_until(spec.clone(), "once").await?;
    let other = guest.connect().await?;
    let (running, again) = other.start(spec.clone()).await?;
    ensure!(running.state == ExecState::Running && running.end.is_none(), "{running:?}");
    guest.input(&spec.id, "go\n").await?;
    let (first, second) = (Outcome::of(following).await?, Outcome::of(again).await?);
    ensure!(second.text(Stream::Stdout) == "once\n", "the second saw {second:?}");
    ensure!(first.end == second.end, "two ends: {first:?} and {second:?}");

    let (ended, afterwards) = other.start(spec.clone()).await?;
    ensure!(ended.state == ExecState::Ended, "{ended:?}");
    ensure!(ended.end.as_ref() == Some(&first.end), "{ended:?}");
    ensure!(ended.queued_at == running.queued_at, "{ended:?}");
    let afterwards = Outcome::of(afterwards).await?;
    ensure!(afterwards.text(Stream::Stdout) == "once\n", "the third saw {afterwards:?}");
    ensure!(guest.output_of("cat runs").await? == "once\n", "it ran more than once");
    Ok(())
}

pub(super) async fn root_of_the_cell_where_there_is_one(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let uid = guest.output_of("id -u").await?;
    ensure!(uid.trim() != "0", "an ordinary exec is root of its cell");
    let spec = ExecSpec { as_root: true, ..sh("id -u; echo x > /etc/written && cat /etc/written") };
    if !place.capabilities().await?.as_root {
        let told = refusal(guest.link.start(spec).await)?;
        ensure!(told == ErrorCode::Unsupported, "refused as {told}");
        return Ok(());
    }
    let outcome = guest.run(spec).await?;
    ensure!(outcome.text(Stream::Stdout) == "0\nx\n", "{outcome:?}");
    let denied = guest.run(sh("echo y > /etc/written")).await?;
    ensure!(denied.end.exit_code != Some(0), "an ordinary exec writes what is root's");
    Ok(())
}

pub(super) async fn the_journal_tells_every_exec(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = sh("exit 4");
    let outcome = guest.run(spec.clone()).await?;
    let exec = guest.journal_of(&spec.id)?;
    ensure!(exec.command == spec.command && exec.cell == guest.spec.id, "{exec:?}");
    ensure!(exec.state == ExecState::Ended && !exec.pty && !exec.as_root, "{exec:?}");
    let started = exec.started_at.context("it never started")?;
    ensure!(exec.queued_at <= started, "{exec:?}");
    ensure!(exec.end == Some(outcome.end), "the link told another end than {exec:?}");
    Ok(())
}

pub(super) async fn many_at_once_are_kept_apart(place: &DriverPlace) -> Result<()> {
    const MANY: u32 = 50;
    let guest = Guest::start(place).await?;
    let link = std::sync::Arc::new(guest.connect().await?);
    let mut tasks = JoinSet::new();
    for number in 0..MANY {
        let link = std::sync::Arc::clone(&link);
        let spec = sh(&format!("echo out {number}; echo err {number} >&2; exit {}", number % 100));
        tasks.spawn(async move {
            let (_, following) = link.start(spec).await?;
            anyhow::Ok((number, Outcome::of(following).await?))
        });
    }
    let mut seen = BTreeSet::new();
    while let Some(ended) = tasks.join_next().await {
        let (number, outcome) = ended??;
        ensure!(outcome.text(Stream::Stdout) == format!("out {number}\n"), "{outcome:?}");
        ensure!(outcome.text(Stream::Stderr) == format!("err {number}\n"), "{outcome:?}");
        ensure!(outcome.end.exit_code == Some(i32::try_from(number % 100)?), "{outcome:?}");
        seen.insert(number);
    }
    ensure!(seen.len() == MANY as usize, "{} of {MANY} came back", seen.len());
    let stats = guest.stats().await?;
    ensure!(stats.running == 0 && stats.queued == 0, "{stats:?}");
    Ok(())
}
