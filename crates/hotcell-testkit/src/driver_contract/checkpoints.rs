//! States of a cell's files, where the driver keeps them.

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_link::{Ask, FileConversation, FileEvent, Link, Stillness};
use hotcell_model::{
    ChangeKind, CheckpointId, CheckpointMeans, CheckpointPurpose, Checkpointer, Driver, ErrorCode,
    FileScope, FileWatch, Keep, PathChange,
};

use super::guest::{Guest, Outcome, random, sh, spec};
use super::{DriverPlace, refusal};

fn checkpointer(driver: &dyn Driver) -> Option<&dyn Checkpointer> {
    driver.checkpointer()
}

/// Keeps the state of a cell that runs.
pub(super) async fn keep(guest: &Guest) -> Result<CheckpointId> {
    let id = CheckpointId::from_random(random());
    guest.ask(&Ask::Pause(Stillness::Empty), &[]).await?;
    let checkpointer = checkpointer(&*guest.driver).context("the driver keeps no checkpoints")?;
    let made = checkpointer
        .create(&guest.spec.id, &id, CheckpointMeans::Stacked, CheckpointPurpose::Keeping)
        .await?;
    ensure!(made.id == id && made.cell == guest.spec.id, "{made:?}");
    guest.ask(&Ask::Resume, &[]).await?;
    Ok(id)
}

pub(super) async fn restore(guest: &Guest, checkpoint: &CheckpointId) -> Result<()> {
    guest.ask(&Ask::Pause(Stillness::Empty), &[]).await?;
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

    let since = checkpointer.compare(&guest.spec.id, &first, 0..100, None).await?;
    let expected = "D /workspace/d\nD /workspace/d/e\nD /workspace/d/e/two\nA /workspace/new\nD /workspace/one\n";
    ensure!(told(&since.changes) == expected, "{}", told(&since.changes));
    let since = checkpointer.compare(&guest.spec.id, &second, 0..100, None).await?;
    ensure!(told(&since.changes) == "M /workspace/new\nD /workspace/one\n", "{since:?}");
    let few = checkpointer.compare(&guest.spec.id, &first, 0..2, None).await?;
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
        checkpointer.fork(&parent.spec.id, &kept, &spec, &records).await?;
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
    checkpointer.fork(&first.spec.id, &kept, &spec, &records).await?;
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
    ensure!(refusal(guest.ask(&Ask::Pause(Stillness::Empty), &[]).await)? == ErrorCode::Conflict);
    guest.cancel(&exec, 0).await?;
    Outcome::of(following).await?;
    guest.ask(&Ask::Pause(Stillness::Empty), &[]).await?;
    let (started, following) = guest.link.start(sh("echo ran")).await?;
    ensure!(started.started_at.is_none(), "it runs in a cell that is held still");
    ensure!(
        refusal(guest.ask(&Ask::Pause(Stillness::Frozen), &[]).await)? == ErrorCode::Unavailable
    );
    guest.ask(&Ask::Resume, &[]).await?;
    let outcome = Outcome::of(following).await?;
    ensure!(outcome.text(hotcell_model::Stream::Stdout) == "ran\n", "{outcome:?}");
    // Whoever holds it still and goes away leaves it asleep.
    let stream = guest.driver.connect(&guest.spec.id).await?.context("no supervisor")?;
    let other = Link::open(stream).await?;
    other.ask(&Ask::Pause(Stillness::Empty), &[]).await?;
    drop(other);
    ensure!(guest.closed().await? == hotcell_model::CloseReason::Asleep);
    Ok(())
}

