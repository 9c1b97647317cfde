//! What of the host is shown at `/tools`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hotcell_model::ExecSpec;

use super::DriverPlace;
use super::checkpoints::{keep, restore};
use super::guest::{Guest, sh, spec};

/// A directory with a file and a program, as it may be shown.
fn directory(place: &DriverPlace) -> Result<PathBuf> {
    let tools = place.records().join("shown-to-cells");
    fs::create_dir_all(tools.join("server"))?;
    put(&tools, "INDEX.md", "first\n", 0o644)?;
    put(&tools, "server/run", "#!/bin/sh\necho ran\n", 0o755)?;
    for directory in [&tools, &tools.join("server")] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    Ok(tools)
}

/// Replaces a file in one step.
fn put(tools: &Path, name: &str, text: &str, mode: u32) -> Result<()> {
    let new = tools.with_extension("new");
    fs::write(&new, text)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(mode))?;
    fs::rename(&new, tools.join(name)).context("replace a file")
}

async fn start(place: &DriverPlace) -> Result<(Guest, PathBuf)> {
    let tools = directory(place)?;
    let spec = spec(place.open()?.as_ref());
    Ok((Guest::with_tools(place, spec, Some(tools.clone())).await?, tools))
}

pub(super) async fn a_directory_of_the_host_is_seen_as_it_changes(
    place: &DriverPlace,
) -> Result<()> {
    let (guest, tools) = start(place).await?;
    let seen =
        guest.output_of("cat /tools/INDEX.md; ls /tools/server; grep -rl ran /tools").await?;
    ensure!(seen == "first\nrun\n/tools/server/run\n", "{seen:?}");
    put(&tools, "INDEX.md", "second\n", 0o644)?;
    fs::remove_dir_all(tools.join("server"))?;
    fs::create_dir(tools.join("other"))?;
    fs::set_permissions(tools.join("other"), fs::Permissions::from_mode(0o755))?;
    put(&tools, "other/tool.pyi", "new\n", 0o644)?;
    guest.tools_changed().await?;
    let seen = guest.output_of("cat /tools/INDEX.md; cd /tools; find . | sort").await?;
    ensure!(seen == "second\n.\n./INDEX.md\n./other\n./other/tool.pyi\n", "{seen:?}");

    let without = Guest::start(place).await?;
    let seen = without.output_of("ls -A /tools 2>/dev/null | wc -l").await?;
    ensure!(seen.trim() == "0", "a cell that is shown nothing sees {seen:?}");
    Ok(())
}

pub(super) async fn nobody_in_a_cell_writes_to_it(place: &DriverPlace) -> Result<()> {
    let (guest, tools) = start(place).await?;
    let tries = [
        "echo x > $D/new",
        "echo x >> $D/INDEX.md",
        "rm -f $D/INDEX.md",
        "mv $D/INDEX.md $D/moved",
        "mkdir $D/made",
        "chmod 777 $D",
        "touch $D/INDEX.md",
    ];
    let as_root = place.capabilities().await?.as_root;
    for root in [false, true] {
        if root && !as_root {
            continue;
        }
        for tried in tries {
            // The same in a directory of its own is no trouble.
            let text = format!(
                "rm -rf $HOME/own && mkdir $HOME/own && echo y > $HOME/own/INDEX.md && \
                 (D=$HOME/own; {tried}) && ! (D=/tools; {tried}) 2>/dev/null"
            );
            let outcome = guest.run(ExecSpec { as_root: root, ..sh(&text) }).await?;
            ensure!(outcome.end.exit_code == Some(0), "{tried} (as root: {root}): {outcome:?}");
        }
    }
    let kept = fs::read_to_string(tools.join("INDEX.md"))?;
    ensure!(kept == "first\n" && fs::read_dir(&tools)?.count() == 2, "it was written to: {kept:?}");
    // What lies there can be read as a program, and run elsewhere, and not there.
    let seen = guest
        .output_of("cp /tools/server/run . && ./run && sh /tools/server/run && ! /tools/server/run")
        .await?;
    ensure!(seen == "ran\nran\n", "{seen:?}");
    Ok(())
}

pub(super) async fn it_stays_whatever_becomes_of_the_other_files(
    place: &DriverPlace,
) -> Result<()> {
    let (mut guest, tools) = start(place).await?;
    let look = "cat /tools/INDEX.md && ! touch /tools/x 2>/dev/null";
    if guest.driver.checkpointer().is_some() {
        guest.output_of("echo 1 > one").await?;
        let kept = keep(&guest).await?;
        ensure!(guest.output_of(look).await? == "first\n", "after a checkpoint");
        guest.output_of("rm one").await?;
        restore(&guest, &kept).await?;
        ensure!(guest.output_of("cat one").await? == "1\n", "not restored");
        put(&tools, "INDEX.md", "second\n", 0o644)?;
        guest.tools_changed().await?;
        ensure!(guest.output_of(look).await? == "second\n", "after it was restored");
    }
    guest.driver.stop(&guest.spec.id).await?;
    put(&tools, "INDEX.md", "third\n", 0o644)?;
    guest.wake().await?;
    ensure!(guest.output_of(look).await? == "third\n", "after it woke");
    Ok(())
}

pub(super) async fn what_a_cell_put_in_its_place_stays(place: &DriverPlace) -> Result<()> {
    if !place.capabilities().await?.as_root {
        return Ok(());
    }
    let mut guest = Guest::start(place).await?;
    let text = "rmdir /tools; ln -s /etc /tools";
    let outcome = guest.run(ExecSpec { as_root: true, ..sh(text) }).await?;
    ensure!(outcome.end.exit_code == Some(0), "{outcome:?}");
    guest.driver.stop(&guest.spec.id).await?;
    guest.tools = Some(directory(place)?);
    guest.wake().await?;
    let seen =
        guest.output_of("readlink /tools; test ! -e /etc/INDEX.md && cat /etc/hostname").await?;
    ensure!(seen == "/etc\ncell\n", "{seen:?}");
    Ok(())
}
