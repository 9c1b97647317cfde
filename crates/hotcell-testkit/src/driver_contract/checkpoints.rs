//! States of a cell's files, where the driver keeps them.

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_link::{Ask, Link};
use hotcell_model::{
    ChangeKind, CheckpointId, CheckpointMeans, Checkpointer, Driver, ErrorCode, PathChange,
};

use super::guest::{Guest, Outcome, random, sh, spec};
use super::{DriverPlace, refusal};

fn checkpointer(driver: &dyn Driver) -> Option<&dyn Checkpointer> {
    driver.checkpointer()
}

/// Keeps the state of a cell that runs.
async fn keep(guest: &Guest) -> Result<CheckpointId> {
    let id = CheckpointId::from_random(random());
    guest.ask(&Ask::Pause, &[]).await?;
    let checkpointer = checkpointer(&*guest.driver).context("the driver keeps no checkpoints")?;
    let made = checkpointer.create(&guest.spec.id, &id, CheckpointMeans::Stacked).await?;
    ensure!(made.id == id && made.cell == guest.spec.id, "{made:?}");
    guest.ask(&Ask::Resume, &[]).await?;
    Ok(id)
}

async fn restore(guest: &Guest, checkpoint: &CheckpointId) -> Result<()> {
    guest.ask(&Ask::Pause, &[]).await?;
    let checkpointer = checkpointer(&*guest.driver).context("the driver keeps no checkpoints")?;
    checkpointer.restore(&guest.spec.id, checkpoint).await?;
    guest.ask(&Ask::Resume, &[]).await?;
    Ok(())
}

fn told(changes: &[PathChange]) -> String {
    let letter = |change: &PathChange| match change.change {
        ChangeKind::Added => 'A',
        ChangeKind::Changed => 'M',
        ChangeKind::Removed => 'D',
    };
    changes.iter().map(|change| format!("{} {}\n", letter(change), change.path)).collect()
}

pub(super) async fn a_running_cell_goes_back_to_what_was_kept(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let Some(checkpointer) = checkpointer(&*guest.driver) else { return Ok(()) };
    guest.output_of("echo 1 > one; mkdir -p d/e; echo 2 > d/e/two; echo t > /tmp/t").await?;
    let first = keep(&guest).await?;
    let seen =
        guest.output_of("cat one d/e/two /tmp/t; echo more >> one; rm -r d; echo 3 > new").await?;
    ensure!(seen == "1\n2\nt\n", "the cell saw {seen:?} after its checkpoint");
    let second = keep(&guest).await?;
    guest.output_of("rm one; chmod 700 new").await?;
    let listed = checkpointer.list(&guest.spec.id).await?;
    ensure!(listed.iter().map(|kept| &kept.id).eq([&first, &second]), "{listed:?}");

    let since = checkpointer.compare(&guest.spec.id, &first, 100).await?;
    let expected = "D /workspace/d\nD /workspace/d/e\nD /workspace/d/e/two\nA /workspace/new\nD /workspace/one\n";
    ensure!(told(&since.changes) == expected, "{}", told(&since.changes));
    let since = checkpointer.compare(&guest.spec.id, &second, 100).await?;
    ensure!(told(&since.changes) == "M /workspace/new\nD /workspace/one\n", "{since:?}");
    let few = checkpointer.compare(&guest.spec.id, &first, 2).await?;
    ensure!(few.changes.len() == 2 && few.truncated, "{few:?}");

    restore(&guest, &first).await?;
    let seen =
        guest.output_of("find . -type f | sort | xargs cat; cat /tmp/t; stat -c %u d one").await?;
    ensure!(seen == "2\n1\nt\n1000\n1000\n", "restored: {seen:?}");
    restore(&guest, &second).await?;
    ensure!(guest.output_of("ls; cat one").await? == "new\none\n1\nmore\n");
    checkpointer.delete(&guest.spec.id, &first).await?;
    ensure!(refusal(checkpointer.restore(&guest.spec.id, &first).await)? == ErrorCode::NotFound);
    ensure!(guest.output_of("cat one").await? == "1\nmore\n", "deleting a checkpoint took files");
    // The same without a supervisor: the cell wakes on what is there then.
    guest.driver.stop(&guest.spec.id).await?;
    checkpointer.restore(&guest.spec.id, &second).await?;
    Ok(())
}

