//! Bounds of single execs.

use anyhow::{Context as _, Result, ensure};
use hotcell_model::{EndCause, ErrorCode, ExecBounds, ExecSpec, Stream};

use super::guest::{Guest, Outcome, open_sh, sh};
use super::{DriverPlace, refusal};

pub(super) async fn an_exec_may_rather_not_be_than_wait(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let bounds = ExecBounds { most_live: Some(2), ..ExecBounds::default() };
    let first = open_sh("echo up; read word");
    let running = guest.start_until(first.clone(), "up").await?;
    let second = ExecSpec { bounds, ..open_sh("echo up; read word") };
    let also_running = guest.start_until(second.clone(), "up").await?;
    let third = ExecSpec { bounds, ..sh("echo ran > ran") };
    let refused = refusal(guest.link.start(third.clone()).await)?;
    ensure!(refused == ErrorCode::LimitExceeded, "{refused}");
    ensure!(guest.journal_of(&third.id).is_err(), "it is written down");
    // Who asks for the same exec again is told of it, however many there are.
    guest.link.start(second.clone()).await.context("ask again")?;
    guest.input(&first.id, "go\n").await?;
    Outcome::of(running).await?;
    let end = guest.run(third).await?.end;
    ensure!(end.exit_code == Some(0), "{end:?}");
    guest.input(&second.id, "go\n").await?;
    Outcome::of(also_running).await?;
    Ok(())
}

pub(super) async fn an_exec_keeps_as_much_output_as_it_asks_for(place: &DriverPlace) -> Result<()> {
    const LEAST: u64 = 1 << 20;
    let guest = Guest::start(place).await?;
    let kept = async |output_bytes: Option<u64>| -> Result<u64> {
        let bounds = ExecBounds { output_bytes, ..ExecBounds::default() };
        let spec = ExecSpec { bounds, ..sh("head -c 4000000 /dev/zero") };
        let end = guest.run(spec.clone()).await?.end;
        ensure!(end.usage.stdout_bytes == 4_000_000, "{:?}", end.usage);
        let records = guest.log_after(&spec.id, 0)?.records;
        Ok(records.iter().map(|record| record.bytes.len() as u64).sum())
    };
    let (whole, part) = (kept(None).await?, kept(Some(LEAST)).await?);
    ensure!(whole == 4_000_000 && part <= LEAST && part > LEAST / 2, "{whole} and {part}");
    Ok(())
}

pub(super) async fn the_main_process_is_known_by_its_pid(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = sh("echo $$");
    let printed = guest.run(spec.clone()).await?.text(Stream::Stdout);
    let pid = guest.journal_of(&spec.id)?.pid;
    ensure!(pid.map(|pid| format!("{pid}\n")) == Some(printed.clone()), "{pid:?} is {printed}");
    Ok(())
}

pub(super) async fn a_timeout_has_the_grace_that_was_asked_for(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let printed = async |grace_ms: Option<u64>| -> Result<String> {
        let bounds = ExecBounds { grace_ms, ..ExecBounds::default() };
        let text = "trap 'sleep 2; echo late; exit' TERM; while :; do sleep 0.1; done";
        let spec = ExecSpec { timeout_ms: Some(300), bounds, ..sh(text) };
        let outcome = guest.run(spec).await?;
        ensure!(outcome.end.cause == EndCause::TimedOut, "{:?}", outcome.end);
        Ok(outcome.text(Stream::Stdout))
    };
    let (none, usual) = (printed(Some(0)).await?, printed(None).await?);
    ensure!(none.is_empty() && usual == "late\n", "{none:?} and {usual:?}");
    Ok(())
}
