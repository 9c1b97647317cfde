//! Execs that wait for a person's word.

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_link::{Ask, Tell};
use hotcell_model::{
    ApprovalAnswer, ApprovalNeed, ApprovalVerdict, CancelStatus, EndCause, ErrorCode, ExecId,
    ExecSpec, ExecState, Timestamp,
};

use super::guest::{Guest, Outcome, open_sh, sh};
use super::{DriverPlace, refusal};

const LONG_MS: u64 = 3_600_000;

fn asking(text: &str, within_ms: u64) -> ExecSpec {
    let need = ApprovalNeed {
        rule: "removal".to_owned(),
        reason: "it removes files".to_owned(),
        asked_by: "somebody".to_owned(),
        within_ms,
        parts: Vec::new(),
        facts: Vec::new(),
    };
    ExecSpec { approval: Some(need), ..sh(text) }
}

fn answer_ask(exec: &ExecId, verdict: ApprovalVerdict) -> Ask {
    let answer = ApprovalAnswer { verdict, by: "a person".to_owned(), at: Timestamp::now() };
    Ask::Answer { exec: exec.clone(), answer, checkpoint: None }
}

async fn answer(guest: &Guest, exec: &ExecId, verdict: ApprovalVerdict) -> Result<Tell> {
    Ok(guest.link.ask(&answer_ask(exec, verdict), &[]).await?)
}

/// What was answered, as the journal has it.
fn answered(guest: &Guest, exec: &ExecId) -> Result<Option<ApprovalVerdict>> {
    let approval = guest.journal_of(exec)?.approval.context("the journal has no approval")?;
    ensure!(approval.rule == "removal" && approval.asked_by == "somebody", "{approval:?}");
    Ok(approval.answer.map(|answer| answer.verdict))
}

pub(super) async fn an_exec_that_asks_starts_once_it_is_approved(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = asking("echo ran > ran", LONG_MS);
    let (started, following) = guest.link.start(spec.clone()).await?;
    ensure!(started.state == ExecState::Queued && started.started_at.is_none(), "{started:?}");
    ensure!(started.approval.is_some_and(|approval| approval.is_pending()), "nothing is asked");
    // Others do not wait behind it.
    ensure!(guest.output_of("test -e ran || echo not yet").await? == "not yet\n", "it ran");
    ensure!(guest.stats().await?.queued == 1, "it is not counted among those that wait");
    ensure!(answered(&guest, &spec.id)?.is_none(), "it was answered");
    ensure!(answer(&guest, &spec.id, ApprovalVerdict::Granted).await? == Tell::Done);
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Exited && end.exit_code == Some(0), "it ended as {end:?}");
    ensure!(guest.output_of("cat ran").await? == "ran\n", "it did not run");
    ensure!(answered(&guest, &spec.id)? == Some(ApprovalVerdict::Granted));
    Ok(())
}

pub(super) async fn an_exec_that_is_refused_never_starts(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = asking("echo ran > ran", LONG_MS);
    let (_, following) = guest.link.start(spec.clone()).await?;
    answer(&guest, &spec.id, ApprovalVerdict::Refused).await?;
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Denied && end.exit_code.is_none(), "it ended as {end:?}");
    ensure!(answered(&guest, &spec.id)? == Some(ApprovalVerdict::Refused));
    ensure!(guest.output_of("test -e ran || echo never").await? == "never\n", "it ran");
    // Whoever comes later changes nothing.
    let Err(late) = answer(&guest, &spec.id, ApprovalVerdict::Granted).await else {
        bail!("a second answer was taken");
    };
    ensure!(late.to_string().contains("does not wait for approval"), "told {late}");
    Ok(())
}

pub(super) async fn an_exec_that_nobody_answers_for_is_denied(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = asking("echo ran > ran", 50);
    let (_, following) = guest.link.start(spec.clone()).await?;
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Denied, "it ended as {end:?}");
    ensure!(answered(&guest, &spec.id)? == Some(ApprovalVerdict::Expired));
    ensure!(guest.output_of("test -e ran || echo never").await? == "never\n", "it ran");
    Ok(())
}

pub(super) async fn an_exec_that_asks_can_be_cancelled(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = asking("echo ran > ran", LONG_MS);
    let (_, following) = guest.link.start(spec.clone()).await?;
    let told = guest.cancel(&spec.id, 1000).await?;
    ensure!(told == Tell::Cancelled(CancelStatus::Cancelled), "told {told:?}");
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Cancelled, "it ended as {end:?}");
    let late = answer(&guest, &spec.id, ApprovalVerdict::Granted).await;
    ensure!(late.is_err(), "a cancelled exec was approved");
    ensure!(guest.output_of("test -e ran || echo never").await? == "never\n", "it ran");
    Ok(())
}

pub(super) async fn an_approved_exec_takes_its_place_in_the_queue(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start_with(place, |spec| spec.max_running = 1).await?;
    let first = open_sh("echo up; read word");
    let running = guest.start_until(first.clone(), "up").await?;
    let spec = asking("echo asked >> order", LONG_MS);
    let (_, following) = guest.link.start(spec.clone()).await?;
    let (_, other) = guest.link.start(sh("echo other >> order")).await?;
    answer(&guest, &spec.id, ApprovalVerdict::Granted).await?;
    ensure!(guest.stats().await?.queued == 2, "both wait");
    guest.input(&first.id, "go\n").await?;
    for following in [running, other, following] {
        Outcome::of(following).await?;
    }
    let order = guest.output_of("cat order").await?;
    ensure!(order == "other\nasked\n", "they ran as {order:?}");
    let unknown = answer_ask(&ExecId::from_random(7), ApprovalVerdict::Granted);
    let refused = refusal(guest.link.ask(&unknown, &[]).await)?;
    ensure!(refused == ErrorCode::NotFound, "refused as {refused}");
    Ok(())
}