pub(super) async fn forks_share_files_and_no_changes(place: &DriverPlace) -> Result<()> {
    let parent = Guest::start(place).await?;
    let Some(checkpointer) = checkpointer(&*parent.driver) else { return Ok(()) };
    parent.output_of("mkdir d; echo shared > d/f; chmod 640 d/f; ln -s d/f l").await?;
    let kept = keep(&parent).await?;
    parent.output_of("echo later > d/f").await?;
    let mut forks = Vec::new();
    for _ in 0..2 {
        let spec = spec(&*parent.driver);
        let records = place.records().join(spec.id.as_str());
        std::fs::create_dir_all(&records)?;
        checkpointer.fork(&parent.spec.id, Some(&kept), &spec, &records).await?;
        forks.push(Guest::of(place, spec).await?);
    }
    for (number, fork) in forks.iter().enumerate() {
        let seen =
            fork.output_of("cat l; stat -c '%u %a' d/f; mv d e; echo x > e/f; id -u").await?;
        ensure!(seen == "shared\n1000 640\n1000\n", "fork {number} saw {seen:?}");
        fork.output_of(&format!("echo {number} > own; test $(ls | wc -l) = 3")).await?;
    }
    ensure!(parent.output_of("ls; cat d/f").await? == "d\nl\nlater\n");
    // A child outlives its parent, and a grandchild both.
    let mut forks = forks.into_iter();
    let (Some(first), Some(second)) = (forks.next(), forks.next()) else { bail!("two forks") };
    parent.driver.stop(&parent.spec.id).await?;
    parent.driver.remove(&parent.spec.id).await?;
    ensure!(first.output_of("cat e/f own").await? == "x\n0\n");
    let kept = keep(&first).await?;
    let spec = spec(&*first.driver);
    let records = place.records().join(spec.id.as_str());
    std::fs::create_dir_all(&records)?;
    checkpointer.fork(&first.spec.id, Some(&kept), &spec, &records).await?;
    let grandchild = Guest::of(place, spec).await?;
    first.driver.stop(&first.spec.id).await?;
    first.driver.remove(&first.spec.id).await?;
    ensure!(grandchild.output_of("cat e/f own; stat -c %u own").await? == "x\n0\n1000\n");
    ensure!(second.output_of("cat e/f own").await? == "x\n1\n");
    Ok(())
}

pub(super) async fn what_begins_during_a_pause_waits(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let busy = sh("echo up; sleep 717273");
    let exec = busy.id.clone();
    let following = guest.start_until(busy, "up").await?;
    ensure!(refusal(guest.ask(&Ask::Pause, &[]).await)? == ErrorCode::Conflict);
    guest.cancel(&exec, 0).await?;
    Outcome::of(following).await?;
    guest.ask(&Ask::Pause, &[]).await?;
    let (started, following) = guest.link.start(sh("echo ran")).await?;
    ensure!(started.started_at.is_none(), "it runs in a cell that is held still");
    ensure!(refusal(guest.ask(&Ask::Pause, &[]).await)? == ErrorCode::Conflict);
    guest.ask(&Ask::Resume, &[]).await?;
    let outcome = Outcome::of(following).await?;
    ensure!(outcome.text(hotcell_model::Stream::Stdout) == "ran\n", "{outcome:?}");
    // Whoever holds it still and goes away leaves it asleep.
    let stream = guest.driver.connect(&guest.spec.id).await?.context("no supervisor")?;
    let other = Link::open(stream).await?;
    other.ask(&Ask::Pause, &[]).await?;
    drop(other);
    ensure!(guest.closed().await? == hotcell_model::CloseReason::Asleep);
    Ok(())
}