pub(super) async fn who_looks_on_keeps_no_cell_from_holding_still(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start_with(place, |spec| {
        spec.keep = Keep::Always;
        spec.sleep_after_s = 3;
    })
    .await?;
    guest.output_of("echo 1 > f").await?;
    let mut watching = watch(&guest).await?;
    guest.ask(&Ask::Pause(Stillness::Empty), &[]).await?;
    match watching.receiver.next().await? {
        FileEvent::Failed(error) => ensure!(error.code == ErrorCode::Unavailable, "{error:?}"),
        other @ (FileEvent::Data(_) | FileEvent::Done(_)) => {
            bail!("a watch of a cell that is held still: {other:?}")
        }
    }
    // One that is asked for meanwhile begins when the cell goes on.
    let op = FileWatch { path: ".".to_owned() };
    let mut waiting = guest.link.file(op.into(), FileScope::Cell).await?;
    guest.ask(&Ask::Resume, &[]).await?;
    ensure!(line(&mut waiting).await?.contains("watching"));
    guest.output_of("echo 2 > f").await?;
    let told = line(&mut waiting).await?;
    ensure!(told.contains("/workspace/f") && told.contains("modified"), "{told}");
    if checkpointer(&*guest.driver).is_some() {
        let kept = keep(&guest).await?;
        let _watching = watch(&guest).await?;
        restore(&guest, &kept).await?;
    }
    // Nor from falling asleep.
    let _watching = watch(&guest).await?;
    ensure!(guest.closed().await? == hotcell_model::CloseReason::Asleep);
    Ok(())
}

/// Watches the workspace, from now on.
async fn watch(guest: &Guest) -> Result<FileConversation> {
    let op = FileWatch { path: ".".to_owned() };
    let mut conversation = guest.link.file(op.into(), FileScope::Cell).await?;
    ensure!(line(&mut conversation).await?.contains("watching"));
    Ok(conversation)
}

/// What a watch tells next.
async fn line(conversation: &mut FileConversation) -> Result<String> {
    match conversation.receiver.next().await? {
        FileEvent::Data(line) => Ok(String::from_utf8(line)?),
        other @ (FileEvent::Done(_) | FileEvent::Failed(_)) => bail!("a watch ended: {other:?}"),
    }
}

pub(super) async fn what_runs_is_held_still_and_goes_on(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let Some(checkpointer) = checkpointer(&*guest.driver) else { return Ok(()) };
    guest
        .output_of("mkdir d; echo kept > d/f; ln d/f d/g; ln -s f d/l; mkfifo d/p; chmod 751 d")
        .await?;
    let keeps_writing = sh("(while :; do echo x >> log; echo y >> log; done) & wait");
    let exec = keeps_writing.id.clone();
    let (_, following) = guest.link.start(keeps_writing).await?;
    guest.output_of("until [ -s log ]; do sleep 0.01; done").await?;
    guest.ask(&Ask::Pause(Stillness::Frozen), &[]).await?;
    let id = CheckpointId::from_random(random());
    let made = checkpointer
        .create(&guest.spec.id, &id, CheckpointMeans::Copied, CheckpointPurpose::Keeping)
        .await?;
    ensure!(made.means == CheckpointMeans::Copied, "{made:?}");
    guest.ask(&Ask::Resume, &[]).await?;
    // It goes on, and what it writes is in no checkpoint.
    let grown = "n=$(wc -c < log); until [ $(wc -c < log) -gt $n ]; do sleep 0.01; done; echo $n";
    let size: u64 = guest.output_of(grown).await?.trim().parse()?;
    guest.cancel(&exec, 0).await?;
    Outcome::of(following).await?;
    guest.output_of("rm -r d").await?;
    restore(&guest, &id).await?;
    let look = "cat d/f d/l; stat -c '%a %u' d; stat -c '%h %F' d/f d/p; wc -c < log";
    let seen = guest.output_of(look).await?;
    let expected = "kept\nkept\n751 1000\n2 regular file\n1 fifo\n";
    let kept: u64 = seen.strip_prefix(expected).context(seen.clone())?.trim().parse()?;
    ensure!(kept > 0 && kept <= size, "{kept} bytes of a log of {size} were kept");
    // Whoever froze it and goes away leaves it running.
    let spec = sh("echo up; read x; echo went on");
    let spec = hotcell_model::ExecSpec { stdin: hotcell_model::Stdin::Open, ..spec };
    let exec = spec.id.clone();
    let following = guest.start_until(spec, "up").await?;
    let other = guest.connect().await?;
    other.ask(&Ask::Pause(Stillness::Frozen), &[]).await?;
    drop(other);
    guest.input(&exec, "\n").await?;
    let outcome = Outcome::of(following).await?;
    ensure!(outcome.text(hotcell_model::Stream::Stdout).contains("went on"), "{outcome:?}");
    Ok(())
}
