//! Cells are made, found, stopped and removed, by several processes at once.

use anyhow::{Context as _, Result, ensure};
use hotcell_link::{Link, Tell};
use hotcell_model::{CancelStatus, EndCause, ExecState, Stream};

use super::DriverPlace;
use super::guest::{Guest, Outcome, open_sh, read_until, sh, spec};

pub(super) async fn a_cell_is_started_once_and_found_until_it_is_removed(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start(place).await?;
    ensure!(!guest.isolation.layers.is_empty(), "nothing separates the cell from its host");
    let id = &guest.spec.id;

    // A process of the first start is still there after the second.
    guest.start_until(sh("echo up; sleep 717273"), "up").await?;
    let again = guest.driver.start(&guest.spec, &guest.records, None).await?;
    ensure!(again.isolation == guest.isolation, "a second start tells another isolation");
    let opened = guest.journal()?.execs().count();
    ensure!(opened == 1, "the journal knows {opened} execs, not one");
    ensure!(guest.count_up_to(1, "717273").await? == 1, "a second start disturbed the cell");

    let listed = place.open()?.list().await?;
    ensure!(listed.len() == 1, "one cell was made and {} are listed", listed.len());
    ensure!(listed[0].spec == guest.spec, "listed as {:?}", listed[0].spec);
    ensure!(listed[0].isolation.as_ref() == Some(&guest.isolation), "listed without isolation");

    guest.driver.stop(id).await?;
    ensure!(guest.driver.connect(id).await?.is_none(), "a stopped cell is connected to");
    guest.driver.stop(id).await.context("stop twice")?;
    ensure!(guest.driver.list().await?.len() == 1, "a stopped cell is not listed");
    guest.driver.remove(id).await?;
    guest.driver.remove(id).await.context("remove twice")?;
    ensure!(guest.driver.list().await?.is_empty(), "a removed cell is listed");
    ensure!(guest.driver.connect(id).await?.is_none(), "a removed cell is connected to");
    // How often it was looked what runs is nobody's business.
    ensure!(guest.journal()?.execs().count() >= 1, "the records went with the cell");
    Ok(())
}

pub(super) async fn a_cell_that_was_never_made_is_not_there(place: &DriverPlace) -> Result<()> {
    let driver = place.open()?;
    let id = spec(driver.as_ref()).id;
    ensure!(driver.list().await?.is_empty(), "cells are listed that nobody made");
    ensure!(driver.connect(&id).await?.is_none(), "a supervisor answers that nobody started");
    driver.stop(&id).await.context("stop")?;
    driver.remove(&id).await.context("remove")?;
    Ok(())
}

pub(super) async fn a_stopped_cell_keeps_its_files_and_loses_its_execs(
    place: &DriverPlace,
) -> Result<()> {
    let mut guest = Guest::start(place).await?;
    guest.output_of("echo mine > kept; mkdir -p ~/deep/down; echo too > ~/deep/down/kept").await?;
    let spec = sh("echo said; sleep 717273");
    let mut following = guest.start_until(spec.clone(), "said").await?;
    guest.driver.stop(&guest.spec.id).await?;
    ensure!(following.next().await.is_none(), "an end was told of an exec that was lost");
    ensure!(guest.link.is_closed(), "the link outlived its supervisor");
    let before = guest.journal_of(&spec.id)?;
    ensure!(before.state == ExecState::Running, "the journal has an end that nobody saw");

    guest.wake().await?;
    let kept = guest.output_of("cat kept ~/deep/down/kept").await?;
    ensure!(kept == "mine\ntoo\n", "the files are {kept:?}");
    let end = guest.journal_of(&spec.id)?.end.context("no end after the restart")?;
    ensure!(end.cause == EndCause::Lost && end.exit_code.is_none(), "it ended as {end:?}");
    ensure!(guest.log_of(&spec.id)? == "said\n", "its output is gone");
    ensure!(guest.count("717273").await? == 0, "a process outlived its cell");
    Ok(())
}

pub(super) async fn a_stop_leaves_no_process(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let text = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 717273' & echo up; sleep 717273";
    guest.start_until(sh(text), "up").await?;
    guest.start_until(sh(text), "up").await?;
    guest.driver.stop(&guest.spec.id).await?;
    ensure!(guest.driver.connect(&guest.spec.id).await?.is_none(), "it is connected to");
    // Whatever is still there is found when the place is cleared.
    guest.driver.remove(&guest.spec.id).await?;
    Ok(())
}

pub(super) async fn several_engines_share_a_cell(place: &DriverPlace) -> Result<()> {
    let first = Guest::start(place).await?;
    let driver = place.open()?;
    let stream = driver.connect(&first.spec.id).await?.context("no supervisor for the second")?;
    let second = Link::open(stream).await?;

    let spec = open_sh("echo one; read word; echo two $word; sleep 717273");
    let mut ours = first.start_until(spec.clone(), "one").await?;
    let mut theirs = second.follow(spec.id.clone(), 0).await?;
    read_until(&mut theirs, "one").await?;
    let input = hotcell_link::Ask::Input { exec: spec.id.clone(), eof: false };
    second.ask(&input, b"from the second\n").await?;
    read_until(&mut ours, "two from the second").await?;

    // The one that started it goes away, and nothing changes for the other.
    drop(ours);
    let told = first.cancel(&spec.id, 5000).await?;
    ensure!(told == Tell::Cancelled(CancelStatus::Cancelled), "told {told:?}");
    drop(first.link);
    let outcome = Outcome::of(theirs).await?;
    ensure!(outcome.text(Stream::Stdout) == "two from the second\n", "{outcome:?}");
    ensure!(outcome.end.cause == EndCause::Cancelled, "it ended as {:?}", outcome.end);
    let (_, again) = second.start(sh("echo still here")).await?;
    ensure!(Outcome::of(again).await?.text(Stream::Stdout) == "still here\n");
    Ok(())
}

pub(super) async fn cells_do_not_see_each_other(place: &DriverPlace) -> Result<()> {
    let first = Guest::start(place).await?;
    let second = Guest::start(place).await?;
    let write =
        |word: &str| format!("for d in . ~ ${{TMPDIR:-/tmp}}; do echo {word} > $d/{word}; done");
    first.output_of(&write("first")).await?;
    second.output_of(&write("second")).await?;
    first.start_until(sh("echo up; sleep 717273"), "up").await?;

    let seen = second.output_of("ls . ~ ${TMPDIR:-/tmp} | grep -c first; true").await?;
    ensure!(seen == "0\n", "files of one cell are seen in another: {seen}");
    ensure!(second.count("717273").await? == 0, "processes of one cell are seen in another");
    let host = first.records.join("journal");
    let look = format!("head -c 1 {} 2>/dev/null; true", host.display());
    ensure!(first.output_of(&look).await?.is_empty(), "a cell reads its own records");

    second.driver.stop(&second.spec.id).await?;
    second.driver.remove(&second.spec.id).await?;
    let kept = first.output_of("cat first ~/first ${TMPDIR:-/tmp}/first").await?;
    ensure!(kept == "first\nfirst\nfirst\n", "the end of one cell took files of another: {kept}");
    ensure!(
        first.count_up_to(1, "717273").await? == 1,
        "the end of one cell ended execs of another"
    );
    Ok(())
}
